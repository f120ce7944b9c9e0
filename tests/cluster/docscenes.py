"""The pages of the documentation with commands for a cluster: what each presumes, and what is to be seen."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.cluster import docstages as stages
from tests.cluster.doclines import LINES, ROOT
from tests.cluster.docreader import NODE, Reader
from tests.cluster.docstages import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DAEMONSET = "docs/how-to/run-as-a-daemonset.md"

LEFT_OUT = {
    "docs/explanation/decisions.md": {
        "kubectl annotate nodes --all": "a part of a command, in a sentence; docs/how-to/observe-only.md has it whole",
    },
    "docs/how-to/mps.md": {
        "kubectl exec deployment/speech -- python3 …": "PyTorch in the user's own image, a card and an MPS daemon",
    },
    "docs/how-to/dashboard.md": {
        f"kubectl -n {SYSTEM} port-forward …": "runs until Ctrl-C; tests/cluster/test_daemonset.py runs it",
        f"pod=$(kubectl -n {SYSTEM} get pod …": "needs a pod of the image; tests/cluster/test_daemonset.py runs it",
    },
    "docs/how-to/see-the-fleet.md": {
        "edgeagent fleet --watch": "runs until Ctrl-C; tests/cluster/test_fleet.py runs it",
        "edgeagent fleet --watch --format json": "runs until Ctrl-C; tests/cluster/test_fleet.py runs it",
    },
    "docs/reference/http.md": {
        "curl -sN http://127.0.0.1:9843/api/v1/stream": "goes on until Ctrl-C; the tests of edgeagent/serve read it",
    },
    # With a kubelet that runs the image; test_daemonset.py takes the lines from here.
    DAEMONSET: {
        f"kubectl -n {SYSTEM} logs daemonset/edgeagent": "tests/cluster/test_daemonset.py",
        f"kubectl -n {SYSTEM} exec -i daemonset/edgeagent …": "tests/cluster/test_daemonset.py",
        f'kubectl -n {SYSTEM} exec "$pod" …': "tests/cluster/test_daemonset.py",
        f"kubectl -n {SYSTEM} port-forward …": "tests/cluster/test_daemonset.py",
        "curl -s http://127.0.0.1:9843/api/v1/pods": "tests/cluster/test_daemonset.py",
        "curl -s http://127.0.0.1:9843/api/v1/plan": "tests/cluster/test_daemonset.py",
    },
}
"""Commands that are not run in order with their page: what they would need, or where they are run."""


@dataclass(frozen=True)
class Scene:
    """A page, or one of the ways that it offers.

    A key that ends with an ellipsis stands for all lines that begin like it; of several such the first counts.
    """

    page: str
    stage: Callable[[Reader], None] = lambda _: None
    """Sets up what the page presumes."""
    shows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What a command prints, as regular expressions that all have to be found in it."""
    before: Mapping[str, Callable[[Reader], None]] = field(default_factory=dict)
    """What happens before a command, as the page tells or as the board does by itself."""
    after: Mapping[str, Callable[[Reader], None]] = field(default_factory=dict)
    """What has come of a command, looked at in the cluster."""
    way: str = ""
    only: tuple[str, ...] = ()
    """The lines of a way that is not the page's main one; without them the rest."""

    def __str__(self) -> str:
        return f"{self.page} {self.way}".strip()


def is_(key: str, text: str) -> bool:
    return text.startswith(key[:-1]) if key.endswith("…") else text == key


def among(keys: Mapping[str, Any] | tuple[str, ...], text: str) -> str | None:
    """The key that stands for a line."""
    return next((key for key in keys if is_(key, text)), None)


GPU_COLUMN = "kubectl get nodes -o custom-columns='NODE:.metadata.name,GPU MEMORY:…"
KINDS = "kubectl get node -L edgeagent.dev/gpu.kind,edgeagent.dev/gpu.memory-mib,ai-capable"
OF_A_JETSON = (r"GPU\.KIND +GPU\.MEMORY-MIB +AI-CAPABLE$", rf"^{NODE} .* jetson +7619 +true$")

(REFUSAL,) = re.findall(r"^ {4}(exceeded quota: .*)$", (ROOT / "docs/how-to/tenants.md").read_text(), re.MULTILINE)
HELD = (
    r'"held": ?\[\{"uid": ?"[^"]+", ?"code": ?"observe", ?"seconds_left": ?null, ?'
    r'"why": ?"mode: observe is configured"\}'
)

SCENES = [
    Scene(
        DAEMONSET,
        stages.published_beside_another,
        shows={
            f"kubectl -n {SYSTEM} rollout status …": (r'daemon set "edgeagent" successfully rolled out',),
            "kubectl get nodes -L …": (
                r"GPU\.KIND +GPU\.PRODUCT +AI-CAPABLE$",
                rf"^{NODE} .* jetson +\S+ +true$",
            ),
            f"kubectl -n {SYSTEM} describe pod …": (
                r"^Name: +edgeagent-",
                r"^ +Ready +True",
                r"^Events:\n.*\n.*\n +Normal +Scheduled ",
            ),
            f"kubectl describe node {NODE}": (r"^ +edgeagent\.dev/gpu-memory: +5827Mi$",),
            "pod=…": (),
            "for node in …": (rf"took off the node {NODE}: ",),
        },
        after={
            "kubectl apply -k .": stages.agents_on(NODE, "orin-2"),
            f"kubectl -n {SYSTEM} create configmap …": stages.configured("enforce"),
            f"kubectl -n {SYSTEM} edit configmap …": stages.configured("observe"),
            f"kubectl -n {SYSTEM} rollout restart …": stages.restarted,
            "pod=…": stages.one_pod,
            "for node in …": stages.bare,
        },
    ),
    Scene(
        "docs/tutorial/first-steps.md",
        stages.running("mode: observe\n"),
        shows={
            KINDS: OF_A_JETSON,
            GPU_COLUMN: (r"^NODE +GPU MEMORY$", rf"^{NODE} +5827Mi$"),
            "kubectl get nodes": (rf"^{NODE} +Ready ",),
            "curl -s http://127.0.0.1:9843/readyz": (r'"status": ?"ok"',),
            "curl -s http://127.0.0.1:9843/api/v1/pools": (r"edgeagent\.dev/gpu-memory",),
            "kubectl delete pod llm": (r'pod "llm" deleted',),
            "sudo .venv/bin/edgeagent uninstall …": (rf"took off the node {NODE}: ",),
        },
        before={"sudo .venv/bin/edgeagent uninstall …": Reader.stop_agent},
        after={
            "kubectl delete pod llm": stages.no_pods,
            "sudo .venv/bin/edgeagent uninstall …": stages.bare,
        },
    ),
    Scene(
        "docs/tutorial/orin-nano.md",
        stages.running("mode: enforce\nreserves: {k3s: 2Gi}\n"),
        shows={
            "kubectl get runtimeclass nvidia": (r"^nvidia +nvidia ",),
            KINDS: OF_A_JETSON,
            GPU_COLUMN: (r"^NODE +GPU MEMORY$", rf"^{NODE} +4291Mi$"),
            # 4394864 KiB are 4291.9 MiB
            "kubectl get nodes -o custom-columns='NODE:.metadata.name,MEMORY:…": (
                r"^NODE +MEMORY$",
                rf"^{NODE} +4394864Ki$",
            ),
            "kubectl get pods -o wide": (rf"^llm-\S+ +1/1 +Running .* {NODE} ",),
            "kubectl describe node": (
                # capacity and allocatable, and below them what is requested: 1536 + 768
                r"^ +edgeagent\.dev/gpu-memory: +2755Mi$",
                r"^ +edgeagent\.dev/gpu-memory +2304Mi +2304Mi$",
            ),
            "kubectl get pods": (
                r"^detector-\S+ +1/1 +Running",
                r"^detector-\S+ +0/1 +Pending",
                r"^llm-\S+ +1/1 +Runn",
            ),
            "kubectl describe pod -l app=detector …": (
                r"Insufficient edgeagent\.dev/gpu-memory",
                r"Insufficient memory",
            ),
            "kubectl get events --field-selector reason=MemoryBudgetExceeded": (r"MemoryBudgetExceeded +pod/llm-",),
            "kubectl get events --field-selector reason=MemoryBudgetEvicted": (r"MemoryBudgetEvicted +pod/llm-",),
            "kubectl delete --cascade=foreground …": (r'"detector" deleted', r'"llm" deleted'),
        },
        before={
            "kubectl get nodes -o custom-columns='NODE:.metadata.name,MEMORY:…": stages.k3s_restarted,
            "kubectl get events --field-selector reason=MemoryBudgetExceeded": stages.outgrows,
        },
        after={
            "kubectl get events --field-selector reason=MemoryBudgetEvicted": stages.ends,
            "kubectl delete --cascade=foreground …": stages.no_pods,
        },
    ),
    Scene(
        DAEMONSET,
        stages.own_values,
        way="helm",
        only=(
            "helm upgrade …",
            f"kubectl label namespace {SYSTEM} …",
            "helm uninstall …",
            f"kubectl delete namespace {SYSTEM}",
        ),
        shows={"helm upgrade …": (r"^STATUS: deployed$",), "helm uninstall …": (r'release "edgeagent" uninstalled',)},
        after={
            "helm upgrade …": stages.agents_on(NODE, "orin-2"),
            f"kubectl delete namespace {SYSTEM}": stages.no_agents,
        },
    ),
    Scene(
        "docs/tutorial/five-services.md",
        stages.large_board,
        after={
            "kubectl apply -f deploy/examples/five-services/": stages.running_pods(5),
        },
    ),
    Scene("docs/how-to/fill-in-gpu-pods.md", stages.tenant),
    Scene(
        "docs/how-to/migrate.md",
        stages.time_sliced,
        shows={
            "kubectl annotate …": (r"pod/llm annotated",),
            "kubectl label …": (rf"node/{NODE} unlabeled",),
            "kubectl rollout status …": (r'deployment "llm" successfully rolled out',),
            "kubectl get pods --all-namespaces …": (),
        },
        before={"kubectl get pods --all-namespaces …": stages.one_is_left},
        after={"kubectl label node orin-1 SharedGPU-": stages.unmarked},
    ),
    Scene(
        "docs/how-to/observe-only.md",
        stages.running("mode: observe\n"),
        shows={
            "curl …": (HELD,),
        },
        before={"curl …": stages.greedy},
        after={
            "kubectl annotate node orin-1 edgeagent.dev/mode=observe": stages.calm(NODE),
            "kubectl annotate node orin-1 edgeagent.dev/mode-": stages.calm(),
            "kubectl annotate nodes --all edgeagent.dev/mode=observe": stages.calm(NODE),
            "kubectl annotate nodes --all edgeagent.dev/mode-": stages.calm(),
        },
    ),
    Scene(
        DAEMONSET,
        stages.manifests_directory,
        way="k3s",
        only=("sed …", "sudo install …", "kubectl delete -f deploy/k3s/edgeagent.yaml"),
        shows={
            "kubectl delete -f …": (r'daemonset.apps "edgeagent" deleted', rf'namespace "{SYSTEM}" deleted'),
        },
        after={"sudo install …": stages.applied_by_k3s},
    ),
    Scene(
        "docs/how-to/one-manifest.md",
        stages.a_board_and_a_card,
        shows={
            "kubectl get pods -o wide": (rf"^detector-.* Running .* {NODE} ", r"^detector-.* Running .* pc-1 "),
            "kubectl get nodes -L …": (
                r"GPU\.KIND +JETSON\.JETPACK +CUDA\.VERSION +ARCH$",
                rf"^{NODE} .* jetson +6\.2\.1 +arm64$",
                r"^pc-1 .* discrete +12\.8 +amd64$",
            ),
        },
    ),
    Scene(
        "docs/how-to/prometheus.md",
        stages.behind_a_token,
        shows={
            "curl …": (r"^edgeagent_pool_advertised_bytes\{",),
            "kubectl get nodes": (rf"^{NODE} +Ready ",),
        },
        before={
            f"kubectl -n {SYSTEM} create secret …": stages.without_token,
            "curl …": stages.refused_without_token,
        },
    ),
    Scene(
        "docs/how-to/run-as-a-service.md",
        stages.running("mode: observe\n"),
        shows={
            "curl -s http://127.0.0.1:9843/readyz": (r'\{"status": ?"ok"',),
            f"kubectl describe node {NODE}": (
                r"(?s)^Capacity:.* edgeagent\.dev/gpu-memory: +5827Mi\n.*^Allocatable:",
                r"(?s)^Allocatable:.* edgeagent\.dev/gpu-memory: +5827Mi\n",
                r"edgeagent\.dev/gpu\.kind=jetson$",
                r"^ +GPUMemoryPressure +False ",
                r"^ +GPUUnavailable +False ",
                r"^ +GPURuntimeMisconfigured +",
            ),
        },
    ),
    Scene(
        "docs/how-to/watch-neighbours.md",
        stages.running("mode: observe\n"),
        shows={
            "curl -s http://127.0.0.1:9843/api/v1/neighbours": (r'"neighbours": ?',),
            "curl -s http://127.0.0.1:9843/api/v1/vitals": (r'"vitals": ?',),
        },
    ),
    Scene(
        "docs/reference/http.md",
        stages.running("mode: observe\n"),
        shows={"curl -s http://127.0.0.1:9843/api/v1/pods": (r'"pods": ?\[',)},
    ),
    Scene(
        "docs/how-to/see-the-fleet.md",
        stages.fleet,
        shows={
            "edgeagent fleet": (rf"^{NODE} ", r"^orin-2 "),
            "edgeagent fleet --context site-berlin --sort free": (rf"^{NODE} ", r"^orin-2 "),
            "edgeagent fleet --selector …": (rf"^{NODE} ", r"^orin-2 "),
        },
        after={
            "edgeagent fleet observe --selector site=berlin --dry-run": stages.calm(),
            "edgeagent fleet observe --selector site=berlin": stages.calm(NODE, "orin-2"),
            "edgeagent fleet observe orin-1 orin-2": stages.calm(NODE, "orin-2"),
            "edgeagent fleet enforce --selector site=berlin": stages.calm(),
        },
    ),
    Scene(
        "docs/how-to/set-k3s-reserves.md",
        stages.reserves_set,
        shows={
            "kubectl describe node orin-1": (r"(?s)^Allocated resources:\n.*^ +memory +3Gi \(\d+%\) ",),
            "kubectl get node orin-1 -o jsonpath=…": (r"^5967728Ki$",),
        },
    ),
    Scene(
        "docs/how-to/size-a-pod.md",
        stages.board,
        shows={
            "kubectl describe node": (
                r"(?s)^Capacity:.* edgeagent\.dev/gpu-memory: +5827Mi",
                r"(?s)^Allocated resources:\n.*^ +edgeagent\.dev/gpu-memory +0 ",
            ),
        },
    ),
    Scene(
        "docs/how-to/sla-and-batch.md",
        stages.two_cards,
        shows={
            "kubectl get pods -o wide": (
                r"(?s)^sla-\S+ +1/1 +Running .*^sla-\S+ +1/1 +Running ",
                r"^batch-(?!beside)\S+ +1/1 +Running ",
            ),
        },
        before={
            "kubectl scale deployment sla …": stages.running_pods(3),
        },
    ),
    Scene(
        "docs/how-to/tenants.md",
        shows={
            "kubectl -n vision get pods": (r"(?s)^llm-.*\nllm-",),
            "kubectl -n vision describe replicaset …": (re.escape(REFUSAL),),
            "kubectl -n vision describe resourcequota …": (
                r"^requests\.edgeagent\.dev/gpu-memory +4Gi +4Gi$",
                r"^requests\.memory +6Gi +6Gi$",
            ),
        },
    ),
    Scene(
        DAEMONSET,
        stages.published_beside_another,
        way="from one node",
        only=(f"kubectl -n {SYSTEM} patch …", "~/edgeagent-venv/bin/edgeagent uninstall …"),
        before={f"kubectl -n {SYSTEM} patch …": stages.installed},
        shows={"~/edgeagent-venv/bin/edgeagent uninstall …": (rf"took off the node {NODE}: ",)},
        after={
            f"kubectl -n {SYSTEM} patch …": stages.agents_on("orin-2"),
            "~/edgeagent-venv/bin/edgeagent uninstall …": stages.bare,
        },
    ),
    Scene(
        "docs/how-to/uninstall.md",
        stages.published,
        shows={"edgeagent uninstall …": (rf"took off the node {NODE}: ",)},
        after={"edgeagent uninstall …": stages.bare},
    ),
]
"""Those that make the agents' namespace stand apart: it takes a while to go."""


def of_scene(scene: Scene) -> list[str]:
    """The lines of a scene, in order."""
    others = tuple(key for one in SCENES if one.page == scene.page for key in one.only)
    here = [line.text for line in LINES if line.page == scene.page]
    if scene.only:
        return [text for text in here if among(scene.only, text)]
    left_out = LEFT_OUT.get(scene.page, {})
    return [text for text in here if not among(others, text) and not among(left_out, text)]

"""What the pages of the documentation presume, what happens meanwhile, and what has come of their commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.agentprocess import QUICK
from tests.cluster.doclines import LINES
from tests.cluster.docreader import NODE
from tests.cluster.objects import GPU_MEMORY
from tests.controlplane.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.docreader import Reader

AI = {"ai-capable": "true"}
ORIN = {
    **AI,
    "edgeagent.dev/gpu.kind": "jetson",
    "edgeagent.dev/gpu.product": "Orin-Nano",
    "edgeagent.dev/jetson.jetpack": "6.2.1",
}
CARD = {**AI, "edgeagent.dev/gpu.kind": "discrete", "kubernetes.io/arch": "amd64", "edgeagent.dev/cuda.version": "12.8"}
SYSTEM = "edgeagent-system"
AGENTS = "app.kubernetes.io/name=edgeagent"


def board(reader: Reader) -> None:
    """A board that an agent has described."""
    reader.node(labels=ORIN, offer={GPU_MEMORY: "5827Mi"})


def large_board(reader: Reader) -> None:
    """The recorded Orin NX 16 GB, 13.57 GiB of it for pods."""
    reader.node(labels=ORIN, memory="16Gi", offer={GPU_MEMORY: "13891Mi"})


def two_boards(reader: Reader) -> None:
    board(reader)
    reader.node("orin-2", ORIN, offer={GPU_MEMORY: "5827Mi"})


def running(config: str) -> Callable[[Reader], None]:
    """An agent that runs on the board."""

    def stage(reader: Reader) -> None:
        # The recorded board's MemTotal.
        reader.node(memory="7802736Ki")
        reader.agent(config + QUICK)
        reader.replaced["/var/lib/rancher/k3s/agent/kubelet.kubeconfig"] = str(reader.plane.node_kubeconfig(NODE))

    return stage


def published(reader: Reader) -> None:
    """What an agent has left on the node."""
    running("")(reader)
    reader.stop_agent()


def published_beside_another(reader: Reader) -> None:
    """And a node without anything of edgeagent's."""
    published(reader)
    reader.node("orin-2")


def tenant(reader: Reader) -> None:
    reader.plane.api.create_namespace({"metadata": {"name": "vision"}})


def installed(reader: Reader) -> None:
    assert reader.type("kubectl apply -k deploy/base").code == 0


def own_values(reader: Reader) -> None:
    """The file that the page describes in a sentence."""
    two_boards(reader)
    (reader.folder / "values.yaml").write_text("image: {repository: registry.example.com/edgeagent}\n")


def manifests_directory(reader: Reader) -> None:
    two_boards(reader)
    folder = reader.folder / "manifests"
    folder.mkdir()
    reader.replaced["/var/lib/rancher/k3s/server/manifests/"] = f"{folder}/"


def time_sliced(reader: Reader) -> None:
    """A node with all marks of other owners, and a pod of the old way."""
    marks = {"gpu": "on", "gpushare": "true", "SharedGPU": "true"}
    reader.node(labels={**ORIN, **marks}, offer={GPU_MEMORY: "5827Mi", "nvidia.com/gpu": "4"})
    assert reader.type("kubectl apply -f deploy/examples/migrate/before-time-slicing.yaml").code == 0


def two_cards(reader: Reader) -> None:
    reader.node("pc-1", CARD, memory="128Gi", offer=dict.fromkeys((f"{GPU_MEMORY}-0", f"{GPU_MEMORY}-1"), "40377Mi"))


def a_board_and_a_card(reader: Reader) -> None:
    board(reader)
    reader.node("pc-1", CARD, memory="32Gi", offer={GPU_MEMORY: "11920Mi"})


def fleet(reader: Reader) -> None:
    for name in (NODE, "orin-2"):
        reader.node(name, {**ORIN, "site": "berlin"}, offer={GPU_MEMORY: "5827Mi"})


def behind_a_token(reader: Reader) -> None:
    """The DaemonSet, and beside it a board with the service, of which the page's second half is."""
    token = reader.folder / "metrics-token"
    token.write_text("a-token-for-this-page\n")
    reader.replaced["/etc/edgeagent/metrics-token"] = str(token)
    running(f"serve: {{token_file: {token}}}\n")(reader)
    installed(reader)


def reserves_set(reader: Reader) -> None:
    # 7802736 KiB less 1024 + 512 + 256 = 1792 MiB
    reader.node(labels=ORIN, memory="7802736Ki", offer={GPU_MEMORY: "5827Mi", "memory": "7802736Ki"})
    status = {"status": {"allocatable": {"memory": "5967728Ki"}}}
    reader.plane.api.patch_node_status(NODE, status)
    assert reader.type("kubectl apply -f deploy/examples/five-services/llm.yaml").code == 0


# --- what happens meanwhile ------------------------------------------------------------------


def outgrows(reader: Reader) -> None:
    """The language model holds 2000 MiB of GPU memory, more than its 1536."""
    (pod,) = wait_for("the model", lambda: reader.pods("app=llm"))
    (status,) = pod.status.container_statuses
    reader.board.process(4242, "llm", pod.metadata.uid, status.container_id.removeprefix("containerd://"))
    reader.board.hold(4242, "llm", 2000)


def ends(reader: Reader) -> None:
    reader.board.end(4242)


def k3s_restarted(reader: Reader) -> None:
    """The kubelet has its reserves: 7802736 KiB less 1024 + 2048 + 256 = 3328 MiB."""
    reader.plane.api.patch_node_status(NODE, {"status": {"allocatable": {"memory": "4394864Ki"}}})


def greedy(reader: Reader) -> None:
    """A pod over its budget, for the page to show it held."""
    assert reader.type("kubectl apply -f deploy/examples/orin-nano/llm.yaml").code == 0
    wait_for("the model runs", lambda: [p for p in reader.pods("app=llm") if p.status.phase == "Running"])
    outgrows(reader)


def one_is_left(reader: Reader) -> None:
    """The old pod, which the line prints until it has ended."""
    (line,) = (line.text for line in LINES if line.page == "docs/how-to/migrate.md" and "grep" in line.text)
    assert "nvidia.com/gpu" in reader.type(line).out
    assert reader.type("kubectl delete pod llm").code == 0


def applied_by_k3s(reader: Reader) -> None:
    """A K3s server applies what lies in its folder."""
    (file,) = (reader.folder / "manifests").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert "image: registry.example.com/edgeagent:" in file.read_text()
    assert reader.type(f"kubectl apply -f {file}").code == 0
    agents_on(NODE, "orin-2")(reader)


def without_token(reader: Reader) -> None:
    """Each of the page's ways begins with a token."""
    assert reader.type(f"kubectl -n {SYSTEM} delete secret edgeagent-metrics --ignore-not-found").code == 0


def restarted(reader: Reader) -> None:
    """The page's next commands are for another day."""
    assert reader.type(f"kubectl -n {SYSTEM} rollout status daemonset/edgeagent").code == 0


# --- what has come of it ----------------------------------------------------------------------


def agents_on(*names: str) -> Callable[[Reader], None]:
    """Agents run on these nodes and on no other."""

    def look(reader: Reader) -> None:
        def there() -> bool:
            pods = reader.pods(AGENTS, SYSTEM)
            return sorted(pod.spec.node_name for pod in pods if pod.status.phase == "Running") == sorted(names)

        wait_for(f"agents on {names}", there)

    return look


def configured(mode: str) -> Callable[[Reader], None]:
    def look(reader: Reader) -> None:
        found = reader.plane.api.read_namespaced_config_map("edgeagent-local", SYSTEM)
        assert found.data == {"config.yaml": f"mode: {mode}"}

    return look


def unmarked(reader: Reader) -> None:
    assert not {"gpu", "gpushare", "SharedGPU"} & reader.plane.api.read_node(NODE).metadata.labels.keys()


def calm(*names: str) -> Callable[[Reader], None]:
    """Exactly these nodes have the annotation that calms."""

    def look(reader: Reader) -> None:
        nodes = reader.plane.api.list_node().items
        found = {one.metadata.name for one in nodes if one.metadata.annotations.get("edgeagent.dev/mode") == "observe"}
        assert found == {*names}

    return look


def bare(reader: Reader) -> None:
    """Nothing that an agent writes is on the node."""
    node = reader.plane.api.read_node(NODE)
    keys = {*node.status.capacity, *node.status.allocatable, *node.metadata.labels, *node.metadata.annotations}
    assert [key for key in keys if key.startswith("edgeagent.dev/")] == []
    assert not {one.type for one in node.status.conditions} & {"GPUUnavailable", "GPUMemoryPressure"}


def running_pods(count: int) -> Callable[[Reader], None]:
    """So many pods of the page run."""

    def look(reader: Reader) -> None:
        wait_for(f"{count} pods", lambda: [pod.status.phase for pod in reader.pods()] == ["Running"] * count)

    return look


def no_pods(reader: Reader) -> None:
    assert reader.pods() == []


def no_agents(reader: Reader) -> None:
    assert reader.pods(AGENTS, SYSTEM) == []


def refused_without_token(reader: Reader) -> None:
    assert "edgeagent_" not in reader.type("curl -s http://127.0.0.1:9843/metrics").out


def one_pod(reader: Reader) -> None:
    """The variable names the agent's pod on the reader's board."""
    said = reader.type('echo "$pod"')
    (pod,) = [pod for pod in reader.pods(AGENTS, SYSTEM) if pod.spec.node_name == NODE]
    assert said.out == f"pod/{pod.metadata.name}\n"

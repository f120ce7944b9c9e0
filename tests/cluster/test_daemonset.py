"""The image and the manifest that ship, on a real kubelet: the agent as the pod of its DaemonSet.

GPU memory and meminfo of the board are told by the test, as in ``test_live_evictions``. What is under ``/host`` is laid
out as on a K3s node, credentials included; the test changes nothing else of the manifest but the port, because the
network is that of a machine where others listen too.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import urllib.error
import urllib.request
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from kubernetes import client, utils

from tests.cluster.doclines import LINES
from tests.cluster.docreader import Reader
from tests.cluster.docscenes import LEFT_OUT, among
from tests.cluster.livescene import LiveScene, wait_ended
from tests.cluster.mountspace import MountNamespace
from tests.cluster.objects import GPU_MEMORY, get_pod, wait_gone
from tests.controlplane.processes import free_port
from tests.controlplane.waiting import wait_for
from tests.deploy.conftest import tools
from tests.image import built

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from typing_extensions import Self

    from tests.cluster.livenode import LiveNode
    from tests.controlplane.audit import Request
    from tests.controlplane.plane import ControlPlane

__all__ = ["tools"]  # a fixture

MANIFEST = built.REPOSITORY / "deploy/k3s/edgeagent.yaml"
NAMESPACE, NAME, PORT = "edgeagent-system", "edgeagent", 9843
SAMPLING = "sampling: {interval: 500ms, fast: 100ms, max_age: 5s}\n"
QUICK = "mode: enforce\npolicy: {grace: 2s}\n" + SAMPLING
K3S = "var/lib/rancher/k3s/agent"
"""Where a K3s agent keeps the kubelet's credentials; the kubeconfig names the files by absolute paths."""
# The recorded board: 7619 MiB less reserves of 1792 MiB, less the 96 MiB that the agent's own pod requests.
WITH_AGENT = "5731Mi"
# The recorded board's floor is 128 MiB, half the headroom of 256 MiB; below 64 MiB it is critical.
CALM, CRITICAL = 6000, 40
# linux/capability.h: CAP_DAC_READ_SEARCH 2, CAP_KILL 5, CAP_IPC_LOCK 14, CAP_SYS_PTRACE 19
CAPABILITIES = 1 << 2 | 1 << 5 | 1 << 14 | 1 << 19


class NodeMounts(MountNamespace):
    """The mount namespace of a live node, borrowed: what is mounted below ``folder`` reaches the pods that have it."""

    def __init__(self, node: LiveNode, folder: Path) -> None:
        self._node = node
        self._folder = folder

    def __enter__(self) -> Self:
        # Shared, so that what is mounted later is seen in the pod: /host is mounted HostToContainer.
        self.run("mount", "--bind", self._folder, self._folder)
        self.run("mount", "--make-rshared", self._folder)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.run("umount", "--recursive", "--lazy", self._folder)

    @property
    def entry(self) -> list[str]:
        return ["nsenter", f"--mount=/proc/{self._node.daemons[0].pid}/ns/mnt", "--"]


@dataclass(frozen=True)
class Endpoint:
    """The agent's endpoint on the host's network."""

    port: int

    def text(self, path: str) -> str:
        """The body of a GET that succeeds."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
            return str(answer.read(), "utf-8")

    def get(self, path: str) -> tuple[int, Any]:
        """(status, parsed JSON) of a GET."""
        try:
            return 200, json.loads(self.text(path))
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)

    def metric(self, series: str) -> float:
        """The value of a series, named with its labels as the agent prints it; 0 while there is none."""
        values = (line.rpartition(" ") for line in self.text("/metrics").splitlines())
        return next((float(value) for name, _, value in values if name == series), 0.0)


class DaemonScene(LiveScene):
    """A live scene whose agent is the DaemonSet's pod."""

    def __init__(self, plane: ControlPlane, node: LiveNode, namespace: str, folder: Path) -> None:
        super().__init__(plane, node, namespace, folder)
        self._root.namespace = NodeMounts(node, self._root.path)
        self._apps: Any = client.AppsV1Api(plane.api.api_client)
        self._since = datetime.now(timezone.utc)
        self.endpoint = Endpoint(free_port())

    def __enter__(self) -> Self:
        self._lend_credentials()
        return super().__enter__()

    def load(self, image: built.Image) -> None:
        """Give the image to the node's containerd, as a file in K3s' folder of images does."""
        options = ["--address=/run/containerd/containerd.sock", "--namespace=k8s.io"]
        self._root.namespace.run("ctr", *options, "images", "import", "--snapshotter=native", image.archive)

    def deploy(self, config: str | None = None, edit: Callable[[dict[str, Any]], None] = lambda _: None) -> str:
        """Apply the manifest, with this board as the host; returns the configuration, the shipped one if None is given.

        ``edit`` changes the pod.
        """
        for document in yaml.safe_load_all(MANIFEST.read_text()):
            if document["kind"] == "Namespace" and NAMESPACE in namespaces(self.plane):
                continue
            if document["kind"] == "ConfigMap":
                config = document["data"]["config.yaml"] = config or document["data"]["config.yaml"]
            if document["kind"] == "DaemonSet":
                self._fit(document["spec"]["template"]["spec"])
                edit(document["spec"]["template"]["spec"])
            utils.create_from_dict(self.plane.api.api_client, document)  # type: ignore[no-untyped-call]
        self._stack.callback(self._remove)
        assert config
        return config

    def configure(self, config: str) -> None:
        """Change the ConfigMap, and the pod: then the kubelet looks at its files at once, and not within a minute."""
        self.plane.api.patch_namespaced_config_map(NAME, NAMESPACE, {"data": {"config.yaml": config}})
        touched = {"metadata": {"annotations": {"example.com/touched": "now"}}}
        self.plane.api.patch_namespaced_pod(self.pod().metadata.name, NAMESPACE, touched)

    def pod(self) -> Any:
        """The agent's pod; None while there is none."""
        pods = self.plane.api.list_namespaced_pod(NAMESPACE, label_selector=f"app.kubernetes.io/name={NAME}").items
        return next((pod for pod in pods if not pod.metadata.deletion_timestamp), None)

    def wait_ready(self) -> Any:
        """Wait until the kubelet finds the pod ready; returns it."""

        def ready() -> Any:
            pod = self.pod()
            statuses = (pod.status.container_statuses or []) if pod else []
            return pod if statuses and all(status.ready for status in statuses) else None

        try:
            return wait_for("the agent's pod ready", ready, seconds=45)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.log(self.pod())}") from error

    def log(self, pod: Any) -> str:
        """What an agent's pod has written, as the kubelet keeps it."""
        folder = self.node.folder / f"state/var-log/pods/{NAMESPACE}_{pod.metadata.name}_{pod.metadata.uid}"
        return "".join(file.read_text() for file in sorted(folder.glob(f"{NAME}/*.log")))

    def capacity(self) -> Any:
        """What the node advertises; None for nothing."""
        return self.plane.api.read_node(self.node.name).status.capacity.get(GPU_MEMORY)

    def published(self) -> dict[str, Any]:
        """All that the node carries of the agent."""
        node = self.plane.api.read_node(self.node.name)
        ours = "edgeagent.dev/"
        return {
            "capacity": node.status.capacity.get(GPU_MEMORY),
            "labels": {key: value for key, value in node.metadata.labels.items() if key.startswith(ours)},
            "owned": node.metadata.annotations.get(f"{ours}owned-keys"),
            "conditions": {one.type: one.status for one in node.status.conditions if one.type.startswith("GPU")},
        }

    def state_of(self, pod: Any) -> str | None:
        """What the agent makes of a pod; None where it does not know it."""
        pods = self.endpoint.get("/api/v1/pods")[1].get("pods", [])
        return next((one["state"] for one in pods if one["uid"] == pod.metadata.uid), None)

    def all_evictions(self) -> list[Request]:
        """The agent's eviction calls in any namespace, since it was deployed."""
        credential = self.plane.credential_id(self.node.name)
        return self.plane.audit(credential=credential, resource="pods/eviction", since=self._since)

    def _fit(self, spec: dict[str, Any]) -> None:
        """Where this board stands in for the host, and the port."""
        spec["nodeSelector"]["kubernetes.io/hostname"] = self.node.name
        (host,) = (volume for volume in spec["volumes"] if volume["name"] == "host")
        assert host["hostPath"]["path"] == "/"
        host["hostPath"]["path"] = str(self._root.path)
        (container,) = spec["containers"]
        container["args"].append(f"--bind=127.0.0.1:{self.endpoint.port}")
        container["ports"][0]["containerPort"] = self.endpoint.port
        for probe in ("livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["port"] == PORT
            container[probe]["httpGet"]["port"] = self.endpoint.port
        container["readinessProbe"]["periodSeconds"] = 1

    def _lend_credentials(self) -> None:
        """Lay the node's credentials out as K3s does."""
        found = yaml.safe_load(self.plane.node_kubeconfig(self.node.name).read_text())
        (cluster,), (user,) = found["clusters"], found["users"]
        folder = self._root.path / K3S
        folder.mkdir(parents=True, exist_ok=True)
        for section, key in (
            (cluster["cluster"], "certificate-authority"),
            (user["user"], "client-certificate"),
            (user["user"], "client-key"),
        ):
            shutil.copy(section[key], folder / f"{key}.pem")
            section[key] = f"/{K3S}/{key}.pem"
        (folder / "kubelet.kubeconfig").write_text(yaml.safe_dump(found))

    def _remove(self) -> None:
        """All but the namespace. The agent ends: it would put back what is taken off the node."""
        pod = self.pod()
        sys.stdout.write(self.log(pod) if pod else "")  # what a failing test shows
        self._apps.delete_namespaced_daemon_set(NAME, NAMESPACE)
        self.plane.api.delete_namespaced_config_map(NAME, NAMESPACE)
        if pod:
            wait_gone(self.plane.api, pod)


def namespaces(plane: ControlPlane) -> set[str]:
    return {one.metadata.name for one in plane.api.list_namespace().items}


@pytest.fixture(scope="module")
def deployed(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane, which has no namespace of the agent's before and after."""
    yield control_plane
    if NAMESPACE in namespaces(control_plane):
        control_plane.api.delete_namespace(NAMESPACE)
    wait_for("the namespace gone", lambda: NAMESPACE not in namespaces(control_plane))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> built.Image:
    """The image for this machine alone."""
    lacking = built.lacking()
    if lacking and os.environ.get("CI"):
        pytest.fail(f"the image needs {lacking}")
    if lacking:
        pytest.skip(f"the image needs {lacking}")
    folder = tmp_path_factory.mktemp("image")
    with closing(built.Build(built.REPOSITORY, folder / "image.tar", f"--arch={built.NATIVE}")) as build:
        return build.wait()


@pytest.fixture
def scene(
    deployed: ControlPlane, live_node: LiveNode, image: built.Image, namespace: str, tmp_path: Path
) -> Iterator[DaemonScene]:
    with DaemonScene(deployed, live_node, namespace, tmp_path) as live:
        live.load(image)
        yield live


def test_as_shipped_the_pod_publishes_and_looks_on_and_when_the_configmap_says_so_it_evicts(scene: DaemonScene) -> None:
    assert "mode: observe" in scene.deploy()
    agent = scene.wait_ready()
    assert scene.endpoint.get("/livez")[0] == scene.endpoint.get("/readyz")[0] == 200
    assert scene.capacity() == WITH_AGENT
    assert scene.published()["labels"]["edgeagent.dev/jetson.l4t"] == "36.4.7"
    assert rights(scene.node.pid_of(agent, NAME)) == {"CapEff": CAPABILITIES, "CapBnd": CAPABILITIES, "NoNewPrivs": 1}

    greedy, modest = scene.start(scene.model("greedy"), scene.model("modest"))
    greedy_pid, modest_pid = scene.node.pid_of(greedy), scene.node.pid_of(modest)
    scene.hold({greedy_pid: 1500, modest_pid: 1000})
    wait_for("the breach seen", lambda: scene.state_of(greedy) == "breach")
    assert scene.evictions() == []

    scene.configure(QUICK)
    call = scene.wait_evicted("greedy")
    wait_ended(greedy_pid)
    scene.hold({modest_pid: 1000})

    assert call.body["deleteOptions"]["preconditions"] == {"uid": greedy.metadata.uid}
    assert [(one.name, one.code) for one in scene.evictions()] == [("greedy", 201)]
    # 1500 MiB and a tenth, rounded up: what to ask for
    assert "1650Mi" in scene.wait_event("MemoryBudgetEvicted", greedy)
    assert lives_on(scene, modest)
    assert lives_on(scene, agent)


def test_a_deleted_pod_leaves_what_it_published_and_its_successor_goes_on(scene: DaemonScene) -> None:
    scene.deploy()
    first = scene.wait_ready()
    published = scene.published()
    assert published["capacity"] == WITH_AGENT, published

    scene.plane.api.delete_namespaced_pod(first.metadata.name, NAMESPACE)
    wait_gone(scene.plane.api, first)
    assert scene.published() | {"capacity": None} == published | {"capacity": None}
    assert scene.capacity() is not None
    second = scene.wait_ready()

    assert second.metadata.uid != first.metadata.uid
    wait_for("the same published", lambda: scene.published() == published)
    # The state outlives the pod on the host.
    assert "nothing is known of an earlier run" not in scene.log(second)


def test_under_pressure_the_agent_spares_its_own_pod_whatever_it_holds(scene: DaemonScene) -> None:
    def unprotected(spec: dict[str, Any]) -> None:
        del spec["priorityClassName"]  # system-critical pods are spared for that alone

    anybody = "policy: {pressure_grace: 1s, unbudgeted: evict, daemonsets: evict, protect: [], kill: pressure}\n"
    scene.deploy(anybody + SAMPLING, unprotected)
    agent = scene.wait_ready()
    (other,) = scene.start(scene.model("other", limits={"memory": "512Mi"}))
    agent_pid, other_pid = scene.node.pid_of(agent, NAME), scene.node.pid_of(other)

    scene.hold({agent_pid: 3000, other_pid: 300})
    scene.leave(CRITICAL)
    scene.wait_evicted("other")
    wait_ended(other_pid)
    scene.hold({agent_pid: 3000})
    wait_for("the agent's own pod considered", lambda: scene.state_of(agent) == "protected")
    cycles = scene.endpoint.metric("edgeagent_cycles_total")
    # Of a tenth of a second each: 12 s, longer than the grace and the 10 s between two evictions.
    wait_for("120 cycles", lambda: scene.endpoint.metric("edgeagent_cycles_total") >= cycles + 120)

    assert {call.name for call in scene.all_evictions()} == {"other"}
    assert lives_on(scene, agent)
    assert scene.node.pid_of(scene.pod(), NAME) == agent_pid


def test_without_an_api_server_the_pod_kills_the_culprits_process(scene: DaemonScene) -> None:
    # Ten minutes of grace: nothing but the danger to the board can end a pod here.
    scene.deploy("policy: {grace: 10min}\n" + SAMPLING)
    agent = scene.wait_ready()
    culprit, neighbour = scene.start(scene.model("culprit"), scene.model("neighbour"))
    guilty, beside = scene.node.pid_of(culprit), scene.node.pid_of(neighbour)
    scene.hold({guilty: 500, beside: 1000})
    wait_for("both known", lambda: scene.state_of(culprit) == scene.state_of(neighbour) == "ok")

    (server,) = (daemon for daemon in scene.plane.daemons if daemon.name == "kube-apiserver")
    os.kill(server.pid, signal.SIGSTOP)
    try:
        scene.hold({guilty: 1500, beside: 1000})
        scene.leave(CRITICAL)
        wait_ended(guilty)
        scene.hold({beside: 1000})
        scene.leave(CALM)
    finally:
        os.kill(server.pid, signal.SIGCONT)

    wait_for("one kill", lambda: scene.endpoint.metric('edgeagent_kills_total{outcome="killed"}') == 1)
    assert scene.node.pid_of(neighbour) == beside
    assert lives_on(scene, agent)


@pytest.mark.usefixtures("tools")
def test_the_commands_of_the_page_reach_the_agent_in_its_pod(scene: DaemonScene, tmp_path: Path) -> None:
    page = "docs/how-to/run-as-a-daemonset.md"
    lines = [line.text for line in LINES if line.page == page and among(LEFT_OUT[page], line.text)]
    (pod,) = [line.text for line in LINES if line.page == page and line.text.startswith("pod=")]
    log, check, explain, doctor, record, history, forward, *curls = lines
    scene.deploy()
    agent = scene.wait_ready()
    (tmp_path / "reader").mkdir()
    with Reader(scene.plane, tmp_path / "reader") as reader:
        reader.port = free_port()
        reader.replaced |= {"orin-1": scene.node.name, " 9843 &": f" {reader.port}:{scene.endpoint.port} &"}
        (reader.folder / "config.yaml").write_text("mode: observe\n")

        assert reader.type(pod).code == 0
        told = reader.type(log)
        assert f"INFO node {scene.node.name}, as " in told.out, told
        assert reader.type(check).out == "/dev/stdin: ok\n"
        assert "jetson: CPU and GPU share one memory" in reader.type(explain).out
        assert "Looked at: " in reader.type(doctor).out
        assert reader.type(record).code == 0
        assert (reader.folder / "board.tar.gz").stat().st_size > 0
        assert reader.type(history).code == 0
        # In one shell, because the first of them goes on beside the others.
        wait = f"until curl -s -o /dev/null http://127.0.0.1:{reader.port}/livez; do sleep 0.1; done"
        told = reader.type("\n".join([forward, wait, *curls, "kill %1"]))

    assert len(curls) == 2
    pods, plan = (json.loads(answer) for answer in told.out.splitlines() if answer.startswith("{"))
    assert agent.metadata.uid in {one["uid"] for one in pods["pods"]}
    assert plan["plan"]["evictions"] == []


def rights(pid: int) -> dict[str, int]:
    """What the kernel lets a process do, by rows of /proc/<pid>/status."""
    rows = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: int(rows[name], 16) for name in ("CapEff", "CapBnd", "NoNewPrivs")}


def lives_on(scene: DaemonScene, pod: Any) -> bool:
    """Whether nothing has happened to the pod: its object is not on its way out and no container began anew."""
    now = get_pod(scene.plane.api, pod)
    return (
        now is not None
        and now.metadata.deletion_timestamp is None
        and all(one.state.running and one.restart_count == 0 for one in now.status.container_statuses)
    )

"""The deployment on the real API server: its objects, and what the two identities may do."""

from __future__ import annotations

import json
import re
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client

from edgeagent import config
from edgeagent.reconcile.events import CONTROLLER
from edgeagent.system import mounted
from tests.cluster import loadimage
from tests.cluster.agentprocess import AgentProcess
from tests.cluster.objects import (
    GPU_MEMORY,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    create_node,
    create_pod,
    evict,
    get_pod,
    patch_node_status,
    play_end,
    play_start,
    pod,
    wait_gone,
    wait_pod,
)
from tests.cluster.recorded import EMPTY_BOARD, Board
from tests.controlplane.credentials import write_kubeconfig
from tests.controlplane.waiting import wait_for
from tests.deploy import applying
from tests.deploy.applying import applied, call, create, documents
from tests.unit.test_docs import page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.livenode import LiveNode
    from tests.controlplane.plane import ControlPlane

NAMESPACE = "edgeagent-system"
RESOURCES = {"capacity": {GPU_MEMORY: "6083Mi"}, "allocatable": {GPU_MEMORY: "6083Mi"}}
OWN = {
    "labels": {"edgeagent.dev/gpu.kind": "jetson", "ai-capable": "true"},
    "annotations": {"edgeagent.dev/owned-keys": "{}"},
}


@pytest.fixture(scope="module", autouse=True)
def nothing_left(control_plane: ControlPlane) -> Iterator[None]:
    """Other tests of the run begin without the agent's namespace."""
    yield
    applying.wait_gone(control_plane.api, NAMESPACE)


def deployment(*, selector: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """The file for K3s; ``selector`` keeps its pods to nodes of the test's own."""
    found = documents("k3s/edgeagent.yaml")
    for one in found:
        if one["kind"] == "DaemonSet":
            one["spec"]["template"]["spec"]["nodeSelector"].update(selector or {"edgeagent-test": "none"})
    return found


def test_a_pod_of_the_file_for_k3s_comes_to_a_node_with_any_taint(control_plane: ControlPlane) -> None:
    api, name = control_plane.api, f"hand-{uuid.uuid4().hex[:8]}"
    create_node(api, name, labels={"kubernetes.io/os": "linux", "edgeagent-test": name})
    taint = {"key": "nvidia.com/gpu", "effect": "NoExecute"}
    api.patch_node(name, {"spec": {"taints": [taint]}})

    with applied(control_plane, deployment(selector={"edgeagent-test": name})):
        (made,) = wait_for(
            "the pod", lambda: api.list_namespaced_pod(NAMESPACE, field_selector=f"spec.nodeName={name}").items
        )
        # What the kubelet's OOM score and its eviction manager go by.
        assert (made.spec.priority_class_name, made.spec.priority) == ("system-node-critical", 2_000_001_000)
        assert made.spec.host_network
        # No token: the identity is the kubelet's.
        assert all(volume.projected is None or volume.name == "config" for volume in made.spec.volumes)
    wait_for("no pod", lambda: not _finished(api, name))
    api.delete_node(name)


def _finished(api: Any, node: str) -> list[Any]:
    """Pods that are left on a node, after its kubelet's part was played."""
    left: list[Any] = api.list_namespaced_pod(NAMESPACE, field_selector=f"spec.nodeName={node}").items
    for one in left:
        if one.metadata.deletion_timestamp:
            play_end(api, one)
    return left


def test_the_line_of_the_page_keeps_the_pod_from_one_node(control_plane: ControlPlane) -> None:
    (line,) = re.findall(
        r"patch daemonset edgeagent --type=merge -p '(.+)'$", page("how-to/run-as-a-daemonset.md"), re.MULTILINE
    )
    files = deployment()
    (daemon_set,) = (one for one in files if one["kind"] == "DaemonSet")

    with applied(control_plane, files):
        query = {"fieldValidation": "Strict", "dryRun": "All"}
        body = json.loads(line)
        path = applying.path_of(daemon_set)
        seen = call(control_plane.api, "PATCH", path, body, query=query, content_type=MERGE_PATCH)

    (term,) = seen["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["orin-1"]}]}


def test_pod_security_lets_the_agent_into_its_own_namespace_only(control_plane: ControlPlane, namespace: str) -> None:
    (daemon_set,) = (one for one in documents("k3s/edgeagent.yaml") if one["kind"] == "DaemonSet")
    manifest = {"apiVersion": "v1", "kind": "Pod", "spec": daemon_set["spec"]["template"]["spec"]}
    control_plane.api.patch_namespace(
        namespace, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    )

    with applied(control_plane, (one for one in deployment() if one["kind"] == "Namespace")):
        create(control_plane.api, manifest | {"metadata": {"name": "it", "namespace": NAMESPACE}}, dry_run=True)
        with pytest.raises(client.ApiException) as refused:
            create(control_plane.api, manifest | {"metadata": {"name": "it", "namespace": namespace}}, dry_run=True)

    assert refused.value.status == 403
    assert "hostNetwork" in str(refused.value.body)


def test_a_class_of_ones_own_could_not_have_that_priority(control_plane: ControlPlane) -> None:
    mine = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "edgeagent"}}

    with pytest.raises(client.ApiException) as refused:
        create(control_plane.api, mine | {"value": 2_000_001_000}, dry_run=True)

    assert refused.value.status in (403, 422)


# --- the identity of the node's own kubelet ------------------------------------------


def test_the_kubelets_identity_acts_on_its_own_node_only(
    control_plane: ControlPlane, hand_node: str, namespace: str
) -> None:
    other = f"other-{uuid.uuid4().hex[:8]}"
    create_node(control_plane.api, other)
    pods = {
        node: play_start(control_plane.api, create_pod(control_plane.api, pod(node, namespace=namespace, node=node)))
        for node in (hand_node, other)
    }
    api = control_plane.core(control_plane.node_kubeconfig(hand_node))

    def status(node: str) -> int:
        return _refused(lambda: patch_node_status(api, node, {"metadata": OWN, "status": RESOURCES}))

    assert [status(hand_node), status(other)] == [0, 403]
    assert _refused(lambda: evict(api, pods[other])) == 403
    assert _refused(lambda: evict(api, pods[hand_node])) == 0
    assert _refused(lambda: api.list_node(field_selector=f"metadata.name={other}")) == 403
    assert _refused(api.list_pod_for_all_namespaces) == 403
    assert _refused(lambda: api.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={hand_node}")) == 0
    play_end(control_plane.api, pods[hand_node])
    control_plane.api.delete_node(other)


# --- the service account -------------------------------------------------------------


@pytest.fixture(scope="module")
def account(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane with the service account, its rights and its policies, in force."""
    files = documents(
        "base/namespace.yaml", "components/service-account/rbac.yaml", "components/service-account/policy.yaml"
    )
    with applied(control_plane, files):
        create_node(control_plane.api, "probe")
        stray = _token(control_plane)
        for what in (
            lambda: _patch_status(control_plane, stray, "probe", {"metadata": {"labels": {"edgeagent.dev/x": "y"}}}),
            lambda: _event(control_plane, stray, "probe"),
            lambda: _evict_ghost(control_plane, stray),
        ):
            wait_for("the policies in force", lambda what=what: _refused(what) == 422)  # type: ignore[misc]
        control_plane.api.delete_node("probe")
        yield control_plane


def _token(plane: ControlPlane, pod: Any = None) -> str:
    """A token of the account, bound to a pod as the kubelet asks for it, or to nothing."""
    bound = {"kind": "Pod", "apiVersion": "v1", "name": pod.metadata.name, "uid": pod.metadata.uid} if pod else None
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"boundObjectRef": bound, "audiences": None},
    }
    namespace = pod.metadata.namespace if pod else NAMESPACE
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/edgeagent/token"
    return str(call(plane.api, "POST", path, body)["status"]["token"])


def _api(plane: ControlPlane, token: str) -> Any:
    return plane.core(_kubeconfig(plane, token))


def _kubeconfig(plane: ControlPlane, token: str) -> Path:
    return write_kubeconfig(plane.folder / f"{uuid.uuid4().hex}.kubeconfig", plane.server, plane.ca_file, token)


def _refused(act: Callable[[], Any]) -> int:
    """The code of the refusal; 0 where there is none."""
    try:
        act()
    except client.ApiException as refusal:
        return int(refusal.status)
    return 0


def _patch_status(
    plane: ControlPlane, token: str, node: str, body: dict[str, Any], content_type: str = MERGE_PATCH
) -> None:
    call(_api(plane, token), "PATCH", f"/api/v1/nodes/{node}/status", body, content_type=content_type)


def _event(plane: ControlPlane, token: str | None, instance: str, controller: str = CONTROLLER) -> str:
    """Write an event as the account, or as the admin (None); returns its name."""
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"e-{uuid.uuid4().hex}", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": controller,
        "reportingInstance": instance,
        "action": "Publish",
        "reason": "CapacityPublished",
        "type": "Normal",
        "regarding": {"kind": "Node", "name": instance},
    }
    api = plane.api if token is None else _api(plane, token)
    return str(call(api, "POST", "/apis/events.k8s.io/v1/namespaces/default/events", body)["metadata"]["name"])


def _evict_ghost(plane: ControlPlane, token: str) -> None:
    """Evict a pod that stands still on the node ``probe``, made anew each time."""
    api = plane.api
    ghost = create_pod(api, pod(f"ghost-{uuid.uuid4().hex[:8]}", node="probe"))
    try:
        wait_for("it is seen", lambda: get_pod(api, ghost))
        evict(_api(plane, token), ghost)
    finally:
        if get_pod(api, ghost):
            play_end(api, ghost)


class Two:
    """Two nodes with a pod each, and the token of the agent's pod on the first."""

    def __init__(self, plane: ControlPlane, namespace: str, mine: str, other: str) -> None:
        self.plane = plane
        self.mine = mine
        self.other = other
        agent = pod("agent-" + mine, namespace=NAMESPACE, node=mine)
        agent["spec"]["serviceAccountName"] = "edgeagent"
        self.agent = play_start(plane.api, create_pod(plane.api, agent))
        self.pods = {
            node: play_start(plane.api, create_pod(plane.api, pod(f"on-{node}", namespace=namespace, node=node)))
            for node in (mine, other)
        }
        self.token = _token(plane, self.agent)

    def patch(self, node: str, body: dict[str, Any], content_type: str = MERGE_PATCH) -> int:
        return _refused(lambda: _patch_status(self.plane, self.token, node, body, content_type))

    def condition(self, kind: str) -> int:
        now = {"type": kind, "status": "False", "reason": "MemoryAboveFloor", "message": "m"}
        return self.patch(self.mine, {"status": {"conditions": [now]}}, STRATEGIC_MERGE_PATCH)


@pytest.fixture
def two(account: ControlPlane, namespace: str, hand_node: str) -> Iterator[Two]:
    other = f"other-{uuid.uuid4().hex[:8]}"
    create_node(account.api, other, labels={"team": "a", "edgeagent.dev/gpu.kind": "jetson"})
    theirs = {"labels": {"team": "a"}, "annotations": {"team": "a"}}
    account.api.patch_node(hand_node, {"metadata": theirs})
    made = Two(account, namespace, hand_node, other)
    yield made
    play_end(account.api, made.agent)
    account.api.delete_node(other)


def test_the_account_writes_what_the_agent_writes_on_its_own_node(two: Two) -> None:
    assert two.patch(two.mine, {"metadata": OWN, "status": RESOURCES}) == 0
    assert two.condition("GPUMemoryPressure") == 0
    assert (
        two.patch(two.mine, {"metadata": {"labels": {"ai-capable": None}}, "status": {"capacity": {GPU_MEMORY: None}}})
        == 0
    )
    gone = {"$patch": "delete", "type": "GPUMemoryPressure"}
    assert two.patch(two.mine, {"status": {"conditions": [gone]}}, STRATEGIC_MERGE_PATCH) == 0
    assert _refused(lambda: _event(two.plane, two.token, two.mine)) == 0


def test_the_account_writes_nothing_on_another_node(two: Two) -> None:
    assert two.patch(two.other, {"status": RESOURCES}) == 422
    assert two.patch(two.other, {"metadata": {"labels": {"edgeagent.dev/gpu.kind": None}}}) == 422
    assert _refused(lambda: _event(two.plane, two.token, two.other)) == 422


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"labels": {"team": "b"}}},
        {"metadata": {"labels": {"team": None}}},
        {"metadata": {"annotations": {"team": None}}},
        {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
        {"metadata": {"annotations": {"edgeagent.dev/mode": "observe"}}},
        {"metadata": {"annotations": {"team": "b"}}},
        {"metadata": {"finalizers": ["example.com/stay"]}},
        {"status": {"capacity": {"cpu": "64"}}},
        {"status": {"allocatable": {"nvidia.com/gpu": "1"}}},
        {"status": {"capacity": {"memory": None}}},
        {"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.9"}]}},
        {"status": {"nodeInfo": {"kubeletVersion": "v9"}}},
        {"status": {"images": [{"names": ["x"], "sizeBytes": 1}]}},
        {"status": {"phase": "Terminated"}},
        {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}},
    ],
    ids=str,
)
def test_the_account_writes_nothing_else_on_its_own_node(two: Two, body: dict[str, Any]) -> None:
    assert two.patch(two.mine, body) == 422


def test_the_account_leaves_the_conditions_of_others_alone(two: Two) -> None:
    assert two.condition("Ready") == 422
    assert two.condition("MemoryPressure") == 422
    gone = {"$patch": "delete", "type": "Ready"}
    assert two.patch(two.mine, {"status": {"conditions": [gone]}}, STRATEGIC_MERGE_PATCH) == 422


def test_the_account_does_not_speak_for_others(two: Two) -> None:
    assert _refused(lambda: _event(two.plane, two.token, two.mine, controller="kubelet")) == 422

    name = _event(two.plane, None, two.other)
    path = f"/apis/events.k8s.io/v1/namespaces/default/events/{name}"
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}
    api = _api(two.plane, two.token)
    assert _refused(lambda: call(api, "PATCH", path, series, content_type=MERGE_PATCH)) == 422
    mine = path.replace(name, _event(two.plane, two.token, two.mine))
    assert _refused(lambda: call(api, "PATCH", mine, series, content_type=MERGE_PATCH)) == 0


def test_the_account_has_no_other_way_to_write(two: Two) -> None:
    api = _api(two.plane, two.token)

    assert _refused(lambda: api.patch_node(two.mine, {"spec": {"unschedulable": True}})) == 403
    assert _refused(lambda: api.delete_node(two.mine)) == 403
    assert _refused(lambda: api.delete_namespaced_pod(two.pods[two.mine].metadata.name, "default")) == 403
    assert _refused(api.list_secret_for_all_namespaces) == 403


def test_the_account_evicts_on_its_own_node_only(two: Two) -> None:
    api, mine, other = _api(two.plane, two.token), two.pods[two.mine], two.pods[two.other]
    # The API server judges by its own cache, which has the pods a moment after they were made.
    wait_for("the refusal", lambda: _dry_eviction(api, other) == 422)

    assert _refused(lambda: evict(api, other)) == 422
    assert get_pod(two.plane.api, other).metadata.deletion_timestamp is None
    assert _refused(lambda: evict(api, mine)) == 0
    assert get_pod(two.plane.api, mine).metadata.deletion_timestamp
    play_end(two.plane.api, mine)


def _dry_eviction(api: Any, pod: Any) -> int:
    where = {"name": pod.metadata.name, "namespace": pod.metadata.namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": where}
    return _refused(lambda: api.create_namespaced_pod_eviction(**where, body=body, dry_run="All"))


def test_a_token_that_names_no_node_writes_nothing(two: Two) -> None:
    two.token = _token(two.plane)

    assert two.patch(two.mine, {"status": RESOURCES}) == 422
    assert _refused(lambda: _event(two.plane, two.token, two.mine)) == 422
    wait_for("the refusal", lambda: _dry_eviction(_api(two.plane, two.token), two.pods[two.mine]) == 422)


def test_an_account_in_another_namespace_is_held_as_well(two: Two, namespace: str) -> None:
    api = two.plane.api
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "edgeagent", "namespace": namespace}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edgeagent"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"edgeagent-{namespace}"},
        "roleRef": role,
        "subjects": [{"kind": "ServiceAccount", "name": "edgeagent", "namespace": namespace}],
    }
    agent = pod("agent", namespace=namespace, node=two.mine)
    agent["spec"]["serviceAccountName"] = "edgeagent"
    with applied(two.plane, [account, binding]):
        made = play_start(api, create_pod(api, agent))
        two.token = _token(two.plane, made)
        # RBAC's own cache has the binding a moment after it was made.
        wait_for("its rights", lambda: two.patch(two.mine, {"status": RESOURCES}) == 0)

        assert two.patch(two.other, {"status": RESOURCES}) == 422
        assert _refused(lambda: _event(two.plane, two.token, two.other)) == 422
        play_end(api, made)


def test_the_account_still_reads_every_pod(two: Two) -> None:
    """What neither RBAC nor a policy can confine; the documentation says so."""
    seen = _api(two.plane, two.token).list_pod_for_all_namespaces().items

    assert {two.mine, two.other} <= {one.spec.node_name for one in seen}


def test_the_policies_are_for_this_account_alone(two: Two) -> None:
    api = two.plane.core(two.plane.node_kubeconfig(two.other))

    api.patch_node_status(two.other, {"metadata": {"labels": {"team": "b"}}})


def test_a_whole_agent_works_with_the_account(two: Two, tmp_path: Path) -> None:
    board = Board.copy(tmp_path / "root")
    agent = AgentProcess(two.plane, two.mine, board.root, tmp_path / "agent")
    agent.argv[agent.argv.index("--kubeconfig") + 1] = str(_kubeconfig(two.plane, two.token))

    with agent:
        agent.wait_ready()
        node = two.plane.api.read_node(two.mine)

        assert node.status.capacity[GPU_MEMORY] == node.status.allocatable[GPU_MEMORY] == EMPTY_BOARD
        assert node.metadata.labels["edgeagent.dev/gpu.kind"] == "jetson"
        wait_for("the conditions", lambda: _conditions(two) >= {"GPUMemoryPressure", "GPUUnavailable"})
        wait_for("the event", lambda: _told(two))
        assert agent.reasons() == set()


def _conditions(two: Two) -> set[str]:
    return {one.type for one in two.plane.api.read_node(two.mine).status.conditions}


def _told(two: Two) -> list[Any]:
    about = f"involvedObject.name={two.mine},reason=CapacityPublished"
    found: list[Any] = two.plane.api.list_namespaced_event("default", field_selector=about).items
    return found


# --- on a real kubelet ---------------------------------------------------------------

# CAP_DAC_READ_SEARCH 2, CAP_KILL 5, CAP_IPC_LOCK 14, CAP_SYS_PTRACE 19 (linux/capability.h)
CAPABILITIES = 1 << 2 | 1 << 5 | 1 << 14 | 1 << 19


@contextmanager
def on_live_node(plane: ControlPlane, node: LiveNode, image: str, command: list[str]) -> Iterator[Any]:
    """The running pod of the deployment on a live node, with another program in it."""
    # As systemd makes it at boot: what is mounted later shows in the pods that ask for it.
    node._namespace.run("mount", "--make-rshared", "/")  # noqa: SLF001 (the harness mounts privately)
    manifests = deployment(selector={"kubernetes.io/hostname": node.name})
    spec = next(one["spec"]["template"]["spec"] for one in manifests if one["kind"] == "DaemonSet")
    spec["containers"][0].update({"image": image, "imagePullPolicy": "Never", "command": command, "args": []})
    where = f"spec.nodeName={node.name}"
    with applied(plane, manifests):
        (made,) = wait_for("the pod", lambda: plane.api.list_namespaced_pod(NAMESPACE, field_selector=where).items)
        yield wait_pod(plane.api, made, "Running")
    wait_gone(plane.api, made)


def test_the_pod_runs_on_a_real_kubelet_with_what_it_needs_and_no_more(
    control_plane: ControlPlane, live_node: LiveNode
) -> None:
    with on_live_node(control_plane, live_node, loadimage.NAME, ["/load"]) as running:
        proc = Path(f"/proc/{live_node.pid_of(running, 'edgeagent')}")
        status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines())
        mounts = {fields[4]: fields for fields in map(str.split, (proc / "mountinfo").read_text().splitlines())}

        assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")} == {CAPABILITIES}
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        assert status["NSpid"].split() == [proc.name], "the process ids are the host's"
        options = {
            path: set(mounts[path][5].split(",")) for path in ("/", "/host", "/run/edgeagent", "/var/lib/edgeagent")
        }
        assert {path: "ro" in found for path, found in options.items()} == {
            "/": True,
            "/host": True,
            "/run/edgeagent": False,
            "/var/lib/edgeagent": False,
        }
        assert any(field.startswith("master:") for field in mounts["/host"]), "later mounts of the host arrive"
        inside = proc / "root"
        assert (inside / "etc/edgeagent/config.yaml").read_text() == "mode: observe\n"
        assert (inside / "host/proc/1/stat").read_text()
        assert not (inside / "var/run/secrets").exists()
        environ = dict(entry.split("=", 1) for entry in (proc / "environ").read_text().split("\0") if entry)
        assert (environ["NODE_NAME"], environ["POD_UID"]) == (live_node.name, running.metadata.uid)


def test_the_kubelet_brings_a_changed_config_map_as_the_agent_notices_it(
    control_plane: ControlPlane, live_node: LiveNode
) -> None:
    api = control_plane.api
    with on_live_node(control_plane, live_node, loadimage.NAME, ["/load"]) as running:
        folder = Path(f"/proc/{live_node.pid_of(running, 'edgeagent')}/root/etc/edgeagent")
        before = mounted.version(folder)
        assert before

        api.patch_namespaced_config_map("edgeagent", NAMESPACE, {"data": {"config.yaml": "mode: enforce\n"}})
        # The kubelet looks once a minute. A pod that has changed itself is looked at now.
        api.patch_namespaced_pod(running.metadata.name, NAMESPACE, {"metadata": {"annotations": {"look": "now"}}})

        wait_for("another version", lambda: mounted.version(folder) not in (before, None), seconds=100)
        assert (folder / "config.yaml").read_text() == "mode: enforce\n"


def test_a_configuration_of_ones_own_comes_to_a_running_agent_and_outlives_an_update(
    control_plane: ControlPlane, live_node: LiveNode
) -> None:
    api = control_plane.api
    mine = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "edgeagent-local", "namespace": NAMESPACE}}
    with on_live_node(control_plane, live_node, loadimage.NAME, ["/load"]) as running:
        folder = Path(f"/proc/{live_node.pid_of(running, 'edgeagent')}/root/etc/edgeagent")
        assert not (folder / "config.d").exists()

        with applied(control_plane, [mine | {"data": {"config.yaml": "mode: enforce\n"}}]):
            api.patch_namespaced_pod(running.metadata.name, NAMESPACE, {"metadata": {"annotations": {"look": "now"}}})
            wait_for("the file", (folder / "config.d/90-local.yaml").exists, seconds=100)
            for one in deployment(selector={"kubernetes.io/hostname": live_node.name}):
                if one["kind"] == "ConfigMap":
                    call(api, "PUT", applying.path_of(one), one)

            texts = [(path.name, path.read_text()) for path in (folder / "config.yaml", *folder.glob("config.d/*"))]
            assert config.load(texts).mode == "enforce"

"""What Kubernetes itself does, and edgeagent relies on. No edgeagent code runs here."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client

from tests.cluster.cgroups import is_v2
from tests.cluster.objects import (
    GPU_MEMORY,
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
from tests.controlplane.audit import WRITES
from tests.controlplane.plane import TOKEN_NODE
from tests.controlplane.waiting import wait_for

if TYPE_CHECKING:
    from tests.cluster.livenode import LiveNode
    from tests.controlplane.plane import ControlPlane

MIB = 1024 * 1024
AI_CAPABLE = {"ai-capable": "true"}


def publish(api: Any, node: str, gpu_memory: str | None) -> Any:
    """Set or remove (None) capacity, allocatable and the label in one request."""
    resources = {GPU_MEMORY: gpu_memory}
    labels = {key: value if gpu_memory else None for key, value in AI_CAPABLE.items()}
    status = {"capacity": resources, "allocatable": resources}
    return patch_node_status(api, node, {"metadata": {"labels": labels}, "status": status})


def test_a_node_credential_publishes_capacity_and_labels_in_one_merge_patch(
    control_plane: ControlPlane,
    hand_node: str,
) -> None:
    since = datetime.now(timezone.utc)
    publish(control_plane.core(control_plane.node_kubeconfig(hand_node)), hand_node, "6083Mi")

    seen = control_plane.api.read_node(hand_node)
    assert seen.status.capacity[GPU_MEMORY] == seen.status.allocatable[GPU_MEMORY] == "6083Mi"
    assert seen.status.capacity["memory"] == "8Gi"
    assert seen.metadata.labels["ai-capable"] == "true"
    (write,) = control_plane.audit(user=f"system:node:{hand_node}", verb=WRITES, since=since)
    assert (write.verb, write.resource, write.name, write.code) == ("patch", "nodes/status", hand_node, 200)
    assert write.credential == control_plane.credential_id(hand_node)
    assert write.body["status"]["capacity"] == {GPU_MEMORY: "6083Mi"}


def test_null_removes_a_capacity_key(control_plane: ControlPlane, hand_node: str) -> None:
    publish(control_plane.api, hand_node, "6083Mi")
    seen = publish(control_plane.api, hand_node, None)

    assert GPU_MEMORY not in seen.status.capacity
    assert GPU_MEMORY not in seen.status.allocatable
    assert not seen.metadata.labels


def test_status_through_the_main_resource_is_ignored_in_silence(control_plane: ControlPlane, hand_node: str) -> None:
    control_plane.api.patch_node(hand_node, {"status": {"capacity": {GPU_MEMORY: "6083Mi"}}})

    assert GPU_MEMORY not in control_plane.api.read_node(hand_node).status.capacity


def test_a_node_credential_cannot_touch_another_node(control_plane: ControlPlane, hand_node: str) -> None:
    other = control_plane.core(control_plane.node_kubeconfig("another"))

    with pytest.raises(client.ApiException) as refused:
        publish(other, hand_node, "6083Mi")

    assert refused.value.status == 403
    assert GPU_MEMORY not in control_plane.api.read_node(hand_node).status.capacity


def test_a_node_credential_may_not_taint_itself(control_plane: ControlPlane, hand_node: str) -> None:
    own = control_plane.core(control_plane.node_kubeconfig(hand_node))

    with pytest.raises(client.ApiException) as refused:
        own.patch_node(hand_node, {"spec": {"taints": [{"key": "edgeagent.dev/pressure", "effect": "NoSchedule"}]}})

    assert refused.value.status == 403


def test_a_renewed_certificate_is_told_apart_in_the_audit_log(control_plane: ControlPlane, hand_node: str) -> None:
    user, kubeconfig = f"system:node:{hand_node}", control_plane.node_kubeconfig(hand_node)
    old = control_plane.credential_id(hand_node)
    control_plane.core(kubeconfig).read_node(hand_node)
    new = control_plane.renew_node_certificate(hand_node)
    control_plane.core(kubeconfig).read_node(hand_node)

    assert [read.credential for read in control_plane.audit(user=user, verb="get")] == [old, new]


def test_a_token_is_a_node_credential_too(control_plane: ControlPlane) -> None:
    create_node(control_plane.api, TOKEN_NODE)

    seen = publish(control_plane.core(control_plane.token_kubeconfig()), TOKEN_NODE, "1Gi")

    assert seen.status.capacity[GPU_MEMORY] == "1Gi"
    control_plane.api.delete_node(TOKEN_NODE)


def test_the_scheduler_packs_by_allocatable(control_plane: ControlPlane, hand_node: str, namespace: str) -> None:
    # 6083Mi hold two pods of 2Gi = 2048Mi: 6083 - 2 * 2048 = 1987 < 2048.
    api = control_plane.api
    patch_node_status(api, hand_node, {"metadata": {"labels": {"test-node": hand_node}}})
    publish(api, hand_node, "6083Mi")
    selector = AI_CAPABLE | {"test-node": hand_node}
    pods = []
    for name in ("a", "b", "c"):
        manifest = pod(name, namespace=namespace, limits={GPU_MEMORY: "2Gi"}, selector=selector)
        pods.append(create_pod(api, manifest))
        if name != "c":
            wait_for(f"{name} bound", lambda: get_pod(api, pods[-1]).spec.node_name == hand_node)

    wait_for("c unschedulable", lambda: f"Insufficient {GPU_MEMORY}" in _why_pending(api, pods[2]))
    assert get_pod(api, pods[2]).spec.node_name is None

    play_start(api, pods[0])
    evict(control_plane.core(control_plane.node_kubeconfig(hand_node)), pods[0], grace=1)
    assert get_pod(api, pods[0]).metadata.deletion_timestamp
    assert get_pod(api, pods[2]).spec.node_name is None, "a terminating pod still holds its memory"
    play_end(api, pods[0])
    wait_for("c bound", lambda: get_pod(api, pods[2]).spec.node_name == hand_node)


def test_the_memory_of_a_live_pod_is_in_its_cgroup(
    control_plane: ControlPlane,
    live_node: LiveNode,
    namespace: str,
) -> None:
    args = ["--hold", "64"]
    live = create_pod(control_plane.api, pod("holds", namespace=namespace, node=live_node.name, args=args))
    live = wait_pod(control_plane.api, live, "Running")
    container = live.status.container_statuses[0].container_id.removeprefix("containerd://")
    (pid,) = live_node.pids_of(live.metadata.uid, container)

    assert f"/pod{live.metadata.uid}/{container}\n" in Path(f"/proc/{pid}/cgroup").read_text()
    assert pid in live_node.pids_of(live.metadata.uid)
    (cgroup,) = live_node.cgroup_root.glob(f"kubepods/**/pod{live.metadata.uid}")
    usage = cgroup / ("memory.current" if is_v2() else "memory.usage_in_bytes")
    wait_for("64 MiB charged to the pod", lambda: int(usage.read_text()) >= 64 * MIB)
    # The program, the sandbox's and page tables add less than 8 MiB.
    assert int(usage.read_text()) < 72 * MIB


def test_a_live_pod_is_evicted_by_its_node_s_own_credential(
    control_plane: ControlPlane,
    live_node: LiveNode,
    namespace: str,
) -> None:
    since = datetime.now(timezone.utc)
    api, agent = control_plane.api, control_plane.core(control_plane.node_kubeconfig(live_node.name))
    live = create_pod(api, pod("victim", namespace=namespace, node=live_node.name, args=["--ignore-term"]))
    wait_pod(api, live, "Running")
    assert live_node.pids_of(live.metadata.uid)

    evict(agent, live, grace=1)

    # The spec's grace is 30 s: only the grace of the eviction ends this program, which ignores SIGTERM.
    wait_gone(api, live, seconds=20)
    assert not live_node.pids_of(live.metadata.uid)
    evictions = control_plane.audit(user=f"system:node:{live_node.name}", resource="pods/eviction", since=since)
    assert [(seen.code, seen.name) for seen in evictions] == [(201, "victim")]
    assert evictions[0].credential == control_plane.credential_id(live_node.name, "agent")


def test_capacity_below_what_a_running_pod_holds_kills_it_at_the_next_kubelet_restart(
    control_plane: ControlPlane,
    live_node: LiveNode,
    namespace: str,
) -> None:
    api = control_plane.api
    publish(api, live_node.name, "6083Mi")
    manifest = pod("held", namespace=namespace, node=live_node.name, limits={GPU_MEMORY: "2Gi"}, grace=1)
    live = create_pod(api, manifest)
    wait_pod(api, live, "Running")

    publish(api, live_node.name, "1Gi")
    assert get_pod(api, live).status.phase == "Running"
    live_node.restart_kubelet()

    # The kubelet says why in an event. The pod's phase follows only sometimes: the kubelet may have taken
    # the cgroup away that it wants to read for it.
    wait_for("the processes gone", lambda: not live_node.pids_of(live.metadata.uid))
    wait_for("the reason", lambda: f"OutOf{GPU_MEMORY}" in _reasons(api, live))
    publish(api, live_node.name, None)


def _reasons(api: Any, pod: Any) -> list[str]:
    """Of the events about the pod."""
    events = api.list_namespaced_event(pod.metadata.namespace).items
    return [event.reason for event in events if event.involved_object.uid == pod.metadata.uid]


def _why_pending(api: Any, pod: Any) -> str:
    conditions = get_pod(api, pod).status.conditions or []
    return "".join(condition.message or "" for condition in conditions if condition.type == "PodScheduled")

"""``edgeagent run`` beside a real kubelet with live pods. Meminfo, device tree and nvmap stay recorded files."""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.agentprocess import AgentProcess
from tests.cluster.hostroot import HostRoot
from tests.cluster.objects import GPU_MEMORY, create_pod, get_pod, patch_node_status, pod, wait_gone, wait_pod
from tests.cluster.recorded import nvmap_table, recorded_board
from tests.controlplane.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.livenode import LiveNode
    from tests.controlplane.plane import ControlPlane

AI_CAPABLE = {"ai-capable": "true"}
LIMITS = {GPU_MEMORY: "2Gi", "memory": "2560Mi"}
NVMAP = "sys/kernel/debug/nvmap/iovmm/clients"
# 7619 MiB less reserves of 1792 MiB; with two pods of 512 MiB host part each.
EMPTY_BOARD, TWO_MODELS = "5827Mi", "4803Mi"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[HostRoot]:
    with HostRoot(recorded_board() / "host", tmp_path / "root") as host_root:
        host_root.write(NVMAP, nvmap_table([]))
        yield host_root


@pytest.fixture
def agent(control_plane: ControlPlane, live_node: LiveNode, root: HostRoot, tmp_path: Path) -> Iterator[AgentProcess]:
    """An agent that has published the recorded board on the live node; its keys are taken off at the end."""
    with AgentProcess(control_plane, live_node.name, root.path, tmp_path / "agent", popen=root.popen) as process:
        process.wait_ready()
        yield process
    keys = {GPU_MEMORY: None, "edgeagent.dev/gpu-milli": None}
    owned = {"labels": {"ai-capable": None}, "annotations": {"edgeagent.dev/owned-keys": None}}
    patch_node_status(
        control_plane.api, live_node.name, {"metadata": owned, "status": {"capacity": keys, "allocatable": keys}}
    )


@contextmanager
def running(plane: ControlPlane, namespace: str, *names: str) -> Iterator[list[Any]]:
    """Live pods of one image that the default scheduler has placed on the node."""
    made = [
        create_pod(
            plane.api,
            pod(name, namespace=namespace, limits=LIMITS, selector=AI_CAPABLE, args=["--hold", "20"], grace=2),
        )
        for name in names
    ]
    yield [wait_pod(plane.api, each, "Running") for each in made]
    for each in made:
        plane.api.delete_collection_namespaced_pod(namespace)
        wait_gone(plane.api, each)


def main_pid(node: LiveNode, live: Any) -> int:
    """The process of the pod's container ``main``."""
    container = live.status.container_statuses[0].container_id.removeprefix("containerd://")
    (pid,) = node.pids_of(live.metadata.uid, container)
    return pid


def is_running(plane: ControlPlane, live: Any) -> bool:
    now = get_pod(plane.api, live)
    statuses = (now.status.container_statuses or []) if now else []
    return (
        bool(statuses)
        and now.metadata.deletion_timestamp is None
        and all(one.state.running and not one.restart_count for one in statuses)
    )


def test_the_live_pod_over_its_budget_is_evicted_and_its_neighbour_lives_on(
    control_plane: ControlPlane, live_node: LiveNode, root: HostRoot, agent: AgentProcess, namespace: str
) -> None:
    api, since = control_plane.api, datetime.now(timezone.utc)
    with running(control_plane, namespace, "greedy", "modest") as (greedy, modest):
        greedy_pid, modest_pid = main_pid(live_node, greedy), main_pid(live_node, modest)
        root.show({greedy_pid, modest_pid})
        within = [("load", greedy_pid, 2000 * 1024), ("load", modest_pid, 2000 * 1024)]
        root.write(NVMAP, nvmap_table(within))

        def held() -> dict[str, int | None]:
            return {each["name"]: each["gpu_bytes"] for each in agent.get("/api/v1/pods")[1]["pods"]}

        wait_for("both attributed by their real pids", lambda: held() == {"greedy": 2000 << 20, "modest": 2000 << 20})
        by_name = {each["name"]: each for each in agent.get("/api/v1/pods")[1]["pods"]}
        # Each process touches 20 MiB of its own, which its real memory cgroup is charged for.
        assert all(20 << 20 <= by_name[name]["host_bytes"] < 60 << 20 for name in ("greedy", "modest"))

        root.write(NVMAP, nvmap_table([("load", greedy_pid, 2600 * 1024), within[1]]))
        wait_for("process of greedy gone", lambda: not Path(f"/proc/{greedy_pid}").exists())
        root.show({modest_pid})
        root.write(NVMAP, nvmap_table(within[1:]))
        wait_gone(api, greedy)

        calls = control_plane.audit(
            credential=control_plane.credential_id(live_node.name), resource="pods/eviction", since=since
        )
        assert [(call.name, call.code) for call in calls] == [("greedy", 201)]
        options = calls[0].body["deleteOptions"]
        assert options["gracePeriodSeconds"] == 2
        assert options["preconditions"] == {"uid": greedy.metadata.uid}
        (event,) = [one for one in api.list_namespaced_event(namespace).items if one.reason == "MemoryBudgetEvicted"]
        assert event.involved_object.uid == greedy.metadata.uid
        # 2600 and 2048 MiB, and what to ask for: 2600 and a tenth
        assert all(part in event.message for part in ("2.54 GiB", "2.00 GiB", "2860Mi"))
        assert is_running(control_plane, modest)


def test_a_restarted_kubelet_finds_the_capacity_and_kills_no_pod(
    control_plane: ControlPlane, live_node: LiveNode, agent: AgentProcess, namespace: str
) -> None:
    api = control_plane.api

    def amounts() -> set[str | None]:
        status = api.read_node(live_node.name).status
        return {status.capacity.get(GPU_MEMORY), status.allocatable.get(GPU_MEMORY)}

    with running(control_plane, namespace, "one", "two") as pods:
        pids = {main_pid(live_node, each) for each in pods}
        wait_for("both counted", lambda: amounts() == {TWO_MODELS})

        live_node.restart_kubelet()
        wait_for("capacity after the restart", lambda: amounts() == {TWO_MODELS}, seconds=10)
        # Until it has admitted its pods again a restarted kubelet stops those that do not fit, whoever took the room.
        time.sleep(5)
        keys = {GPU_MEMORY: "0"}
        patch_node_status(api, live_node.name, {"status": {"capacity": keys, "allocatable": keys}})
        wait_for("capacity after it was zeroed", lambda: amounts() == {TWO_MODELS}, seconds=10)
        live_node.restart_kubelet()

        wait_for("capacity after the second restart", lambda: amounts() == {TWO_MODELS}, seconds=10)
        assert all(is_running(control_plane, each) for each in pods)
        assert {main_pid(live_node, each) for each in pods} == pids
        assert agent.get("/livez")[0] == 200

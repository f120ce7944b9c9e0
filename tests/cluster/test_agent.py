"""``edgeagent run`` on a recorded Orin Nano 8 GB against the real API server, scheduler and controllers."""

from __future__ import annotations

import json
import subprocess
import time
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.agentprocess import QUICK, AgentProcess
from tests.cluster.objects import (
    GPU_MEMORY,
    create_node,
    create_pod,
    get_pod,
    patch_node_status,
    play_end,
    play_start,
    pod,
)
from tests.cluster.recorded import EMPTY_BOARD, Board
from tests.controlplane.audit import WRITES
from tests.controlplane.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.controlplane.plane import ControlPlane

AI_CAPABLE = {"ai-capable": "true"}
# Whole-board figures: 2 GiB of GPU memory and 512 MiB for the host.
LIMITS = {GPU_MEMORY: "2Gi", "memory": "2560Mi"}
CONDITIONS = {"GPUMemoryPressure", "GPUUnavailable", "GPURuntimeMisconfigured"}
RESTORED = 10.0


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board.copy(tmp_path / "root")


@pytest.fixture
def agent(control_plane: ControlPlane, hand_node: str, board: Board, tmp_path: Path) -> Iterator[AgentProcess]:
    """An agent that has published its board on ``hand_node``."""
    with AgentProcess(control_plane, hand_node, board.root, tmp_path / "agent") as process:
        process.wait_ready()
        yield process


def capacity(plane: ControlPlane, node: str) -> tuple[str | None, str | None]:
    """(capacity, allocatable) of the GPU memory."""
    status = plane.api.read_node(node).status
    return status.capacity.get(GPU_MEMORY), status.allocatable.get(GPU_MEMORY)


def wait_capacity(plane: ControlPlane, node: str, wanted: str, *, seconds: float = RESTORED) -> None:
    wait_for(f"{wanted} on {node}", lambda: capacity(plane, node) == (wanted, wanted), seconds=seconds)


def model(plane: ControlPlane, board: Board, node: str, namespace: str, name: str, pid: int, mib: int) -> Any:
    """A running pod with one process that holds ``mib`` MiB of GPU memory."""
    container = f"{pid:064x}"
    manifest = pod(name, namespace=namespace, node=node, limits=LIMITS, selector=AI_CAPABLE)
    created = play_start(plane.api, create_pod(plane.api, manifest), container_id=container)
    board.process(pid, name, created.metadata.uid, container)
    board.hold(pid, name, mib)
    return created


def evictions(plane: ControlPlane, node: str, since: datetime) -> list[Any]:
    return plane.audit(credential=plane.credential_id(node), resource="pods/eviction", since=since)


def is_on(plane: ControlPlane, pod: Any, node: str) -> bool:
    return bool(get_pod(plane.api, pod).spec.node_name == node)


def terminating(plane: ControlPlane, pod: Any) -> bool:
    now = get_pod(plane.api, pod)
    return now is not None and now.metadata.deletion_timestamp is not None


def test_the_board_is_on_the_node_written_by_the_nodes_own_credential(
    control_plane: ControlPlane, hand_node: str, agent: AgentProcess
) -> None:
    node = control_plane.api.read_node(hand_node)

    assert capacity(control_plane, hand_node) == (EMPTY_BOARD, EMPTY_BOARD)
    assert node.status.capacity["edgeagent.dev/gpu-milli"] == "1k"
    assert node.status.capacity["memory"] == "8Gi"
    expected = {"gpu.kind": "jetson", "jetson.soc": "tegra234", "jetson.module": "p3767-0005", "memory.unified": "true"}
    labels = node.metadata.labels
    assert {key: labels[f"edgeagent.dev/{key}"] for key in expected} == expected
    assert labels["ai-capable"] == "true"
    assert {item.type: item.status for item in node.status.conditions if item.type in CONDITIONS} == dict.fromkeys(
        CONDITIONS, "False"
    )
    assert {item.status for item in node.status.conditions if item.type == "Ready"} == {"True"}
    writes = control_plane.audit(credential=control_plane.credential_id(hand_node), verb=WRITES)
    assert {(write.resource, write.name) for write in writes if write.resource.startswith("nodes")} == {
        ("nodes/status", hand_node)
    }
    assert {write.code for write in writes} <= {200, 201}
    assert agent.get("/api/v1/pools")[1]["pools"][0]["advertised_bytes"] == 5827 * 1024 * 1024


@pytest.mark.usefixtures("agent")
def test_the_scheduler_packs_pods_by_gpu_memory_and_leaves_the_cpu_node_alone(
    control_plane: ControlPlane, hand_node: str, namespace: str
) -> None:
    api = control_plane.api
    create_node(api, f"{hand_node}-cpu", memory="64Gi")
    try:
        made = [
            create_pod(api, pod(name, namespace=namespace, limits=LIMITS, selector=AI_CAPABLE))
            for name in ("one", "two")
        ]
        for each in made:
            wait_for("placed", partial(is_on, control_plane, each, hand_node))
            play_start(api, get_pod(api, each))
        # 5827 − 2 × 512 MiB of host parts; 4096 of the 4803 MiB are requested.
        wait_capacity(control_plane, hand_node, "4803Mi")
        third = create_pod(api, pod("three", namespace=namespace, limits=LIMITS, selector=AI_CAPABLE))

        def refusal() -> str:
            conditions = get_pod(api, third).status.conditions or []
            return next((item.message for item in conditions if item.reason == "Unschedulable"), "")

        message = wait_for("third pod refused", refusal)
        assert f"Insufficient {GPU_MEMORY}" in message
        assert get_pod(api, third).spec.node_name is None

        play_end(api, made[0])
        wait_for("third pod placed", lambda: get_pod(api, third).spec.node_name == hand_node)
    finally:
        api.delete_node(f"{hand_node}-cpu")


@pytest.mark.usefixtures("agent")
def test_the_pod_over_its_budget_goes_its_neighbour_stays_and_its_successor_starts_anew(
    control_plane: ControlPlane, hand_node: str, board: Board, namespace: str
) -> None:
    api, since = control_plane.api, datetime.now(timezone.utc)
    greedy = model(control_plane, board, hand_node, namespace, "greedy", 4242, 2600)
    modest = model(control_plane, board, hand_node, namespace, "modest", 5151, 1500)

    wait_for("greedy terminating", lambda: terminating(control_plane, greedy))

    (call,) = evictions(control_plane, hand_node, since)
    assert call.body["deleteOptions"]["preconditions"]["uid"] == greedy.metadata.uid
    assert call.body["deleteOptions"]["gracePeriodSeconds"] == 30
    notes = wait_for("both events", lambda: _notes(api, namespace, "greedy", "MemoryBudgetEvicted"))
    assert "2.54 GiB" in notes[0]
    assert "2.00 GiB" in notes[0]
    assert "2860Mi" in notes[0]  # what to ask for: 2600 MiB and a tenth
    assert _notes(api, namespace, "greedy", "MemoryBudgetExceeded")

    # The successor has the name, not the uid: the decision on its predecessor does not reach it.
    play_end(api, greedy)
    board.end(4242)
    successor = model(control_plane, board, hand_node, namespace, "greedy", 4343, 1000)
    time.sleep(4)
    assert not terminating(control_plane, successor)
    assert not terminating(control_plane, modest)
    assert len(evictions(control_plane, hand_node, since)) == 1


def _notes(api: Any, namespace: str, name: str, reason: str) -> list[str]:
    events = api.list_namespaced_event(namespace).items
    return [event.message for event in events if event.involved_object.name == name and event.reason == reason]


@pytest.mark.usefixtures("agent")
def test_what_others_take_from_the_node_is_back_within_ten_seconds(control_plane: ControlPlane, hand_node: str) -> None:
    zeroed = {"status": {"capacity": {GPU_MEMORY: "0"}, "allocatable": {GPU_MEMORY: "0"}}}
    patch_node_status(control_plane.api, hand_node, zeroed)
    wait_capacity(control_plane, hand_node, EMPTY_BOARD)

    removed = {
        "status": {"capacity": {GPU_MEMORY: None}, "allocatable": {GPU_MEMORY: None}},
        "metadata": {"labels": {"ai-capable": None}},
    }
    patch_node_status(control_plane.api, hand_node, removed)
    wait_capacity(control_plane, hand_node, EMPTY_BOARD)
    wait_for(
        "label back",
        lambda: control_plane.api.read_node(hand_node).metadata.labels.get("ai-capable") == "true",
        seconds=RESTORED,
    )

    control_plane.api.delete_node(hand_node)
    created = create_node(control_plane.api, hand_node)
    wait_capacity(control_plane, hand_node, EMPTY_BOARD)
    assert control_plane.api.read_node(hand_node).metadata.uid == created.metadata.uid


def test_capacity_never_falls_below_what_admitted_pods_hold_nor_goes_a_label_they_need(
    control_plane: ControlPlane, hand_node: str, board: Board, tmp_path: Path, namespace: str
) -> None:
    since = datetime.now(timezone.utc)
    with AgentProcess(control_plane, hand_node, board.root, tmp_path / "first") as first:
        first.wait_ready()
        for number in range(2):
            model(control_plane, board, hand_node, namespace, f"model-{number}", 6000 + number, 500)
        wait_capacity(control_plane, hand_node, "4803Mi")
        first.stop()

    # The same board with reserves that leave 1 GiB, and without the runtime that proved the GPU path.
    config = "reserves: {os: 6595Mi, k3s: 0, cma: 0, headroom: 0}\nlabels: {ai_capable: false}\n" + QUICK
    with AgentProcess(control_plane, hand_node, board.root, tmp_path / "second", config=config) as second:
        second.wait_ready()
        wait_capacity(control_plane, hand_node, "4Gi")  # as the server spells 4096Mi
        time.sleep(3)
        assert control_plane.api.read_node(hand_node).metadata.labels["ai-capable"] == "true"

    patches = control_plane.audit(
        credential=control_plane.credential_id(hand_node), resource="nodes/status", since=since
    )
    sent = [patch.body.get("status", {}).get("capacity", {}).get(GPU_MEMORY) for patch in patches]
    assert [amount for amount in sent if amount] == [
        EMPTY_BOARD,
        *sorted({"5315Mi", "4803Mi"} & set(sent), reverse=True),
        "4096Mi",
    ]


def test_an_outage_in_mid_breach_costs_at_most_one_eviction_afterwards(
    control_plane: ControlPlane, hand_node: str, agent: AgentProcess, board: Board, namespace: str
) -> None:
    since = datetime.now(timezone.utc)
    calm = model(control_plane, board, hand_node, namespace, "calm", 4141, 2000)
    greedy = model(control_plane, board, hand_node, namespace, "greedy", 4242, 2000)
    wait_for("both seen", lambda: len(agent.get("/api/v1/pods")[1]["pods"]) == 2)

    control_plane.stop_apiserver()
    try:
        board.hold(4141, "calm", 2600)
        board.hold(4242, "greedy", 2600)
        wait_for("unready", lambda: "cluster-unreachable" in agent.reasons(), seconds=30)
        assert agent.get("/livez")[0] == 200
        time.sleep(50)
        board.hold(4141, "calm", 2000)
        time.sleep(2)
    finally:
        control_plane.start_apiserver()

    try:
        wait_for("greedy terminating", lambda: terminating(control_plane, greedy), seconds=40)
        time.sleep(3)
        agent.wait_ready()
        assert not terminating(control_plane, calm)
        assert len(evictions(control_plane, hand_node, since)) == 1
    finally:
        control_plane.restart_controllers()


@pytest.mark.usefixtures("agent")
@pytest.mark.timeout(300)
def test_idle_means_no_writes(control_plane: ControlPlane, hand_node: str, board: Board, namespace: str) -> None:
    model(control_plane, board, hand_node, namespace, "quiet", 4242, 1000)
    wait_capacity(control_plane, hand_node, "5315Mi")
    credential = control_plane.credential_id(hand_node)

    def events() -> list[Any]:
        return [
            one.reason
            for one in control_plane.api.list_event_for_all_namespaces().items
            if hand_node in one.metadata.name
        ]

    # There is something to tell here, once: the cluster has no class for the board's runtime.
    wait_for("the diagnosis told", lambda: "RuntimeClassMissing" in events(), seconds=90)
    time.sleep(8)  # a round follows each change of the pods by 5 s
    since = datetime.now(timezone.utc)
    for load in range(12):
        board.hold(4242, "quiet", 1000 + load)
        time.sleep(5)
    assert control_plane.audit(credential=credential, verb=WRITES, since=since) == []


def test_a_restart_repeats_nothing_and_leaves_the_values_on_the_node(
    control_plane: ControlPlane, hand_node: str, agent: AgentProcess, board: Board, namespace: str
) -> None:
    greedy = model(control_plane, board, hand_node, namespace, "greedy", 4242, 2600)
    wait_for("greedy terminating", lambda: terminating(control_plane, greedy))
    wait_for("its host part still counts", lambda: capacity(control_plane, hand_node)[0] == "5315Mi")

    assert agent.stop() == 0
    assert capacity(control_plane, hand_node) == ("5315Mi", "5315Mi")
    assert [victim["uid"] for victim in json.loads(agent.state.read_text())["victims"]] == [greedy.metadata.uid]
    since = datetime.now(timezone.utc)
    agent.start()
    agent.wait_ready()
    time.sleep(4)
    assert control_plane.audit(credential=control_plane.credential_id(hand_node), verb=WRITES, since=since) == []


def test_a_second_agent_in_the_same_place_is_refused(agent: AgentProcess) -> None:
    second = subprocess.run(agent.argv, capture_output=True, text=True, timeout=20, check=False)

    assert second.returncode == 75
    assert f"another instance (pid {agent.pid})" in second.stderr
    assert second.stdout == ""

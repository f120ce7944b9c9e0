"""``edgeagent uninstall`` on the real API server, with the node's own credential, and beside a real kubelet."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.agentprocess import AgentProcess
from tests.cluster.objects import (
    GPU_MEMORY,
    STRATEGIC_MERGE_PATCH,
    create_pod,
    get_pod,
    patch_node_status,
    play_start,
    pod,
    wait_gone,
    wait_pod,
)
from tests.cluster.recorded import EMPTY_BOARD, Board
from tests.controlplane.processes import free_port
from tests.controlplane.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.livenode import LiveNode
    from tests.controlplane.plane import ControlPlane

OWNED = "edgeagent.dev/owned-keys"
LIMITS = {GPU_MEMORY: "2Gi", "memory": "2560Mi"}
FOREIGN: dict[str, Any] = {
    "metadata": {
        "labels": {"edgeagent.dev/rack": "7", "site": "berlin"},
        "annotations": {"edgeagent.dev/mode": "observe", "example.com/note": "x"},
    },
    "status": {
        "capacity": {"example.com/licences": "3", "edgeagent.dev/licences": "2"},
        "allocatable": {"example.com/licences": "3", "edgeagent.dev/licences": "2"},
    },
}
"""What people and other programs have on a node, some of it under the agent's prefix."""


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board.copy(tmp_path / "root")


def whole(plane: ControlPlane, node: str) -> Any:
    """The node's object, but for what every write and every heartbeat changes."""
    found = plane.api.api_client.sanitize_for_serialization(plane.api.read_node(node))
    for key in ("resourceVersion", "managedFields"):
        found["metadata"].pop(key, None)
    for condition in found["status"]["conditions"]:
        condition.pop("lastHeartbeatTime", None)
    return found


def settled(plane: ControlPlane, node: str) -> Any:
    """The node as it is once the controllers have noticed it."""
    wait_for("the controllers' annotation", lambda: plane.api.read_node(node).metadata.annotations)
    time.sleep(1)
    return whole(plane, node)


def publish(plane: ControlPlane, node: str, board: Board, folder: Path) -> None:
    """Let an agent publish its board, and end."""
    with AgentProcess(plane, node, board.root, folder) as agent:
        agent.wait_ready()
        wait_for(
            "all published",
            lambda: (
                plane.api.read_node(node).status.capacity.get(GPU_MEMORY) == EMPTY_BOARD
                and len(plane.api.read_node(node).status.conditions) >= 4
            ),
        )
        assert agent.stop() == 0


@pytest.fixture
def uninstall(control_plane: ControlPlane, board: Board, hand_node: str) -> Callable[..., tuple[int, str]]:
    """Runs the command as the node itself; its exit code and what it says."""

    def run(*options: str, kubeconfig: Path | None = None, node: str = hand_node) -> tuple[int, str]:
        access = kubeconfig or control_plane.node_kubeconfig(node)
        argv = [sys.executable, "-m", "edgeagent", "uninstall", "--node-only", "--root", str(board.root)]
        argv += ["--kubeconfig", str(access), "--node", node, *options]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    return run


def test_the_node_is_as_it_was_before(
    control_plane: ControlPlane,
    hand_node: str,
    board: Board,
    tmp_path: Path,
    uninstall: Callable[..., tuple[int, str]],
) -> None:
    patch_node_status(control_plane.api, hand_node, FOREIGN)
    condition = {"type": "DiskProblem", "status": "False", "reason": "a", "message": "b", "lastHeartbeatTime": None}
    control_plane.api.patch_node_status(
        hand_node, {"status": {"conditions": [condition]}}, _content_type=STRATEGIC_MERGE_PATCH
    )
    before = settled(control_plane, hand_node)
    publish(control_plane, hand_node, board, tmp_path / "agent")
    assert whole(control_plane, hand_node) != before

    code, said = uninstall()

    assert whole(control_plane, hand_node) == before
    assert code == 0
    assert all(key in said for key in (GPU_MEMORY, "edgeagent.dev/gpu.kind", "ai-capable", "GPUUnavailable", OWNED))
    assert "licences" not in said
    assert uninstall() == (0, f"nothing to do\nnothing of edgeagent is on the node {hand_node}\n")


def test_a_pod_that_needs_a_label_is_named_and_nothing_is_touched_without_force(
    control_plane: ControlPlane,
    hand_node: str,
    board: Board,
    namespace: str,
    tmp_path: Path,
    uninstall: Callable[..., tuple[int, str]],
) -> None:
    publish(control_plane, hand_node, board, tmp_path / "agent")
    manifest = pod("llm", namespace=namespace, node=hand_node, limits=LIMITS, selector={"ai-capable": "true"})
    llm = play_start(control_plane.api, create_pod(control_plane.api, manifest))
    before = whole(control_plane, hand_node)

    code, said = uninstall()

    assert code == 1
    assert f"the label ai-capable is required by {namespace}/llm" in said
    assert "--force" in said
    assert whole(control_plane, hand_node) == before

    code, said = uninstall("--force")

    assert code == 0
    node = control_plane.api.read_node(hand_node)
    assert "ai-capable" not in (node.metadata.labels or {})
    assert GPU_MEMORY not in node.status.capacity
    assert OWNED not in (node.metadata.annotations or {})
    assert f"{namespace}/llm" in said
    assert get_pod(control_plane.api, llm).metadata.deletion_timestamp is None


def test_with_keep_needed_everything_but_that_label_goes_and_the_printed_commands_finish_it(
    control_plane: ControlPlane,
    hand_node: str,
    board: Board,
    namespace: str,
    tmp_path: Path,
    uninstall: Callable[..., tuple[int, str]],
) -> None:
    before = settled(control_plane, hand_node)
    publish(control_plane, hand_node, board, tmp_path / "agent")
    manifest = pod("llm", namespace=namespace, node=hand_node, selector={"ai-capable": "true"})
    play_start(control_plane.api, create_pod(control_plane.api, manifest))

    code, said = uninstall("--keep-needed")

    assert code == 1
    node = control_plane.api.read_node(hand_node)
    assert GPU_MEMORY not in node.status.capacity
    assert not {"GPUMemoryPressure", "GPUUnavailable"} & {item.type for item in node.status.conditions}
    assert node.metadata.labels.get("ai-capable") == "true"
    assert "edgeagent.dev/gpu.kind" not in node.metadata.labels
    for words in (shlex.split(line) for line in said.splitlines() if line.strip().startswith("kubectl patch")):
        control_plane.api.patch_node_status(
            hand_node, json.loads(words[7]), _content_type="application/merge-patch+json"
        )
    assert whole(control_plane, hand_node) == before


def test_the_pod_of_an_agent_is_a_refusal_before_anything_is_taken_off(
    control_plane: ControlPlane,
    hand_node: str,
    board: Board,
    namespace: str,
    tmp_path: Path,
    uninstall: Callable[..., tuple[int, str]],
) -> None:
    publish(control_plane, hand_node, board, tmp_path / "agent")
    manifest = pod("agent", namespace=namespace, node=hand_node)
    manifest["metadata"]["labels"] = {"app.kubernetes.io/name": "edgeagent"}
    play_start(control_plane.api, create_pod(control_plane.api, manifest))
    before = whole(control_plane, hand_node)

    code, said = uninstall()

    assert (code, whole(control_plane, hand_node)) == (1, before)
    assert f"{namespace}/agent on this node would put everything back" in said


def test_a_list_that_was_destroyed_is_not_replaced_by_a_guess(
    control_plane: ControlPlane,
    hand_node: str,
    board: Board,
    tmp_path: Path,
    uninstall: Callable[..., tuple[int, str]],
) -> None:
    before = settled(control_plane, hand_node)
    publish(control_plane, hand_node, board, tmp_path / "agent")
    patch_node_status(control_plane.api, hand_node, {"metadata": {"annotations": {OWNED: '{"capacity'}}})
    broken = whole(control_plane, hand_node)

    code, said = uninstall()

    assert (code, whole(control_plane, hand_node)) == (1, broken)
    assert "nothing is removed by guess" in said

    code, said = uninstall("--force")

    assert code == 0
    assert f"kubectl label node {hand_node} ai-capable-" in said
    patch_node_status(control_plane.api, hand_node, {"metadata": {"labels": {"ai-capable": None}}})
    assert whole(control_plane, hand_node) == before


def test_without_an_api_server_the_printed_commands_finish_it(
    control_plane: ControlPlane,
    hand_node: str,
    board: Board,
    tmp_path: Path,
    uninstall: Callable[..., tuple[int, str]],
) -> None:
    before = settled(control_plane, hand_node)
    publish(control_plane, hand_node, board, tmp_path / "agent")
    text = control_plane.node_kubeconfig(hand_node).read_text()
    away = tmp_path / "away.kubeconfig"
    away.write_text(text.replace(f":{control_plane.port}", f":{free_port()}"))

    code, said = uninstall(kubeconfig=away)

    assert code == 1
    assert "what was published is still on the node" in said
    assert "edgeagent uninstall --node-only" in said
    commands = [shlex.split(line) for line in said.splitlines() if line.strip().startswith("kubectl patch")]
    assert len(commands) == 4
    for words in commands:
        assert words[:5] == ["kubectl", "patch", "node", hand_node, "--subresource=status"]
        kind = words[5].removeprefix("--type=")
        content = {"merge": "application/merge-patch+json", "strategic": STRATEGIC_MERGE_PATCH}[kind]
        control_plane.api.patch_node_status(hand_node, json.loads(words[7]), _content_type=content)
    assert whole(control_plane, hand_node) == before


def test_an_agent_that_runs_elsewhere_and_puts_everything_back_is_found_out(
    control_plane: ControlPlane,
    hand_node: str,
    board: Board,
    tmp_path: Path,
    uninstall: Callable[..., tuple[int, str]],
) -> None:
    with AgentProcess(control_plane, hand_node, board.root, tmp_path / "agent") as agent:
        agent.wait_ready()

        code, said = uninstall()

    assert code == 1
    assert "came back: an agent still runs for this node" in said


def test_a_pod_that_holds_capacity_outlives_uninstall_and_a_restart_of_the_kubelet(
    control_plane: ControlPlane,
    live_node: LiveNode,
    board: Board,
    namespace: str,
    tmp_path: Path,
    uninstall: Callable[..., tuple[int, str]],
) -> None:
    api = control_plane.api
    publish(control_plane, live_node.name, board, tmp_path / "agent")
    manifest = pod("llm", namespace=namespace, node=live_node.name, limits=LIMITS, args=["--hold", "1"], grace=1)
    llm = wait_pod(api, create_pod(api, manifest), "Running")
    pid = live_node.pid_of(llm)

    code, said = uninstall(node=live_node.name)
    live_node.restart_kubelet()
    time.sleep(5)

    assert code == 0, said
    now = get_pod(api, llm)
    assert (now.status.phase, now.status.container_statuses[0].restart_count) == ("Running", 0)
    assert Path(f"/proc/{pid}").exists()
    assert GPU_MEMORY not in api.read_node(live_node.name).status.capacity
    api.delete_namespaced_pod("llm", namespace)
    wait_gone(api, llm)

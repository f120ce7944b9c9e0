"""The page for people, at every width."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY
from edgeagent.fleet import cells, order
from edgeagent.fleet.page import text
from edgeagent.fleet.rows import fleet
from edgeagent.plan.report.style import Style
from tests.unit.fleet.objects import LABELS, NOW, agent, bare, node, pod, refused

OBSERVED = {"edgeagent.dev/mode": "observe"}


def page(*nodes: dict[str, Any], pods: tuple[dict[str, Any], ...] = (), width: int | None = None) -> str:
    return text(fleet(nodes, pods, everything=True), NOW, Style(), width)


def line(shown: str, name: str) -> list[str]:
    """The cells of a node's first line: they are set apart by two blanks or more."""
    (found,) = [row for row in shown.splitlines() if row.startswith(f"{name} ")]
    return [cell.strip() for cell in found.split("  ") if cell.strip()]


def test_a_healthy_node_is_one_line() -> None:
    managed = [{"manager": "edgeagent", "time": "2026-11-30T17:00:00Z"}]
    shown = page(node(managed=managed), pods=(pod("a", "orin-1"), agent("orin-1")))

    assert line(shown, "NODE")[:4] == ["NODE", "KIND", "PRODUCT", "POOL"]
    # 7619 Mi = 7.44 Gi, 1792 Mi = 1.75 Gi, 5827 Mi = 5.69 Gi, 4803 Mi = 4.69 Gi
    assert line(shown, "orin-1") == [
        *("orin-1", "jetson", "Orin-Nano", "gpu-memory", "7.44 GiB", "1.75 GiB", "5.69 GiB", "1.00 GiB", "4.69 GiB"),
        *("unknown", "0.1.0", "60 min", "ok"),
    ]
    assert "\n1 node.\n" in shown


def test_absent_unknown_and_zero_are_three_words() -> None:
    empty = line(page(node("empty", capacity={GPU_MEMORY: "0"})), "empty")
    none = line(page(node("none", capacity={}, labels={"edgeagent.dev/gpu.kind": "none"})), "none")
    young = line(page(node("young", labels={}, capacity={GPU_MEMORY: "1Gi"})), "young")

    assert empty[6:9] == ["0 MiB", "0 MiB", "0 MiB"]
    assert none[1:9] == ["none", "-", "-", "-", "-", "-", "-", "-"]
    assert young[1:6] == ["unknown", "unknown", "gpu-memory", "unknown", "unknown"]


def test_a_node_that_is_not_ours_is_marked() -> None:
    assert line(page(bare("plain")), "plain") == ["plain", "no keys", *["-"] * 11]


def test_each_pool_and_each_problem_has_a_line() -> None:
    capacity = {GPU_MEMORY: "45618Mi", IGPU_MEMORY: "4Gi"}
    stated = {"Ready": ("Unknown", "NodeStatusUnknown"), "GPUMemoryPressure": ("True", "HostMemory")}
    first, second = page(node(capacity=capacity, conditions=stated)).splitlines()[1:3]

    assert first.split()[-3:] == ["Ready", "unknown:", "NodeStatusUnknown"]
    assert second.split()[0] == "igpu-memory"
    assert second.split()[-2:] == ["GPUMemoryPressure:", "HostMemory"]


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        (node(conditions={"Ready": ("False", "KubeletNotReady")}), "NotReady: KubeletNotReady"),
        (node(unschedulable=True), "cordoned"),
        (node(conditions={"GPUUnavailable": ("", "")}), "no GPU conditions"),
        (node(conditions={"GPUUnavailable": ("True", "")}), "GPUUnavailable"),
    ],
)
def test_a_problem_is_said_in_words(obj: dict[str, Any], said: str) -> None:
    assert page(obj).splitlines()[1].endswith(f"  {said}")


def test_an_agent_that_is_not_ready_is_told() -> None:
    assert "0.1.0, not ready" in page(node(), pods=(agent("orin-1", ready="False"),))


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    stated = dict.fromkeys(("GPUMemoryPressure", "GPURuntimeMisconfigured"), ("True", "ARatherLongReason"))
    shown = page(
        node("jetson-orin-nano-17", annotations=OBSERVED, conditions=stated),
        pods=(agent("jetson-orin-nano-17"), refused("big", "0/1 nodes are available: " + "1 Insufficient x, " * 20)),
        width=width,
    )

    assert [row for row in shown.splitlines() if len(row) > width] == []
    assert all(word in shown.splitlines()[0] for word in ("NODE", "FREE", "CONDITIONS"))


def test_what_is_left_out_is_said() -> None:
    narrow, wide = page(node(), width=80), page(node(), width=None)

    assert "PRODUCT" not in narrow.splitlines()[0]
    assert "Too wide for this terminal: " in narrow
    assert "Too wide" not in wide


def test_waiting_pods_stand_below_with_the_schedulers_words() -> None:
    shown = page(node(), pods=(refused("big", "0/1 nodes are available", gpu="6Gi"), pod("new")))

    assert "\nWAITING FOR GPU MEMORY\n" in shown
    assert "  shop/big  asks for 6.00 GiB of gpu-memory, for 10 min\n    0/1 nodes are available\n" in shown
    assert (
        "  shop/new  asks for 1.00 GiB of gpu-memory, for 60 min\n    The scheduler has said nothing so far.\n" in shown
    )


def test_nothing_waits_and_nothing_is_said_of_it() -> None:
    assert "WAITING" not in page(node())


def test_an_empty_fleet_says_so() -> None:
    assert text(fleet([bare()], [], everything=False), NOW, Style(), None) == (
        "No node carries a key of edgeagent.\n\n0 nodes, 1 without a key of edgeagent, which --all shows.\n"
    )


def test_names_of_others_cannot_move_the_cursor() -> None:
    evil = "\x1b[2J\u202eevil\n"
    stated = {"GPUUnavailable": ("True", evil)}
    labels = {**LABELS, "edgeagent.dev/gpu.product": evil}
    shown = page(node(conditions=stated, labels=labels), pods=(refused("big", evil), agent("orin-1", f"e:{evil}")))

    assert not any(sign in shown for sign in "\x1b\u202e")
    assert text(fleet([node(labels=labels)], [], everything=True), NOW, replace(Style(), plain=True), None).isascii()


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "0 s"), (0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"), (172800, "2 d")],
)
def test_an_age_is_short(seconds: float, said: str) -> None:
    assert cells.age(NOW - seconds, NOW) == said


def test_every_column_can_be_sorted_by() -> None:
    assert list(order.COLUMNS) == list(cells.COLUMNS)

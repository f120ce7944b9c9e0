"""Boards on which nothing is unknown: together they have every series and every part of a document."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgeagent.facts.neighbours import Counted, Latency, Neighbour
from edgeagent.facts.vitals import Vitals

from .states import DISCRETE, MIB, NOW, PLAN, shown
from .test_budgets import workloads

if TYPE_CHECKING:
    from edgeagent.serve.shown import Shown

NEIGHBOUR = Neighbour(
    at=NOW,
    namespace="apps",
    name="llm",
    uid="uid-llm",
    cpu_throttled_ratio=0.25,
    cpu_stall_ratio=0.125,
    memory_stall_ratio=0.0,
    io_stall_ratio=0.5,
    gpu_utilization_ratio=0.75,
    latency=Latency(p50_seconds=0.02, p99_seconds=0.08, requests_per_second=12.0, requests=360.0),
    counted=Counted(periods=400, throttled=100, throttled_seconds=2.5),
    stalled={"cpu": 1.5, "memory": 0.0, "io": 4.0},
)
VITALS = Vitals(
    at=NOW,
    power_mode="15W",
    temperatures=(("cpu-thermal", 61.5), ("gpu-thermal", 58.0)),
    throttled=True,
    throttle_reasons=("power-cap",),
    fan_ratio=0.4,
    busy={"#0": 0.75},
)
KNOWN = replace(PLAN, usage=replace(PLAN.usage, unattributed_gpu=7 * MIB))


def beside(now: float = NOW) -> dict[str, Any]:
    """What is kept beside the sample, read at ``now``."""
    neighbour = replace(NEIGHBOUR, at=now)
    return {"peaks": workloads(), "neighbours": {neighbour.uid: neighbour}, "vitals": replace(VITALS, at=now)}


def whole() -> dict[str, Shown]:
    """A unified board and one with discrete cards."""
    return {"unified": shown(plan=KNOWN, **beside()), "discrete": shown(plan=DISCRETE, **beside())}

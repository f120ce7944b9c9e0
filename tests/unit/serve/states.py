"""A small board as the agent would show it, every figure written down by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from edgeagent.config import Reserves
from edgeagent.facts import GPU_MEMORY, ContainerFacts, PodFacts
from edgeagent.facts.neighbours import Counted, Effect, Figures, Latency, Neighbour
from edgeagent.facts.vitals import Vitals
from edgeagent.memory.types import Board, Budget, ContainerUse, Device, PodUse, Pool, Reserve, Usage
from edgeagent.plan.breaches import PodView
from edgeagent.plan.pressure import Danger
from edgeagent.plan.types import Event, Finding, GpuPath, Held, NodeWish, Plan
from edgeagent.serve.histogram import Distribution
from edgeagent.serve.shown import (
    ClusterHealth,
    ConfigHealth,
    Cost,
    Counters,
    LoopHealth,
    ReadingHealth,
    Shown,
)

MIB = 1024**2
NOW = 1000.0
"""Monotonic second at which ``shown()`` is fresh in every part."""
WALL = 1_700_000_000.0


def budget(gpu: int | None, total: int | None = None) -> Budget:
    return Budget(gpu=gpu, source="limit" if gpu is not None else "none", total=total)


def view(name: str, *, gpu: int | None, host: int | None, limit: int | None, state: Any = "ok", **more: Any) -> PodView:
    pod = PodFacts(
        namespace="apps",
        name=name,
        uid=f"uid-{name}",
        phase="Running",
        containers=(ContainerFacts(name="main", kind="regular"),),
    )
    use = PodUse(gpu={GPU_MEMORY: gpu}, host=host, containers={"main": ContainerUse(gpu=gpu, host=host)})
    given = {GPU_MEMORY: budget(limit, None if limit is None else limit + 1024 * MIB)}
    return PodView(pod=pod, budgets=given, use=use, state=state, **more)


BOARD = Board(
    kind="jetson",
    unified=True,
    signals=("device-tree", "nvmap"),
    product='Orin "Nano"\\devkit',
    soc="tegra234",
    l4t="36.4.4",
    devices=(Device(uuid=None, name="tegra234", memory="unified", health="ok", tegra=True),),
)
POOL = Pool(
    resource=GPU_MEMORY,
    kind="unified",
    devices=(None,),
    total=7607 * MIB,
    reserves=(Reserve("os", 768 * MIB, "default"), Reserve("k3s", 512 * MIB, "default")),
    host_committed=1024 * MIB,
    gpu_committed=2048 * MIB,
    foreign_committed=0,
    admitted=2048 * MIB,
    computed=5303 * MIB,
)
PLAN = Plan(
    board=BOARD,
    pools=(POOL,),
    advertised={GPU_MEMORY: 5303 * MIB},
    available=900 * MIB,
    usage=Usage(
        pods={},
        system_gpu=64 * MIB,
        unattributed_gpu=None,
        leaving=0,
        gpu_total={GPU_MEMORY: 3000 * MIB},
    ),
    danger=Danger(usable=700 * MIB, floor=128 * MIB, critical=64 * MIB, drop=0.0, active=False, by_floor=False, need=0),
    pods=(
        view("idle", gpu=0, host=20 * MIB, limit=None),
        view("llm", gpu=2900 * MIB, host=500 * MIB, limit=2048 * MIB, state="breach", reason="too much", breach="gpu"),
        view("odd", gpu=None, host=None, limit=1024 * MIB, state="unknown", reason="not known"),
    ),
    listed=True,
    node=NodeWish(capacity={GPU_MEMORY: "5303Mi"}, labels={}, conditions=(), requests=()),
    evictions=(),
    kills=(),
    held=(Held(uid="uid-llm", code="grace", seconds_left=9.0, why="over for 6 of 15 s"),),
    events=(Event(reason="MemoryBudgetExceeded", kind="Pod", namespace="apps", name="llm", uid="uid-llm", note="n"),),
    findings=(
        Finding(id="cgroup-v1", severity="info", certainty="certain", subject="node n", summary="s", evidence=("e",)),
    ),
    observe="",
    gpu_path=GpuPath(proven=True, why="A pod was seen using the GPU since the board started."),
)
DISCRETE = replace(
    PLAN,
    board=replace(
        BOARD,
        kind="discrete",
        unified=False,
        devices=(
            Device(
                uuid="GPU-1",
                name="L4",
                memory="discrete",
                health="ok",
                total_bytes=23034 * MIB,
                reserved_bytes=500 * MIB,
            ),
            Device(uuid=None, name="L4", memory="discrete", health="lost"),
        ),
    ),
    pools=(replace(POOL, kind="discrete", devices=("GPU-1",)),),
)

READINGS = {
    "meminfo": ReadingHealth(succeeded_at=NOW, max_age=10.0, feeds=frozenset({"memory"})),
    "nvmap": ReadingHealth(succeeded_at=NOW - 1, max_age=10.0, feeds=frozenset({"gpu"})),
    "cgroups": ReadingHealth(succeeded_at=NOW, max_age=10.0, feeds=frozenset({"host"})),
    "nvml": ReadingHealth(succeeded_at=NOW, max_age=10.0, feeds=frozenset({"devices"})),
}
NEIGHBOUR = Neighbour(
    at=NOW,
    namespace="apps",
    name="llm",
    uid="uid-llm",
    cpu_throttled_ratio=0.25,
    cpu_stall_ratio=0.5,
    memory_stall_ratio=0.0,
    io_stall_ratio=None,
    gpu_utilization_ratio=0.75,
    latency=Latency(p50_seconds=0.05, p99_seconds=0.2, requests_per_second=2.0, requests=30.0),
    since_newcomer=Effect(
        pod="apps/odd",
        seconds=61.25,
        before=Figures(p50_seconds=0.04, cpu_throttled_ratio=0.0),
        after=Figures(p50_seconds=0.05, cpu_throttled_ratio=0.25),
    ),
    counted=Counted(periods=200, throttled=50, throttled_seconds=2.5),
    stalled={"cpu": 12.5, "memory": 0.0},
)
VITALS = Vitals(
    at=NOW,
    power_mode="MAXN_SUPER",
    temperatures=(("cpu-thermal", 49.781), ("cv0-thermal", None)),
    throttled=True,
    throttle_reasons=("over-current-oc3",),
    fan_ratio=0.4,
    busy={"tegra": 0.413},
)
CLUSTER = ClusterHealth(node="n", complete=True, fresh_at=NOW, succeeded_at=NOW - 3, published=True)


def shown(**changes: Any) -> Shown:
    """Everything well at NOW, but for ``changes``."""
    whole = Shown(
        plan=PLAN,
        at=NOW,
        max_age=10.0,
        settings=Reserves(),
        config=ConfigHealth(digest="abc123"),
        loops={"cycle": LoopHealth(beat_at=NOW, allowed=30.0), "watch": LoopHealth(beat_at=NOW - 20, allowed=90.0)},
        readings=READINGS,
        cluster=CLUSTER,
        counters=Counters(
            cycles=7,
            cycle_seconds=Distribution((0.5, 1.0), (6, 1, 0), 1.25),
            late_seconds=Distribution((0.5, 1.0), (7, 0, 0), 0.25),
            evictions={("gpu", "accepted"): 2},
            kills={"killed": 3},
            api_calls={("PATCH", "200"): 1},
        ),
        cost=Cost(resident_bytes=40 * MIB, cpu_seconds=1.5, open_files=20, threads=3, started=NOW - 100),
        neighbours={NEIGHBOUR.uid: NEIGHBOUR},
        vitals=VITALS,
    )
    return replace(whole, **changes)


def reading(name: str, **changes: Any) -> dict[str, ReadingHealth]:
    """READINGS with one of them changed."""
    return {**READINGS, name: replace(READINGS[name], **changes)}


def cluster(**changes: Any) -> ClusterHealth:
    return replace(CLUSTER, **changes)

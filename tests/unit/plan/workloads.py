"""Plans of which only who holds how much is of interest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY, ContainerFacts, MemoryKind, PodFacts
from edgeagent.memory.types import Board, Budget, ContainerUse, PodUse, Pool, Usage
from edgeagent.plan import advice as advising
from edgeagent.plan import peaks as peaking
from edgeagent.plan.advice import Advice
from edgeagent.plan.breaches import PodView
from edgeagent.plan.peaks import Peaks, Workload
from edgeagent.plan.peaktime import HOUR
from edgeagent.plan.pressure import Danger
from edgeagent.plan.types import GpuPath, NodeWish, Plan

MIB = 1024**2
GIB = 1024**3
MAX_AGE = 10.0
EVERY = 2.0
WALL = 1_790_000_000.0
"""A plausible Unix time at monotonic second 0."""
LLM = Workload("apps", "Deployment", "llm", "main")


def pool(resource: str = GPU_MEMORY, kind: MemoryKind = "unified") -> Pool:
    return Pool(
        resource=resource,
        kind=kind,
        devices=(None,),
        total=8 * GIB,
        reserves=(),
        host_committed=0,
        gpu_committed=0,
        foreign_committed=0,
        admitted=0,
        computed=8 * GIB,
    )


UNIFIED = (pool(),)
DISCRETE = (pool(kind="discrete"),)
MIXED = (pool(kind="discrete"), pool(IGPU_MEMORY))


def view(
    name: str = "llm-7f9c-x",
    gpu: int | None = 0,
    host: int | None = 0,
    *,
    limits: Mapping[str, int] | None = None,
    by_pool: Mapping[str, int | None] | None = None,
    containers: Mapping[str, tuple[int | None, int | None]] | None = None,
    exact: bool = True,
    budgets: Mapping[str, Budget] | None = None,
    **fields: Any,
) -> PodView:
    """A pod of the Deployment ``llm`` with one container, ``main``; ``containers`` names others with (GPU, host)."""
    breach = fields.pop("breach", None)
    limited, used = limits or {}, containers or {"main": (gpu, host)}
    given: dict[str, Any] = {"namespace": "apps", "uid": f"uid-{name}", "phase": "Running"}
    given |= {"owner": ("ReplicaSet", "llm-7f9c")}
    given |= {"containers": tuple(ContainerFacts(name=one, kind="regular", limits=limited) for one in used)}
    pools = dict(by_pool) if by_pool is not None else {GPU_MEMORY: gpu}
    limit = limited.get(GPU_MEMORY)
    found = {resource: Budget(gpu=None, source="none") for resource in pools}
    found |= {GPU_MEMORY: Budget(gpu=limit, source="none" if limit is None else "limit")}
    return PodView(
        pod=PodFacts(name=name, **{**given, **fields}),
        budgets=budgets or found,
        use=PodUse(
            gpu=pools,
            host=host,
            host_exact=exact,
            containers={one: ContainerUse(*held) for one, held in used.items()},
        ),
        state="ok" if breach is None else "breach",
        breach=breach,
    )


def plan(*views: PodView, pools: tuple[Pool, ...] = UNIFIED) -> Plan:
    return Plan(
        board=Board(kind="jetson", unified=True, signals=(), product=None),
        pools=pools,
        advertised={},
        available=None,
        usage=Usage(pods={}, system_gpu=0, unattributed_gpu=0, leaving=0, gpu_total={}),
        danger=Danger(usable=None, floor=0, critical=0, drop=0.0, active=False, by_floor=False, need=0),
        pods=views,
        listed=True,
        node=NodeWish(capacity={}, labels={}, conditions=(), requests=()),
        evictions=(),
        kills=(),
        held=(),
        events=(),
        findings=(),
        observe="",
        gpu_path=GpuPath(proven=None, why="not looked at"),
    )


def fold(before: Peaks, found: Plan, at: float, wall: float | None = None) -> Peaks:
    """One more sample; the wall clock is right unless one is given."""
    return peaking.fold(before, found, at, WALL + at if wall is None else wall, MAX_AGE)


def watched(found: Plan, seconds: float, before: Peaks | None = None) -> Peaks:
    """The peaks after as many seconds of one plan, seen as seldom as still counts as watching."""
    peaks = before or Peaks()
    start = peaks.time.at or 0.0
    for step in range(int(seconds // MAX_AGE) + 1):
        peaks = fold(peaks, found, start + step * MAX_AGE)
    return peaks


def peak(peaks: Peaks, who: Workload = LLM, resource: str = GPU_MEMORY, hours: int = 24) -> int | None:
    """The GPU peak of a container; None where nothing is known."""
    record = peaks.records.get(who)
    course = record.gpu.get(resource) if record else None
    return course.peak(peaks.time.hour, hours) if course else None


def host_peak(peaks: Peaks, who: Workload = LLM, hours: int = 24) -> int | None:
    record = peaks.records.get(who)
    return record.host.peak(peaks.time.hour, hours) if record else None


def advised(found: Plan, seconds: float = 25 * HOUR, before: Peaks | None = None) -> Advice:
    """The advice on the only container, after one plan that was watched for so long, and others ``before``."""
    peaks = fold(before or Peaks(), found, 1000.0)
    records = {
        who: one._replace(
            gpu={name: course._replace(watched=seconds) for name, course in one.gpu.items()},
            host=one.host._replace(watched=seconds),
        )
        for who, one in peaks.records.items()
    }
    (one,) = advising.advice(replace(peaks, records=records), found)
    return one

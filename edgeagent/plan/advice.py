"""What to write into a workload: from the peaks of its containers a budget for each, and the sentences that say why.

A figure is the peak of the week and what varies between runs, rounded up. A budget is lowered only after a day of
watching and if much of it is free, and never while a pod of the workload is over its budget.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from edgeagent.memory.requests import MEMORY, WHOLE_BOARD_MARGIN, host_part
from edgeagent.plan.peaks import DAY_HOURS, WEEK_HOURS, Course, Peaks, Record, Workload, running, workload
from edgeagent.plan.peaktime import DAY, HOUR
from edgeagent.quantity import MIB, ceil_mib, human, mib

if TYPE_CHECKING:
    from edgeagent.plan.breaches import PodView
    from edgeagent.plan.types import Plan

MARGIN_PERCENT = 10
"""Of the peak, for what varies between runs: batches, fragments of the allocator, kernels that are loaded late."""
_ROOMY = 4
"""A budget of which no more than a quarter is free, margin aside, is not worth a roll-out."""


class Grain(NamedTuple):
    """How a figure is rounded, in bytes."""

    least: int
    """Of margin. The CUDA context is in the peak already; a library that is loaded at the next request is not."""
    unit: int


GPU = Grain(64 * MIB, 64 * MIB)
HOST = Grain(32 * MIB, 32 * MIB)

_Rule = Literal["unknown", "idle", "raise", "unfit", "roomy", "over", "early", "lower"]
"""What a recommendation follows from.

``unknown`` no figure · ``idle`` no GPU memory was held · ``raise`` there is no budget, or a smaller one · ``unfit`` the
same, and the pool has not so much · ``roomy`` the budget fits · ``over`` a pod is over its budget now · ``early`` it
was not watched for a day · ``lower`` it is too large
"""


class Amounts(NamedTuple):
    """One memory of a container, in bytes; None is unknown, or no budget."""

    peak_day: int | None = None
    peak_week: int | None = None
    budget: int | None = None
    recommended: int | None = None
    rule: _Rule = "unknown"


class Advice(NamedTuple):
    """What to write into one container of a workload."""

    of: Workload
    pods: tuple[str, ...]
    """Names of those that live now."""
    pools: Mapping[str, Amounts]
    """GPU memory by pool resource. One of several that it held nothing of and has no budget for is left out."""
    host: Amounts
    """Beside the GPU memory. The budget is the host part of the memory limit."""
    shared: int | None
    """What is recommended of GPU memory that stands in ``memory``, because it is the host's; 0 on cards."""
    memory: int | None
    """What ``memory`` has to say; None: not known."""
    observed: float
    """Seconds for which the container was watched."""

    @property
    def gpu(self) -> Amounts:
        """That of its only pool; nothing is known where it has two."""
        return next(iter(self.pools.values())) if len(self.pools) == 1 else Amounts()

    @property
    def write(self) -> dict[str, str]:
        """Resource to quantity, for requests and limits; what is not known, and 0, is not in it."""
        wanted = {name: one.recommended for name, one in self.pools.items()} | {MEMORY: self.memory}
        return {name: mib(ceil_mib(amount)) for name, amount in wanted.items() if amount}

    @property
    def why(self) -> str:
        """Sentences."""
        return " ".join(_sentences(self))


def advice(peaks: Peaks, plan: Plan | None) -> tuple[Advice, ...]:
    """By namespace, owner and container. ``plan``: the pods that live now; None: not known."""
    views: dict[Workload, list[PodView]] = defaultdict(list)
    for view in plan.pods if plan else ():
        for container in running(view.pod):
            views[workload(view.pod, container.name)].append(view)
    found = (_advice(who, one, peaks, views.get(who, [])) for who, one in sorted(peaks.records.items()))
    return tuple(one for one in found if one is not None)


def documents(found: tuple[Advice, ...]) -> list[dict[str, Any]]:
    """As the API tells them."""
    return [
        {
            "namespace": one.of.namespace,
            "owner": {"kind": one.of.kind, "name": one.of.name},
            "container": one.of.container,
            "pods": list(one.pods),
            "gpu": _document(one.gpu),
            "pools": [{"resource": resource, **_document(amounts)} for resource, amounts in one.pools.items()],
            "host": _document(one.host),
            "write": one.write,
            "observed_seconds": int(one.observed),
            "why": one.why,
        }
        for one in found
    ]


def _document(amounts: Amounts) -> dict[str, int | None]:
    return {
        "peak_day_bytes": amounts.peak_day,
        "peak_week_bytes": amounts.peak_week,
        "budget_bytes": amounts.budget,
        "recommended_bytes": amounts.recommended,
    }


# --- the figures -------------------------------------------------------------------------


def _advice(who: Workload, record: Record, peaks: Peaks, views: list[PodView]) -> Advice | None:
    hour = peaks.time.hour
    over = any(view.breach is not None for view in views)
    pools = {
        name: _amounts(record.gpu.get(name, Course()), hour, record.gpu_budgets.get(name), GPU, over=over)
        for name in sorted({*record.gpu, *record.gpu_budgets})
    }
    pools = {name: _within(one, 0, peaks.room.get(name)) for name, one in pools.items()}
    gpu = _beside(peaks.shared, pools)
    limit = record.memory_limit
    part = None if limit is None else host_part(limit, gpu.budget or 0)
    host = _amounts(record.host, hour, part, HOST, over=over)
    if not views and all(one.peak_week is None for one in (host, *pools.values())):
        return None  # all of it is forgotten
    if gpu.recommended and host.recommended is not None:
        # Less, and a figure for both would not be read as one.
        host = host._replace(recommended=max(host.recommended, WHOLE_BOARD_MARGIN))
    if peaks.shared:
        room = peaks.room.get(peaks.shared[0])
        gpu, host = _within(gpu, host.recommended or 0, room), _within(host, gpu.recommended or 0, room)
        pools |= {name: gpu for name in peaks.shared[:1] if name in pools}
    used = {name: one for name, one in pools.items() if one.budget is not None or one.peak_week != 0}
    return Advice(
        of=who,
        pods=tuple(sorted(view.pod.name for view in views)),
        pools=used or (pools if len(pools) == 1 else {}),
        host=host,
        shared=gpu.recommended,
        memory=_memory(
            gpu.recommended, host.recommended, limit, peaks.room.get(peaks.shared[0]) if peaks.shared else None
        ),
        # As long as the figure that was known for the shortest time, of those that were known.
        observed=min((course.watched for course in (*record.gpu.values(), record.host) if course.steps), default=0.0),
    )


def _beside(shared: tuple[str, ...], pools: Mapping[str, Amounts]) -> Amounts:
    """The GPU memory that ``memory`` has to contain: that of the pool which shares its memory with the host, if any."""
    return pools.get(shared[0], Amounts()) if shared else Amounts(recommended=0)


def _memory(gpu: int | None, host: int | None, limit: int | None, room: int | None) -> int | None:
    """What ``memory`` has to say, for GPU and host together; the ``limit`` there is, where the pool has not so much."""
    if gpu is None or host is None:
        return None
    return gpu + host if room is None or gpu + host <= room else limit


def _within(amounts: Amounts, beside: int, room: int | None) -> Amounts:
    """``amounts``, or the budget there is where that does not fit ``beside`` other bytes.

    A pod that asks for more than its node ever has is Pending for good.
    """
    wanted = amounts.recommended
    if room is None or wanted is None or wanted + beside <= room or wanted <= (amounts.budget or 0):
        return amounts
    return amounts._replace(recommended=amounts.budget, rule="unfit")


def _amounts(course: Course, hour: int, budget: int | None, grain: Grain, *, over: bool) -> Amounts:
    day, week = course.peak(hour, DAY_HOURS), course.peak(hour, WEEK_HOURS)
    if week is None:
        return Amounts(budget=budget)
    if week == 0 and grain is GPU:
        return Amounts(day, week, budget, budget or 0, "idle")
    needed = _needed(week, grain)
    rule = _rule(budget, needed, course.watched, over=over)
    return Amounts(day, week, budget, needed if rule in ("raise", "lower") else budget, rule)


def _needed(peak: int, grain: Grain) -> int:
    return -(-(peak + _margin(peak, grain)) // grain.unit) * grain.unit


def _margin(peak: int, grain: Grain) -> int:
    return max(-(-peak * MARGIN_PERCENT // 100), grain.least)


def _rule(budget: int | None, needed: int, watched: float, *, over: bool) -> _Rule:
    if budget is None or needed > budget:
        return "raise"
    if (budget - needed) * _ROOMY <= budget:
        return "roomy"
    if over:
        return "over"
    return "early" if watched < DAY else "lower"


# --- the sentences -----------------------------------------------------------------------


def _sentences(one: Advice) -> Iterator[str]:
    if one.observed < HOUR:
        yield f"Suspected: watched for {int(one.observed // 60)} min only."
    for amounts in one.pools.values():
        yield _told("GPU memory", amounts, GPU)
    yield _told("Host memory", one.host, HOST)
    if one.memory is None:
        yield "What `memory` should be is not known."
    elif one.shared and one.memory == one.shared + (one.host.recommended or 0):
        yield (
            f"CPU and GPU share this board's memory, so `memory` is both: "
            f"{human(one.shared)} + {human(one.host.recommended)}."
        )
        if one.host.recommended == WHOLE_BOARD_MARGIN:
            yield f"It is at least {human(WHOLE_BOARD_MARGIN)} more than the GPU memory, or it is not read as both."


def _told(what: str, amounts: Amounts, grain: Grain) -> str:
    peak, budget = amounts.peak_week, human(amounts.budget)
    if peak is None:
        return f"{what}: not known."
    if amounts.rule == "idle":
        return f"{what}: none was held" + (f", out of a budget of {budget}." if amounts.budget else ".")
    sums = (
        f"{what}: the peak of {human(peak)} and a margin of {human(_margin(peak, grain))}, "
        f"in whole {human(grain.unit)}, make {human(_needed(peak, grain))}"
    )
    rest = {
        "raise": "there is no budget" if amounts.budget is None else f"the budget of {budget} is less",
        "unfit": "this does not fit this pool" + (f", so the budget of {budget} stays" if amounts.budget else ""),
        "roomy": f"the budget of {budget} has room, and not too much of it",
        "over": f"the budget of {budget} stays, because a pod is over its budget now",
        "early": f"the budget of {budget} stays, because none is lowered before a day of watching",
        "lower": f"the budget of {budget} is more than it needs",
    }
    return f"{sums}; {rest[amounts.rule]}."

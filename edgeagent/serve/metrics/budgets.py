"""Workloads that use the GPU: the most that each held lately, and what to write into it.

They outlive pods and samples, so they are told however old the last sample is. Of workloads without GPU memory nothing
is told here: they are most of a board's, and ``/api/v1/budgets`` has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgeagent.plan.advice import Amounts, advice
from edgeagent.plan.peaks import holding
from edgeagent.serve.metrics.families import Families, Moment, gauge

_WORKLOAD = ("namespace", "owner_kind", "owner", "container")
_Pools = list[tuple[Sequence[str], Amounts]]


def families(moment: Moment) -> Families:
    """Peaks, budgets, advice, and for how long somebody watched."""
    found = advice(holding(moment.shown.peaks), moment.shown.plan)
    pools: _Pools = [((*one.of, resource), amounts) for one in found for resource, amounts in one.pools.items()]
    about = "The most GPU memory that a container of a workload held in the window."
    yield gauge("workload_gpu_peak_bytes", about, _peaks(pools), *_WORKLOAD, "pool", "window")
    host: _Pools = [(one.of, one.host) for one in found]
    about = "The most host memory that it held in the window, page cache excepted."
    yield gauge("workload_host_peak_bytes", about, _peaks(host), *_WORKLOAD, "window")
    budgets = [(labels, amounts.budget) for labels, amounts in pools]
    yield gauge("workload_gpu_budget_bytes", "GPU memory that it may use.", budgets, *_WORKLOAD, "pool")
    wanted = [(labels, amounts.recommended) for labels, amounts in pools]
    about = "GPU memory that should be written as its budget."
    yield gauge("workload_recommended_gpu_bytes", about, wanted, *_WORKLOAD, "pool")
    about = "What should be written as its memory: where the GPU shares the host's, both together."
    memory = [(one.of, one.memory) for one in found]
    yield gauge("workload_recommended_memory_bytes", about, memory, *_WORKLOAD)
    watched = [(one.of, one.observed) for one in found]
    yield gauge("workload_watched_seconds", "For how long its memory was known.", watched, *_WORKLOAD)


def _peaks(rows: _Pools) -> Iterator[tuple[Sequence[str], float | None]]:
    for labels, amounts in rows:
        yield (*labels, "1d"), amounts.peak_day
        yield (*labels, "7d"), amounts.peak_week

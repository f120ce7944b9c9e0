"""A histogram between two scrapes: quantiles as PromQL's ``histogram_quantile`` has them, and requests per second.

https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import inf

from edgeagent.facts.neighbours import Latency

Series = tuple[tuple[str, str], ...]
"""The labels of one series beside ``le``, sorted."""
Buckets = Mapping[Series, Mapping[float, float]]
"""Observations up to each bound, by series."""

_UNITS = {"_milliseconds": 1e-3, "_ms": 1e-3, "_microseconds": 1e-6, "_us": 1e-6}
"""Units that a name ends with, in seconds; by convention it is seconds itself."""


def since(before: Buckets, now: Buckets) -> dict[float, float] | None:
    """Observations up to each bound since ``before``, of all series together; None after a restart.

    A series that was not there before has counted from 0 since then.
    """
    if not before.keys() <= now.keys():
        return None
    together: dict[float, float] = {}
    for series, bounds in now.items():
        earlier = before.get(series, {})
        for bound, count in bounds.items():
            more = count - earlier.get(bound, 0.0)
            if more < 0:
                return None
            together[bound] = together.get(bound, 0.0) + more
    return together


def quantile(share: float, buckets: Mapping[float, float]) -> float | None:
    """The value below which ``share`` of the observations lie, as if they lay evenly within a bucket.

    Beyond the last finite bound it is that bound. None without an observation, or without the bucket of all.
    """
    cumulative: list[tuple[float, float]] = []
    for bound, count in sorted(buckets.items()):  # what is below a bound is below the next one, too
        cumulative.append((bound, max(count, cumulative[-1][1] if cumulative else 0.0)))
    if len(cumulative) < 2 or cumulative[-1][0] != inf or cumulative[-1][1] == 0:  # noqa: PLR2004 (a bucket beside that of all)
        return None
    rank = share * cumulative[-1][1]
    first, total = cumulative[0]
    if total >= rank and first <= 0:
        return first
    for (low, below), (high, count) in pairwise([(0.0, 0.0), *cumulative]):
        if count >= rank and high != inf:
            return low + (high - low) * (rank - below) / (count - below)
    return cumulative[-2][0]


def latency(metric: str, before: Buckets, now: Buckets, seconds: float) -> Latency | None:
    """What the histogram ``metric`` says of the ``seconds`` between two scrapes; None after a restart."""
    buckets = since(before, now)
    if buckets is None or inf not in buckets or seconds <= 0:
        return None
    unit = next((unit for end, unit in _UNITS.items() if metric.endswith(end)), 1.0)
    p50, p99 = (quantile(share, buckets) for share in (0.5, 0.99))
    return Latency(
        p50_seconds=None if p50 is None else p50 * unit,
        p99_seconds=None if p99 is None else p99 * unit,
        requests_per_second=buckets[inf] / seconds,
        requests=buckets[inf],
    )

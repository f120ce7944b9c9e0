"""What families of series are made of, and from what.

A module with families has a function ``families``, which stands in one of the two lists of ``page``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from edgeagent.plan.types import Plan
from edgeagent.serve.histogram import Distribution
from edgeagent.serve.shown import Feed, Shown

Row = tuple[Sequence[str], float | None]
"""Label values and value. A value of None leaves the series out."""
Rows = Iterable[Row]

POD = ("namespace", "pod", "pod_uid")


class Series(NamedTuple):
    """Series that differ in the values of their labels alone."""

    name: str
    labels: Sequence[str]
    rows: Sequence[Row]


class Family(NamedTuple):
    """Series with one meaning."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    about: str
    series: tuple[Series, ...]


Families = Iterator[Family]


@dataclass(frozen=True, slots=True)
class Moment:
    """What is shown, at one time."""

    shown: Shown
    now: float
    """Monotonic seconds."""
    wall: float
    """The same, in Unix seconds."""

    def unix(self, at: float | None) -> float | None:
        """A monotonic time in Unix seconds; None for what never was."""
        return None if at is None or math.isinf(at) else self.wall - (self.now - at)


@dataclass(frozen=True, slots=True)
class Sample:
    """A plan that is fresh, and what of it may not be told all the same."""

    shown: Shown
    plan: Plan
    stale: frozenset[Feed]


def gauge(name: str, about: str, rows: Rows, *labels: str) -> Family:
    """A family of values that rise and fall; ``name`` without the prefix."""
    return plain(f"edgeagent_{name}", "gauge", about, rows, *labels)


def counter(name: str, about: str, rows: Rows, *labels: str) -> Family:
    """A family of values that only rise; ``name`` without the prefix, and without the ``_total`` it is shown with."""
    return plain(f"edgeagent_{name}_total", "counter", about, rows, *labels)


def plain(name: str, kind: Literal["gauge", "counter"], about: str, rows: Rows, *labels: str) -> Family:
    """A family whose series are called as it is, by its whole name."""
    return Family(name, kind, about, (Series(name, labels, [row for row in rows if row[1] is not None]),))


def histogram(name: str, about: str, counted: Distribution) -> Family:
    """A family of one distribution; ``name`` without the prefix. It has no series where nothing is counted."""
    whole = f"edgeagent_{name}"
    if not counted.bounds:
        return Family(whole, "histogram", about, ())
    buckets = [((bound,), count) for bound, count in counted.cumulated()]
    series = (
        Series(f"{whole}_bucket", ("le",), buckets),
        Series(f"{whole}_sum", (), [((), counted.total)]),
        Series(f"{whole}_count", (), [((), sum(counted.counts))]),
    )
    return Family(whole, "histogram", about, series)


def counts(values: Iterable[str], known: Iterable[str] = ()) -> Rows:
    """How often each value is there, as rows of one label; 0 for those of ``known`` that are not."""
    return [((value,), count) for value, count in sorted({**dict.fromkeys(known, 0), **Counter(values)}.items())]

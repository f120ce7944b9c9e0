"""How long something took, each time: counted in a few buckets, so that it costs the same after a year."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Bounds from a cycle that only looks at the memory to one that a restart is due for."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """What was counted up to one moment."""

    bounds: Sequence[float] = ()
    """Upper ends of the buckets, which they include; one more without an end follows. Empty: nothing is counted."""
    counts: tuple[int, ...] = ()
    """Values in each bucket; that without an end is the last."""
    total: float = 0.0
    """Sum of all values."""

    def cumulated(self) -> list[tuple[str, int]]:
        """Upper end and number of values up to it, as Prometheus wants them."""
        return list(zip([*map(str, self.bounds), "+Inf"], accumulate(self.counts), strict=True))


class Histogram:
    """Counts values into buckets with these upper ends, in rising order."""

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def taken(self) -> Distribution:
        """What was counted up to now."""
        return Distribution(self._bounds, tuple(self._counts), self._total)

"""Medians and spreads, printed one line each."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Figure:
    """Some measurements of one thing, and the goal that they are held against."""

    name: str
    unit: str
    values: Sequence[float]
    goal: str

    def line(self) -> str:
        """Median, 95th percentile and extremes."""
        ordered = sorted(self.values)
        at95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
        spread = f"min {ordered[0]:.1f}  p95 {at95:.1f}  max {ordered[-1]:.1f}  n {len(ordered)}"
        return f"{self.name:<44} {statistics.median(ordered):8.1f} {self.unit:<4} {spread:<46} goal {self.goal}"

"""What an answer is made from."""

from __future__ import annotations

from dataclasses import dataclass

from edgeagent.plan import describing
from edgeagent.serve.shown import Shown


@dataclass(frozen=True, slots=True)
class Look:
    """The state, and the present time twice: the monotonic second and the Unix time."""

    shown: Shown | None
    now: float
    wall: float
    verbose: bool = False
    """Everything that was checked is wanted."""
    excluded: frozenset[str] = frozenset()
    """Names of checks that are not to count."""
    lines: bool = False
    """The answer of a health path is wanted as lines of text."""
    streams: int = 0
    """Live views that are open."""

    def time(self, at: float) -> str:
        """A monotonic second as RFC 3339, in UTC."""
        return describing.stamp(self.wall - (self.now - at))

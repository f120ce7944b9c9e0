"""The time that peaks are counted in: seconds of this board, over restarts, whatever its clock says.

A board may boot in 1970, or in 2099, until somebody sets its clock. So its own seconds go on where they were left, and
the wall clock counts for one thing alone: how long the board was off, a day at most. A jump of it ages a peak by a day,
once per boot; a board that is off for weeks forgets its peaks a few boots later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from edgeagent.plan.decide import PLAUSIBLE_WALL

HOUR = 3600.0
DAY = 24 * HOUR


class Known(NamedTuple):
    """A moment by both clocks: Unix time, and seconds of the board."""

    wall: float
    seconds: float


@dataclass(frozen=True, slots=True)
class BoardTime:
    """The last moment that was looked at."""

    seconds: float = 0.0
    """Of the board."""
    at: float | None = None
    """Monotonic second of this boot; None: nothing was looked at in this boot."""
    known: Known | None = None
    """The last moment at which the wall clock was set."""
    ended: Known | None = None
    """That of the earlier boot which this time was taken over from."""
    off: float = 0.0
    """Seconds that the board is taken to have been off between the two."""

    @property
    def hour(self) -> int:
        """The whole hours of it."""
        return int(self.seconds // HOUR)


def rebooted(time: BoardTime) -> BoardTime:
    """``time`` as it is taken up in another boot."""
    return BoardTime(time.seconds, None, time.known, time.known)


def moved(time: BoardTime, at: float, wall: float) -> BoardTime:
    """``time`` at monotonic second ``at``, which is Unix time ``wall`` if that clock is set."""
    seconds = time.seconds + (max(0.0, at - time.at) if time.at is not None else 0.0)
    if wall < PLAUSIBLE_WALL:
        return BoardTime(seconds, at, time.known, time.ended, time.off)
    off = time.off
    if time.ended is not None:
        # The clock may be set late in a boot, so what it says of the time before is looked at again and again.
        missing = (wall - time.ended.wall) - (seconds - time.ended.seconds - time.off)
        off = max(off, min(missing, DAY))
    seconds += off - time.off
    return BoardTime(seconds, at, Known(wall, seconds), time.ended, off)

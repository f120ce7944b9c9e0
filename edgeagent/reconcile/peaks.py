"""Keeps the peaks of workloads over a restart: read at the start, written now and then in the background.

Nothing waits for the disk, and flash wears out: a new peak is written after five minutes at the earliest, hours that
went by without one every quarter of an hour, and all of it when the agent is stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.plan import peakfile, peaks
from edgeagent.plan.peaks import Peaks
from edgeagent.system import statefile

if TYPE_CHECKING:
    from edgeagent.plan.keeping import Origin
    from edgeagent.plan.types import Plan

log = logging.getLogger(__name__)

SOONEST = 300.0
"""Seconds from one write to the next."""
LATEST = 900.0
"""The same where no figure is higher than before."""


class PeakKeeper:
    """The peaks of one run, and of those before it.

    Args:
        folder: the state directory; None: nothing is kept.
        clock: monotonic seconds since boot.
        wall: Unix time.

    Attributes:
        peaks: as they are after the last plan.
    """

    def __init__(self, folder: Path | None, *, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self.peaks = Peaks()
        self._folder = folder
        self._clock = clock
        self._wall = wall
        self._origin: Origin | None = None
        self._written = self.peaks
        self._tried_at = clock()
        self._problem = ""
        self._task: asyncio.Task[None] | None = None

    async def open(self, origin: Origin) -> None:
        """Take up what an earlier run has left."""
        self._origin = origin
        if self._folder is None:
            return
        await asyncio.to_thread(statefile.tidy, self._folder, statefile.PEAKS)
        document = await asyncio.to_thread(statefile.read, self._folder, statefile.PEAKS)
        if document is None:
            return
        self.peaks, ignored = peakfile.restored(document, origin, self._clock())
        self._written = self.peaks
        if ignored:
            log.warning("%s is not used: %s", self._folder / statefile.PEAKS, ignored)

    def saw(self, plan: Plan, read_at: float, max_age: float) -> None:
        """Take in one more plan, whose sample was taken at ``read_at``; one that is as old as ``max_age`` is none."""
        now = self._clock()
        if now - read_at <= max_age:
            # The sample is a little older than the present Unix time.
            self.peaks = peaks.fold(self.peaks, plan, read_at, self._wall() - (now - read_at), max_age)
        since = now - self._tried_at
        if since >= LATEST or (since >= SOONEST and peakfile.higher(self._written, self.peaks)):
            self._save()

    async def close(self) -> None:
        """Write what there is, as well as it can be done at once."""
        if self._task is not None:
            await self._task
        self._save()
        if self._task is not None:
            await self._task

    def _save(self) -> None:
        busy = self._task is not None and not self._task.done()
        if self._folder is None or self._origin is None or self.peaks is self._written or busy:
            return
        self._tried_at = self._clock()
        self._task = asyncio.create_task(self._write(self._folder, self._origin, self.peaks), name="peaks")

    async def _write(self, folder: Path, origin: Origin, found: Peaks) -> None:
        document = peakfile.kept(found, origin)
        problem = await asyncio.to_thread(statefile.write, folder, document, statefile.PEAKS)
        if problem and problem != self._problem:
            log.warning("peaks are not kept over a restart: %s", problem)
        if not problem:
            self._written = found
        self._problem = problem

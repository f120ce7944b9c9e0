"""Keeps incidents: hands the records to a file in the background, and tells after a restart what was not told.

Nothing waits for the disk. One that refuses is told of once and tried again; what waits meanwhile is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from edgeagent.plan import describing, history, incidents, outcomes, owing
from edgeagent.plan.incidents import Book, Moment
from edgeagent.reconcile.latest import Latest
from edgeagent.system import journal

if TYPE_CHECKING:
    from edgeagent.plan.state import State
    from edgeagent.plan.types import Event, EvictionResult, KillResult, Plan
    from edgeagent.reconcile.outbox import Ending, Outbox

log = logging.getLogger(__name__)

RETRY_SECONDS = 10.0
MOST_BYTES = 256 * 1024
"""Of lines that wait for a disk."""
MOST_OWED = 32
"""Events of an earlier run that are told, the latest ones."""


class Place(NamedTuple):
    """Where an agent runs, as records say it."""

    boot_id: str | None
    node: str | None


class Chronicle:
    """The incidents of one run.

    Args:
        folder: the state directory; None: nothing is kept.
        outbox: takes the events that an earlier run has left, and says what became of each.
        clock: monotonic seconds since boot.
        wall: Unix time.

    Attributes:
        latest: the incidents that were kept last, those of earlier runs among them.
    """

    def __init__(
        self, folder: Path | None, outbox: Outbox, *, clock: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._wall = wall
        self._outbox = outbox
        outbox.ended = self._ended
        self._book = Book()
        self._place = Place(None, None)
        self._kills: list[KillResult] = []
        self._owed: set[str] = set()
        """Ids of the events whose end is to be written; they wait in the outbox."""
        self._writer = _Writer(folder) if folder else None
        self.latest = Latest()

    async def open(self, boot_id: str | None) -> None:
        """Take up what an earlier run has left."""
        self._place = Place(boot_id, None)
        if self._folder is None:
            return
        left = await asyncio.to_thread(_left, self._folder, boot_id)
        self.latest = left.latest
        now = self._clock()
        self._book = incidents.remembering(left.recent, now)
        events = [owing.event(one, boot_id, now) for one in left.owed]
        if events:
            log.info("%d events of before the restart are told as soon as the API server takes them", len(events))
            self._owed.update(event.id for event in events)
            self._outbox.hold(events)

    def killed(self, result: KillResult) -> None:
        """Take in how a kill of the plan that is shown next has ended."""
        self._kills.append(result)

    def saw(self, state: State, plan: Plan, *, memory_at: float, read_at: float, node: str | None) -> list[Event]:
        """Take in one more plan, and what was done of it; what is to be told of that."""
        results, self._kills = self._kills, []
        if self._folder is not None:
            self._place = Place(self._place.boot_id, node)
            moment = self._moment(memory_at, read_at)
            self._book, records = incidents.follow(self._book, state, plan, moment, results)
            self._keep(records)
        return [self._owe(event) for result in results for event in outcomes.told(plan, result)]

    def answered(self, result: EvictionResult, events: Sequence[Event]) -> list[Event]:
        """Take in the answer to an eviction call; ``events`` are what is told of it, given back as they are told."""
        self._book = incidents.answered(self._book, result, self._clock())
        return [self._owe(event) for event in events]

    def _ended(self, event: Event, ending: Ending) -> None:
        if event.id in self._owed:
            self._owed.remove(event.id)
            self._keep([owing.told(event.id, ending, self._moment(0.0, 0.0))])

    async def close(self) -> None:
        """Write what there is, as well as it can be done at once."""
        if self._writer is not None:
            self._keep(incidents.stopped(self._book, self._moment(0.0, 0.0)))
            await self._writer.finish()

    def _moment(self, memory_at: float, read_at: float) -> Moment:
        return Moment(self._clock(), memory_at, read_at, self._wall(), *self._place)

    def _owe(self, event: Event) -> Event:
        """The event under the name that its incident gives it, which is written down first."""
        self._book, event, line = owing.owe(self._book, event, self._moment(0.0, 0.0))
        if line is not None:
            self._owed.add(event.id)
            self._keep([line])
        return event

    def _keep(self, records: Sequence[dict[str, Any]]) -> None:
        if self._writer is not None:
            for record in records:
                line = self._writer.put(record)
                if line is not None:
                    self.latest.add(record, line)


class _Writer:
    """Lines on their way to the disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: deque[bytes] = deque()
        self._taken = 0
        """Lines that were ever taken off the front."""
        self._bytes = 0
        self._lost = 0
        self._problem = ""
        self._task: asyncio.Task[None] | None = None
        self._ends = asyncio.Event()

    def put(self, record: dict[str, Any]) -> bytes | None:
        """Let one more record be written; the line that it becomes, or None if it is too long to be one."""
        line = journal.encoded(record)
        if len(line) > journal.LONGEST:
            line = journal.encoded(describing.lessened(record))
        if len(line) > journal.LONGEST:
            log.warning("a record of %s is too long to be kept", record["line"])
            return None
        self._waiting.append(line)
        self._bytes += len(line)
        while self._bytes > MOST_BYTES:
            self._pop()
            self._lost += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="incidents")
        return line

    async def finish(self) -> None:
        """Write what waits; one attempt more, if the disk refuses."""
        self._ends.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while self._waiting:
            last = self._ends.is_set()
            if not await self._write():
                if last:
                    return
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._ends.wait(), RETRY_SECONDS)

    async def _write(self) -> bool:
        begun = self._taken
        # What is put, or gives way, while the disk is at work stays out of this attempt.
        written, problem = await asyncio.to_thread(journal.append, self._folder, tuple(self._waiting))
        while self._taken < begun + written:
            self._pop()
        if problem:
            if not self._problem:
                log.warning("incidents are not kept: %s", problem)
        elif self._problem:
            log.warning("incidents are kept again; %d lines were lost meanwhile", self._lost)
            self._lost = 0
        self._problem = problem
        return not problem

    def _pop(self) -> None:
        self._bytes -= len(self._waiting.popleft())
        self._taken += 1


class _Left(NamedTuple):
    """What an earlier run has left: events that are not told, and (second, kind, uid) of its incidents of this boot."""

    owed: list[dict[str, Any]]
    recent: list[tuple[float, str, str]]
    latest: Latest


def _left(folder: Path, boot_id: str | None) -> _Left:
    owed: dict[str, dict[str, Any]] = {}
    recent: list[tuple[float, str, str]] = []
    latest = Latest()
    try:
        for one in _known(folder):
            latest.add(one, journal.encoded({"format": incidents.FORMAT, **one}))
            if one["line"] == "owed":
                owed[one["event"]["id"]] = one
            elif one["line"] == "told":
                owed.pop(one["event"], None)
            elif one["line"] == "decision" and boot_id is not None and one["boot_id"] == boot_id:
                recent.append((one["seconds"], one["kind"], one["pod"]["uid"] if one["pod"] else ""))
    except OSError as error:
        log.warning("what an earlier run has kept of incidents is not read: %s: %s", folder, error.strerror)
    most = sum(incidents.MOST_PER_HOUR.values())
    return _Left(
        [one for one in owed.values() if one["event"]["reason"] in owing.KINDS][-MOST_OWED:], recent[-most:], latest
    )


def _known(folder: Path) -> Iterator[dict[str, Any]]:
    for line in journal.read(folder):
        checked = history.checked(line.value)
        if checked is not None:
            yield checked

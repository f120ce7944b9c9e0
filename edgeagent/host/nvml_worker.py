"""NVML in a thread of its own: a driver that hangs is a reading without a value, and stops nothing but itself."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from edgeagent.errors import ReadingError
from edgeagent.facts import Nvml, Reading
from edgeagent.facts.neighbours import DeviceActivity
from edgeagent.host.nvml import ALL, NvmlSource
from edgeagent.host.power import Power

log = logging.getLogger(__name__)

TIMEOUT = 2.0
"""Seconds after which a sample that has not come counts as stalled."""
PATIENCE = 0.5
"""Seconds that asking for activity may take: samples, on which decisions rest, wait behind it in the same thread."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Call:
    at: float
    answer: asyncio.Future[Nvml]


class NvmlWorker:
    """Runs a source in one daemon thread, so that a driver that hangs stops nothing but itself."""

    def __init__(self, source: NvmlSource, clock: Callable[[], float], timeout: float = TIMEOUT) -> None:
        self._source = source
        self._clock = clock
        self._timeout = timeout
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], object]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._call: _Call | None = None
        self._slow = False

    async def sample(self, power: Power = ALL) -> Reading[Nvml]:
        """A sample, or a reading without value once one has been under way for longer than the time-out.

        A call that is late is not repeated: its answer belongs to the first sample after it,
        with the time at which it was asked for.
        """
        call = self._call = self._call or self._ask(power)
        await asyncio.wait({call.answer}, timeout=max(0.0, call.at + self._timeout - self._clock()))
        if not call.answer.done():
            now = self._clock()
            return Reading(now, None, f"nvml stalled {now - call.at:.0f} s", waiting_since=call.at)
        if self._call is call:
            self._call = None
        try:
            return Reading(call.at, call.answer.result())
        except ReadingError as error:
            return Reading(call.at, None, str(error))

    async def activity(self) -> tuple[DeviceActivity, ...]:
        """What devices say beside their memory; () while a sample is due, and for good once it took too long."""
        if self._slow or self._thread is None or self._call is not None:
            return ()
        answer = self._queue(self._source.activity)
        await asyncio.wait({answer}, timeout=PATIENCE)
        if not answer.done():
            self._slow = True
            answer.add_done_callback(_ignore)
            log.warning("NVML takes more than %s s to tell how busy its devices are: it is not asked again", PATIENCE)
            return ()
        return answer.result()

    def close(self) -> None:
        """Ends the thread after the call it is in, without waiting for it."""
        if self._thread:
            self._jobs.put(None)

    def _ask(self, power: Power) -> _Call:
        return _Call(self._clock(), self._queue(partial(self._source.sample, power)))

    def _queue(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """The answer of ``work``, which is done in the thread when its turn comes."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="nvml", daemon=True)
            self._thread.start()
        job: Future[T] = Future()
        answer = asyncio.wrap_future(job)
        self._jobs.put((job, work))
        return answer

    def _work(self) -> None:
        while (asked := self._jobs.get()) is not None:
            job, work = asked
            try:
                job.set_result(work())
            except Exception as error:  # noqa: BLE001 (raised where the answer is awaited)
                job.set_exception(error)
        self._source.close()


def _ignore(answer: asyncio.Future[Any]) -> None:
    """Take notice of an error that nobody waits for any more."""
    if not answer.cancelled():
        answer.exception()

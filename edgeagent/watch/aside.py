"""A thread for readings that may hang: a sensor behind a firmware that does not answer holds up nothing but itself."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Aside:
    """Does one thing at a time, in one daemon thread. What comes too late is thrown away."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], object]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._under_way: Future[Any] | None = None

    async def do(self, work: Callable[[], T], patience: float) -> T:
        """What ``work`` gives.

        Raises:
            asyncio.TimeoutError: not within ``patience`` seconds, or what was begun before is not done yet.
        """
        if self._under_way is not None and not self._under_way.done():
            raise asyncio.TimeoutError
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        job: Future[T] = Future()
        self._under_way = job
        self._jobs.put((job, work))
        answer = asyncio.wrap_future(job)
        answer.add_done_callback(_read)
        await asyncio.wait({answer}, timeout=patience)
        if not answer.done():
            raise asyncio.TimeoutError
        return answer.result()

    def close(self) -> None:
        """Ends the thread after what it is at, without waiting for it."""
        if self._thread is not None:
            self._jobs.put(None)

    def _work(self) -> None:
        while (asked := self._jobs.get()) is not None:
            job, work = asked
            try:
                job.set_result(work())
            except Exception as error:  # noqa: BLE001 (raised where the answer is awaited)
                job.set_exception(error)


def _read(answer: asyncio.Future[Any]) -> None:
    """Of a failure after the patience nobody asks, and asyncio logs what was never asked for."""
    if not answer.cancelled():
        answer.exception()

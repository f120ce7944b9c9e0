"""The stream of events that a watch brings: one JSON object a line, of any length."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from edgeagent.errors import UnreachableError


class WatchStream:
    """The events of one open watch, as dicts, until the server ends it.

    Args:
        read: the next bytes, empty at the end; raises UnreachableError, caused by a time-out where it was silence.
        what: the request, for messages.
        clock: monotonic seconds.

    Raises, while iterating:
        UnreachableError: cut, silent for too long, or a line that is not an event.
    """

    def __init__(self, read: Callable[[], Awaitable[bytes]], what: str, clock: Callable[[], float]) -> None:
        self.known_until = clock()
        """Monotonic second up to which the stream was alive for certain: its end, or the last byte before a silence."""
        self._read = read
        self._what = what
        self._clock = clock
        self._whole: deque[bytes] = deque()
        self._begun: list[bytes] = []

    def __aiter__(self) -> WatchStream:
        return self

    async def __anext__(self) -> dict[str, Any]:
        while not self._whole:
            if not await self._fill():
                raise StopAsyncIteration
        line = self._whole.popleft()
        try:
            event = json.loads(line)
        except ValueError as error:
            raise UnreachableError(f"{self._what}: a line is not JSON: {line[:64]!r}") from error
        if not isinstance(event, dict):
            raise UnreachableError(f"{self._what}: a line is not an event: {line[:64]!r}")
        return event

    async def _fill(self) -> bool:
        """Take what has come; False at the end of the stream."""
        try:
            chunk = await self._read()
        except UnreachableError as error:
            # After a silence nothing is known of the time since the last byte.
            if not isinstance(error.__cause__, asyncio.TimeoutError):
                self.known_until = self._clock()
            raise
        self.known_until = self._clock()
        if not chunk and self._begun:
            raise UnreachableError(f"{self._what}: cut in the middle of a line")
        # Chunks of a begun line are kept apart until it ends: a line of any length costs one copy.
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            line = b"".join((*self._begun, part))
            self._begun.clear()
            if line.strip():
                self._whole.append(line)
        if rest:
            self._begun.append(rest)
        return bool(chunk)

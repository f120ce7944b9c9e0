"""Live views: the state as server-sent events, to a few clients at a time, none of which can hold anything up.

There is one newest event and no queue. A client that is slow finds, when it has taken one event, the one that is the
newest by then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from aiohttp import web

from edgeagent.serve.responses import HEADERS, refuse
from edgeagent.serve.speaker import Speaker

CONTENT_TYPE = "text/event-stream; charset=utf-8"
MOST = 8
"""Streams at a time, beside the places of other connections."""
REST = 1.0
"""Seconds from one event to the next, at least."""
QUIET = 10.0
"""Seconds without a cycle after which the state is told again: what has become old meanwhile is to be seen as such."""
PATIENCE = 30.0
"""Seconds that a client may take for one event."""
_FAREWELL = 1.0
"""Seconds that all clients together have to take the end of their streams when the server stops."""


class Streams:
    """The streams of one server.

    Args:
        make: makes the JSON of the present state. Called while somebody listens, at most once in ``rest``.
        most: streams at a time.
        rest: seconds from one event to the next, at least.
        quiet: seconds from one event to the next, at most.
        patience: seconds that a client may take for one event.
    """

    def __init__(
        self,
        make: Callable[[], bytes],
        *,
        most: int = MOST,
        rest: float = REST,
        quiet: float = QUIET,
        patience: float = PATIENCE,
    ) -> None:
        self._make = make
        self._most = most
        self._rest = rest
        self._quiet = quiet
        self._patience = patience
        self._changed = asyncio.Event()
        self._maker: asyncio.Task[None] | None = None
        self._newest = b""
        self._number = 0
        """Of the newest event."""
        self._waiting: set[asyncio.Future[None]] = set()
        """Of the clients that have taken the newest event: done with the next one."""
        self._clients: set[asyncio.Future[None]] = set()
        """Done when the connection of a client is over."""

    def __len__(self) -> int:
        return len(self._clients)

    def changed(self) -> None:
        """There is something new to tell."""
        self._changed.set()

    async def serve(self, request: web.BaseRequest, allowed: Callable[[], bool]) -> web.StreamResponse:
        """Answer with a stream, as long as the client takes it and is ``allowed`` to."""
        speaker = request.protocol
        assert isinstance(speaker, Speaker)  # noqa: S101 (the listener makes no other)
        if len(self._clients) >= self._most:
            message = f"there are {self._most} streams already" if self._most else "the agent is stopping"
            return refuse(503, "too-many-streams", message, {"Retry-After": f"{self._quiet:.0f}"})
        self._clients.add(speaker.over)
        speaker.stay(self._patience)
        try:
            return await self._tell(request, speaker, allowed)
        finally:
            speaker.leave()
            self._clients.discard(speaker.over)
            if not self._clients and self._maker is not None:
                self._maker.cancel()

    async def stop(self) -> None:
        """End every stream, after the event that its client is about to take."""
        self._most = 0
        if self._maker is not None:
            self._maker.cancel()
        if self._clients:
            await asyncio.wait(set(self._clients), timeout=_FAREWELL)

    async def _tell(
        self, request: web.BaseRequest, speaker: Speaker, allowed: Callable[[], bool]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": CONTENT_TYPE})
        response.force_close()
        await response.prepare(request)
        maker = self._made()
        told = self._number
        self._changed.set()
        while await self._next(told, speaker, maker) and allowed():
            told = self._number
            try:
                await asyncio.wait_for(response.write(self._newest), self._patience)
            except asyncio.TimeoutError:
                speaker.cut()
                break
            except ConnectionError:
                break  # it went away
        return response

    async def _next(self, told: int, speaker: Speaker, maker: asyncio.Task[None]) -> bool:
        """Wait for an event after number ``told``; false: there will be none."""
        if self._number == told:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.add(turn)
            await asyncio.wait([turn, speaker.over, maker], return_when=asyncio.FIRST_COMPLETED)
            self._waiting.discard(turn)
        if maker.done() and not maker.cancelled():
            maker.result()
        return not (maker.done() or speaker.over.done())

    def _made(self) -> asyncio.Task[None]:
        """The task that makes the events. There is one while there are clients."""
        if self._maker is None or self._maker.done():
            self._maker = asyncio.create_task(self._run(), name="stream")
        return self._maker

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), self._quiet - self._rest)
            self._changed.clear()
            self._newest = b"event: state\ndata: " + self._make() + b"\n"
            self._number += 1
            for turn in self._waiting:
                turn.set_result(None)
            self._waiting.clear()
            await asyncio.sleep(self._rest)

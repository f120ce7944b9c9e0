"""The real endpoint in a thread of its own, whose clock and state a test sets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from edgeagent.serve.http import Server
from edgeagent.serve.shown import Shown

from .scenes import NOW, WALL

if TYPE_CHECKING:
    from typing_extensions import Self


class Endpoint:
    """Serves ``state`` between enter and exit. Time stands still until a test moves it."""

    def __init__(self, state: Shown | None, *, bind: str = "127.0.0.1:0", **options: Any) -> None:
        self.state = state
        self.now = NOW
        self._bind = bind
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="endpoint")
        self._server: Server | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        return f"http://{self._bind}/"

    def start(self) -> None:
        """Listen, at the same port as before."""
        server = Server(self._bind, clock=lambda: self.now, wall=lambda: WALL + self.now - NOW, **self._options)
        self._do(server.start)
        self._server, self._bind = server, server.address
        self.show(self.state)

    def stop(self) -> None:
        """Close every connection."""
        if self._server is not None:
            self._do(self._server.stop)
            self._server = None

    def show(self, state: Shown | None) -> None:
        """Show this from now on."""
        self.state = state
        if state is not None and self._server is not None:
            self._loop.call_soon_threadsafe(self._server.show, state)

    def later(self, seconds: float) -> None:
        """Let time pass in which the agent goes on, but reads nothing."""
        self.now += seconds
        if self.state is not None:
            self.show(replace(self.state, counters=self.state.counters))

    def _do(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        asyncio.run_coroutine_threadsafe(work(), self._loop).result(timeout=20)

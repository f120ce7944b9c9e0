"""An agent's endpoint whose state a test makes up: pods, breaches and evictions without a cluster."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgeagent.serve.http import Server
from edgeagent.serve.shown import LoopHealth
from tests.unit.serve.states import CLUSTER, READINGS, shown

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from edgeagent.serve.shown import ReadingHealth, Shown

FOREVER = 3600.0
"""Seconds after which what was shown once is stale; a test says what is to be stale before."""


def readings(**ages: float) -> dict[str, ReadingHealth]:
    """Every source read just now, but for those that have an age here; 10 s are allowed to these."""
    now = time.monotonic()
    fresh = {name: replace(one, succeeded_at=now, max_age=FOREVER) for name, one in READINGS.items()}
    return fresh | {name: replace(fresh[name], succeeded_at=now - age, max_age=10.0) for name, age in ages.items()}


def state(**changes: Any) -> Shown:
    """Everything well now, but for ``changes``."""
    now = time.monotonic()
    return shown(
        **{
            "at": now,
            "max_age": FOREVER,
            "loops": {"cycle": LoopHealth(beat_at=now, allowed=FOREVER)},
            "readings": readings(),
            "cluster": replace(CLUSTER, fresh_at=now, succeeded_at=now),
            **changes,
        }
    )


class Composed:
    """The real endpoint in a thread with its own event loop, between enter and exit."""

    def __init__(self) -> None:
        self._server = Server("127.0.0.1:0", clock=time.monotonic, wall=time.time)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="composed endpoint")

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._server.start(), self._loop).result(10)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def address(self) -> str:
        """``ADDRESS:PORT``."""
        return self._server.address

    def show(self, shown: Shown) -> None:
        """Answer from this from now on."""
        self._loop.call_soon_threadsafe(self._server.show, shown)

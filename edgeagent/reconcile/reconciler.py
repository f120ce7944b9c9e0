"""Carries plans out in the background: the sampling loop never waits for the API server.

The node is written by its own task; each eviction is called once and its answer handed back;
events wait in an outbox until the server has them.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from edgeagent.plan.types import Event, Eviction, EvictionResult
from edgeagent.reconcile import evict
from edgeagent.reconcile.events import EventRecorder
from edgeagent.reconcile.nodewriter import NodeWriter
from edgeagent.reconcile.outbox import Outbox

if TYPE_CHECKING:
    from edgeagent.cluster.client import Client

log = logging.getLogger(__name__)

Recheck = Callable[[Eviction], Awaitable[bool]]
"""Reads the pod's usage again just before the call; False: it is no longer over."""


class Reconciler:
    """Makes the plans of one node true.

    Args:
        client: an open client.
        name: of the node.
        clock: monotonic seconds.
        wall: Unix time.
        recheck: called before each eviction.
        learned: told the answer of each eviction call.
        rng: source of jitter.
        outbox: events that wait, those of before this connection among them; None: a new one.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
        recheck: Recheck,
        learned: Callable[[EvictionResult], None],
        rng: random.Random,
        outbox: Outbox | None = None,
    ) -> None:
        self._outbox = outbox if outbox is not None else Outbox(clock=clock, rng=rng)
        self.node = NodeWriter(client, clock=clock, wall=wall, rng=rng, tell=self.tell)
        self._client = client
        self._recheck = recheck
        self._learned = learned
        self._rng = rng
        self._recorder = EventRecorder(client, name, clock=clock, wall=wall)
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to write."""
        self._tasks = [
            asyncio.create_task(self.node.run(), name="node writer"),
            asyncio.create_task(self._outbox.run(self._recorder.record), name="event writer"),
        ]

    async def stop(self) -> None:
        """End at once. What the node carries stays; an eviction that was sent is the server's."""
        tasks = [*self._tasks, *self._calls.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def failed(self) -> bool:
        """A writer crashed, which is a bug and cured by a restart."""
        return any(task.done() and not task.cancelled() for task in self._tasks)

    def evict(self, evictions: Sequence[Eviction]) -> bool:
        """Call the evictions of one plan, unless those of an earlier one are still under way: then False."""
        if self._calls:
            return False
        for eviction in evictions:
            task = asyncio.create_task(self._evict(eviction), name=f"evict {eviction.namespace}/{eviction.name}")
            self._calls[eviction.uid] = task
        return bool(evictions)

    def tell(self, events: Sequence[Event]) -> None:
        """Log events, and record them as soon as the server takes them."""
        self._outbox.tell(events)

    async def _evict(self, eviction: Eviction) -> None:
        try:
            if await self._recheck(eviction):
                result = await evict.evict(self._client, eviction, rng=self._rng)
            else:
                result = EvictionResult(uid=eviction.uid, outcome="recovered")
            log.warning("eviction of %s/%s: %s %s", eviction.namespace, eviction.name, result.outcome, result.message)
            self._learned(result)
        finally:
            self._calls.pop(eviction.uid, None)

"""Carries plans out in the background: the sampling loop never waits for the API server.

Only one desired state of the node is kept, never a queue; each eviction is called once and
its answer handed back; events are told in order, and lost rather than heaped up.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeagent.plan.types import Event, Eviction, EvictionResult, Request
from edgeagent.reconcile import evict, node
from edgeagent.reconcile.events import EventRecorder
from edgeagent.reconcile.node import NodeOutcome

if TYPE_CHECKING:
    from edgeagent.cluster.client import Client
    from edgeagent.facts import NodeFacts

log = logging.getLogger(__name__)

SEEN_SECONDS = 5.0
"""How long a write that succeeded may take to come back through the watch before it is sent again."""
PROBE_SECONDS = 600.0
"""A part that was refused is tried again this often."""
FIRST_DELAY, LONGEST_DELAY = 0.5, 5.0
CALM_REWRITES = 3
"""Rewrites by others that are mended at once; then the delay grows."""
MOST_EVENTS = 64

Recheck = Callable[[Eviction], Awaitable[bool]]
"""Reads the pod's usage again just before the call; False: it is no longer over."""


@dataclass(frozen=True, slots=True)
class _Wish:
    requests: tuple[Request, ...]
    found: NodeFacts


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
    ) -> None:
        self.node_outcome: NodeOutcome | None = None
        """What became of the last node write."""
        self.writes = 0
        """Node writes that changed something."""
        self.rewrites = 0
        """Of these, writes that put back what others had changed."""
        self._client = client
        self._clock = clock
        self._wall = wall
        self._recheck = recheck
        self._learned = learned
        self._rng = rng
        self._recorder = EventRecorder(client, name, clock=clock, wall=wall)
        self._wish: _Wish | None = None
        self._wished = asyncio.Event()
        self._awaited: tuple[str, float] | None = None
        self._refused_until: dict[str, float] = {}
        self._again: dict[str, tuple[int, float]] = {}
        self._events: asyncio.Queue[Event] = asyncio.Queue(MOST_EVENTS)
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to write."""
        self._tasks = [
            asyncio.create_task(self._write_node(), name="node writer"),
            asyncio.create_task(self._write_events(), name="event writer"),
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

    @property
    def evicting(self) -> frozenset[str]:
        """UIDs of pods whose eviction call is under way."""
        return frozenset(self._calls)

    def wish(self, requests: Sequence[Request], found: NodeFacts | None) -> None:
        """Replace the desired state by the writes that the latest plan asks for."""
        self._wish = _Wish(tuple(requests), found) if requests and found is not None else None
        if self._wish is not None:
            self._wished.set()

    def evict(self, evictions: Sequence[Eviction]) -> bool:
        """Call the evictions of one plan, unless those of an earlier one are still under way: then False."""
        if self._calls:
            return False
        for eviction in evictions:
            task = asyncio.create_task(self._evict(eviction), name=f"evict {eviction.namespace}/{eviction.name}")
            self._calls[eviction.uid] = task
        return bool(evictions)

    def tell(self, events: Sequence[Event]) -> None:
        """Record events; those that find no place are dropped and said."""
        for event in events:
            level = logging.WARNING if event.warning else logging.INFO
            log.log(level, "%s %s: %s", event.reason, event.regarding, event.note)
            try:
                self._events.put_nowait(event)
            except asyncio.QueueFull:
                log.warning("the event %s for %s was not recorded: too many are waiting", event.reason, event.regarding)

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

    async def _write_node(self) -> None:
        delay = FIRST_DELAY
        while True:
            await self._wished.wait()
            self._wished.clear()
            wish = self._wish
            if wish is None or not self._due(wish):
                continue
            outcome = await node.apply(
                self._client,
                wish.requests,
                statuses={str(item.get("type")): str(item.get("status")) for item in wish.found.conditions},
                wall=self._wall(),
            )
            self._remember(wish, outcome)
            if outcome.error:
                log.warning("the node could not be written: %s", outcome.error)
                await asyncio.sleep(delay * self._rng.uniform(0.5, 1.0))
                delay = min(delay * 2, LONGEST_DELAY)
                self._wished.set()
            else:
                delay = FIRST_DELAY

    def _due(self, wish: _Wish) -> bool:
        now = self._clock()
        if self._awaited is not None and now < self._awaited[1] and not _reached(wish.found.version, self._awaited[0]):
            return False
        parts = {name for request in wish.requests for name, _ in node.parts(request.body)}
        if all(self._refused_until.get(part, now) > now for part in parts):
            return False
        return now >= self._again.get(_digest(wish), (0, now))[1]

    def _remember(self, wish: _Wish, outcome: NodeOutcome) -> None:
        now = self._clock()
        self.node_outcome = outcome
        self._awaited = (outcome.version, now + SEEN_SECONDS) if outcome.version else None
        self._refused_until = {part.part: now + PROBE_SECONDS for part in outcome.refused}
        for part in outcome.refused:
            log.warning("the API server refused %s (%s): %s", part.part, part.code, part.message)
        if not outcome.done:
            return
        self.writes += 1
        digest = _digest(wish)
        times = self._again.get(digest, (0, 0.0))[0] + 1
        recent = {key: told for key, told in self._again.items() if now - told[1] < PROBE_SECONDS}
        wait = min(2.0 ** (times - CALM_REWRITES), PROBE_SECONDS / 2) if times > CALM_REWRITES else 0.0
        self._again = {**recent, digest: (times, now + wait)}
        if times > 1:
            self.rewrites += 1
            managers = ", ".join(sorted(set(wish.found.managers.values()))) or "someone"
            log.warning(
                "%s keeps changing what this agent publishes (%d times); next try in %.0f s", managers, times, wait
            )

    async def _write_events(self) -> None:
        while True:
            await self._recorder.record(await self._events.get())


def _reached(version: str, awaited: str) -> bool:
    """Whether the view has come as far as our last write. Resource versions of one object are rising numbers."""
    try:
        return int(version) >= int(awaited)
    except ValueError:
        return version == awaited


def _digest(wish: _Wish) -> str:
    return repr([(request.content_type, request.body) for request in wish.requests])

"""Events that wait for the API server: bounded, each told once, the latest word of what is said again and again.

An uplink is away for hours at times, and what happened meanwhile is what people ask for when it is back. So an event
waits here until the server has it or refuses it for good; what an agent says all the time gives way to what it did.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Literal

from edgeagent.plan.types import Event

log = logging.getLogger(__name__)

MOST_EVENTS = 64
DECISIONS = frozenset({"MemoryBudgetEvicted", "MemoryBudgetKilled", "EvictionBlocked"})
"""Reasons of events that tell what was done, or could not be: no event of another reason takes their place."""
LATEST = frozenset({"MemoryBudgetExceeded", "Overcommitted", "GPUUnavailable", "CapacityPublished"})
"""Reasons whose words hold live figures: of those that wait about one object, the last one tells all."""
SHORTEST = 1.0
LONGEST = 30.0
"""Seconds between two attempts while the server does not answer, as the view of the cluster has it."""

Ending = Literal["told", "refused", "later"]
"""How an attempt ended. ``told`` the server has it · ``refused`` it never will · ``later`` it is tried again."""
_Key = tuple[str, ...]


class Outbox:
    """What waits, oldest first.

    Args:
        clock: monotonic seconds.
        rng: source of ids and of jitter.

    Attributes:
        ended: told of each event that waits no more, and whether the server has it. Not of those that gave way.
    """

    def __init__(self, *, clock: Callable[[], float], rng: random.Random) -> None:
        self.ended: Callable[[Event, Ending], None] = lambda _event, _ending: None
        self._clock = clock
        self._rng = rng
        self._waiting: OrderedDict[_Key, Event] = OrderedDict()
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def tell(self, events: Sequence[Event]) -> None:
        """Log the events and let them wait to be told."""
        for event in events:
            if not event.lasting:
                level = logging.WARNING if event.warning else logging.INFO
                log.log(level, "%s %s: %s", event.reason, event.regarding, event.note)
            self._put(
                replace(
                    event,
                    # Under the same name twice, the server has it once: an attempt may succeed without our knowing.
                    id=event.id or f"{self._rng.getrandbits(128):032x}",
                    at=self._clock() if event.at is None else event.at,
                )
            )

    async def run(self, record: Callable[[Event], Awaitable[Ending]]) -> None:
        """Tell what waits and what is to come, until cancelled."""
        failures = 0
        while True:
            await self._filled.wait()
            key, event = next(iter(self._waiting.items()))
            ending = await record(event)
            latest = self._waiting.get(key) is event
            if ending == "later":
                failures += 1
                if latest:
                    # An event that the server chokes on keeps nobody waiting but itself.
                    self._waiting.move_to_end(key)
                await asyncio.sleep(self._pause(failures))
                continue
            failures = 0
            if latest:
                self._drop(key)
            self.ended(event, ending)

    def _pause(self, failures: int) -> float:
        longest = min(LONGEST, SHORTEST * 2.0 ** min(failures, 8))
        return longest * self._rng.uniform(0.5, 1.0)

    def _put(self, event: Event) -> None:
        key = _key(event)
        self._waiting.pop(key, None)
        if len(self._waiting) >= MOST_EVENTS:
            chatter = (old for old, one in self._waiting.items() if one.reason not in DECISIONS)
            goes = next(chatter, None)
            if goes is None and event.reason not in DECISIONS:
                _lost(event)
                return
            goes = goes or next(iter(self._waiting))
            _lost(self._waiting[goes])
            self._drop(goes)
        self._waiting[key] = event
        self._filled.set()

    def _drop(self, key: _Key) -> None:
        del self._waiting[key]
        if not self._waiting:
            self._filled.clear()


def _key(event: Event) -> _Key:
    """Events with the same one are about the same thing: one that waits is replaced by the next."""
    regarding = (event.reason, event.kind, event.namespace, event.name, event.uid)
    if event.reason in LATEST:
        return regarding
    return (*regarding, event.id if event.reason in DECISIONS else event.note)


def _lost(event: Event) -> None:
    log.warning("the event %s for %s was not recorded: too many are waiting", event.reason, event.regarding)

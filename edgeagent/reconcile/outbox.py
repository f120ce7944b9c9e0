"""Events that wait for the API server: bounded, each told once, the latest word of what is said again and again.

An uplink is away for hours at times, and what happened meanwhile is what people ask for when it is back. So an event
waits here until the server has it or refuses it for good; what an agent says all the time gives way to what it did.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Literal

from edgeagent.plan.types import Event

log = logging.getLogger(__name__)

MOST_EVENTS = 64
MOST_LATEST = 100
"""Events that are remembered for those who ask what happened."""
_WEIGHTS = {"MemoryBudgetEvicted": 2, "MemoryBudgetKilled": 2, "EvictionBlocked": 1}
"""What was done, then what could not be, then all else: no event takes the place of one that weighs more."""
DECISIONS = frozenset(_WEIGHTS)
"""Reasons of events that tell of a decision."""
LATEST = frozenset({"MemoryBudgetExceeded", "Overcommitted", "GPUUnavailable", "CapacityPublished"})
"""Reasons whose words hold live figures: of those that wait about one object, the last one tells all."""
SHORTEST = 1.0
LONGEST = 30.0
"""Seconds between two attempts while the server does not answer, as the view of the cluster has it."""

Ending = Literal["told", "refused", "dropped", "later"]
"""How an attempt ended, or that there was none.

``told`` the server has it · ``refused`` it never will · ``dropped`` too many are to be told ·
``later`` it is tried again.
"""
_Key = tuple[str, ...]


class Outbox:
    """What waits, oldest first.

    Args:
        clock: monotonic seconds.
        rng: source of ids and of jitter.

    Attributes:
        ended: told of each event that waits no more, and whether the server has it.
        latest: the events that came last, oldest first, whatever became of them.
    """

    def __init__(self, *, clock: Callable[[], float], rng: random.Random) -> None:
        self.ended: Callable[[Event, Ending], None] = lambda _event, _ending: None
        self._clock = clock
        self._rng = rng
        self._waiting: OrderedDict[_Key, Event] = OrderedDict()
        self._sent: _Key | None = None
        """Of the event that is on its way."""
        self._filled = asyncio.Event()
        self.latest: deque[Event] = deque(maxlen=MOST_LATEST)

    def __len__(self) -> int:
        return len(self._waiting)

    def tell(self, events: Sequence[Event]) -> None:
        """Log the events and let them wait to be told."""
        for event in events:
            level = logging.WARNING if event.warning else logging.INFO
            log.log(level, "%s %s: %s", event.reason, event.regarding, event.note)
        self.hold(events)

    def hold(self, events: Sequence[Event]) -> None:
        """Let events wait to be told that were logged when they happened."""
        for event in events:
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
            self._sent = key
            ending = await record(event)
            self._sent = None
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
        self._waiting[key] = event
        self.latest.append(event)
        self._filled.set()
        if len(self._waiting) > MOST_EVENTS:
            self._give_way()

    def _give_way(self) -> None:
        """Of those that weigh least, the oldest about the object of which most of them wait."""
        waiting = {key: one for key, one in self._waiting.items() if key != self._sent}
        least = min(_weight(one) for one in waiting.values())
        alike = {key: _about(one) for key, one in waiting.items() if _weight(one) == least}
        counts = Counter(alike.values())
        goes = max(alike, key=lambda key: counts[alike[key]])
        event = self._waiting[goes]
        log.warning("the event %s for %s was not recorded: too many are waiting", event.reason, event.regarding)
        self._drop(goes)
        self.ended(event, "dropped")

    def _drop(self, key: _Key) -> None:
        del self._waiting[key]
        if not self._waiting:
            self._filled.clear()


def _key(event: Event) -> _Key:
    """Events with the same one are about the same thing: one that waits is replaced by the next."""
    regarding = (event.reason, *_about(event))
    if event.reason in LATEST:
        return regarding
    return (*regarding, event.id if event.reason in DECISIONS else event.note)


def _about(event: Event) -> _Key:
    return (event.kind, event.namespace, event.name, event.uid)


def _weight(event: Event) -> int:
    return _WEIGHTS.get(event.reason, 0)

"""Keeps the node as the latest plan wants it: one desired state, never a queue, and no fight.

Promises: nothing is sent twice while the first write is still on its way back through the
watch; what the API server refuses is tried again every ten minutes only; what others keep
changing is put back at once at first, then ever more slowly, and their name is said.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.reconcile import node

if TYPE_CHECKING:
    from edgeagent.cluster.client import Client
    from edgeagent.facts import NodeFacts
    from edgeagent.plan.types import Event, Request
    from edgeagent.reconcile.node import NodeOutcome

log = logging.getLogger(__name__)

SEEN_SECONDS = 5.0
"""How long a write that succeeded may take to come back through the watch before it is sent again."""
PROBE_SECONDS = 600.0
"""A part that was refused is tried again this often; a quarrel is forgotten after as long."""
FIRST_DELAY, LONGEST_DELAY = 0.5, 5.0
CALM_RESTORES = 3
"""Restores that are made at once; a kubelet that restarts takes our values away, too."""


@dataclass(frozen=True, slots=True)
class _Wish:
    requests: tuple[Request, ...]
    found: NodeFacts


@dataclass(slots=True)
class _Quarrel:
    """What we wrote last on this very node, and how often others have changed it since."""

    uid: str
    written: dict[str, str | None] = field(default_factory=dict)
    times: int = 0
    at: float = float("-inf")
    until: float = float("-inf")

    def taken(self, found: NodeFacts) -> list[str]:
        """Keys that are no longer as we wrote them."""
        shown = {**found.labels, **found.capacity}
        return sorted(key for key, value in self.written.items() if not quantity.equal(shown.get(key), value))

    def restored(self, now: float) -> float:
        """Count one more restore; seconds until the next one may be made."""
        self.times = self.times + 1 if now - self.at < PROBE_SECONDS else 1
        self.at = now
        wait = min(2.0 ** (self.times - CALM_RESTORES), PROBE_SECONDS / 2) if self.times > CALM_RESTORES else 0.0
        self.until = now + wait
        return wait

    def wrote(self, requests: Iterable[Request], refused: Iterable[str]) -> None:
        """Remember what a write has put on the node."""
        out = set(refused)
        for request in requests:
            if "capacity" not in out:
                self.written |= request.body.get("status", {}).get("capacity", {})
            labels: Mapping[str, str | None] = request.body.get("metadata", {}).get("labels", {})
            self.written |= {key: value for key, value in labels.items() if f"label {key}" not in out}


class NodeWriter:
    """Writes the node in a task of its own.

    Args:
        client: an open client.
        clock: monotonic seconds.
        wall: Unix time.
        rng: source of jitter.
        tell: records the events that come true with a write.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
        rng: random.Random,
        tell: Callable[[Sequence[Event]], None],
    ) -> None:
        self.outcome: NodeOutcome | None = None
        """What became of the last write."""
        self.restores = 0
        """Writes that put back what others had changed."""
        self._client = client
        self._clock = clock
        self._wall = wall
        self._rng = rng
        self._tell = tell
        self._untold: Sequence[Event] = ()
        self._wish: _Wish | None = None
        self._wished = asyncio.Event()
        self._awaited: tuple[str, float] | None = None
        self._refused_until: dict[str, float] = {}
        self._quarrel = _Quarrel("")

    def wish(self, requests: Sequence[Request], found: NodeFacts | None, events: Sequence[Event] = ()) -> None:
        """Replace the desired state by the writes that the latest plan asks for, on the node as it was ``found``.

        ``events`` say what will have been published; they are told once it is, the latest only.
        """
        self._untold = events or self._untold
        self._wish = _Wish(tuple(requests), found) if requests and found is not None else None
        if self._wish is not None:
            self._wished.set()

    async def run(self) -> None:
        """Write until cancelled."""
        delay = FIRST_DELAY
        while True:
            await self._wished.wait()
            self._wished.clear()
            wish = self._wish
            if wish is None or not self._due(wish):
                continue
            outcome = await self._write(wish)
            if outcome.error:
                log.warning("the node could not be written: %s", outcome.error)
                await asyncio.sleep(delay * self._rng.uniform(0.5, 1.0))
                delay = min(delay * 2, LONGEST_DELAY)
                self._wished.set()
            else:
                delay = FIRST_DELAY

    def _due(self, wish: _Wish) -> bool:
        now = self._clock()
        if self._awaited and now < self._awaited[1] and not _reached(wish.found.version, self._awaited[0]):
            return False
        parts = {name for request in wish.requests for name, _ in node.parts(request.body)}
        if all(self._refused_until.get(part, now) > now for part in parts):
            return False
        return wish.found.uid != self._quarrel.uid or not self._quarrel.taken(wish.found) or now >= self._quarrel.until

    async def _write(self, wish: _Wish) -> NodeOutcome:
        statuses = {str(item.get("type")): str(item.get("status")) for item in wish.found.conditions}
        outcome = await node.apply(self._client, wish.requests, statuses=statuses, wall=self._wall())
        now = self._clock()
        self.outcome = outcome
        self._awaited = (outcome.version, now + SEEN_SECONDS) if outcome.version else None
        self._refused_until = {refusal.part: now + PROBE_SECONDS for refusal in outcome.refused}
        for refusal in outcome.refused:
            log.warning("the API server refused %s (%s): %s", refusal.part, refusal.code, refusal.message)
        if outcome.done and not outcome.error:
            self._remember(wish, outcome, now)
        return outcome

    def _remember(self, wish: _Wish, outcome: NodeOutcome, now: float) -> None:
        if wish.found.uid != self._quarrel.uid:
            self._quarrel = _Quarrel(wish.found.uid)
        taken = self._quarrel.taken(wish.found)
        if taken:
            self.restores += 1
            wait = self._quarrel.restored(now)
            managers = ", ".join(sorted({wish.found.managers.get(key, "") for key in taken} - {""})) or "someone"
            log.warning("%s changed %s, which was put back; next time in %.0f s", managers, ", ".join(taken), wait)
        self._quarrel.wrote(wish.requests, (refusal.part for refusal in outcome.refused))
        if "capacity" in outcome.done:
            self._tell(self._untold)
            self._untold = ()


def _reached(version: str, awaited: str) -> bool:
    """Whether the view has come as far as our last write. Resource versions of one object are rising numbers."""
    try:
        return int(version) >= int(awaited)
    except ValueError:
        return version == awaited

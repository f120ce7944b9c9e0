"""The latency histograms of the pods that show one: scraped every now and then, compared with the scrape before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from edgeagent.facts.neighbours import MAX_AGE, Latency
from edgeagent.watch import histogram
from edgeagent.watch.exposition import ScrapeError, buckets
from edgeagent.watch.target import Refused, Target, target

if TYPE_CHECKING:
    from edgeagent.facts import PodFacts
    from edgeagent.watch.histogram import Buckets

EVERY = 20.0
"""Seconds between two scrapes of a pod; a p99 of less time would be that of a few requests."""
MOST_PODS = 16
LONGEST_PAUSE = 300.0
"""Seconds until a pod that does not answer is tried again, at most."""
_TOO_MANY = Refused(f"{MOST_PODS} other pods are scraped, and no more are")


class Pages(Protocol):
    """Where pages come from."""

    async def get(self, url: str) -> bytes:
        """See ``Scraper.get``."""
        ...


@dataclass(frozen=True, slots=True)
class _Scraped:
    """What is known of one pod's histogram."""

    target: Target
    due: float
    failures: int = 0
    why: str = ""
    at: float = 0.0
    buckets: Buckets | None = None
    """Of the last scrape; None: none, or it failed."""
    latency: Latency | None = None
    requests: float = 0.0
    """Since the first scrape."""


class Latencies:
    """Scrapes the pods that ask for it, each once at a time."""

    def __init__(self, pages: Pages, clock: Callable[[], float]) -> None:
        self._pages = pages
        self._clock = clock
        self._known: dict[str, _Scraped] = {}
        self._refused: dict[str, str] = {}
        self._turn = asyncio.Lock()
        """One page at a time is read and parsed: those of sixteen pods would be as many threads and megabytes."""

    async def scrape(self, pods: Iterable[PodFacts]) -> None:
        """Scrape those of ``pods`` that are due; the others are forgotten, if they are gone."""
        wanted = self._wanted(pods)
        self._known = {uid: self._current(uid, one) for uid, one in wanted.items()}
        now = self._clock()
        await asyncio.gather(*(self._scrape(uid) for uid, one in self._known.items() if one.due <= now))

    def told(self, uid: str) -> tuple[Latency | None, str]:
        """(latency, why there is none although the pod asks for it)."""
        one = self._known.get(uid)
        if one is None:
            return None, self._refused.get(uid, "")
        fresh = self._clock() - one.at <= EVERY + MAX_AGE
        return (one.latency if fresh else None), one.why

    def _wanted(self, pods: Iterable[PodFacts]) -> Mapping[str, Target]:
        """By uid; those who were first stay, so that pods which come do not push others out."""
        asked = {pod.uid: target(pod) for pod in sorted(pods, key=lambda pod: (pod.created_at or 0.0, pod.uid))}
        found = {uid: one for uid, one in asked.items() if isinstance(one, Target)}
        wanted = dict(list(found.items())[:MOST_PODS])
        asked |= {uid: _TOO_MANY for uid in found if uid not in wanted}
        self._refused = {uid: one.why for uid, one in asked.items() if isinstance(one, Refused)}
        return wanted

    def _current(self, uid: str, wanted: Target) -> _Scraped:
        known = self._known.get(uid)
        return known if known and known.target == wanted else _Scraped(wanted, due=self._clock())

    async def _scrape(self, uid: str) -> None:
        before = self._known[uid]
        try:
            async with self._turn:
                at = self._clock()
                body = await self._pages.get(before.target.url)
                now = await asyncio.to_thread(buckets, body, before.target.metric)
        except ScrapeError as error:
            self._known[uid] = _failed(before, self._clock(), str(error))
            return
        since = before.buckets and histogram.latency(before.target.metric, before.buckets, now, at - before.at)
        total = before.requests + (since.requests if since else 0.0)
        latency = replace(since, requests=total) if since else None
        self._known[uid] = _Scraped(before.target, at + EVERY, at=at, buckets=now, latency=latency, requests=total)


def _failed(before: _Scraped, now: float, why: str) -> _Scraped:
    pause = min(LONGEST_PAUSE, EVERY * 2**before.failures)
    return _Scraped(
        before.target, now + pause, failures=min(before.failures + 1, 10), why=why, requests=before.requests
    )

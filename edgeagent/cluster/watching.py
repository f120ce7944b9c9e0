"""A list of objects that is kept current: list, watch, resume, list again when the server has forgotten.

A view is as old as the time since its watch broke. Reconnecting waits a random part of a
growing limit, so that a fleet comes back spread out and nobody spins; a stream has to stay
open for some seconds before the limit falls back.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from edgeagent.cluster import objects
from edgeagent.cluster.answers import status_error
from edgeagent.cluster.client import Client
from edgeagent.cluster.objects import ObjectError
from edgeagent.errors import AnswerError, ClusterError, UnreachableError

log = logging.getLogger(__name__)

T = TypeVar("T")

RELIST = 600.0
"""Seconds between full lists, give or take a fifth: the safety net below the watch."""
STABLE = 5.0
"""Seconds a watch has to be open before the trouble before it counts as over."""
FIRST_DELAY = 0.5
SHORT_LIMIT = 5.0
LONG_LIMIT = 30.0
LONG_OUTAGE = 600.0
"""Seconds of an outage after which the limit of the delay grows from the short to the long one."""
WORTH_TELLING = 3
"""Breaks in a row after which an outage is logged."""
_LIST_TIMEOUT = 30.0
_VERSION_REFUSED = frozenset({400, 410, 500, 504})
"""Answers to a resource version that the server does not know, no longer knows or has not reached; in a stream too."""
_FROM_CACHE = "0"
_NEWEST = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchHealth:
    """How a watched list is doing. ``failures`` counts breaks in a row, 0 once a watch has been open for a while."""

    open: bool
    complete: bool
    failures: int
    reconnects: int
    lists: int
    odd: int
    last_error: str
    crashed: bool


class Watched(Generic[T]):
    """The objects of one path and field selector, each reduced by ``parse``.

    Args:
        client: an open client.
        path: of the collection, such as ``/api/v1/pods``.
        field_selector: what to list of it.
        parse: raises ObjectError for an object that is not understood.
        clock: monotonic seconds.
        changed: set whenever an object changed, a list came or the view became current again.
        rng: source of all jitter.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        field_selector: str,
        parse: Callable[[Mapping[str, Any]], T],
        *,
        clock: Callable[[], float],
        changed: asyncio.Event,
        rng: random.Random,
    ) -> None:
        self.complete = False
        """A full list has been seen."""
        self.odd = 0
        """Objects skipped because they were not understood, each time they came."""
        self.reconnects = 0
        self.lists = 0
        self.last_error = ""
        self._client = client
        self._path = path
        self._selector = field_selector
        self._parse = parse
        self._clock = clock
        self._changed = changed
        self._rng = rng
        self._objects: dict[str, T] = {}
        self._version = _FROM_CACHE
        self._list_due = float("-inf")
        self._known_until = float("-inf")
        self._opened_at: float | None = None
        self._failures = 0
        self._outage_since: float | None = None
        self._told = False
        self._task: asyncio.Task[None] | None = None

    @property
    def values(self) -> tuple[T, ...]:
        """The objects, in the order they came."""
        return tuple(self._objects.values())

    def fresh_at(self, now: float) -> float:
        """Second up to which the objects are known to be current: now while the watch is open, -inf before all."""
        return now if self._opened_at is not None else self._known_until

    def health(self) -> WatchHealth:
        """The present state in numbers, for people."""
        return WatchHealth(
            open=self._opened_at is not None,
            complete=self.complete,
            failures=0 if self._stable() else self._failures,
            reconnects=self.reconnects,
            lists=self.lists,
            odd=self.odd,
            last_error=self.last_error,
            crashed=self._task is not None and self._task.done() and not self._task.cancelled(),
        )

    def start(self) -> None:
        """Begin to watch, in a task of its own."""
        self._task = asyncio.create_task(self._run(), name=f"watch {self._path}")

    async def stop(self) -> None:
        """End the task and wait for its end; what crashed it, a bug, is raised here."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.result()

    async def _run(self) -> None:
        while True:
            wait = 0.0
            good = False
            try:
                if self._clock() >= self._list_due:
                    await self._list()
                good = await self._follow()
            except ClusterError as error:
                self.last_error = str(error)
                wait = (isinstance(error, AnswerError) and error.retry_after) or 0.0
            if not good:
                self._failures += 1
                self._outage_since = self._clock() if self._outage_since is None else self._outage_since
                self._tell()
            # Added to what the server asks for: a server that restarts asks a whole fleet for the same seconds.
            await asyncio.sleep(wait + self._delay())
            self.reconnects += 1

    def _tell(self) -> None:
        """Log an outage once: who reads the log has to find it there, and a stream that breaks is everyday life."""
        if not self._told and self._failures >= WORTH_TELLING:
            self._told = True
            log.warning("%s cannot be watched: %s", self._path, self.last_error or "its streams end at once")

    def _delay(self) -> float:
        """Seconds to wait: a random part of a doubling limit; after a good stream too, as it may end for all agents."""
        long = self._outage_since is not None and self._clock() - self._outage_since >= LONG_OUTAGE
        limit = LONG_LIMIT if long else SHORT_LIMIT
        # 2 ** 10 is beyond both limits; a counter that runs for days must not become a huge number.
        return self._rng.uniform(0, min(limit, FIRST_DELAY * 2 ** min(self._failures, 10)))

    # --- the list

    async def _list(self) -> None:
        asked = self._clock()
        # A version asks for "not older than", which a server answers from its cache: with thousands of
        # agents after an outage this matters. Once refused, ask for the newest.
        params = {"fieldSelector": self._selector}
        if self._version != _NEWEST:
            params["resourceVersion"] = self._version
        try:
            answer = await self._client.request("GET", self._path, params=params, timeout=_LIST_TIMEOUT)
        except AnswerError as error:
            self._forget_version(error.code)
            raise
        version = answer["metadata"].get("resourceVersion") if isinstance(answer.get("metadata"), dict) else None
        items = answer.get("items")
        if not isinstance(version, str) or not version or not isinstance(items, list | None):
            raise UnreachableError(f"GET {self._path}: the answer is not a list of objects")
        self._replace(items or [])
        self.lists += 1
        self._version = version
        self._list_due = self._clock() + RELIST * self._rng.uniform(0.8, 1.2)
        self._known_until = max(self._known_until, asked)

    def _replace(self, items: list[Any]) -> None:
        found: dict[str, T] = {}
        for item in items:
            try:
                uid = _uid(item)
                found[uid] = self._parsed(uid, item)
            except ObjectError as error:
                self._skip(error)
        self._objects = found
        self.complete = True
        self._changed.set()

    # --- the watch

    async def _follow(self) -> bool:
        """Take events until the stream ends; True if it was open for a while and was ended in order."""
        seconds = max(1, int(self._list_due - self._clock()))
        params = {
            "fieldSelector": self._selector,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
            "resourceVersion": self._version,
        }
        try:
            async with self._client.watch(self._path, params, longest=seconds + _LIST_TIMEOUT) as stream:
                self._opened_at = self._clock()
                self._changed.set()
                if self._told:
                    self._told = False
                    log.info("%s is watched again", self._path)
                try:
                    async for event in stream:
                        self._take(event)
                finally:
                    good = self._closed(stream.known_until)
        except AnswerError as error:
            self._forget_version(error.code)
            raise
        return good

    def _closed(self, known_until: float) -> bool:
        good = self._stable()
        if good:
            self._failures = 0
            self._outage_since = None
        self._opened_at = None
        self._known_until = max(self._known_until, known_until)
        return good

    def _stable(self) -> bool:
        return self._opened_at is not None and self._clock() - self._opened_at >= STABLE

    def _forget_version(self, code: int) -> None:
        if code in _VERSION_REFUSED:
            self._version = _NEWEST
            self._list_due = float("-inf")

    def _take(self, event: Mapping[str, Any]) -> None:
        kind: Any = event.get("type")
        item: Any = event.get("object")
        if kind == "ERROR":
            raise status_error(item)
        try:
            metadata = objects.read("object", item, _metadata)
            version = metadata.get("resourceVersion")
            if isinstance(version, str) and version:
                self._version = version
            if kind != "BOOKMARK":
                self._change(kind, item)
        except ObjectError as error:
            self._skip(error)

    def _change(self, kind: Any, item: Mapping[str, Any]) -> None:
        if kind not in ("ADDED", "MODIFIED", "DELETED"):
            raise ObjectError(f"a watch event of type {kind!r} is not understood")
        uid = _uid(item)
        before = self._objects.get(uid)
        if kind == "DELETED":
            self._objects.pop(uid, None)
        else:
            self._objects[uid] = self._parsed(uid, item)
        if self._objects.get(uid) != before:
            self._changed.set()

    # --- odd objects

    def _parsed(self, uid: str, item: Mapping[str, Any]) -> T:
        """The object as it is now, or as it was last understood: it exists in either case."""
        try:
            return self._parse(item)
        except ObjectError as error:
            if uid not in self._objects:
                raise
            self._skip(error)
            return self._objects[uid]

    def _skip(self, error: ObjectError) -> None:
        self.odd += 1
        self.last_error = str(error)


def _metadata(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return objects.mapping(item["metadata"])


def _uid(item: Any) -> str:
    return objects.read("object", item, lambda found: objects.text(found["metadata"]["uid"]))

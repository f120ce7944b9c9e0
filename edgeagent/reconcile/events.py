"""Records Kubernetes events: said once, counted when said again, and never more than the server can bear.

The same words about the same object become a series of one event, written at the second
time and then every six minutes at most. Nothing waits here: whoever tells an event is told
whether to try it again. An event with an id has the same name at every attempt, so that one
which the server took without our knowing is found there and not made twice. One that lasts
has the name of its words, and so after a restart of the agent too.
"""

from __future__ import annotations

import hashlib
import logging
import random
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from edgeagent.cluster.client import Client
from edgeagent.errors import AnswerError, ClusterError
from edgeagent.facts import PREFIX
from edgeagent.plan.types import MERGE_PATCH, Event
from edgeagent.reconcile import stamps
from edgeagent.reconcile.outbox import DECISIONS, Ending

log = logging.getLogger(__name__)

CONTROLLER = PREFIX + "edgeagent"
BURST = 10.0
"""Events about one object that may follow each other at once; those of each kind of decision are counted apart."""
REFILL = 300.0
"""Seconds after which one more of them may be written."""
HEARTBEAT = 360.0
"""Seconds between two writes of a series that goes on."""
REMEMBERED = 512
"""Series and objects kept in mind; the least recent ones are forgotten first."""
_NOTE_BYTES = 1024
_INSTANCE_BYTES = 128
_NAME_LENGTH = 253
_NOT_FOUND = 404
_CONFLICT = 409
_ENDS = range(400, 500)
_PASSES = frozenset({401, 408, _CONFLICT, 425, 429})
"""Of the refusals that are the request's own fault, those that another attempt may not meet."""
_TIMEOUT = 5.0

_Key = tuple[str, str, str, str, str, str]


@dataclass(slots=True)
class _Series:
    path: str
    count: int
    written_at: float
    last_id: str
    """Of the event that was counted last: another attempt to tell it counts nothing."""
    told: int = 1
    """The count that the server has; it takes none below 2 for a series, and an event alone is none."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class EventRecorder:
    """Writes events to events.k8s.io/v1.

    Args:
        client: an open client.
        node: name of this node, told as the reporting instance.
        clock: monotonic seconds.
        wall: Unix time.
        rng: source of event names.
    """

    def __init__(
        self,
        client: Client,
        node: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        """``written``, ``known`` to the server already, ``counted`` (into a series, not written), ``dropped`` by the
        limit, ``failed``."""
        self._failing = False
        self._client = client
        self._node = node
        self._clock = clock
        self._wall = wall
        self._rng = rng or random.Random()  # noqa: S311 (names, not secrets)
        self._series: OrderedDict[_Key, _Series] = OrderedDict()
        self._buckets: OrderedDict[_Key, _Bucket] = OrderedDict()

    async def record(self, event: Event) -> Ending:
        """Write ``event``, or count it into the series it belongs to."""
        try:
            end = await self._record(event)
        except ClusterError as error:
            self.counts["failed"] += 1
            return self._failed(event, error)
        self.counts[end] += 1
        if end == "dropped":
            return "dropped"
        self._failing = False
        return "told"

    def _failed(self, event: Event, error: ClusterError) -> Ending:
        if isinstance(error, AnswerError) and error.code in _ENDS and error.code not in _PASSES:
            log.warning("the event %s for %s is not told: %s", event.reason, event.regarding, error)
            return "refused"
        if not self._failing:
            log.warning("an event could not be recorded: %s; what waits is told later", error)
        self._failing = True
        return "later"

    async def _record(self, event: Event) -> str:
        key = (event.kind, event.namespace, event.name, event.uid, event.reason, event.note)
        series = _recent(self._series, key)
        if series is None:
            return await self._begin(key, event)
        if not event.id or event.id != series.last_id:
            series.count += 1
            series.last_id = event.id
        elif series.count == series.told:
            return "known"
        if series.count > 2 and self._clock() - series.written_at < HEARTBEAT:  # noqa: PLR2004 (the second makes the series)
            return "counted"
        return await self._continue(key, event, series)

    async def _begin(self, key: _Key, event: Event) -> str:
        bucket = self._bucket((*key[:4], event.reason if event.reason in DECISIONS else "", ""))
        if bucket.tokens < 1:
            return "dropped"
        namespace = event.namespace or "default"  # where events about nodes have to be
        collection = f"/apis/events.k8s.io/v1/namespaces/{quote(namespace, safe='')}/events"
        body = self._body(event, namespace, self._suffix(key, event))
        end = "written"
        try:
            await self._client.request("POST", collection, body=body, timeout=_TIMEOUT)
        except AnswerError as error:
            if error.code != _CONFLICT or error.reason != "AlreadyExists":
                raise
            # An earlier attempt came to the server, and its answer did not come back; or an earlier run told it.
            end = "known"
        # What the server did not take costs nothing of what may be said.
        bucket.tokens = max(0.0, bucket.tokens - 1)
        _keep(self._series, key, _Series(f"{collection}/{body['metadata']['name']}", 1, self._clock(), event.id))
        return end

    async def _continue(self, key: _Key, event: Event, series: _Series) -> str:
        count = series.count
        last = {"count": count, "lastObservedTime": stamps.micros(self._happened(event))}
        try:
            await self._client.request(
                "PATCH", series.path, body={"series": last}, content_type=MERGE_PATCH, timeout=_TIMEOUT
            )
        except AnswerError as error:
            if error.code != _NOT_FOUND:
                raise
            # The server forgets events after an hour: say it anew.
            return await self._begin(key, event)
        series.written_at, series.told = self._clock(), count
        return "written"

    def _happened(self, event: Event) -> float:
        """Unix time of what is told. A clock that was set since is right about what happened in this boot, too."""
        if event.wall is not None:
            return event.wall
        return self._wall() - (0.0 if event.at is None else max(0.0, self._clock() - event.at))

    def _suffix(self, key: _Key, event: Event) -> str:
        if not (event.lasting or event.id):
            return f".{self._rng.getrandbits(64):016x}"
        named = "/".join(key) if event.lasting else f"{event.id}/{event.reason}"
        return f".{hashlib.sha256(named.encode(errors='replace')).hexdigest()[:16]}"

    def _body(self, event: Event, namespace: str, suffix: str) -> dict[str, Any]:
        name = event.name[: _NAME_LENGTH - len(suffix)]
        regarding = {"apiVersion": "v1", "kind": event.kind, "name": event.name, "uid": event.uid}
        if event.namespace:
            regarding["namespace"] = event.namespace
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name.rstrip("-.") + suffix, "namespace": namespace},
            "eventTime": stamps.micros(self._happened(event)),
            "type": "Warning" if event.warning else "Normal",
            "reason": event.reason,
            "action": event.reason,
            "note": _cut(event.note, _NOTE_BYTES),
            "regarding": regarding,
            "reportingController": CONTROLLER,
            "reportingInstance": _cut(self._node, _INSTANCE_BYTES),
        }

    def _bucket(self, key: _Key) -> _Bucket:
        now = self._clock()
        bucket = _recent(self._buckets, key) or _Bucket(BURST, now)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.at) / REFILL)
        bucket.at = now
        _keep(self._buckets, key, bucket)
        return bucket


def _recent(kept: OrderedDict[_Key, Any], key: _Key) -> Any:
    if key in kept:
        kept.move_to_end(key)
    return kept.get(key)


def _keep(kept: OrderedDict[_Key, Any], key: _Key, value: Any) -> None:
    kept[key] = value
    if len(kept) > REMEMBERED:
        kept.popitem(last=False)


def _cut(text: str, most: int) -> str:
    """``text`` of at most ``most`` bytes, which is how the server counts."""
    return text.encode(errors="replace")[:most].decode(errors="ignore")

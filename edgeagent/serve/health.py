"""Alive, ready: which checks there are, and which of them fail. Pure functions of what is shown and of the time."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from edgeagent.serve.shown import ClusterHealth, ReadingHealth, Shown

OK = 200
UNAVAILABLE = 503
EXCLUDED = "excluded"
"""What is said of a check that was not to count."""

Json = dict[str, Any]
Answer = tuple[int, Json]
"""HTTP status and body."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. ``message`` says what is wrong; empty: nothing is.

    ``note`` is what should be known although nothing is wrong.
    """

    name: str
    message: str = ""
    note: str = ""
    age: float | None = None
    """Seconds since what was looked at went well; None: never, or there is no limit to it."""
    allowed: float | None = None
    """Seconds that ``age`` may have; None: no age decides."""

    def told(self) -> Json:
        """As it stands in ``reasons``."""
        return {"name": self.name, "message": self.message}

    def listed(self, *, excluded: bool) -> Json:
        """As it stands in ``checks``."""
        said = EXCLUDED if excluded else self.message or self.note
        found: Json = {"name": self.name, "ok": excluded or not self.message, "message": said}
        if self.allowed is not None:
            found["age_seconds"] = None if self.age is None or math.isinf(self.age) else round(self.age, 3)
            found["allowed_seconds"] = self.allowed
        return found


def livez(shown: Shown | None, now: float, *, verbose: bool = False, without: Collection[str] = ()) -> Answer:
    """503 only for what a restart cures: a loop that has not turned for too long.

    A hung driver, a stale reading or an unreachable API server are none of that: whoever
    restarts the agent for them makes a bad hour worse.
    """
    return _answer(list(_loops(shown, now)) if shown else [], verbose=verbose, without=without)


def readyz(shown: Shown | None, now: float, *, verbose: bool = False, without: Collection[str] = ()) -> Answer:
    """503 unless the agent sees the board, the board is published, and both are current.

    ``verbose`` lists every check; those named in ``without`` count as passed.
    """
    return _answer(_ready(shown, now), verbose=verbose, without=without)


def healthz(shown: Shown | None, now: float, *, verbose: bool = False, without: Collection[str] = ()) -> Answer:
    """200 as long as anybody answers; the reasons are those of ``readyz``."""
    status, body = readyz(shown, now, verbose=verbose, without=without)
    return OK, body if status == OK else {**body, "status": "degraded"}


def _answer(checks: list[Check], *, verbose: bool, without: Collection[str]) -> Answer:
    reasons = [check.told() for check in checks if check.message and check.name not in without]
    body: Json = {"status": "unavailable" if reasons else "ok", "reasons": reasons}
    if verbose:
        body["checks"] = [check.listed(excluded=check.name in without) for check in checks]
    return (UNAVAILABLE if reasons else OK), body


def lines(name: str, body: Json, *, verbose: bool) -> bytes:
    """A verbose body as Kubernetes' own components print theirs: one line when all is well, else one per check."""
    passed = body["status"] == "ok"
    if passed and not verbose:
        return b"ok\n"
    rows = [_line(check) for check in body["checks"]]
    return "\n".join([*rows, f"{name} check {'passed' if passed else 'failed'}", ""]).encode()


def _line(check: Json) -> str:
    said = check["message"]
    if check["ok"]:
        ending = "excluded: ok" if said == EXCLUDED else f"ok: {said}" if said else "ok"
        return f"[+]{check['name']} {ending}"
    return f"[-]{check['name']} failed: {said}"


def _check(name: str, message: str, *, failed: bool) -> Check:
    return Check(name, message if failed else "")


def sample(shown: Shown | None, now: float) -> Check:
    """Whether there is a plan that may be told."""
    if shown is None or shown.plan is None:
        return Check("first-reading", "the board was not read completely yet")
    age = now - shown.at
    message = f"the last sample is {_seconds(age)} old" if shown.stale(now) else ""
    return Check("sample-stale", message, age=age, allowed=shown.max_age)


def unavailable(check: Check) -> Json:
    """The body of an answer that cannot be given for this one reason."""
    return {"status": "unavailable", "reasons": [check.told()]}


def _ready(shown: Shown | None, now: float) -> list[Check]:
    if shown is None:
        return [sample(shown, now)]
    checks = [*_loops(shown, now), sample(shown, now), *_readings(shown, now)]
    if shown.cluster is not None:
        checks += _cluster(shown.cluster, now, shown.max_age)
        if shown.has_gpu:
            missing = f"the node does not carry the planned values{_because(shown.cluster)}"
            checks.append(_check("not-published", missing, failed=not shown.cluster.published))
    return checks


def _loops(shown: Shown, now: float) -> Iterator[Check]:
    for name, loop in sorted(shown.loops.items()):
        age = now - loop.beat_at
        said = f"the last turn is {_seconds(age)} ago, {_seconds(loop.allowed)} are allowed"
        if math.isinf(age):
            said = "it has ended, and only a restart brings it back"
        yield Check(f"loop-stalled:{name}", said if age > loop.allowed else "", age=age, allowed=loop.allowed)


def _readings(shown: Shown, now: float) -> Iterator[Check]:
    for name, reading in sorted(shown.readings.items()):
        waiting = reading.waiting_since
        stalled = f"{name} stalled {_seconds(now - waiting)}: a call does not come back" if waiting is not None else ""
        yield Check(f"{name}-stalled", stalled)
        age = None if reading.succeeded_at is None else now - reading.succeeded_at
        yield Check(f"reading-stale:{name}", _stale(reading, now), note=reading.never, age=age, allowed=reading.max_age)


def _stale(reading: ReadingHealth, now: float) -> str:
    if not reading.stale(now):
        return ""
    if reading.succeeded_at is None:
        said = "it was never read"
    else:
        said = f"it was last read {_seconds(now - reading.succeeded_at)} ago"
    return f"{said}: {reading.why}" if reading.why else said


def _cluster(cluster: ClusterHealth, now: float, max_age: float) -> Iterator[Check]:
    """An API server that does not answer, and one that answers but not with a current view, are two things.

    One that cannot be asked at all is a third.
    """
    yield Check("credentials-unusable", cluster.unusable)
    old = now - cluster.fresh_at > max_age
    answered = cluster.succeeded_at
    silent = answered is None or now - answered > max_age
    because = _because(cluster)
    came = "no good answer yet" if answered is None else f"the last good answer came {_seconds(now - answered)} ago"
    unreachable = old and silent and not cluster.unusable
    yield Check("cluster-unreachable", f"{came}{because}" if unreachable else "", note=came)
    # One reason is read once.
    unlisted = f"own node and own pods were not listed yet{'' if old and silent else because}"
    yield _check("view-incomplete", unlisted, failed=not cluster.complete)
    age = now - cluster.fresh_at if cluster.complete else None
    said = f"the view is {_seconds(age)} old{because}" if age is not None and old and not silent else ""
    yield Check("view-stale", said, age=age, allowed=max_age)
    yield _check("node-name", "the name of this node is not known, so nothing is written", failed=not cluster.node)
    for refused in cluster.refused:
        yield Check(f"forbidden:{refused.part}", f"the API server answers {refused.code}: {refused.message}")


def _because(cluster: ClusterHealth) -> str:
    # What is wrong with credentials is a reason of its own.
    return f": {cluster.error}" if cluster.error and not cluster.unusable else ""


def _seconds(amount: float) -> str:
    return f"{amount:.0f} s"

"""Alive, ready: which checks there are, and which of them fail. Pure functions of what is shown and of the time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from edgeagent.serve.shown import ClusterHealth, ReadingHealth, Shown

OK = 200
UNAVAILABLE = 503

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

    def told(self) -> Json:
        """As it stands in ``reasons``."""
        return {"name": self.name, "message": self.message}


def livez(shown: Shown | None, now: float, *, verbose: bool = False) -> Answer:
    """503 only for what a restart cures: a loop that has not turned for too long.

    A hung driver, a stale reading or an unreachable API server are none of that: whoever
    restarts the agent for them makes a bad hour worse.
    """
    return _answer(list(_loops(shown, now)) if shown else [], verbose=verbose)


def readyz(shown: Shown | None, now: float, *, verbose: bool = False) -> Answer:
    """503 unless the agent sees the board, the board is published, and both are current."""
    return _answer(_ready(shown, now), verbose=verbose)


def healthz(shown: Shown | None, now: float, *, verbose: bool = False) -> Answer:
    """200 as long as anybody answers; the reasons are those of ``readyz``."""
    status, body = readyz(shown, now, verbose=verbose)
    return OK, body if status == OK else {**body, "status": "degraded"}


def _answer(checks: list[Check], *, verbose: bool) -> Answer:
    reasons = [check.told() for check in checks if check.message]
    body: Json = {"status": "unavailable" if reasons else "ok", "reasons": reasons}
    if verbose:
        body["checks"] = [
            {"name": check.name, "ok": not check.message, "message": check.message or check.note} for check in checks
        ]
    return (UNAVAILABLE if reasons else OK), body


def _check(name: str, message: str, *, failed: bool) -> Check:
    return Check(name, message if failed else "")


def sample(shown: Shown | None, now: float) -> Check:
    """Whether there is a plan that may be told."""
    if shown is None or shown.plan is None:
        return Check("first-reading", "the board was not read completely yet")
    return _check("sample-stale", f"the last sample is {_seconds(now - shown.at)} old", failed=shown.stale(now))


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
        yield _check(f"loop-stalled:{name}", said, failed=age > loop.allowed)


def _readings(shown: Shown, now: float) -> Iterator[Check]:
    for name, reading in sorted(shown.readings.items()):
        waiting = reading.waiting_since
        stalled = f"{name} stalled {_seconds(now - waiting)}: a call does not come back" if waiting is not None else ""
        yield Check(f"{name}-stalled", stalled)
        yield Check(f"reading-stale:{name}", _stale(reading, now), note=reading.never)


def _stale(reading: ReadingHealth, now: float) -> str:
    if not reading.stale(now):
        return ""
    if reading.succeeded_at is None:
        said = "it was never read"
    else:
        said = f"it was last read {_seconds(now - reading.succeeded_at)} ago"
    return f"{said}: {reading.why}" if reading.why else said


def _cluster(cluster: ClusterHealth, now: float, max_age: float) -> Iterator[Check]:
    """An API server that does not answer, and one that answers but not with a current view, are two things."""
    old = now - cluster.fresh_at > max_age
    answered = cluster.succeeded_at
    silent = answered is None or now - answered > max_age
    last = "never" if answered is None else f"{_seconds(now - answered)} ago"
    because = _because(cluster)
    yield _check("cluster-unreachable", f"the last good answer came {last}{because}", failed=old and silent)
    unlisted = f"own node and own pods were not listed yet{because}"
    yield _check("view-incomplete", unlisted, failed=not cluster.complete)
    age = f"the view is {_seconds(now - cluster.fresh_at)} old{because}"
    yield _check("view-stale", age, failed=cluster.complete and old and not silent)
    yield _check("node-name", "the name of this node is not known, so nothing is written", failed=not cluster.node)
    for refused in cluster.refused:
        yield Check(f"forbidden:{refused.part}", f"the API server answers {refused.code}: {refused.message}")


def _because(cluster: ClusterHealth) -> str:
    return f": {cluster.error}" if cluster.error else ""


def _seconds(amount: float) -> str:
    return f"{amount:.0f} s"

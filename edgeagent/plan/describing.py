"""The words and figures of an incident: who, how much, of what, since when, and who else held memory then."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from edgeagent.plan import readings
from edgeagent.plan.decide import PLAUSIBLE_WALL

if TYPE_CHECKING:
    from edgeagent.plan.breaches import PodView
    from edgeagent.plan.readings import Column
    from edgeagent.plan.state import State
    from edgeagent.plan.types import Eviction, Finding, Held, Kill, Plan

MOST_PIDS = 16
LONGEST_TEXT = 1024
"""Characters of a sentence that are kept; the API server allows a note of an event as many bytes."""
LONGEST_ANSWER = 256
LONGEST_NAME = 253
"""Characters of a name that are kept; the API server allows no longer ones."""
FEWEST_READINGS = 5
_LAST_WALL = 253_402_300_800.0
"""The year 10000, which no date can tell in four digits."""


class Subject(NamedTuple):
    """What a decision is about."""

    view: PodView | None
    reason: str
    breach: str | None = None
    grace: int | None = None
    place: int | None = None
    """In the order of those that were to go, from 1 on."""
    pids: tuple[int, ...] = ()


def evicted(view: PodView, eviction: Eviction, place: int) -> Subject:
    """A pod that is evicted."""
    return Subject(view, eviction.message, eviction.breach, eviction.grace_seconds, place)


def killed(view: PodView, kill: Kill) -> Subject:
    """A pod whose processes are killed."""
    return Subject(view, kill.message, view.breach, place=1, pids=tuple(pid for pid, _ in kill.processes))


def observed(view: PodView, held: Held, place: int) -> Subject:
    """A pod that is not evicted because the agent observes."""
    # Who is over no budget is asked for its memory all the same, where the configuration says so.
    breach = view.breach or ("unbudgeted" if view.state == "unbudgeted" else "above-request")
    reason = view.reason or "it uses more than it has booked"
    return Subject(view, f"{reason}. It is not evicted: {held.why}.", breach, place=place)


def spared(finding: Finding) -> Subject:
    """Nobody, though the memory is nearly gone."""
    return Subject(None, finding.summary)


def described(subject: Subject, plan: Plan, state: State, now: float) -> dict[str, Any]:
    """The part of a record that says what was decided on, and why. Seconds are counted from the decision on."""
    view = subject.view
    used, budget, excess = _figures(view, subject.breach)
    window = state.windows.get(view.pod.uid) if view else None
    return {
        "pod": None if view is None else _name(view),
        "breach": subject.breach,
        "resource": view.resource or None if view else None,
        "used_bytes": used,
        "budget_bytes": budget,
        "excess_bytes": excess,
        "over_since": None if window is None else round(window.first_at - now, 3),
        "place": subject.place,
        "places": sum(one.breach is not None and one.state == "breach" for one in plan.pods),
        "reason": cut(subject.reason),
        "grace_seconds": subject.grace,
        "pids": list(subject.pids[:MOST_PIDS]),
        "more_pids": max(0, len(subject.pids) - MOST_PIDS),
    }


def _figures(view: PodView | None, breach: str | None) -> tuple[int | None, int | None, int | None]:
    """What was used of what, and by how much that is too much: of the kind of memory that the decision is about."""
    if view is None or breach is None:
        return None, None, None
    # The figures that the choice rests on: a host figure that is only an upper bound counts nothing.
    proven = None if view.use.host is None else view.proven_bytes
    if breach == "unbudgeted":
        return proven, None, None
    if breach == "above-request":
        return proven, view.booked, view.proven_bytes - view.booked
    budget = view.budgets[view.resource]
    gpu = view.use.gpu.get(view.resource)
    if breach == "gpu":
        return gpu, budget.gpu, view.excess
    both = None if gpu is None or view.use.host is None else gpu + view.use.host
    return both, budget.total, view.excess


def columns(plan: Plan, subject: PodView | None) -> tuple[tuple[Column, ...], list[dict[str, Any]], int]:
    """The pods that matter, as columns of the readings and as they are told, and how many others there are."""
    others = [view for view in readings.foremost(plan.pods) if subject is None or view.pod.uid != subject.pod.uid]
    chosen = [*([subject] if subject else []), *others][: readings.MOST_PODS]
    held = {one.uid: one.code for one in plan.held}
    told = [
        {
            **_name(view),
            "state": view.state,
            "breach": view.breach,
            "held": held.get(view.pod.uid),
            "resource": _resource(view) or None,
            "gpu_budget_bytes": view.budgets[_resource(view)].gpu if _resource(view) else None,
            "total_budget_bytes": view.budgets[_resource(view)].total if _resource(view) else None,
        }
        for view in chosen
    ]
    return tuple((view.pod.uid, _resource(view)) for view in chosen), told, len(plan.pods) - len(chosen)


def _resource(view: PodView) -> str:
    """The pool whose bytes are shown: that of the breach, else the board's own memory, else the pod's only one."""
    return view.resource or next(iter((*view.shared, *sorted(view.budgets))), "")


def _name(view: PodView) -> dict[str, Any]:
    pod = view.pod
    owner = None if pod.owner is None else {"kind": _short(pod.owner[0]), "name": _short(pod.owner[1])}
    return {"namespace": _short(pod.namespace), "name": _short(pod.name), "uid": _short(pod.uid), "owner": owner}


def lessened(record: dict[str, Any]) -> dict[str, Any]:
    """The least that is worth keeping of a record that is too long: the first pod, and a few readings."""
    less = dict(record)
    if "pods" in record:
        less["pods"] = record["pods"][:1]
        less["more_pods"] = record["more_pods"] + len(record["pods"][1:])
        less["reason"] = cut(record["reason"], LONGEST_ANSWER)
    for rows in ("before", "after"):
        if rows in record:
            less[rows] = [{**row, "pods": row["pods"][:1]} for row in record[rows][-FEWEST_READINGS:]]
    if "outcomes" in record:
        less["outcomes"] = [{**one, "message": ""} for one in record["outcomes"]]
    if "event" in record:
        less["event"] = {**record["event"], "note": cut(record["event"]["note"], LONGEST_ANSWER)}
    return less


def _short(name: str) -> str:
    return cut(name, LONGEST_NAME)


def cut(text: str, most: int = LONGEST_TEXT) -> str:
    """At most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def plausible(wall: float) -> bool:
    """Whether the clock was ever set."""
    return wall > PLAUSIBLE_WALL


def seconds(stamp: str) -> float:
    """The Unix time that :func:`stamp` wrote.

    Raises:
        ValueError: it did not.
    """
    wall = datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()
    if not 0 <= wall < _LAST_WALL:
        raise ValueError
    return wall


def stamp(wall: float) -> str:
    """A Unix time as RFC 3339, in UTC and milliseconds."""
    moment = datetime.fromtimestamp(wall, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""Which decisions are incidents, and what is kept of each: one record when it is made, one when its end is known.

An incident is an eviction, a kill, an eviction that would have been made if the agent did more than observe, or that
nobody could be killed although the memory is nearly gone. It is one decision, however many cycles it takes and however
often a call is made for it: who was refused and asked for again within the same breach is the same incident.

Records are JSON values. :mod:`edgeagent.plan.history` reads them; ``docs/reference/history.md`` says what they mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from edgeagent.plan import describing, readings
from edgeagent.plan.kills import CRITICAL
from edgeagent.plan.notices import QUIET_SECONDS

if TYPE_CHECKING:
    from edgeagent.plan.breaches import PodView
    from edgeagent.plan.describing import Subject
    from edgeagent.plan.readings import Column, Look
    from edgeagent.plan.state import State
    from edgeagent.plan.types import EvictionResult, KillResult, Plan

FORMAT = 1
"""Raised when a key changes its meaning. Lines of another format are not read."""
AFTER_SECONDS = 60.0
"""How long an incident is watched after the decision, or after an answer that says something new."""
HOUR = 3600.0
MOST_PER_HOUR = {"eviction": 30, "kill": 30, "would-evict": 12, "nobody": 12}
MOST_PER_POD = 6
"""Incidents about one pod in an hour, of one kind: what flaps fills no disk. The number of those left out is kept."""

Kind = Literal["eviction", "kill", "would-evict", "nobody"]
Key = tuple[Kind, str]
"""Kind and pod uid, "" for nobody's."""
Ended = Literal["back", "gone", "within", "time", "stopped"]
"""Why an incident is watched no longer.

``back`` the processes that held the victim's memory are gone · ``gone`` the pod had gone before anything was done ·
``within`` it is within its budget again · ``time`` a minute passed · ``stopped`` the agent was told to end.
"""
MOST_OUTCOMES = 12
"""Answers that are kept of one incident, whatever was answered in turns."""


class Moment(NamedTuple):
    """When and where a plan was made."""

    now: float
    memory_at: float
    read_at: float
    wall: float
    boot_id: str | None
    node: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One that is under way. What was written of it is not kept here."""

    id: str
    at: float
    columns: tuple[Column, ...]
    over: bool
    """A pod was over its budget, and may be within it again."""
    processes: frozenset[tuple[int, int]] = frozenset()
    """(pid, start ticks) of those that were killed."""
    seen_at: float
    """When the decision was due last."""
    since: float
    """From when on it is watched: the decision, or the answer that said something new."""
    watched: bool = True
    last: str = ""
    """The outcome that came last."""
    attempts: int = 0
    """Calls that were answered, or kills that were carried out."""
    said: int = 0
    """Outcomes that were kept, written or not."""
    told: tuple[str, ...] = ()
    """Reasons of the events that it had to tell."""
    outcomes: tuple[Mapping[str, Any], ...] = ()
    """Not written yet, nor are the rows."""
    after: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """All that incidents are made from, from one decision to the next."""

    looks: tuple[Look, ...] = ()
    open: Mapping[Key, Incident] = field(default_factory=dict)
    silent: Mapping[Key, float] = field(default_factory=dict)
    """Decisions of which too many were kept, and when each was due last."""
    recent: tuple[tuple[float, Key], ...] = ()
    """Those of the last hour."""
    left_out: int = 0
    """Incidents that were not kept since the last one that was."""


class Due(NamedTuple):
    """A decision of a plan."""

    key: Key
    subject: Subject


def follow(
    book: Book, state: State, plan: Plan, moment: Moment, kills: Sequence[KillResult] = ()
) -> tuple[Book, tuple[dict[str, Any], ...]]:
    """The book after one more plan, and the records that are to be kept now.

    ``kills``: how the kills of this plan ended. They are carried out before anything is written.
    """
    looked = readings.look(plan, moment.memory_at, moment.read_at, book.looks[-1] if book.looks else None)
    looks = readings.remembered(book.looks, looked)
    book = replace(book, looks=looks, recent=tuple(one for one in book.recent if 0 <= moment.now - one[0] < HOUR))
    records: list[dict[str, Any]] = []
    for due in _due(plan):
        book, opened = _opened(book, plan, state, due, moment)
        records += opened
    for result in kills:
        book = _killed(book, result, moment.now)
    book, ends = _watched(book, state, plan, moment)
    return book, (*records, *ends)


def answered(book: Book, result: EvictionResult, now: float) -> Book:
    """The book after an eviction call was answered."""
    key: Key = ("eviction", result.uid)
    incident = book.open.get(key)
    if incident is None:
        return book
    told = {"outcome": result.outcome, "message": describing.cut(result.message, describing.LONGEST_ANSWER)}
    return _with(book, key, _learned(replace(incident, attempts=incident.attempts + 1), told, now))


def stopped(book: Book, moment: Moment) -> tuple[dict[str, Any], ...]:
    """The last records of an agent that is told to end."""
    return tuple(_outcome(one, "stopped", moment) for one in book.open.values() if one.watched)


def remembering(recent: Sequence[tuple[float, str, str]], now: float) -> Book:
    """A new book that knows of (monotonic second, kind, uid) of what an earlier run of this boot has kept."""
    kinds: dict[str, Kind] = {"eviction": "eviction", "kill": "kill", "would-evict": "would-evict", "nobody": "nobody"}
    kept = ((at, (kinds[kind], uid)) for at, kind, uid in recent if kind in kinds and 0 <= now - at < HOUR)
    return Book(recent=tuple(sorted(kept)))


# --- what is due -----------------------------------------------------------------------


def _due(plan: Plan) -> Iterator[Due]:
    """The decisions of a plan, first what is done."""
    views = {view.pod.uid: view for view in plan.pods}
    for place, eviction in enumerate(plan.evictions, start=1):
        view = views.get(eviction.uid)
        if view is not None:
            yield Due(("eviction", eviction.uid), describing.evicted(view, eviction, place))
    for kill in plan.kills:
        view = views.get(kill.uid)
        if view is not None:
            yield Due(("kill", kill.uid), describing.killed(view, kill))
    observed = [held for held in plan.held if held.code == "observe" and held.uid in views]
    for place, held in enumerate(observed, start=1):
        yield Due(("would-evict", held.uid), describing.observed(views[held.uid], held, place))
    for finding in plan.findings:
        if finding.id == CRITICAL:
            yield Due(("nobody", ""), describing.spared(finding))


def _opened(book: Book, plan: Plan, state: State, due: Due, moment: Moment) -> tuple[Book, tuple[dict[str, Any], ...]]:
    incident = book.open.get(due.key)
    if incident is not None:
        return _with(book, due.key, replace(incident, seen_at=moment.now)), ()
    if _too_many(book, due.key):
        left = book.left_out + (due.key not in book.silent)
        return replace(book, silent={**book.silent, due.key: moment.now}, left_out=left), ()
    columns, pods, more = describing.columns(plan, due.subject.view)
    kind, uid = due.key
    incident = Incident(
        id=_id(moment, kind, uid),
        at=moment.now,
        columns=columns,
        over=due.subject.breach in ("gpu", "shared"),
        seen_at=moment.now,
        since=moment.now,
    )
    record = {
        "format": FORMAT,
        "line": "decision",
        "id": incident.id,
        **when(moment),
        "node": None if moment.node is None else describing.cut(moment.node, describing.LONGEST_NAME),
        "kind": kind,
        "mode": "observe" if plan.observe else "enforce",
        **describing.described(due.subject, plan, state, moment.now),
        "pods": pods,
        "more_pods": more,
        "before": readings.before(book.looks, moment.now, columns),
        "left_out": book.left_out,
    }
    book = replace(book, recent=(*book.recent, (moment.now, due.key)), left_out=0)
    return _with(book, due.key, incident), (record,)


def _too_many(book: Book, key: Key) -> bool:
    alike = sum(one[0] == key[0] for _, one in book.recent)
    same = sum(one == key for _, one in book.recent)
    return alike >= MOST_PER_HOUR[key[0]] or same >= MOST_PER_POD


def _id(moment: Moment, kind: Kind, uid: str) -> str:
    """Within a boot no two decisions of a kind about one pod have the same millisecond; no two boots the same id."""
    boot = moment.boot_id or f"wall-{moment.wall:.0f}"
    return describing.cut(f"{boot}/{moment.now:.3f}/{kind}/{uid}", 2 * describing.LONGEST_NAME)


def when(moment: Moment) -> dict[str, Any]:
    """The part of a record that says when it was, by both clocks."""
    return {
        "wall": describing.stamp(moment.wall),
        "wall_plausible": describing.plausible(moment.wall),
        "boot_id": moment.boot_id,
        "seconds": round(moment.now, 3),
    }


# --- what becomes of it ----------------------------------------------------------------


def _with(book: Book, key: Key, incident: Incident | None) -> Book:
    others = {other: one for other, one in book.open.items() if other != key}
    return replace(book, open=others if incident is None else {**others, key: incident})


def _killed(book: Book, result: KillResult, now: float) -> Book:
    key: Key = ("kill", result.uid)
    incident = book.open.get(key)
    if incident is None:
        return book
    incident = replace(incident, attempts=incident.attempts + 1)
    # What is said is why the first of those that were not killed was not; of the others it is not known here.
    first = next((end for _, end in result.outcomes if end not in ("killed", "gone")), None)
    for outcome in sorted({outcome for _, outcome in result.outcomes}):
        processes = [process for process, end in result.outcomes if end == outcome]
        told = {
            "outcome": outcome,
            "message": describing.cut(result.message if outcome == first else "", describing.LONGEST_ANSWER),
            "pids": [pid for pid, _ in processes[: describing.MOST_PIDS]],
            "more_pids": max(0, len(processes) - describing.MOST_PIDS),
        }
        incident = _learned(incident, told, now)
        if outcome == "killed":
            incident = replace(incident, processes=incident.processes | frozenset(processes))
    return _with(book, key, incident)


def _learned(incident: Incident, told: Mapping[str, Any], now: float) -> Incident:
    """The incident after one more answer. What only repeats the last one is counted, and not waited for anew."""
    repeated = told["outcome"] == incident.last != "killed"
    if repeated or (incident.said >= MOST_OUTCOMES and told["outcome"] != "accepted"):
        return incident
    return replace(
        incident,
        last=str(told["outcome"]),
        said=incident.said + 1,
        outcomes=(*incident.outcomes, {"t": round(now - incident.at, 3), **told}),
        since=now,
        watched=True,
    )


def _watched(book: Book, state: State, plan: Plan, moment: Moment) -> tuple[Book, tuple[dict[str, Any], ...]]:
    """The book after the incidents that are watched had one more reading, and the records of those that ended."""
    views = {view.pod.uid: view for view in plan.pods}
    after: dict[Key, Incident] = {}
    records = []
    for key, before in book.open.items():
        one = replace(before, seen_at=moment.now) if _lasts(key, views) else before
        if one.watched:
            ended = _end(key, one, state, views, moment)
            one = _seen(one, book.looks[-1], last=ended is not None)
            if ended is not None:
                records.append(_outcome(one, ended, moment))
                one = replace(one, watched=False, outcomes=(), after=())
                if ended in ("back", "gone"):
                    continue
        if one.watched or moment.now - one.seen_at <= QUIET_SECONDS:
            after[key] = one
    silent = {
        key: moment.now if _lasts(key, views) else at
        for key, at in book.silent.items()
        if moment.now - at <= QUIET_SECONDS
    }
    return replace(book, open=after, silent=silent), tuple(records)


def _lasts(key: Key, views: Mapping[str, PodView]) -> bool:
    """Whether the breach of the decision goes on. A reading that failed ends none."""
    kind, uid = key
    view = views.get(uid)
    if kind == "kill" or view is None or view.state == "terminating":
        return False
    return view.breach is not None or view.state == "unknown"


def _end(key: Key, one: Incident, state: State, views: Mapping[str, PodView], moment: Moment) -> Ended | None:
    kind, uid = key
    if kind == "eviction" and one.last == "accepted" and _released(state, uid):
        return "back"
    if kind == "eviction" and one.last == "gone" and uid not in views:
        return "gone"
    if kind == "kill" and one.processes and not one.processes & state.kills.signalled:
        return "back"
    view = views.get(uid)
    unhelped = kind == "would-evict" or (kind == "eviction" and one.last not in ("", "accepted", "gone"))
    if (
        unhelped
        and one.over
        and view is not None
        and view.breach is None
        and view.state not in ("unknown", "terminating")
    ):
        return "within"
    return "time" if moment.now - one.since >= AFTER_SECONDS else None


def _released(state: State, uid: str) -> bool:
    victim = state.victims.get(uid)
    return victim is None or victim.released_at is not None


def _seen(one: Incident, looked: Look, *, last: bool) -> Incident:
    """The incident with the newest reading, if that is worth a row. ``last``: no other comes after it."""
    passed = looked.at - (one.since if not one.after else one.at + float(one.after[-1]["t"]))
    far = readings.gap(looked.at - one.since)
    if passed <= 0 or not (last or passed >= far):
        return one
    rows = one.after[: readings.MOST_READINGS - 1]
    return replace(one, after=(*rows, readings.row(looked, one.at, one.columns)))


def _outcome(one: Incident, ended: Ended, moment: Moment) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "line": "outcome",
        "id": one.id,
        **when(moment),
        "t": round(moment.now - one.at, 3),
        "ended": ended,
        "attempts": one.attempts,
        "outcomes": list(one.outcomes),
        "after": list(one.after),
    }

"""Incidents for people: who, how much of what, since when, what was done, what came back and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from edgeagent.plan.report.style import BLANK, Line, Span, Tone, length, line, render, wrapped
from edgeagent.quantity import human

if TYPE_CHECKING:
    from edgeagent.plan.history import History
    from edgeagent.plan.report.style import Style

_HEADS: dict[str, tuple[str, Tone]] = {
    "eviction": ("EVICTION", "bad"),
    "kill": ("KILL", "bad"),
    "would-evict": ("WOULD EVICT", "warn"),
    "nobody": ("NOBODY KILLED", "bad"),
}
_OUTCOMES = {
    "accepted": "the API server accepted the eviction",
    "gone": "it was gone by then",
    "blocked": "a disruption budget does not allow the eviction",
    "throttled": "the API server asked for a pause",
    "misconfigured": "more than one disruption budget covers the pod",
    "forbidden": "the API server does not let the agent evict",
    "unauthorized": "the API server does not accept the agent's credentials",
    "unknown": "the API server did not answer clearly",
    "recovered": "read again just before the call it was not due any more, and nothing was sent",
    "killed": "killed",
    "changed": "not killed: another process by then",
    "stale": "not killed: the reading was too old by then",
    "refused": "not killed: the kernel did not allow it, or a file could not be read",
    "not-procfs": "not killed: the board is driven from files",
    "no-pidfd": "not killed: this kernel has no pidfd",
}
_ENDS = {
    "back": "the processes that held its memory are gone",
    "gone": "the pod is gone",
    "within": "it is within its budget again",
    "stopped": "the agent was told to end, and looked no further",
}
_COLUMN = 10
"""Columns of one figure."""
_FIXED = 3
"""Figures before those of pods: the time, what is usable, how fast it falls."""
_OLD = 10.0
"""Seconds after which a pod's figure is marked as older than its row."""
_FEW = 12
"""Rows of a table: every one near the decision, and some of the others."""


def text(found: History, style: Style) -> str:
    """The incidents, the latest last."""
    return render(_lines(found.incidents, style), style)


def _lines(found: Sequence[dict[str, Any]], style: Style) -> Iterator[Line]:
    for index, incident in enumerate(found):
        if index:
            yield BLANK
        yield from _incident(incident, style)


def _incident(one: dict[str, Any], style: Style) -> Iterator[Line]:
    title, tone = _HEADS[one["kind"]]
    clock = "" if one["wall_plausible"] else " (the clock was not set)"
    head = line(Span(f"{one['wall'][:10]} {one['wall'][11:19]} UTC{clock}  ", "strong"), Span(title, tone))
    about = f"  {_who(one['pod'])}" if one["pod"] else ""
    if length(head) + len(about) <= style.width:
        yield (*head, Span(about))
    else:
        yield head
        yield line(about)
    figures = _figures(one)
    if figures:
        yield from _told("used", figures, style)
    yield from _told("why", one["reason"], style)
    if one["place"] and one["places"] > 1:
        yield from _told("order", f"number {one['place']} of {one['places']} over their budget", style)
    if one["grace_seconds"] is not None:
        yield from _told("grace", f"{one['grace_seconds']} s to end by itself", style)
    for index, said in enumerate(_became(one)):
        yield from _told("" if index else "then", said, style)
    for told in one["events"]:
        yield from _told("event", f"{told['reason']}: {_telling(told)}", style)
    if one["left_out"]:
        yield from _told("before", f"{one['left_out']} more were not kept: too many in an hour", style)
    yield from _table(one, style)


def _told(head: str, words: str, style: Style) -> Iterator[Line]:
    yield from wrapped(words, style, 10, line("  ", Span(head, "dim")))


def _who(pod: dict[str, Any]) -> str:
    owner = f" of {pod['owner']['kind']} {pod['owner']['name']}" if pod["owner"] else ""
    return f"{pod['namespace']}/{pod['name']}{owner}"


def _figures(one: dict[str, Any]) -> str:
    if one["breach"] is None:
        return ""
    what = {"gpu": "GPU memory", "shared": "GPU and host memory"}.get(one["breach"], "memory")
    allowed = "booked" if one["breach"] == "above-request" else "budget"
    budget = f"{allowed} {human(one['budget_bytes'])}" if one["budget_bytes"] is not None else "no budget"
    excess = f", {human(one['excess_bytes'])} too much{_both(one)}" if one["excess_bytes"] is not None else ""
    since = f", for {-one['over_since']:.0f} s" if one["over_since"] is not None else ""
    return f"{human(one['used_bytes'])} of {what}, {budget}{excess}{since}"


def _both(one: dict[str, Any]) -> str:
    """Of what the excess is, where it is not of the memory that was told before it."""
    known = one["used_bytes"] is not None and one["budget_bytes"] is not None
    both = one["breach"] == "gpu" and known and one["excess_bytes"] != one["used_bytes"] - one["budget_bytes"]
    return " with host memory" if both else ""


def _became(one: dict[str, Any]) -> Iterator[str]:
    """What came of the decision, in order. Times are seconds from it on."""
    if one["kind"] == "kill" and one["ended"] is None and one["pids"]:
        yield f"processes {_pids(one)} were to be killed"
    for outcome in one["outcomes"]:
        words = _OUTCOMES.get(outcome["outcome"], outcome["outcome"])
        pids = f" (processes {_pids(outcome)})" if "pids" in outcome else ""
        why = f": {outcome['message']}" if outcome["message"] else ""
        yield f"{_after(outcome['t'])} {words}{pids}{why}"
    if one["attempts"] and one["attempts"] > len(one["outcomes"]) > 0 and one["kind"] == "eviction":
        yield f"in all {one['attempts']} calls were made"
    if one["ended"] is None:
        yield "what came of it is not known: the agent ended before it could write that down, or it goes on"
    elif one["ended"]["why"] == "time":
        yield _unchanged(one)
    else:
        yield f"{_after(one['ended']['t'])} {_ENDS[one['ended']['why']]}{_back(one)}"


def _unchanged(one: dict[str, Any]) -> str:
    when = _after(one["ended"]["t"])
    if one["kind"] in ("would-evict", "nobody"):
        return f"{when} nothing was done"
    if one["kind"] == "eviction" and not one["outcomes"]:
        return f"{when} no answer had come, or no call was made"
    return f"{when} its memory was not back{_back(one)}"


def _back(one: dict[str, Any]) -> str:
    """What the board had before and has now."""
    first = one["before"][-1]["usable_bytes"] if one["before"] else None
    last = one["after"][-1]["usable_bytes"] if one["after"] else None
    if first is None or last is None or one["kind"] == "would-evict":
        return ""
    return f"; usable {human(first)} → {human(last)}"


def _pids(one: dict[str, Any]) -> str:
    more = f" and {one['more_pids']} more" if one["more_pids"] else ""
    return ", ".join(str(pid) for pid in one["pids"]) + more


def _telling(told: dict[str, Any]) -> str:
    if told["ending"] is None:
        return "not told yet"
    if told["ending"] == "refused":
        return "the API server does not take it"
    if told["ending"] == "dropped":
        return "not told, too many were to be told"
    return f"told at {told['ended'][:10]} {told['ended'][11:19]} UTC"


def _after(seconds: float) -> str:
    return f"{_signed(seconds)} s"


def _signed(seconds: float) -> str:
    return f"{'−' if round(seconds, 1) < 0 else '+'}{abs(seconds):.1f}"


# --- the table -----------------------------------------------------------------------


def _table(one: dict[str, Any], style: Style) -> Iterator[Line]:
    rows = [*_some(one["before"][::-1])[::-1], *_some(one["after"])]
    if not rows:
        return
    shown = max(1, (style.width - 2 - _FIXED * _COLUMN) // (2 * _COLUMN))
    pods = one["pods"][:shown]
    yield BLANK
    for number, pod in enumerate(pods, start=1):
        gpu, both = pod["gpu_budget_bytes"], pod["total_budget_bytes"]
        budget = "no budget" if gpu is None else f"budget {human(gpu)}"
        total = "" if both is None else f", {human(both)} with host memory"
        held = f", held: {pod['held']}" if pod["held"] else ""
        yield from _told(f"pod {number}", f"{_who(pod)}, {pod['state']}, {budget}{total}{held}", style)
    others = one["more_pods"] + len(one["pods"]) - len(pods)
    if others:
        yield from _told("", f"and {others} more on the board", style)
    heads = ["seconds", "usable", "fall per s"]
    for number in range(1, len(pods) + 1):
        heads += [f"{number} GPU", f"{number} host"]
    yield line("  ", Span("".join(head.rjust(_COLUMN + 1)[-_COLUMN - 1 :] for head in heads)[1:], "dim"))
    for row in rows:
        yield line("  ", "".join(cell.rjust(_COLUMN + 1) for cell in _cells(row, len(pods)))[1:])
    floors = sorted({human(row["floor_bytes"]) for row in rows})
    yield from wrapped(f"The floor is {', '.join(floors)}.", style, 2, tone="dim")
    if any(row["t"] - row["pods_t"] > _OLD for row in rows):
        yield from wrapped(f"* who holds what was read more than {_OLD:.0f} s before.", style, 2, tone="dim")


def _some(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some of the rows, the first and the last among them."""
    half = _FEW // 2
    if len(rows) <= half:
        return list(rows)
    return [rows[index * (len(rows) - 1) // (half - 1)] for index in range(half)]


def _cells(row: dict[str, Any], pods: int) -> Iterator[str]:
    yield _signed(row["t"])
    yield human(row["usable_bytes"])
    yield human(row["drop_bytes"])
    old = "*" if row["t"] - row["pods_t"] > _OLD else ""
    for cell in [*row["pods"], *[None] * pods][:pods]:
        for amount in cell or ():
            yield f"{human(amount)}{old}"
        if cell is None:
            yield "-"
            yield "-"

"""One frame of ``edgeagent top``: the pools, who holds what, what happens next, what happened last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from edgeagent.console import doings, said
from edgeagent.console.podtable import table, tone_of
from edgeagent.console.poolbar import bar, letters
from edgeagent.plan.report.head import in_short
from edgeagent.plan.report.style import BLANK, Line, Span, Style, Tone, joined, line, wrapped
from edgeagent.quantity import human

Json = Mapping[str, Any]

_FEWEST_PODS = 4
"""Lines that the pods get however low the terminal is, their head included."""
_PRESSURE = {
    True: Span("under pressure", "bad"),
    False: Span("no pressure"),
    None: Span("pressure not known", "warn"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What there is to show."""

    state: Json
    """As /api/v1/state has it; of the board itself, see :mod:`edgeagent.console.board`."""
    source: str
    """Who said it."""
    agent: bool
    """An agent said it, so something is done about it."""
    trouble: str = ""
    """Why it is not what it should be; empty: it is."""
    age: float = 0.0
    """Seconds since it was said; 0: just now."""


def lines(view: View, order: str, style: Style, height: int | None = None, keys: str = "") -> list[Line]:
    """The frame from top to bottom.

    Args:
        view: what to show.
        order: of the pods, one of :data:`edgeagent.console.podtable.ORDERS`.
        style: of the page.
        height: lines that there are: long parts are cut, and say so. None: as many as it takes.
        keys: what keys do, for the last of so many lines.
    """
    state, cut = view.state, height is not None
    marks = letters(state["bars"], style)
    above = [*_head(view, style, cut=cut), *_trouble(view, style), *_pools(state, marks, style), BLANK]
    pods = list(_pods(state, marks, order, style, cut=cut)) if state["board"] else []
    below = list(_memory(state, style))
    if view.agent:
        below += doings.upcoming(state, style, cut=cut)
    below += [*doings.wrong(state, style, cut=cut), *doings.lately(state, style, cut=cut)]
    if height is None:
        return [*above, *pods, *below]
    room = height - len(above) - 1
    pods = _cut(pods, max(room - len(below), min(room, _FEWEST_PODS)), "pods")
    below = _cut(below, max(room - len(pods), 0), "lines")
    return [*[*above, *pods, *below][: height - 1], line(Span(keys, "dim"))]


def _cut(rows: list[Line], room: int, noun: str) -> list[Line]:
    if len(rows) <= room:
        return rows
    kept = rows[: max(room - 1, 0)]
    return [*kept, line(Span(f"  and {len(rows) - len(kept)} more {noun}", "dim"))] if room else []


# --- above the pods ------------------------------------------------------------------------


def _head(view: View, style: Style, *, cut: bool) -> Iterator[Line]:
    state, board = view.state, view.state["board"]
    node = f"{state['node']}, " if state["node"] else ""
    about = f"{node}{_named(board) if board else 'board not known'}"
    source = f"edgeagent {state['version']} at {view.source}, " if view.agent else ""
    if cut:
        yield line(Span(about[: style.width], "strong"))
    else:
        yield from wrapped(about, style, 0, tone="strong")
    yield from wrapped(f"{source}{state['at'][11:19]} UTC", style, 0, tone="dim")


def _named(board: Json) -> str:
    return in_short(board) if board["kind"] == "none" else f"{board['kind']}, {board['product'] or 'unknown product'}"


def _trouble(view: View, style: Style) -> Iterator[Line]:
    """What has to be known before anything below is believed."""
    for title, words, tone in _troubles(view):
        yield from wrapped(words, style, 2, line(Span(f"{title}  ", tone)))


def _troubles(view: View) -> Iterator[tuple[str, str, Tone]]:
    state = view.state
    if view.age:
        yield f"NOT CURRENT, {said.lasting(view.age)} OLD", view.trouble, "bad"
    if not view.agent:
        yield "NO AGENT", view.trouble, "warn"
        return
    if state["ready"]["status"] != "ok":
        yield "NOT READY", "; ".join(said.reasons(state["ready"])), "bad"
    stale = [f"{name}: {_age(one)}{_why(one)}" for name, one in state["readings"].items() if one["stale"]]
    if stale:
        yield "STALE", "; ".join(stale), "bad"
    if state["mode"] == "observe":
        yield "OBSERVE", f"nothing is evicted: {state['observe_because']}", "warn"


def _age(reading: Json) -> str:
    age = reading["age_seconds"]
    return "never read" if age is None else f"last read {said.lasting(age)} ago"


def _why(reading: Json) -> str:
    return f", {reading['why']}" if reading["why"] else ""


def _pools(state: Json, marks: Mapping[str, str], style: Style) -> Iterator[Line]:
    tones = {pod["uid"]: tone_of(pod) for pod in state["pods"] or ()}
    for shown, pool in zip(state["bars"], state["pools"], strict=True):
        yield BLANK
        yield from bar(shown, pool, marks, tones, style)
    if state["board"] and not state["pools"]:
        yield BLANK
        yield line("no pool: nothing is advertised")


def _pods(state: Json, marks: Mapping[str, str], order: str, style: Style, *, cut: bool) -> Iterator[Line]:
    if state["pods"] is None:
        yield line(Span("PODS", "strong"), f"  not known: {said.unlisted(state)}")
        return
    yield from table(state["pods"], marks, order, style, cut=cut)


# --- below them ----------------------------------------------------------------------------


def _memory(state: Json, style: Style) -> Iterator[Line]:
    host, vitals = state["host"], state["vitals"]
    if host is None:
        return
    items = [
        line(Span("MEMORY", "strong")),
        line(f"{human(host['usable_bytes'])} usable, floor {human(state['floor_bytes'])}"),
        line(_PRESSURE[host["pressure"]]),
    ]
    if state["pools"]:
        items.append(line(f"GPU outside pods {human(host['system_gpu_bytes'])}"))
    yield BLANK
    yield from joined(items, style, 0)
    told = ", ".join(_vitals(vitals)) if vitals else ""
    if told:
        yield from wrapped(told, style, 2, "  ", "dim")


def _vitals(vitals: Json) -> Iterator[str]:
    if vitals["power_mode"]:
        yield f"power mode {vitals['power_mode']}"
    for one in vitals["temperatures"]:
        if one["celsius"] is not None:
            yield f"{one['zone']} {one['celsius']:.0f} C"
    if vitals["throttled"]:
        yield f"throttled: {', '.join(vitals['throttle_reasons']) or 'why is not known'}"

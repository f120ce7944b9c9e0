"""What happens next, what is wrong and what happened last, for the page of ``edgeagent top``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edgeagent.console import said
from edgeagent.console.summary import diagnosed
from edgeagent.plan.report.style import Line, Span, Style, Tone, heading, length, line, wrapped

Json = Mapping[str, Any]

LATEST = 3
"""Things that happened lately."""
_SEVERITIES: dict[str, Tone] = {"error": "bad", "warning": "warn"}
_CUT = ".."


def upcoming(state: Json, style: Style, *, cut: bool) -> Iterator[Line]:
    """Whom the agent evicts, whom it kills, whom it spares and why. ``cut``: each on one line, however long it is."""
    plan = state["plan"]
    rows = list(_due(plan, state["pods"] or [])) if plan else []
    if not rows:
        yield from heading("NEXT", "  nothing to do" if plan else "  not known")
        return
    yield from heading("NEXT")
    for what, why, tone in rows:
        yield from _told(why, style, line("  ", Span(f"{what}: ", tone)), cut=cut)


def _due(plan: Json, pods: list[Json]) -> Iterator[tuple[str, str, Tone]]:
    names = {pod["uid"]: said.pod(pod) for pod in pods}
    for one in plan["evictions"]:
        yield f"evict {said.pod(one)}, {one['grace_seconds']} s grace", said.why(one["message"]), "bad"
    for one in plan["kills"]:
        yield f"kill processes of {names.get(one['uid'], one['uid'])}", one["message"], "bad"
    for one in plan["held"]:
        left = "" if one["seconds_left"] is None else f", {one['seconds_left']:.0f} s left"
        yield f"hold {names.get(one['uid'], one['uid'])}, {one['code']}{left}", one["why"], "warn"


def wrong(state: Json, style: Style, *, cut: bool) -> Iterator[Line]:
    """Findings that somebody has to do something about."""
    shown = [one for one in state["findings"] if one["severity"] in _SEVERITIES]
    if not shown and state["board"] and not diagnosed(state):
        yield from heading("FINDINGS")
        yield line("  ", said.UNDIAGNOSED)
    if shown:
        yield from heading("FINDINGS", Span(f"  {said.DOCTOR}", "dim"))
    for one in shown:
        head = line("  ", Span(f"{one['severity']} {one['id']}: ", _SEVERITIES[one["severity"]]))
        yield from _told(one["summary"], style, head, cut=cut)


def lately(state: Json, style: Style, *, cut: bool) -> Iterator[Line]:
    """The latest decisions, and what else the agent has said."""
    latest = said.happened(state["incidents"], state["events"])[:LATEST]
    if latest:
        yield from heading("LATELY")
    for one in latest:
        ago = f"{said.lasting(said.between(one.at, state['at']))} ago" if one.at else "some time ago"
        head = line(f"  {ago}: ", Span(f"{one.what}: ", "strong" if one.decision else ""))
        yield from _told(one.why, style, head, cut=cut)


def _told(words: str, style: Style, head: Line, *, cut: bool) -> Iterator[Line]:
    if not cut:
        yield from wrapped(words, style, 4, head)
        return
    room = max(style.width - length(head), len(_CUT))
    yield (*head, Span(words if len(words) <= room else words[: room - len(_CUT)] + _CUT))

"""What would be done and why, what the node gets, what is wrong, what is not known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from edgeagent.plan.report.style import Line, Span, Tone, heading, length, line, wrapped

if TYPE_CHECKING:
    from edgeagent.plan.report.background import Background
    from edgeagent.plan.report.style import Style

_ARROW = "    → "
_SENTENCE = (".", ":")
"""How a line of a remedy ends that is for people; a command does not."""
_SEVERITIES: dict[str, Tone] = {"error": "bad", "warning": "warn", "info": ""}


def plan(document: dict[str, Any], background: Background, style: Style) -> Iterator[Line]:
    """Evictions, kills, who is held and why, events."""
    due = document["plan"]
    names = {pod["uid"]: f"{pod['namespace']}/{pod['name']}" for pod in document["pods"]}
    yield from heading("PLAN")
    if background.observe:
        yield from wrapped(f"No pod is evicted: {background.observe}.", style, 2, tone="warn")
    for eviction in due["evictions"]:
        about = f"{eviction['namespace']}/{eviction['name']}, {eviction['grace_seconds']} s grace"
        yield from _item("! evict", about, eviction["message"], style, "bad")
    for kill in due["kills"]:
        about = f"{names.get(kill['uid'], kill['uid'])}, processes {', '.join(map(str, kill['pids']))}"
        yield from _item("! kill", about, kill["message"], style, "bad")
    for held in due["held"]:
        left = f", {held['seconds_left']:.0f} s left" if held["seconds_left"] is not None else ""
        about = f"{names.get(held['uid'], held['uid'])}: {held['code']}{left}"
        yield from _item("hold", about, held["why"], style, "warn")
    for event in due["events"]:
        yield from _item("event", f"{event['reason']} on {event['regarding']}", event["note"], style, "")
    if not any(due[key] for key in ("evictions", "kills", "held", "events")):
        yield line("  nothing to do")


def _item(verb: str, about: str, why: str, style: Style, tone: Tone) -> Iterator[Line]:
    yield from wrapped(about, style, 10, line("  ", Span(verb, tone)))
    yield from wrapped(why, style, 10, tone="dim")


def node(shown: dict[str, Any], style: Style) -> Iterator[Line]:
    """Capacity, labels and conditions as they should be, and how many writes lead there."""
    yield from heading("NODE")
    conditions = {
        condition["type"]: f"{condition['status']} ({condition['reason']})" for condition in shown["conditions"]
    }
    everything = {**shown["capacity"], **shown["labels"], **conditions}
    if not everything:
        yield line("  nothing")
    width = max((len(key) for key in everything), default=0)
    for kind, entries in (("capacity", shown["capacity"]), ("labels", shown["labels"]), ("conditions", conditions)):
        for index, (key, value) in enumerate(entries.items()):
            head = line("  ", Span(f"{'' if index else kind:<12}", "dim"), f"{key:<{width}}  {value}")
            if length(head) <= style.width:
                yield head
            else:
                yield line(*head[:2], key)
                yield line(" " * 16, value)
    for index, request in enumerate(shown["requests"]):
        parts = ", ".join(request["body"])
        yield from wrapped(
            f"{request['method']} {request['path']} ({parts})",
            style,
            14,
            line("  ", Span("" if index else "writes due", "dim")),
        )


def findings(found: Iterable[dict[str, Any]], style: Style) -> Iterator[Line]:
    """What is wrong, and what to do."""
    items = list(found)
    if items:
        yield from heading("FINDINGS")
    for item in items:
        tone = _SEVERITIES[item["severity"]]
        head = line("  ", Span(f"{item['severity']} {item['id']}", tone))
        yield from wrapped(f"({item['certainty']}, {item['subject']})", style, 6 + len(head[1].text) - 3, head, "dim")
        yield from wrapped(item["summary"], style, 4)
        yield from remedy(item["remedy"], style)


def remedy(text: str, style: Style) -> Iterator[Line]:
    """What to do, for people to copy: commands and lines of files stay whole, and begin in the first column.

    The line that ends a here-document has to be nothing but that word. Sentences are wrapped.
    """
    for index, row in enumerate(text.splitlines()):
        first = "" if index else _ARROW
        if len(first) + len(row) > style.width and row.endswith(_SENTENCE):
            yield from wrapped(row, style, len(first), first)
        else:
            yield line(first, row)


def gaps(background: Background, style: Style) -> Iterator[Line]:
    """What is not known, and what would make it known."""
    if background.gaps:
        yield from heading("NOT KNOWN")
    for gap in background.gaps:
        yield from wrapped(f"{gap.what}: {gap.why}", style, 4, line("  ", Span("?", "warn")))
        if gap.remedy:
            yield from wrapped(gap.remedy, style, 6, "    → ", "dim")

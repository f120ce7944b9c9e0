"""The answer to ``--would-fit`` for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from edgeagent.facts import GPU_MILLI
from edgeagent.plan.fitting.models import KEYS, shown
from edgeagent.plan.report.head import in_short
from edgeagent.plan.report.style import BLANK, Line, Span, Tone, heading, line, wrapped
from edgeagent.quantity import MIB, ceil_mib, human

if TYPE_CHECKING:
    from edgeagent.plan.fitting.answer import Fitting, Place, Short
    from edgeagent.plan.report.style import Style

_CELL = 12
_VERDICT = len("does not fit")
_SHORTEST = 20
"""Columns that are kept for what a model asks for."""
_WORDS = {key: word for word, key in KEYS.items()}


def fits(document: dict[str, Any], found: Fitting, style: Style) -> Iterator[Line]:
    """Each model, the sum, what would help, and the answer."""
    yield from wrapped(in_short(document["board"]), style, 0, tone="strong")
    yield from heading("WOULD IT FIT?")
    room = style.width - _VERDICT - 8 - _SHORTEST
    width = max(min(max(len(place.model.name) for place in found.places), room), 0)
    before: Place | None = None
    for place in found.places:
        yield from _place(place, before, width, style)
        before = place
    if found.rooms:
        yield from _sum(found, style)
    for note in found.notes:
        yield from wrapped(note, style, 2, tone="dim")
    if found.remedies:
        yield from heading("WHAT WOULD HELP")
        for remedy in found.remedies:
            yield from wrapped(remedy, style, 4, "  → ")
    yield BLANK
    count, out = len(found.places), sum(bool(place.short) for place in found.places)
    if out:
        which = "it does" if count == 1 else f"{out} of {count} {'does' if out == 1 else 'do'}"
        yield line(Span(f"No: {which} not fit.", "bad"))
    else:
        yield line(Span("Yes: it fits." if count == 1 else f"Yes: all {count} fit together.", "strong"))


def _place(place: Place, before: Place | None, width: int, style: Style) -> Iterator[Line]:
    mark, verdict = ("!", "does not fit") if place.short else ("+", "fits")
    asked = ", ".join(f"{_WORDS[key]} {shown(key, value)}" for key, value in place.model.amounts.items())
    tone: Tone = "bad" if place.short else ""
    beside = f" (host part {human(place.host)})" if place.host else ""
    name = place.model.name
    if len(name) > width:
        # A name that is too long for its column is worth a line: it is what people copy.
        yield line(Span(f"  {mark} {name}", tone))
        mark = name = ""
    head = line(Span(f"  {mark:1} {name:<{width}}  {verdict:<{_VERDICT}}  ", tone))
    yield from wrapped(asked + beside, style, width + _VERDICT + 8, head)
    if before is not None and place.short and place.short == before.short:
        yield from wrapped(f"as {before.model.name}", style, 6)
        return
    for short in place.short:
        yield from wrapped(_short(short), style, 6)
    for note in place.notes:
        yield from wrapped(note, style, 6, tone="dim")


def _short(short: Short) -> str:
    if short.missing is None:
        return short.why
    missing = f"{short.missing}" if short.key == GPU_MILLI else f"{ceil_mib(short.missing) // MIB} MiB"
    return f"{short.key}: {missing} short; {short.why}"


def _sum(found: Fitting, style: Style) -> Iterator[Line]:
    """Size, booked, asked and left of each thing that is given out."""
    width = max(style.width - 2 - 4 * _CELL, len("THE SUM"))
    titles: Mapping[str, str] = {"for pods": "size", "booked": "booked", "asked": "asked", "left": "left"}
    heads = "".join(f"{title:>{_CELL}}" for title in titles)
    yield from heading(f"{'THE SUM':<{width + 2}}", Span(heads, "dim"))
    for room in found.rooms:
        cells = "".join(f"{shown(room.key, getattr(room, name)):>{_CELL}}" for name in titles.values())
        short = room.left is not None and room.left < 0
        mark, key = "!" if short else " ", room.key
        tone: Tone = "bad" if short else ""
        if len(key) > width:
            yield line(Span(f"{mark} {key}", tone))
            mark, key = " ", ""
        yield line(Span(f"{mark} {key:<{width}}{cells}", tone))

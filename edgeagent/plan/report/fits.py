"""The answer to ``--would-fit`` for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from edgeagent.facts import GPU_MILLI
from edgeagent.plan.models import KEYS
from edgeagent.plan.report.style import BLANK, Line, Span, Tone, line, wrapped
from edgeagent.quantity import MIB, ceil_mib, human

if TYPE_CHECKING:
    from edgeagent.plan.fitting import Fitting, Place, Short
    from edgeagent.plan.report.style import Style

_CELL = 12
_WORDS = {key: word for word, key in KEYS.items()}


def fits(document: dict[str, Any], found: Fitting, style: Style) -> Iterator[Line]:
    """Each model, the sum, what would help, and the answer."""
    board = document["board"]
    yield from wrapped(f"{board['product'] or 'unknown product'} ({board['kind']})", style, 0, tone="strong")
    yield BLANK
    yield line(Span("WOULD IT FIT?", "strong"))
    width = max(len(place.model.name) for place in found.places)
    before: Place | None = None
    for place in found.places:
        yield from _place(place, before, width, style)
        before = place
    if found.rooms:
        yield from _sum(found, style)
    for note in found.notes:
        yield from wrapped(note, style, 2, tone="dim")
    if found.remedies:
        yield BLANK
        yield line(Span("WHAT WOULD HELP", "strong"))
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
    asked = ", ".join(f"{_WORDS[key]} {_amount(key, value)}" for key, value in place.model.amounts.items())
    tone: Tone = "bad" if place.short else ""
    beside = f" (host part {human(place.host)})" if place.host else ""
    head = line(Span(f"  {mark} {place.model.name:<{width}}  {verdict:<12}  ", tone))
    yield from wrapped(asked + beside, style, width + 20, head)
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
    width = style.width - 2 - 4 * _CELL
    titles: Mapping[str, str] = {"for pods": "size", "booked": "booked", "asked": "asked", "left": "left"}
    yield BLANK
    heads = "".join(f"{title:>{_CELL}}" for title in titles)
    yield line(Span(f"{'THE SUM':<{width + 2}}", "strong"), Span(heads, "dim"))
    for room in found.rooms:
        cells = "".join(f"{_amount(room.key, getattr(room, name)):>{_CELL}}" for name in titles.values())
        short = room.left is not None and room.left < 0
        yield line(Span(f"{'!' if short else ' '} {room.key:<{width}}{cells}", "bad" if short else ""))


def _amount(key: str, value: int | None) -> str:
    return str(value) if key == GPU_MILLI and value is not None else human(value)

"""Lines of text with tones, and the one place where they become characters for a terminal.

Everything that is printed passes :func:`render`: it takes control characters out of names that come from
outside, finds plain signs where a locale has no others, and adds colour, which never carries a meaning alone.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

NARROWEST = 60
WIDEST = 120
"""Columns between which sentences are wrapped: wider lines are hard to follow, narrower ones break the tables."""
USUAL = 80
_FEWEST = 20
"""Columns that a sentence has at least, however far it is indented: then its line is longer than the page is wide."""

Tone = Literal["", "bad", "warn", "dim", "strong"]

_COLOURS = {"bad": "\x1b[31m", "warn": "\x1b[33m", "dim": "\x1b[2m", "strong": "\x1b[1m"}
_END = "\x1b[0m"
SIGNS = "█▒·−→"
"""Every character beyond ASCII that a page is made of; what stdout must be able to print."""
_PLAIN = str.maketrans({"█": "#", "▒": "=", "·": ".", "−": "-", "→": ">"})
_UNIT = re.compile(r"(?<=\d) (?=(?:[KMG]iB|s|%)(?:\W|$))")
_TIED = "\u00a0"
"""Stands between a figure and its unit while lines are broken."""
_NOT_SHOWN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories that move the cursor, change the direction of what follows, or cannot be encoded."""


class Span(NamedTuple):
    """A piece of a line."""

    text: str
    tone: Tone = ""


Line = tuple[Span, ...]
BLANK: Line = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a page is shown."""

    width: int = USUAL
    """Columns for sentences and tables."""
    colour: bool = False
    plain: bool = False
    """ASCII only."""


def line(*parts: str | Span) -> Line:
    """One line from its pieces."""
    return tuple(part if isinstance(part, Span) else Span(part) for part in parts)


def heading(title: str, *beside: str | Span) -> Iterator[Line]:
    """The first line of a part of the page, with a blank one before it. ``beside`` stands on the same line."""
    yield BLANK
    yield line(Span(title, "strong"), *beside)


def wrapped(text: str, style: Style, indent: int, head: str | Line = "", tone: Tone = "") -> Iterator[Line]:
    """A sentence from column ``indent`` on; ``head`` stands before its first line and has to be no longer."""
    start = line(head) if isinstance(head, str) else head
    taken = sum(len(span.text) for span in start)
    pad = " " * indent
    longest = text.partition(" ")[0]
    if taken > indent and taken + len(longest) > style.width:
        yield start
        start, taken = line(pad), indent
    rows = textwrap.wrap(
        _UNIT.sub(_TIED, text),
        max(style.width - indent, _FEWEST),
        initial_indent=" " * max(0, taken - indent),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
    first = rows[0].lstrip() if taken > indent else rows[0]
    yield (*start, Span(" " * max(0, indent - taken)), Span(first, tone))
    for row in rows[1:]:
        yield line(pad, Span(row, tone))


def joined(items: Iterable[Line], style: Style, indent: int, gap: str = "   ") -> Iterator[Line]:
    """The items one after the other, as many on a line as fit; none is broken."""
    row: Line = ()
    for item in items:
        room = style.width - indent - length(row) - len(gap)
        if row and length(item) > room:
            yield line(" " * indent, *row)
            row = ()
        row = (*row, Span(gap), *item) if row else item
    if row:
        yield line(" " * indent, *row)


def length(row: Line) -> int:
    """Columns of a line."""
    return sum(len(span.text) for span in row)


def render(lines: Iterable[Line], style: Style) -> str:
    """The lines as text, each ended by a newline."""
    return "".join(_shown(row, style) + "\n" for row in lines)


def _shown(row: Line, style: Style) -> str:
    spans = [Span(_harmless(span.text, style), span.tone) for span in row]
    while spans and not spans[-1].text.strip():
        spans.pop()
    if spans:
        spans[-1] = Span(spans[-1].text.rstrip(), spans[-1].tone)
    if not style.colour:
        return "".join(span.text for span in spans)
    return "".join(
        f"{_COLOURS[span.tone]}{span.text}{_END}" if span.tone and span.text.strip() else span.text for span in spans
    )


def _harmless(text: str, style: Style) -> str:
    """``text`` without what a terminal would obey, and in ASCII where nothing else can be shown."""
    shown = "".join("\ufffd" if unicodedata.category(sign) in _NOT_SHOWN else sign for sign in text.replace(_TIED, " "))
    return shown.translate(_PLAIN).encode("ascii", "replace").decode() if style.plain else shown

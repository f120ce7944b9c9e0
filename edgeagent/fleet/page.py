"""The fleet as a page for people: the table of nodes, and the pods that wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from edgeagent.facts import PREFIX
from edgeagent.fleet.cells import COLUMNS, age, cells
from edgeagent.fleet.types import Fleet, NodeRow, Waiting
from edgeagent.plan.report.style import BLANK, WIDEST, Line, Span, Style, heading, line, render, wrapped
from edgeagent.quantity import human

_GAP = "  "
_LAST = "conditions"
_LEAST_ROOM = 24
"""Columns that the conditions need at least: the longest name of one."""
_LEAVE = (
    "product",
    "reserved",
    "total",
    "advertised",
    "wrote",
    "agent",
    "kind",
    "pool",
    "committed",
    "mode",
)
"""What a narrow terminal does without, the first of them first. Name, room and problems are always shown."""

Cells = Mapping[str, Sequence[Span]]


def text(found: Fleet, now: float, style: Style, width: int | None) -> str:
    """The page. ``width``: columns of the table, None for as wide as it is; sentences keep to ``style``."""
    sentences = replace(style, width=min(width or style.width, WIDEST))
    return render([*_nodes(found, now, sentences, width), *_pods(found.waiting, now, sentences)], style)


def _nodes(found: Fleet, now: float, style: Style, width: int | None) -> Iterator[Line]:
    if found.nodes:
        yield from _table(found.nodes, now, style, width)
    else:
        yield line("No node carries a key of edgeagent.")
    yield BLANK
    yield from wrapped(_sum(found), style, 0, tone="dim")


def _sum(found: Fleet) -> str:
    said = [_count(len(found.nodes), "node")]
    if found.others:
        said.append(f"{found.others} without a key of edgeagent, which --all shows")
    if found.unread:
        said.append(f"{_count(found.unread, 'object')} not understood")
    return ", ".join(said) + "."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _table(rows: Sequence[NodeRow], now: float, style: Style, width: int | None) -> Iterator[Line]:
    shown = [cells(row, now) for row in rows]
    widths = {
        name: max(len(column.title), *(len(span.text) for row in shown for span in row[name]))
        for name, column in COLUMNS.items()
        if name != _LAST
    }
    left_out = _left_out(widths, width)
    kept = [name for name in COLUMNS if name not in left_out]
    taken = sum(widths[name] + len(_GAP) for name in kept if name != _LAST)
    room = None if width is None else max(_LEAST_ROOM, width - taken)
    yield line(*_joined({name: Span(COLUMNS[name].title, "dim") for name in kept}, kept, widths))
    for row in shown:
        yield from _row({**row, _LAST: _broken(row[_LAST], room)}, kept, widths)
    if left_out:
        titles = ", ".join(COLUMNS[name].title for name in COLUMNS if name in left_out)
        yield BLANK
        yield from wrapped(f"Too wide for this terminal: {titles}.", style, 0, tone="dim")


def _left_out(widths: Mapping[str, int], width: int | None) -> frozenset[str]:
    left_out: set[str] = set()
    for name in _LEAVE if width is not None else ():
        needed = sum(size + len(_GAP) for key, size in widths.items() if key not in left_out) + _LEAST_ROOM
        if width is None or needed <= width:
            break
        left_out.add(name)
    return frozenset(left_out)


def _broken(spans: Sequence[Span], room: int | None) -> list[Span]:
    """The conditions in the room that is left, at blanks only."""
    if room is None:
        return list(spans)
    style = Style(width=room)
    return [Span(row[-1].text, span.tone) for span in spans for row in wrapped(span.text, style, 0)]


def _row(row: Cells, kept: Sequence[str], widths: Mapping[str, int]) -> Iterator[Line]:
    for spans in zip_longest(*(row[name] for name in kept), fillvalue=Span("")):
        yield line(*_joined(dict(zip(kept, spans, strict=True)), kept, widths))


def _joined(row: Mapping[str, Span], kept: Sequence[str], widths: Mapping[str, int]) -> Iterator[Span]:
    for name in kept:
        span = row[name]
        if name == _LAST:
            yield span
        elif COLUMNS[name].figures:
            yield Span(f"{span.text:>{widths[name]}}{_GAP}", span.tone)
        else:
            yield Span(f"{span.text:<{widths[name]}}{_GAP}", span.tone)


def _pods(waiting: Sequence[Waiting], now: float, style: Style) -> Iterator[Line]:
    if not waiting:
        return
    yield from heading("WAITING FOR GPU MEMORY")
    for one in waiting:
        asks = ", ".join(f"{human(amount)} of {key.removeprefix(PREFIX)}" for key, amount in sorted(one.asks.items()))
        since = one.since if one.since is not None else one.created
        yield from wrapped(f"asks for {asks}, for {age(since, now)}", style, 4, f"  {one.namespace}/{one.name}  ")
        yield from wrapped(_words(one), style, 4, tone="dim")


def _words(one: Waiting) -> str:
    if one.message is None and one.reason is None:
        return "The scheduler has said nothing so far."
    return one.message or f"{one.reason}."

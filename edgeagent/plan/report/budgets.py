"""What to write into each workload, as a page for people: made from what the API tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgeagent.facts import PREFIX
from edgeagent.plan.peaktime import DAY, HOUR
from edgeagent.plan.report.style import BLANK, Line, Span, Tone, heading, line, render, wrapped
from edgeagent.quantity import human

if TYPE_CHECKING:
    from edgeagent.plan.report.style import Style

_CELL = 11
_TITLES = ("PEAK 1 d", "PEAK 7 d", "BUDGET", "ADVISED")
_KEYS = ("peak_day_bytes", "peak_week_bytes", "budget_bytes", "recommended_bytes")
_FIELD = 8
_LATER_DAYS = 2 * DAY

Json = Mapping[str, Any]


def text(budgets: Sequence[Json], style: Style) -> str:
    """Those with GPU memory one by one, the others in a table."""
    return render(_lines(budgets, style), style)


def _lines(budgets: Sequence[Json], style: Style) -> Iterator[Line]:
    with_gpu = [one for one in budgets if _uses_gpu(one)]
    others = [one for one in budgets if not _uses_gpu(one)]
    for number, one in enumerate(with_gpu):
        if number:
            yield BLANK
        yield from _workload(one, style)
    if others:
        yield from _table(others, style, alone=not with_gpu)


def _uses_gpu(one: Json) -> bool:
    return any(pool["peak_week_bytes"] or pool["budget_bytes"] is not None for pool in one["pools"])


def _name(one: Json) -> str:
    owner = one["owner"]
    return f"{one['namespace']}/{owner['name']} ({owner['kind']}), container {one['container']}"


def _workload(one: Json, style: Style) -> Iterator[Line]:
    mark, tone = _mark(one)
    yield line(Span(f"{mark} {_name(one)}", tone or "strong"))
    pods = ", ".join(one["pods"]) or "none live now"
    yield from wrapped(f"{pods}; watched for {_duration(one['observed_seconds'])}", style, 2 + _FIELD, "  pods", "dim")
    room = max(_FIELD, *(len(pool["resource"].removeprefix(PREFIX)) + 1 for pool in one["pools"]))
    yield line(Span(f"{'':<{2 + room}}" + "".join(f"{title:>{_CELL}}" for title in _TITLES), "dim"))
    for pool in one["pools"]:
        title = "GPU" if len(one["pools"]) == 1 else pool["resource"].removeprefix(PREFIX)
        yield line(f"  {title:<{room}}{_cells(pool)}")
    yield line(f"  {'host':<{room}}{_cells(one['host'])}")
    for number, (resource, amount) in enumerate(one["write"].items()):
        yield line(f"  {'' if number else 'write':<{_FIELD}}", Span(f"{resource}: {amount}", "strong"))
    if not one["write"]:
        yield line(f"  {'write':<{_FIELD}}nothing: too little is known")
    yield from wrapped(one["why"], style, 2 + _FIELD, "  why")


def _mark(one: Json) -> tuple[str, Tone]:
    """As in the table of pods of ``explain``."""
    amounts = [*one["pools"], one["host"]]
    if any(
        (pool["peak_week_bytes"] or 0) > pool["budget_bytes"] for pool in amounts if pool["budget_bytes"] is not None
    ):
        return "!", "bad"
    bare = any(pool["peak_week_bytes"] and pool["budget_bytes"] is None for pool in one["pools"])
    return ("?", "warn") if bare else (" ", "")


def _cells(amounts: Json) -> str:
    shown = [human(amounts[key]) for key in _KEYS]
    if amounts["budget_bytes"] is None:
        shown[_KEYS.index("budget_bytes")] = "none"
    return "".join(f"{cell:>{_CELL}}" for cell in shown)


def _duration(seconds: float) -> str:
    if seconds < HOUR:
        return f"{int(seconds // 60)} min"
    return f"{int(seconds // HOUR)} h" if seconds < _LATER_DAYS else f"{int(seconds // DAY)} days"


def _table(others: Sequence[Json], style: Style, *, alone: bool) -> Iterator[Line]:
    """Host memory of what uses no GPU."""
    names = [_name(one) for one in others]
    room = style.width - 2 - _CELL * len(_TITLES)
    width = max(min(max(map(len, names)), room), len("NO GPU MEMORY SEEN") - 2)
    titles = "".join(f"{title:>{_CELL}}" for title in (*_TITLES[:-1], "memory:"))
    head = list(heading(f"{'NO GPU MEMORY SEEN':<{width + 2}}", Span(titles, "dim")))
    yield from head[1:] if alone else head
    for one, name in zip(others, names, strict=True):
        mark, tone = _mark(one)
        cells = _cells(one["host"])[:-_CELL] + f"{one['write'].get('memory', 'unknown'):>{_CELL}}"
        if len(name) > width:
            yield line(Span(f"{mark} {name}", tone))
            yield line(Span(f"{'':<{width + 2}}{cells}", tone))
        else:
            yield line(Span(f"{mark} {name:<{width}}{cells}", tone))

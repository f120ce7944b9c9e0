"""The pods as rows: who, how much of what budget, in which state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgeagent.console import said
from edgeagent.plan.report.style import Line, Span, Style, Tone, line
from edgeagent.quantity import human, total

Json = Mapping[str, Any]

_TONES: dict[str, Tone] = {
    "ok": "",
    "breach": "bad",
    "unbudgeted": "warn",
    "unknown": "warn",
    "terminating": "dim",
    "protected": "dim",
}
_SIGNS = {"ok": " ", "breach": "!", "unbudgeted": "?", "unknown": "?", "terminating": "x", "protected": "+"}
_CELL = 10
_BAR = 8
"""Columns of a bar within its brackets."""
_MARKS = 4
"""Columns before a name: sign, blank, letter, blank."""
_STATE = 13
"""Columns of the state with the gap before it."""
_SHORTEST = 14
"""Columns of a name, below which columns of figures are left out."""
_LONGEST = 63
_CUT = ".."


def tone_of(pod: Json) -> Tone:
    """How a pod is shown; one in a state of a later version as it is."""
    return _TONES.get(pod["state"], "")


def gpu(pod: Json) -> int | None:
    """GPU bytes of a pod, over all pools; None: not known."""
    return total(pool["gpu_bytes"] for pool in pod["pools"])


def excess(pod: Json) -> int | None:
    """Bytes above its budget, below 0 for what is left of it; the largest of several. None: not known, or no budget."""
    found = [
        pool["gpu_bytes"] - pool["gpu_budget_bytes"]
        for pool in pod["pools"]
        if None not in (pool["gpu_bytes"], pool["gpu_budget_bytes"])
    ]
    if None not in (pod["gpu_bytes"], pod["host_bytes"], pod["total_budget_bytes"]):
        found.append(pod["gpu_bytes"] + pod["host_bytes"] - pod["total_budget_bytes"])
    return max(found, default=None)


def _descending(value: int | None) -> tuple[bool, int]:
    """What is not known comes last."""
    return value is None, -(value or 0)


def _by_usage(pod: Json) -> Any:
    return _descending(gpu(pod)), _descending(pod["host_bytes"]), said.pod(pod)


def _by_excess(pod: Json) -> Any:
    return pod["state"] != "breach", _descending(excess(pod)), _by_usage(pod)


ORDERS: dict[str, Callable[[Json], Any]] = {"usage": _by_usage, "excess": _by_excess, "name": said.pod}
"""By what pods can be sorted."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """What there is room for."""

    name: int
    """Columns of the names."""
    bar: bool
    host: bool


def table(pods: Sequence[Json], marks: Mapping[str, str], order: str, style: Style, *, cut: bool) -> Iterator[Line]:
    """A head, and a line for each pod. ``cut``: names that are too long are cut; else they have lines of their own."""
    columns = _columns(max((len(said.pod(pod)) for pod in pods), default=0), style.width)
    yield _head(columns, order)
    if not pods:
        yield line("  none")
    for pod in sorted(pods, key=ORDERS[order]):
        yield from _row(pod, marks.get(pod["uid"], " "), columns, cut=cut)


def _columns(longest: int, width: int) -> _Columns:
    """The bar goes first where there is no room, then host memory."""
    wanted = max(_SHORTEST, min(longest, _LONGEST))
    room = width - _MARKS - 2 * _CELL - _STATE
    with_host = room - _CELL
    with_bar = with_host - _BAR - 4
    if with_bar >= min(wanted, 2 * _SHORTEST):
        return _Columns(min(with_bar, wanted), bar=True, host=True)
    if with_host >= _SHORTEST:
        return _Columns(min(with_host, wanted), bar=False, host=True)
    return _Columns(min(room, wanted), bar=False, host=False)


def _head(columns: _Columns, order: str) -> Line:
    title = f"PODS by {order}"
    cells = f"{'GPU':>{_CELL}}{'BUDGET':>{_CELL}}{'':{_BAR + 4 if columns.bar else 0}}" + (
        f"{'HOST':>{_CELL}}" if columns.host else ""
    )
    return line(Span(f"{title:<{_MARKS + columns.name}}", "strong"), Span(f"{cells}  STATE", "dim"))


def _row(pod: Json, mark: str, columns: _Columns, *, cut: bool) -> Iterator[Line]:
    tone, name = tone_of(pod), said.pod(pod)
    start = f"{_SIGNS.get(pod['state'], ' ')} {mark} "
    if len(name) > columns.name and not cut:
        yield line(Span(f"{start}{name}", tone))
        start, name = " " * _MARKS, ""
    if len(name) > columns.name:
        name = name[: columns.name - len(_CUT)] + _CUT
    used, budget = _used_and_budget(pod)
    cells = f"{used:>{_CELL}}{budget:>{_CELL}}"
    host = f"{human(pod['host_bytes']):>{_CELL}}" if columns.host else ""
    bar = _bar(pod) if columns.bar else ()
    yield line(Span(f"{start}{name:<{columns.name}}{cells}", tone), *bar, Span(f"{host}  {pod['state']}", tone))
    if len(pod["pools"]) > 1:
        for pool in pod["pools"]:
            short = pool["resource"].rpartition("/")[2][: columns.name - 2]
            of_pool = f"{human(pool['gpu_bytes']):>{_CELL}}{_amount(pool['gpu_budget_bytes']):>{_CELL}}"
            yield line(f"{'':{_MARKS}}  {short:<{columns.name - 2}}{of_pool}")


def _used_and_budget(pod: Json) -> tuple[str, str]:
    """Of the only pool; with several each has a line of its own."""
    if len(pod["pools"]) == 1:
        return human(pod["gpu_bytes"]), _amount(pod["gpu_budget_bytes"])
    return "", ""


def _amount(budget: int | None) -> str:
    return "none" if budget is None else human(budget)


def _bar(pod: Json) -> Iterator[Span]:
    """Usage in its budget; what is above it by another sign. Nothing where either is not known."""
    used, budget = pod["gpu_bytes"], pod["gpu_budget_bytes"]
    if used is None or budget is None:
        yield Span(" " * (_BAR + 4))
        return
    whole = max(used, budget, 1)
    over = -(-max(0, used - budget) * _BAR // whole)
    within = min(-(-min(used, budget) * _BAR // whole), _BAR - over)
    yield Span("  [")
    yield Span("█" * within)
    yield Span("!" * over, "bad")
    yield Span("·" * (_BAR - over - within) + "]")

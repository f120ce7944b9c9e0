"""Who holds what: pods with their containers, and what is no pod's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from edgeagent.facts import PREFIX
from edgeagent.plan.report.style import Line, Span, Tone, heading, line, wrapped
from edgeagent.quantity import human

if TYPE_CHECKING:
    from edgeagent.plan.report.background import Background
    from edgeagent.plan.report.style import Style

_MARKS: dict[str, tuple[str, Tone]] = {
    "ok": (" ", ""),
    "breach": ("!", "bad"),
    "unbudgeted": ("?", "warn"),
    "unknown": ("?", "warn"),
    "terminating": ("x", "dim"),
    "protected": ("+", "dim"),
}
_CELL = 11


class _Row(NamedTuple):
    name: str
    cells: tuple[str, ...]
    state: str = ""
    mark: str = " "
    tone: Tone = ""
    reason: str = ""


def holders(document: dict[str, Any], background: Background, style: Style) -> Iterator[Line]:
    """The table, and under each pod why it is in its state."""
    pods = document["pods"]
    together = any(pod["total_budget_bytes"] is not None for pod in pods)
    titles = ("GPU", "BUDGET", "HOST", *(("FOR BOTH",) if together else ()))
    rows = [row for pod in pods for row in _pod(pod, together=together)]
    rows += _others(document["host"], background)
    room = style.width - 2 - _CELL * len(titles) - 2 - len("unbudgeted")
    width = max(min(max(len(row.name) for row in rows), room), len("WHO HOLDS WHAT") - 2)
    heads = "".join(f"{title:>{_CELL}}" for title in titles)
    yield from heading(f"{'WHO HOLDS WHAT':<{width + 2}}", Span(f"{heads}  STATE", "dim"))
    if not pods:
        none = "Pods: none." if background.listed else "Pods: not known, no cluster was asked."
        yield from wrapped(none, style, 2)
    for row in rows:
        yield from _shown(row, width, style)
    if together:
        yield from wrapped("FOR BOTH: the budget for GPU and host memory together.", style, 2, tone="dim")


def _shown(row: _Row, width: int, style: Style) -> Iterator[Line]:
    cells = "".join(f"{cell:>{_CELL}}" for cell in row.cells)
    if len(row.name) > width:
        # A name that is too long for its column is worth a line: it is what people copy.
        yield line(Span(f"{row.mark} {row.name}", row.tone))
        yield line(Span(f"{'':<{width + 2}}{cells}  {row.state}", row.tone))
    else:
        yield line(Span(f"{row.mark} {row.name:<{width}}{cells}  {row.state}", row.tone))
    if row.reason:
        yield from wrapped(row.reason, style, 4, tone=row.tone)


def _pod(pod: dict[str, Any], *, together: bool) -> Iterator[_Row]:
    mark, tone = _MARKS[pod["state"]]
    several = len(pod["pools"]) > 1
    total = (_amount(pod["total_budget_bytes"], "none"),) if together else ()
    gpu = ("", "") if several else (human(pod["gpu_bytes"]), _amount(pod["gpu_budget_bytes"], "none"))
    cells = (*(gpu if pod["pools"] else ("", "")), human(pod["host_bytes"]), *total)
    yield _Row(f"{pod['namespace']}/{pod['name']}", cells, pod["state"], mark, tone, pod["reason"])
    for part in pod["pools"] if several else ():
        shown = (human(part["gpu_bytes"]), _amount(part["gpu_budget_bytes"], "none"))
        yield _Row(f"  {part['resource'].removeprefix(PREFIX)}", shown)
    for container in _several(pod["containers"]):
        yield _Row(
            f"  container {container['name']}", (human(container["gpu_bytes"]), "", human(container["host_bytes"]))
        )


def _several(containers: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """The containers, where they tell more than the pod."""
    return containers if len(containers) > 1 else ()


def _amount(value: int | None, none: str) -> str:
    return none if value is None else human(value)


def _others(host: dict[str, Any], background: Background) -> Iterator[_Row]:
    """What is no pod's."""
    named = ", ".join(f"{name} {human(amount)}" for name, amount in background.system)
    outside = f"processes outside pods: {named}" if named else ""
    yield _Row("system", (human(host["system_gpu_bytes"]),), reason=outside, tone="dim")
    yield _Row("unattributed", (human(host["unattributed_gpu_bytes"]),), tone="dim")
    if host["leaving_bytes"]:
        yield _Row("leaving", (human(host["leaving_bytes"]),), reason="GPU and host memory on its way back", tone="dim")

"""Each pool as a sum that adds up, with where its figures come from, and as a bar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from edgeagent.plan.report.style import BLANK, Line, Span, Tone, heading, joined, line, wrapped
from edgeagent.quantity import MIB, floor_mib, human

if TYPE_CHECKING:
    from edgeagent.plan.report.background import Background
    from edgeagent.plan.report.style import Style

_NOTES = 37
"""Column of the notes: two blanks, a sign, the name, the figure with its unit."""
_KUBELET = {"os": "system-reserved", "k3s": "kube-reserved", "headroom": "eviction-hard"}
_DEFAULTS = {
    "os": "default: 6 % of the total, 768 MiB to 4 GiB",
    "headroom": "default: 2 %, at least 256 MiB",
    "driver": "default: 3 %, at least 256 MiB; NVML does not tell it",
}
_MEASURED = {"cma": "measured: CmaTotal, which GPUs cannot use", "driver": "measured: NVML's reserved"}


def pool(shown: dict[str, Any], background: Background, style: Style) -> Iterator[Line]:
    """One pool."""
    about = "shared by CPU and GPU" if shown["kind"] == "unified" else "the cards' own"
    yield from heading("POOL", f"  {shown['resource']}, {about}")
    yield BLANK
    yield from _sum(shown, background, style)
    yield BLANK
    yield from _bar(shown, background, style)


class _Row(NamedTuple):
    sign: str
    name: str
    bytes: int | None
    note: str = ""
    tone: Tone = ""


def _sum(shown: dict[str, Any], background: Background, style: Style) -> Iterator[Line]:
    rows = list(_rows(shown, background))
    fine = any(row.bytes is not None and row.bytes % MIB for row in rows)
    for row in rows:
        amount = "unknown" if row.bytes is None else f"{row.bytes / MIB:.{int(fine)}f} MiB"
        head = line(Span(f"  {row.sign} {row.name:<18}{amount:>13}", row.tone))
        yield from wrapped(row.note, style, _NOTES, head, row.tone or "dim")


def _rows(shown: dict[str, Any], background: Background) -> Iterator[_Row]:
    resource, unified = shown["resource"], shown["kind"] == "unified"
    yield _Row(" ", "total", shown["total_bytes"], "" if unified else "what NVML says the cards have")
    for reserve in shown["reserves"]:
        yield _Row("−", reserve["name"], reserve["bytes"], _origin(resource, reserve, background))
    if unified and background.coupled:
        yield _Row("−", "host parts of pods", shown["host_committed_bytes"], _requests(background))
    foreign = background.foreign[resource]
    if foreign:
        yield _Row("−", "pods' annotations", foreign, "budgets of pods that do not request the resource")
    advertised, requested = shown["advertised_bytes"], shown["gpu_committed_bytes"]
    yield _Row("=", "advertised", advertised, _about_advertised(shown, background), "strong")
    yield _Row(" ", "requested by pods", requested, "" if background.listed else "no pods are known")
    if advertised is not None:
        free = advertised - requested
        yield _Row(
            " ", "free to request", max(0, free), *(("less than nothing: overcommitted", "bad") if free < 0 else ())
        )
    if shown["overcommitted"]:
        there = shown["total_bytes"] - sum(reserve["bytes"] for reserve in shown["reserves"])
        booked = shown["host_committed_bytes"] + requested + foreign
        yield _Row("!", "overcommitted by", booked - there, "pods have booked more than there is", "bad")


def _requests(background: Background) -> str:
    return "of their memory requests" if background.listed else "no pods are known"


def _about_advertised(shown: dict[str, Any], background: Background) -> str:
    if shown["advertised_bytes"] is None:
        return "nothing is to be published yet"
    computed = background.computed[shown["resource"]]
    rest = max(0, floor_mib(computed))
    if shown["advertised_bytes"] > rest:
        return "never below what admitted pods hold"
    if shown["advertised_bytes"] < rest:
        return "less than the sum: only what admitted pods hold, or a rise that waits"
    return "in whole MiB" if computed % MIB else ""


def _origin(resource: str, reserve: dict[str, Any], background: Background) -> str:
    name, origin = reserve["name"], reserve["origin"]
    where = background.set_by.get((resource, name), "")
    if origin == "kubelet":
        return f"kubelet: {_KUBELET[name]}, {where}"
    if origin == "config":
        return f"config: {where or f'reserves.{name}'}"
    if origin == "measured":
        return _MEASURED[name]
    if name == "k3s":
        return "default: this node is a K3s server" if background.server else "default: this node is no K3s server"
    return _DEFAULTS[name]


class _Part(NamedTuple):
    mark: str
    title: str
    bytes: int
    tone: Tone = ""


def _bar(shown: dict[str, Any], background: Background, style: Style) -> Iterator[Line]:
    """The pool in one line, each part by its own sign, and what the signs mean."""
    fill = background.fills[shown["resource"]]
    reserved = sum(reserve["bytes"] for reserve in shown["reserves"])
    taken = fill.used + fill.over + fill.idle + fill.blind
    free = max(0, shown["total_bytes"] - reserved - taken)
    parts = [
        _Part("█", "in use", fill.used),
        _Part("!", "in use, not booked", fill.over, "bad"),
        _Part("▒", "booked, idle", fill.idle),
        _Part("?", "booked, use not known", fill.blind, "warn"),
        _Part("·", "free" if background.listed else "free if no pod is there", free),
        _Part("-", "reserved", reserved, "dim"),
    ]
    columns = shares([part.bytes for part in parts], style.width - 6)
    bar = (Span(part.mark * share, part.tone) for part, share in zip(parts, columns, strict=True))
    yield line("  [", *bar, "]")
    legend = [
        line(Span(part.mark, part.tone), f" {part.title} {human(part.bytes)}")
        for part in parts
        if part.bytes or (background.listed and part.title in ("in use", "free"))
    ]
    yield from joined(legend, style, 3)


def shares(amounts: list[int], width: int) -> list[int]:
    """Columns for each amount: by the largest remainder, at least one for what is not 0."""
    total = sum(amounts)
    if total <= 0:
        return [0] * len(amounts)
    found = [max(1, amount * width // total) if amount else 0 for amount in amounts]
    by_remainder = sorted(range(len(amounts)), key=lambda index: -(amounts[index] * width % total))
    for index in by_remainder:
        if sum(found) < width and amounts[index]:
            found[index] += 1
    while sum(found) > width:
        found[found.index(max(found))] -= 1
    return found

"""The pools as bars of signs: each pod by its letter, large for GPU memory and small for host memory."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from edgeagent.facts import PREFIX
from edgeagent.plan.report.pools import shares
from edgeagent.plan.report.style import Line, Span, Style, Tone, joined, line
from edgeagent.quantity import human

Json = Mapping[str, Any]

_LETTERS = string.ascii_uppercase
_OTHERS = "*"
"""In place of a letter: of pods that hold little, and when there are no more letters."""
_PODS = ("pod-gpu", "pod-host")
_FRAME = 4
"""Columns beside the bar: two blanks and the brackets."""


class _Kind(NamedTuple):
    mark: str
    title: str
    tone: Tone = ""


class _Part(NamedTuple):
    mark: str
    bytes: int
    tone: Tone
    kind: str


_KINDS = {
    "host": _Kind("█", "host"),
    "system-gpu": _Kind("%", "GPU outside pods"),
    "unattributed": _Kind("?", "nobody known", "warn"),
    "leaving": _Kind("<", "on its way back", "dim"),
    "free": _Kind("·", "free"),
    "reserve": _Kind("-", "reserved", "dim"),
}


def letters(bars: Sequence[Json], style: Style) -> dict[str, str]:
    """The letter of each pod that fills a column of a bar, by uid; those that hold less share one sign."""
    found: dict[str, str] = {}
    for shown in bars:
        for segment in shown["segments"] or ():
            if segment["kind"] in _PODS and _fills(segment, shown, style):
                found.setdefault(segment["uid"], _LETTERS[len(found)] if len(found) < len(_LETTERS) else _OTHERS)
    return found


def _fills(segment: Json, shown: Json, style: Style) -> bool:
    return bool(segment["bytes"] * (style.width - _FRAME) >= shown["total_bytes"])


def bar(shown: Json, pool: Json, marks: Mapping[str, str], tones: Mapping[str, Tone], style: Style) -> Iterator[Line]:
    """One pool: its figures, the bar and what its signs mean.

    Args:
        shown: of ``bars``.
        pool: the same one of ``pools``.
        marks: letters of pods, by uid.
        tones: how pods are shown, by uid.
        style: of the page.
    """
    yield from joined(_figures(pool), style, 0)
    if shown["segments"] is None:
        yield line("  ", Span("how it is divided is not known now", "warn"))
        return
    parts = list(_parts(shown["segments"], marks, tones))
    columns = shares([part.bytes for part in parts], style.width - _FRAME)
    yield line("  [", *(Span(part.mark * count, part.tone) for part, count in zip(parts, columns, strict=True)), "]")
    yield from joined(_legend(parts), style, 2)


def _figures(pool: Json) -> Iterator[Line]:
    advertised, committed = pool["advertised_bytes"], pool["gpu_committed_bytes"]
    free = None if advertised is None else advertised - committed
    yield line(Span("POOL", "strong"), f" {pool['resource'].removeprefix(PREFIX)} {human(pool['total_bytes'])}")
    yield line(f"advertised {human(advertised)}")
    yield line(f"requested {human(committed)}")
    if free is not None and free < 0:
        yield line(Span("nothing left to request", "bad"))
    else:
        yield line(f"left to request {human(free)}")
    if pool["overcommitted"]:
        yield line(Span("overcommitted", "bad"))


def _parts(segments: Sequence[Json], marks: Mapping[str, str], tones: Mapping[str, Tone]) -> Iterator[_Part]:
    """What is shown together becomes one."""
    few = 0
    for segment in segments:
        kind, uid, amount = segment["kind"], segment["uid"], segment["bytes"]
        if kind not in _PODS:
            # After the pods, whose segments follow each other.
            if few:
                yield _Part(_OTHERS, few, "", "others")
                few = 0
            shown = _KINDS.get(kind, _Kind("~", kind))
            yield _Part(shown.mark, amount, shown.tone, kind)
        elif marks.get(uid, _OTHERS) == _OTHERS:
            few += amount
        elif kind == "pod-gpu":
            yield _Part(marks[uid], amount, tones.get(uid) or "strong", kind)
        else:
            yield _Part(marks[uid].lower(), amount, tones.get(uid, ""), kind)


def _legend(parts: Sequence[_Part]) -> Iterator[Line]:
    kinds = {part.kind for part in parts}
    if "pod-gpu" in kinds:
        yield line("A GPU memory of pod A")
    if "pod-host" in kinds:
        yield line("a its host memory")
    for name, kind in {**_KINDS, "others": _Kind(_OTHERS, "other pods")}.items():
        if name in kinds:
            amount = sum(part.bytes for part in parts if part.kind == name)
            yield line(Span(kind.mark, kind.tone), f" {kind.title} {human(amount)}")

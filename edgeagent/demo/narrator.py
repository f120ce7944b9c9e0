"""Tells the story in a terminal: plain text of 80 columns, colour only where somebody sees it."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from edgeagent.quantity import GIB

if TYPE_CHECKING:
    from edgeagent.plan.types import Plan

WIDTH = 80
_MARGIN = 10
_BAR_MARGIN = 2
_INVERSE, _FAINT, _BOLD, _RED, _RESET = "\x1b[7m", "\x1b[2m", "\x1b[1m", "\x1b[1;31m", "\x1b[0m"
_PODS = ("\x1b[30;46m", "\x1b[30;42m", "\x1b[30;43m", "\x1b[30;45m")
_RESERVES, _HOST = "\x1b[37;100m", "\x1b[30;47m"


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the pool. ``colour`` is an escape sequence."""

    name: str
    bytes: int
    colour: str = ""


class Narrator:
    """Writes to ``out``, times counted from its creation."""

    def __init__(self, out: TextIO, environ: Mapping[str, str]) -> None:
        self._out = out
        self._colours = out.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        self._began = time.monotonic()

    def title(self, text: str) -> None:
        """A line before or after the story."""
        self._lines(_wrapped(text, WIDTH) or [""], "", _BOLD)

    def say(self, text: str) -> None:
        """A step of the story, with its time."""
        first, *rest = _wrapped(text, WIDTH - _MARGIN)
        self._line(f"\n{time.monotonic() - self._began:6.1f} s  {self._painted(first, _BOLD)}")
        self._lines(rest, " " * _MARGIN, _BOLD)

    def quote(self, text: str) -> None:
        """The words of somebody else."""
        self._lines(_wrapped(text, WIDTH - _MARGIN - 2), " " * _MARGIN + "| ", _FAINT)

    def problem(self, text: str) -> None:
        """What went wrong."""
        self._lines(_wrapped(text, WIDTH), "", _RED)

    def show(self, plan: Plan) -> None:
        """The first pool of a plan as a bar, and below it what the pods use."""
        parts = segments(plan)
        widths = columns([part.bytes for part in parts], WIDTH - _BAR_MARGIN - 1)
        drawn = [self._painted(fitted(part, width), part.colour) for part, width in zip(parts, widths, strict=True)]
        self._line(" " * _BAR_MARGIN + "|" + "".join(f"{text}|" for text in drawn if text))
        self._lines(_wrapped(in_use(plan), WIDTH - _BAR_MARGIN), " " * _BAR_MARGIN, "")

    def _lines(self, lines: Sequence[str], indent: str, colour: str) -> None:
        for line in lines:
            self._line(indent + self._painted(line, colour))

    def _line(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()

    def _painted(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_RESET}" if self._colours and colour and text else text


def segments(plan: Plan) -> list[Segment]:
    """Reserves, host parts, each pod's booking and what is free of the first pool, in this order."""
    pool = plan.pools[0]
    pods = [
        (view.pod.name, view.budgets[pool.resource].gpu_request)
        for view in plan.pods
        if view.budgets[pool.resource].gpu_request
    ]
    booked = [Segment(name, amount, _PODS[at % len(_PODS)]) for at, (name, amount) in enumerate(pods)]
    parts = [Segment("reserves", pool.reserved, _RESERVES), Segment("host", pool.host_committed, _HOST), *booked]
    free = pool.total - sum(part.bytes for part in parts)
    return [*parts, Segment("free", max(0, free))]


def columns(amounts: Sequence[int], width: int) -> list[int]:
    """Columns for each amount, ``width`` in all; rounding never adds up."""
    total = sum(amounts)
    ends = [round(sum(amounts[: count + 1]) * width / total) for count in range(len(amounts))]
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]


def in_use(plan: Plan) -> str:
    """What each pod holds of the first pool."""
    resource = plan.pools[0].resource
    told = []
    for view in plan.pods:
        budget = view.budgets[resource].gpu
        over = f" of its {_gib(budget)} (over budget)" if view.breach else ""
        told.append(f"{view.pod.name} {_gib(view.use.gpu.get(resource))}{over}")
    return f"in use by GPUs, GiB: {', '.join(told) or 'nothing'}"


def _gib(amount: int | None) -> str:
    return "unknown" if amount is None else f"{amount / GIB:.1f}"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)


def fitted(part: Segment, width: int) -> str:
    """Name and amount in ``width`` columns, the border to the right of them included."""
    room = width - 1
    if room <= 0:
        return ""
    said = f"{part.name} {_gib(part.bytes)}"
    for text in (f" {said}", said, f" {part.name}", part.name):
        if len(text) <= room:
            return text.ljust(room)
    return part.name[:room]

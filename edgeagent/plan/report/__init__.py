"""The explain document as a page of text for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from edgeagent.plan.report import actions, fits, head, holders, memory, pools
from edgeagent.plan.report.background import Background, background
from edgeagent.plan.report.style import Style, render

if TYPE_CHECKING:
    from edgeagent.plan.fitting.answer import Fitting
    from edgeagent.plan.report.style import Line

__all__ = ["Background", "Style", "background", "fitting", "text"]


def text(document: dict[str, Any], behind: Background, style: Style) -> str:
    """Lines in reading order: what the board is, how its pools are made up, who holds what, what is done about it."""
    return render(_lines(document, behind, style), style)


def fitting(document: dict[str, Any], found: Fitting, style: Style) -> str:
    """The answer to whether models fit on the board of ``document``."""
    return render(fits.fits(document, found, style), style)


def _lines(document: dict[str, Any], behind: Background, style: Style) -> Iterator[Line]:
    yield from head.board(document, behind, style)
    for shown in document["pools"]:
        yield from pools.pool(shown, behind, style)
    if document["pools"] or document["pods"]:
        yield from holders.holders(document, behind, style)
    yield from memory.memory(document, behind, style)
    yield from actions.plan(document, behind, style)
    yield from actions.findings(document["findings"], style)
    yield from actions.node(document["node"], style)
    yield from actions.gaps(behind, style)

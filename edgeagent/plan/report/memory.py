"""The memory of the board now, and how fast a pod may fill it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from edgeagent.plan.report.style import Line, heading, wrapped
from edgeagent.plan.survival import (
    CALL_SECONDS,
    SIGNAL_SECONDS,
    TEARDOWN_SECONDS,
    Outlook,
    Survival,
    Survivals,
    tidy,
)
from edgeagent.quantity import human

if TYPE_CHECKING:
    from edgeagent.plan.report.background import Background
    from edgeagent.plan.report.style import Style


def memory(document: dict[str, Any], background: Background, style: Style) -> Iterator[Line]:
    """Usable memory and, where CPU and GPU share it, what the board survives."""
    host = document["host"]
    yield from heading("MEMORY OF THE BOARD")
    about = "Neither available nor usable memory is known"
    if host["available_bytes"] is not None:
        about = f"{human(host['available_bytes'])} available, {human(host['usable_bytes'])} usable"
    if background.outlook is None:
        yield from wrapped(f"{about}.", style, 2)
        return
    state = "under pressure" if host["pressure"] else "no pressure"
    known = f", floor {human(background.floor)}: {state}" if host["usable_bytes"] is not None else ""
    yield from wrapped(f"{about}{known}.", style, 2, tone="bad" if host["pressure"] else "")
    if background.observe:
        nothing = f"Nothing is evicted or killed: {background.observe}. If it were:"
        yield from wrapped(nothing, style, 2, tone="warn")
    yield from _survival(background.outlook, style, "Would survive" if background.observe else "Survives")


def _survival(outlook: Outlook, style: Style, survives: str) -> Iterator[Line]:
    yield from wrapped(f"{survives}, by eviction, one pod over its budget that fills it by up to", style, 2)
    yield from _figures(outlook, style)
    counted = (
        f"Counted: {CALL_SECONDS:g} s to the call, {TEARDOWN_SECONDS:g} s (assumed) until the memory is back, and "
        f"{outlook.grace} s of grace after two readings that ask for pressure. A slow leak that is over for "
        f"{outlook.matures:g} s before there is pressure has up to {outlook.calm_grace} s of grace, which nothing "
        "shortens afterwards."
    )
    yield from wrapped(counted, style, 2, tone="dim")
    if outlook.kill is None:
        yield from wrapped(f"By kill: {outlook.no_kill}.", style, 2, tone="warn")
        return
    yield from wrapped(f"{survives}, by kill, where the eviction comes too late", style, 2)
    yield from _figures(outlook.kill, style)
    counted = (
        f"Counted: two readings below critical, {outlook.fast:g} s to read again who holds what, {SIGNAL_SECONDS:g} s "
        "to the signal, at which the pod stops. A kill takes Linux 5.3 or later, and saves from no pod that has no "
        "budget or that may not be evicted."
    )
    yield from wrapped(counted, style, 2, tone="dim")


def _figures(found: Survivals, style: Style) -> Iterator[Line]:
    yield from _figure(found.now, "from now on", "usable memory is not known", style)
    yield from _figure(found.booked, "with all but the headroom in use", "the headroom is not known", style)


def _figure(found: Survival | None, when: str, why: str, style: Style) -> Iterator[Line]:
    if found is None:
        yield from wrapped(f"{when}: {why}", style, 20, f"{'unknown':>18}", "warn")
    else:
        rate = f"{human(tidy(found.rate))}/s"
        grace = "" if found.grace is None else f", {found.grace} s of grace"
        yield from wrapped(f"{when}, {human(found.usable)} usable{grace}", style, 20, f"{rate:>18}")

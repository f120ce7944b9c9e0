"""How soon to look again: often only where something could go wrong before the next look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgeagent.quantity import GIB, MIB

if TYPE_CHECKING:
    from edgeagent.config import Sampling
    from edgeagent.plan.types import Plan

WORST_FILL = 2 * GIB
"""Bytes per second that a loader is taken to be able to fill, when nothing faster was seen."""
GROWS = 16 * MIB
"""Bytes less from one reading to the next that ask who has grown; what grows more slowly can wait for a second."""
NVMAP_SECONDS = 1.0
"""The nvmap table is made under a lock of the driver, so it is read at most this often without need."""


def meminfo(plan: Plan | None, sampling: Sampling) -> float:
    """Seconds until /proc/meminfo is read again: the time in which the floor could be reached."""
    if plan is None or plan.danger.usable is None:
        return sampling.interval
    return pause(plan.danger.usable - plan.danger.floor, plan.danger.drop, sampling.fast, sampling.interval)


def pause(spare: float, drop: float, fast: float, interval: float) -> float:
    """Seconds in which ``spare`` bytes above the floor could be filled, from ``fast`` to ``interval``.

    ``drop`` is the fastest fall that was seen lately, in bytes per second.
    """
    return min(max(spare / max(WORST_FILL, drop), fast), interval)


def attribution(plan: Plan | None, sampling: Sampling) -> float:
    """Seconds until it is read again who holds what: sooner while a pod is suspect or the board in danger."""
    if plan is None:
        return sampling.fast
    # The first readings below the floor, or a culprit under pressure, or memory that goes on falling: the next
    # decision needs to know who holds what.
    urgent = plan.danger.fell >= GROWS or any(view.breach for view in plan.pods)
    if plan.danger.begins or (plan.danger.need and urgent):
        return sampling.fast
    suspect = any(held.code in ("grace", "start-grace") for held in plan.held)
    near = plan.danger.usable is not None and plan.danger.usable < 2 * plan.danger.floor
    return min(NVMAP_SECONDS, sampling.interval) if suspect or near else sampling.interval


def host_processes(plan: Plan | None) -> bool:
    """Whether the next attribution has to tell the largest process outside pods, for which all of them are read."""
    return plan is not None and plan.host_over is True and (plan.danger.active or plan.danger.begins)


def calm(plan: Plan | None) -> bool:
    """Whether there is time for what no decision needs."""
    return plan is not None and not (plan.danger.active or plan.danger.begins or plan.danger.need)

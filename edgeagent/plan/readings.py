"""The readings around a decision: few, close together near it, of the pods that matter.

Times in what is kept are seconds from the decision on, negative before it. Bytes are integers and None is unknown;
a pod that was not among those looked at in a reading is None as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgeagent.quantity import total

if TYPE_CHECKING:
    from edgeagent.plan.breaches import PodView
    from edgeagent.plan.types import Plan

BEFORE_SECONDS = 30.0
MOST_READINGS = 20
"""Readings that are kept before a decision, and as many after it."""
MOST_PODS = 6
"""Pods in a record."""
_SEEN_PODS = 16
"""Pods of which each reading is remembered: those over their budget, the unknown, then the largest holders."""
_CLOSE = 0.25
_STRETCH = 0.25
"""Seconds between two readings that are kept: at least so much, and this part of their distance from the decision.
From 30 s before it, or to 60 s after it, that makes less than twenty."""
_DENSE_SECONDS = 3.0
_SPARSE = 0.5
"""Readings older than that many seconds are remembered that far apart."""

_Use = tuple[Mapping[str, "int | None"], "int | None"]


@dataclass(frozen=True, slots=True)
class Look:
    """One reading of the memory, with who held what by then."""

    at: float
    read_at: float
    """When it was read who holds what."""
    usable: int | None
    floor: int
    drop: float
    uses: Mapping[str, _Use]
    """By pod uid: GPU bytes by pool resource, and host bytes."""


Column = tuple[str, str]
"""Of a pod in a record: its uid, and the resource of the pool whose bytes are shown."""


def look(plan: Plan, at: float, read_at: float, last: Look | None) -> Look:
    """The reading that ``plan`` was made from; ``last`` is the one before it."""
    danger = plan.danger
    uses = last.uses if last is not None and last.read_at == read_at else _uses(plan.pods)
    return Look(at, read_at, danger.usable, danger.floor, danger.drop, uses)


def _uses(pods: Sequence[PodView]) -> dict[str, _Use]:
    return {view.pod.uid: (view.use.gpu, view.use.host) for view in foremost(pods)[:_SEEN_PODS]}


def foremost(pods: Iterable[PodView]) -> list[PodView]:
    """Those over their budget, then those whose use is not known, then the others, the largest holders first."""
    return sorted(
        pods, key=lambda view: (view.breach is None, view.state != "unknown", -_held(view), view.pod.key, view.pod.uid)
    )


def _held(view: PodView) -> int:
    return sum(amount or 0 for amount in view.use.gpu.values()) + (view.use.host or 0)


def remembered(looks: Sequence[Look], newest: Look) -> tuple[Look, ...]:
    """``looks`` and the ``newest``, as many of them as are worth it. The same reading seen twice counts once."""
    if looks and newest.at <= looks[-1].at:
        return (*looks[:-1], newest) if newest.at == looks[-1].at else (newest,)
    kept: list[Look] = []
    for one in looks:
        age = newest.at - one.at
        near = kept and one.at - kept[-1].at < _SPARSE
        if age <= BEFORE_SECONDS and not (age > _DENSE_SECONDS and near):
            kept.append(one)
    return (*kept, newest)


def before(looks: Sequence[Look], at: float, columns: Sequence[Column]) -> list[dict[str, Any]]:
    """The rows of the readings up to second ``at``, earliest first."""
    chosen: list[Look] = []
    for one in reversed(looks):
        # The last one, however old it is, is what was decided on.
        near = at - one.at <= BEFORE_SECONDS and chosen and chosen[-1].at - one.at >= gap(at - one.at)
        if not chosen or near:
            chosen.append(one)
    return [row(one, at, columns) for one in reversed(chosen[:MOST_READINGS])]


def gap(distance: float) -> float:
    """Seconds from one reading that is kept to the next, ``distance`` seconds from the decision."""
    return max(_CLOSE, _STRETCH * distance)


def row(one: Look, at: float, columns: Sequence[Column]) -> dict[str, Any]:
    """The reading as a row, for a decision at second ``at``."""
    return {
        "t": round(one.at - at, 3),
        "pods_t": round(one.read_at - at, 3),
        "usable_bytes": one.usable,
        "floor_bytes": one.floor,
        "drop_bytes": round(one.drop),
        "pods": [_cell(one.uses.get(uid), resource) for uid, resource in columns],
    }


def _cell(use: _Use | None, resource: str) -> list[int | None] | None:
    if use is None:
        return None
    gpu, host = use
    return [gpu.get(resource) if resource else total(gpu.values()), host]

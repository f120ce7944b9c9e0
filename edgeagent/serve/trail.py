"""The last quarter of an hour as lines for a chart: small, bounded, and unknown where a reading was stale."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from edgeagent.plan.readings import foremost

if TYPE_CHECKING:
    from edgeagent.plan.breaches import PodView
    from edgeagent.plan.types import Plan
    from edgeagent.serve.shown import Feed, Shown

STEP = 5
"""Seconds from one point to the next."""
POINTS = 180
"""A quarter of an hour."""
MOST_PODS = 110
"""Pods of one point: those that hold most. The kubelet runs as many by default."""
MOST_LINES = 2 * MOST_PODS
"""Pods that are told of, those included that have left: who starts pods all the time makes no document without end."""
_UNKNOWN = -1
_HOST = ""

Json = dict[str, Any]


class Name(NamedTuple):
    """A pod."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Point:
    """What was known at one moment. Figures are bytes, -1 where unknown."""

    slot: int
    """Number of the step of the monotonic clock."""
    usable: int
    pools: tuple[str, ...]
    used: array[int]
    """GPU memory in use, by pool."""
    pods: tuple[Name, ...]
    figures: array[int]
    """Of each pod in turn: its GPU memory in each pool, then its host memory."""


class Trail:
    """Takes a point at each step."""

    def __init__(self) -> None:
        self.points: tuple[Point, ...] = ()
        """Oldest first."""

    def take(self, shown: Shown, now: float) -> None:
        """Add a point if it is time for one; whether ``shown`` has a plan that may be told or not."""
        slot = int(now // STEP)
        last = self.points[-1] if self.points else None
        if shown.plan is None or shown.stale(now) or (last is not None and slot <= last.slot):
            return
        point = _point(slot, shown.plan, shown.stale_feeds(now), last)
        self.points = tuple(one for one in (*self.points, point) if one.slot > slot - POINTS)


def _point(slot: int, plan: Plan, stale: frozenset[Feed], last: Point | None) -> Point:
    pools = tuple(pool.resource for pool in plan.pools)
    used = (plan.usage.gpu_total.get(pool) for pool in pools) if "gpu" not in stale else (None,) * len(pools)
    views = plan.pods if len(plan.pods) <= MOST_PODS else foremost(plan.pods)[:MOST_PODS]
    names = tuple(Name(view.pod.uid, view.pod.namespace, view.pod.name) for view in views)
    return Point(
        slot=slot,
        usable=_kept(None if "memory" in stale else plan.danger.usable),
        pools=pools,
        used=array("q", map(_kept, used)),
        # The same pods as a moment ago are the same object, else each point would hold all names.
        pods=last.pods if last is not None and last.pods == names else names,
        figures=array("q", map(_kept, _figures(views, pools, stale))),
    )


def _figures(views: Sequence[PodView], pools: Sequence[str], stale: frozenset[Feed]) -> Iterator[int | None]:
    for view in views:
        for pool in pools:
            yield None if "gpu" in stale else view.use.gpu.get(pool)
        yield None if "host" in stale else view.use.host


def _kept(amount: int | None) -> int:
    return _UNKNOWN if amount is None else amount


# --- as a document ---------------------------------------------------------------------

_Line = list["int | None"]


def document(points: Sequence[Point], now: float) -> Json:
    """The lines, newest figure first; None where nothing was known."""
    columns = _columns(points, int(now // STEP))
    pools = sorted({pool for point in points for pool in point.pools})
    pods = sorted(_lines(columns, pools).items(), key=lambda item: (item[0].namespace, item[0].name, item[0].uid))
    return {
        "step_seconds": STEP,
        "ages_seconds": [STEP * back for back in range(len(columns))],
        "usable_bytes": [_known(point.usable) if point else None for point in columns],
        "pools": [{"resource": pool, "gpu_used_bytes": [_used(point, pool) for point in columns]} for pool in pools],
        "pods": [_pod(name, lines, pools) for name, lines in pods],
    }


def _columns(points: Sequence[Point], now: int) -> list[Point | None]:
    """The points by age. The step that has just begun may have no point yet; a later one that has none is a gap."""
    if not points:
        return []
    newest = points[-1].slot
    first = newest if now - newest <= 1 else now
    by_slot = {point.slot: point for point in points}
    return [by_slot.get(slot) for slot in range(first, max(points[0].slot, first - POINTS + 1) - 1, -1)]


def _lines(columns: Sequence[Point | None], pools: Sequence[str]) -> dict[Name, dict[str, _Line]]:
    """By pod, the line of each pool and that of the host's memory, whose name is empty. The latest pods come first."""
    found: dict[Name, dict[str, _Line]] = {}
    for column, points in _stretches(columns):
        pods, kinds = points[0].pods, (*points[0].pools, _HOST)
        figures = array("q", itertools.chain.from_iterable(point.figures for point in points))
        for number, name in enumerate(pods):
            if name not in found:
                if len(found) >= MOST_LINES:
                    continue
                found[name] = {kind: [None] * len(columns) for kind in (*pools, _HOST)}
            for place, kind in enumerate(kinds, start=number * len(kinds)):
                line = figures[place :: len(kinds) * len(pods)]
                found[name][kind][column : column + len(points)] = map(_known, line)
    return found


def _stretches(columns: Sequence[Point | None]) -> Iterator[tuple[int, list[Point]]]:
    """Neighbouring points about the same pods, and the column of the first: together they are told pod by pod."""
    column = 0
    for _, stretch in itertools.groupby(columns, lambda point: point and (id(point.pods), point.pools)):
        points = list(stretch)
        known = [point for point in points if point is not None]
        if known:
            yield column, known
        column += len(points)


def _pod(name: Name, lines: Mapping[str, _Line], pools: Sequence[str]) -> Json:
    """As in the explain document, the figure of the pod is that of its only pool, None where there are two."""
    only = pools[0] if len(pools) == 1 else None
    return {
        "namespace": name.namespace,
        "name": name.name,
        "uid": name.uid,
        "gpu_bytes": lines[only] if only else [None] * len(lines[_HOST]),
        "host_bytes": lines[_HOST],
        "pools": [{"resource": pool, "gpu_bytes": lines[pool]} for pool in pools] if not only else [],
    }


def _used(point: Point | None, pool: str) -> int | None:
    return _known(point.used[point.pools.index(pool)]) if point and pool in point.pools else None


def _known(amount: int) -> int | None:
    return None if amount == _UNKNOWN else amount

"""The most that each container of a workload held in the last day and week, from one plan after the other.

A workload outlives its pods: it is who re-creates them. Unknown is never counted, least of all as 0. Of two pods of
a workload the larger counts, container by container.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from edgeagent.memory.requests import MEMORY
from edgeagent.plan import victims
from edgeagent.plan.peaktime import DAY, BoardTime, moved

if TYPE_CHECKING:
    from edgeagent.facts import ContainerFacts, PodFacts
    from edgeagent.memory.types import ContainerUse
    from edgeagent.plan.breaches import PodView
    from edgeagent.plan.types import Plan

DAY_HOURS = 24
WEEK_HOURS = 7 * DAY_HOURS
MOST = 256
"""Containers of workloads that are remembered; a node runs 110 pods unless it is told otherwise."""
_FORGOTTEN = 8 * DAY
"""Seconds after which nothing of a container that was not seen is left: the week and the day that it ends in."""
# A CronJob names its Jobs after itself and the minutes since 1970 (getJobName in pkg/controller/cronjob of
# kubernetes/kubernetes). A date such as 20240101 is below the minutes of 2020.
_RUN = re.compile(r"(.+)-(\d{8})", re.ASCII)
_MINUTES = range(26_297_280, 68_374_080)
"""From 2020 to 2100."""

Steps = tuple[tuple[int, int], ...]
"""(hour of the board, bytes), each later and of fewer bytes than the one before: the first in a window is its peak."""


class Workload(NamedTuple):
    """One container of those that a controller re-creates, or of a pod that none does."""

    namespace: str
    kind: str
    name: str
    container: str


class Course(NamedTuple):
    """How much of one memory a container held."""

    steps: Steps = ()
    watched: float = 0.0
    """Seconds for which that was known."""
    at: float = 0.0
    """Second of the board at which it was known last."""

    def peak(self, hour: int, hours: int) -> int | None:
        """The most bytes since ``hours`` before ``hour``, and less than an hour (in a week: a day) earlier."""
        return next((amount for when, amount in self.steps if when >= hour - hours), None)


_NONE = Course()


class Record(NamedTuple):
    """What is known of one container of a workload."""

    gpu: Mapping[str, Course]
    """By pool resource."""
    host: Course
    gpu_budgets: Mapping[str, int]
    """By pool resource; those of its youngest pod."""
    memory_limit: int | None
    seen_at: float
    """Second of the board."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """All of it."""

    time: BoardTime = field(default_factory=BoardTime)
    shared: tuple[str, ...] = ()
    """The pools that share their memory with the host, as they were last."""
    room: Mapping[str, int] = field(default_factory=dict)
    """The most bytes that one container can have of each pool, as it was last."""
    records: Mapping[Workload, Record] = field(default_factory=dict)


def workload(pod: PodFacts, container: str) -> Workload:
    """Whose container it is: as for back-off, but for runs of a CronJob and for static pods, which the node owns."""
    if pod.mirror:
        return Workload(pod.namespace, "Pod", pod.name, container)
    namespace, kind, name = victims.owner(pod)
    run = _RUN.fullmatch(name) if kind == "Job" else None
    if run and int(run[2]) in _MINUTES:
        kind, name = "CronJob", run[1]
    return Workload(namespace, kind, name, container)


def holding(peaks: Peaks) -> Peaks:
    """Those of the containers that held GPU memory or have a budget for it."""
    records = {who: one for who, one in peaks.records.items() if one.gpu_budgets or _gpu(one)}
    return replace(peaks, records=records)


def running(pod: PodFacts) -> list[ContainerFacts]:
    """The containers that live as long as the pod."""
    return [container for container in pod.containers if container.kind in ("regular", "sidecar")]


def fold(peaks: Peaks, plan: Plan, at: float, wall: float, max_age: float) -> Peaks:
    """The peaks after ``plan``, whose sample was taken at monotonic second ``at``. The same sample counts once.

    ``wall`` is Unix time; between two figures more than ``max_age`` seconds apart nobody watched.
    """
    if peaks.time.at is not None and at <= peaks.time.at:
        return peaks
    time = moved(peaks.time, at, wall)
    records = dict(peaks.records)
    now = _Now(time.seconds, time.hour, max_age)
    for who, seen in _seen(plan).items():
        before = records.get(who)
        if before is not None and not plan.pools:
            # Without a pool no pod has a budget, which does not say that its manifest has none.
            seen = seen._replace(gpu_budgets=before.gpu_budgets)  # noqa: PLW2901
        records[who] = _after(before, seen, now)
    shared = tuple(pool.resource for pool in plan.pools if pool.kind == "unified")
    room = {pool.resource: pool.room for pool in plan.pools}
    # A pool whose size is not known for the moment has not changed its kind.
    shared, room = (shared, room) if plan.pools else (peaks.shared, dict(peaks.room))
    return Peaks(time=time, shared=shared, room=room, records=_bounded(records, time.seconds))


def stepped(steps: Steps, hour: int, amount: int) -> Steps:
    """``steps`` after one more figure in the latest ``hour``."""
    if steps and steps[-1][0] == hour and steps[-1][1] >= amount:
        return steps
    kept: list[tuple[int, int]] = []
    for when, held in steps:
        if when < hour - WEEK_HOURS or held <= amount:
            continue
        if kept and when < hour - DAY_HOURS and kept[-1][0] // DAY_HOURS == when // DAY_HOURS:
            # Before the last day, one for each day: its largest, for as long as its latest counts.
            kept[-1] = (when, kept[-1][1])
        else:
            kept.append((when, held))
    return (*kept, (hour, amount))


class _Seen(NamedTuple):
    """A container of a workload in one sample. None is unknown."""

    gpu: Mapping[str, int | None]
    host: int | None
    gpu_budgets: Mapping[str, int]
    memory_limit: int | None


def _seen(plan: Plan) -> dict[Workload, _Seen]:
    found: dict[Workload, _Seen] = {}
    # The youngest comes last, and its manifest counts.
    for view in sorted(plan.pods, key=_age):
        pod = view.pod
        containers = running(pod)
        alone = len(containers) == 1
        for container in containers:
            who = workload(pod, container.name)
            use = view.use.containers.get(container.name)
            gpu, host = _used(view, container.name, use, alone=alone) if use is not None else ({}, None)
            one = _Seen(gpu, host, _gpu_budgets(view, container, alone=alone), container.limits.get(MEMORY))
            found[who] = _larger(found[who], one) if who in found else one
    return found


def _age(view: PodView) -> tuple[float, str]:
    return view.pod.created_at or 0.0, view.pod.name


def _larger(one: _Seen, two: _Seen) -> _Seen:
    gpu = {resource: _most((one.gpu.get(resource), two.gpu.get(resource))) for resource in {**one.gpu, **two.gpu}}
    return two._replace(gpu=gpu, host=_most((one.host, two.host)))


def _most(amounts: Iterable[int | None]) -> int | None:
    return max((amount for amount in amounts if amount is not None), default=None)


def _used(view: PodView, name: str, use: ContainerUse, *, alone: bool) -> tuple[Mapping[str, int | None], int | None]:
    """GPU bytes by pool, and host bytes.

    Where it is the only one, the pod's figures are its own: they tell the pools apart, and they are read more often.
    """
    gpu = view.use.gpu if alone else _by_pool(view, name)
    if use.host is None:
        # Only a container whose cgroup is there is known to run: of another a 0 says nothing.
        return {resource: held or None for resource, held in gpu.items()}, None
    host = view.use.host if alone else use.host
    return gpu, host if view.use.host_exact else None


def _by_pool(view: PodView, name: str) -> dict[str, int | None]:
    """GPU bytes of one of several containers, whose own figure is the sum over all pools."""
    uses = view.use.containers
    own = uses[name].gpu if name in uses else None
    pools = view.use.gpu
    if len(pools) < 2 or own is None:  # noqa: PLR2004 (one has no other)
        return dict.fromkeys(pools, own)
    if own == 0:
        return dict.fromkeys(pools, 0)
    holding = [resource for resource, held in pools.items() if held != 0]
    if len(holding) == 1:
        return {resource: own if resource in holding else 0 for resource in pools}
    others: Iterator[ContainerUse] = (use for other, use in uses.items() if other != name)
    # Nobody else in the pod holds any, so the pod's figures are its own.
    return dict(pools) if all(use.gpu == 0 for use in others) else dict.fromkeys(pools)


def _gpu_budgets(view: PodView, container: ContainerFacts, *, alone: bool) -> dict[str, int]:
    """By pool. A budget that is the pod's is that of its only container."""
    budgets = {}
    for resource, budget in view.budgets.items():
        if budget.gpu is None:
            continue
        if budget.source != "limit":
            if alone:
                budgets[resource] = budget.gpu
        elif resource in container.limits:
            budgets[resource] = container.limits[resource]
    return budgets


class _Now(NamedTuple):
    seconds: float
    hour: int
    max_age: float


def _after(before: Record | None, seen: _Seen, now: _Now) -> Record:
    """The record of a container of which ``before`` was known."""
    gpu: Mapping[str, Course] = before.gpu if before else {}
    host = before.host if before else _NONE
    if before and (before.gpu_budgets, before.memory_limit) != (seen.gpu_budgets, seen.memory_limit):
        # What it held still counts. That it needs no more under the new manifest has yet to be watched.
        gpu = {name: course._replace(watched=0.0) for name, course in gpu.items()}
        host = host._replace(watched=0.0)
    grown = {
        name: _grown(before, held, now) if held is not None else before
        for name, held in seen.gpu.items()
        for before in (gpu.get(name, _NONE),)
    }
    if seen.host is not None:
        host = _grown(host, seen.host, now)
    return Record({**gpu, **grown}, host, seen.gpu_budgets, seen.memory_limit, now.seconds)


def _grown(course: Course, amount: int, now: _Now) -> Course:
    if not course.steps or course.steps[-1][0] < now.hour - WEEK_HOURS:
        # Nothing of it counts any more, and neither does how long it was watched.
        return Course(((now.hour, amount),), 0.0, now.seconds)
    passed = now.seconds - course.at
    watched = course.watched + passed if passed <= now.max_age else course.watched
    return Course(stepped(course.steps, now.hour, amount), watched, now.seconds)


def _bounded(records: dict[Workload, Record], now: float) -> dict[Workload, Record]:
    """Without what is too old, and of the rest those seen last; among them those that held GPU memory."""
    kept = {who: one for who, one in records.items() if now - one.seen_at <= _FORGOTTEN}
    if len(kept) <= MOST:
        return kept
    latest = sorted(kept.items(), key=lambda item: (item[1].seen_at, _gpu(item[1]), item[0]), reverse=True)
    return dict(sorted(latest[:MOST]))


def _gpu(record: Record) -> int:
    return max((course.steps[0][1] for course in record.gpu.values() if course.steps), default=0)

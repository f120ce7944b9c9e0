"""Is the board itself in danger: usable memory near the floor, or falling towards it?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgeagent.plan.cadence import WORST_FILL
from edgeagent.plan.state import PressureMemory
from edgeagent.quantity import MIB, total

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgeagent.config import Pressure
    from edgeagent.facts import HostFacts, MemInfo, PodFacts
    from edgeagent.memory.types import Pool

DROP_SECONDS = 5.0
"""The fastest fall of the last five seconds counts."""
CALM_SECONDS = 60.0
MARGIN = 128 * MIB
"""What an eviction should leave above the floor."""
READINGS = 2
SHORTEST_PAIR = 0.05
"""Seconds between two readings below which they give no rate of fall."""
SURE_PAIR = 0.4
"""Seconds from which they always give one."""
LARGE_PART = 4
"""Between the two, a fall counts that reaches the floor if it happens this many times again."""


@dataclass(frozen=True, slots=True)
class Danger:
    """One look at the board's memory."""

    usable: int | None
    floor: int
    critical: int
    drop: float
    """Bytes per second, the fastest fall seen lately."""
    active: bool
    by_floor: bool
    """Usable memory is below the floor now; only that sets the condition."""
    need: int
    """Bytes that must come free for the floor and a margin."""
    known: bool = False
    """Usable memory was read, now or before."""
    begins: bool = False
    """The readings that ask for it have just begun: the decision to come needs to know who holds what."""
    fell: int = 0
    """Bytes that were usable in the reading before and are not now."""


def usable(meminfo: MemInfo | None, *, tegra: bool) -> int | None:
    """Bytes that GPU and host can still allocate: MemAvailable, on a Tegra without the free CMA pages."""
    if meminfo is None or meminfo.available is None:
        return None
    return max(0, meminfo.available - (meminfo.cma_free if tegra else 0))


def floor(settings: Pressure, pool: Pool | None) -> int:
    """The floor in bytes: as configured, else half the headroom, at least 128 MiB."""
    if settings.floor is not None:
        return settings.floor
    headroom = next((line.bytes for line in pool.reserves if line.name == "headroom"), 0) if pool else 0
    return max(128 * MIB, headroom // 2)


def ahead(now_usable: float, drop: float, seconds: float) -> float:
    """Bytes that are usable in ``seconds`` if the fastest fall of lately, in bytes per second, goes on."""
    return now_usable - seconds * drop


def observe(
    before: PressureMemory, at: float, now_usable: int | None, settings: Pressure, pool: Pool | None, max_age: float
) -> tuple[PressureMemory, Danger]:
    """The memory after one more meminfo reading, and what it means. The same reading seen twice counts once."""
    low = floor(settings, pool)
    critical = settings.critical if settings.critical is not None else low // 2
    if pool is None or now_usable is None:
        return before, Danger(
            now_usable,
            low,
            critical,
            0.0,
            active=before.since is not None,
            by_floor=before.by_floor,
            need=0,
            known=bool(before.readings) or now_usable is not None,
        )
    after = _read(before, at, now_usable, max_age)
    drop = fastest_drop(after.readings, now_usable - low)
    soon = ahead(now_usable, drop, settings.horizon)
    if after is not before:
        after = _judge(after, at, now_usable, soon, low)
    expected = now_usable if now_usable < low else soon
    need = max(0, low + MARGIN - int(expected)) if min(now_usable, soon) < low else 0
    return after, Danger(
        now_usable,
        low,
        critical,
        drop,
        active=after.since is not None,
        by_floor=after.by_floor,
        need=need,
        known=True,
        begins=0 < after.falling <= READINGS,
        fell=max(0, after.readings[-2][1] - now_usable) if len(after.readings) > 1 else 0,
    )


def _read(before: PressureMemory, at: float, value: int, max_age: float) -> PressureMemory:
    last = before.readings[-1][0] if before.readings else None
    if last is not None and at <= last:
        return before
    if last is not None and at - last > max_age:
        # A gap proves nothing about what lies in it: the board slept, or could not be read.
        return replace(before, readings=((at, value),), low=0, falling=0, calm_since=None)
    kept = tuple(reading for reading in before.readings if at - reading[0] <= DROP_SECONDS) or before.readings[-1:]
    return replace(before, readings=(*kept, (at, value)))


def fastest_drop(readings: tuple[tuple[float, int], ...], spare: int) -> float:
    """Bytes per second, the fastest fall among ``readings``, with ``spare`` bytes above the floor now."""
    fastest = 0.0
    earlier, before = readings[0]
    for at, value in readings[1:]:
        fell = before - value
        if is_rate(at - earlier, fell, spare):
            fastest = max(fastest, fell / (at - earlier))
            earlier, before = at, value
        elif fell <= 0:
            earlier, before = at, value
    return fastest


def is_rate(seconds: float, fell: float, spare: float) -> bool:
    """Whether a fall of ``fell`` bytes in ``seconds`` says something about the seconds ahead.

    One allocation between two readings that happen to be 50 ms apart is no fall of 3 s. It counts where it
    is a large part of what is ``spare`` above the floor, or where the floor is so near that there is no time
    to see whether it goes on.
    """
    if fell * LARGE_PART >= spare:
        return seconds >= SHORTEST_PAIR
    return seconds >= min(max(spare / WORST_FILL, SHORTEST_PAIR), SURE_PAIR)


def _judge(after: PressureMemory, at: float, value: int, soon: float, low: int) -> PressureMemory:
    below = after.low + 1 if value < low else 0
    falling = after.falling + 1 if min(value, soon) < low else 0
    since = after.since
    calm = after.calm_since
    if falling >= READINGS:
        since, calm = (at if since is None else since), None
    elif since is not None and value > low + max(256 * MIB, low // 4):
        calm = at if calm is None else calm
        if at - calm >= CALM_SECONDS:
            since = calm = None
    else:
        calm = None
    by_floor = since is not None and (below >= READINGS or after.by_floor)
    return replace(after, low=below, falling=falling, since=since, calm_since=calm, by_floor=by_floor)


FOR_THE_HOST = ("os", "k3s")
"""The reserves that processes outside pods live on."""


def outside_pods(host: HostFacts, system_gpu: int | None, pods: Iterable[PodFacts]) -> int | None:
    """Bytes that processes outside pods use, with the kernel and its GPU memory. None: a figure is missing.

    A pod without a cgroup has no memory yet; one whose cgroup cannot be read has some, nobody knows how much.
    """
    meminfo = host.meminfo.value
    hosted = [host.pods[pod.cgroup_uid].host_bytes for pod in pods if pod.live and pod.cgroup_uid in host.pods]
    of_pods = total(hosted)
    if meminfo is None or system_gpu is None or meminfo.held is None or of_pods is None:
        return None
    return system_gpu + meminfo.held - of_pods


def host_over(outside: int | None, pool: Pool | None) -> bool | None:
    """Processes outside pods use more than ``os`` and ``k3s`` reserve for them. None: a figure is missing."""
    if outside is None or pool is None:
        return None
    return outside > sum(line.bytes for line in pool.reserves if line.name in FOR_THE_HOST)

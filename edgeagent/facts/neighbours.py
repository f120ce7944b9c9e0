"""How pods fare beside each other: for people alone, no decision rests on any of it.

Ratios are from 0 to 1, over the time between two readings. None is unknown or not supported: the first reading, a
counter that went backwards because what it counts was restarted, a kernel or driver that does not tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Resource = Literal["cpu", "memory", "io"]
RESOURCES: tuple[Resource, ...] = ("cpu", "memory", "io")
MAX_AGE = 35.0
"""Seconds after which none of it is told any more: three rounds of the watch. It rests while a board is in danger."""

# --- what is read ---


@dataclass(frozen=True, slots=True)
class Throttling:
    """What ``cpu.stat`` has counted since its cgroup was made."""

    periods: int
    """Periods in which the cgroup wanted to run under a quota; 0 without a quota."""
    throttled: int
    """Those of them in which the quota was used up."""
    seconds: float
    """Time that it was held back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCounters:
    """What the kernel has counted for one pod."""

    throttling: Mapping[str, Throttling] = field(default_factory=dict)
    """By cgroup: ``""`` the pod's own, else a container's id. Each has a quota and counts of its own."""
    stalled: Mapping[Resource, float] = field(default_factory=dict)
    """Seconds in which some task waited for a resource (PSI, ``some``); a resource that is not told is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceActivity:
    """What the driver says of one device beside its memory. None: not supported, or not known."""

    uuid: str | None
    minor: int | None = None
    busy: float | None = None
    """Share of the time in which any kernel ran."""
    processes: Mapping[int, float] | None = None
    """The same by pid, of those that ran anything."""
    celsius: float | None = None
    held_back: tuple[str, ...] | None = None
    """Reasons for which the clocks are below what was asked for: ``power-cap``, ``thermal`` …; () none."""


# --- what is told ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """What a pod's own histogram says of the time between two scrapes."""

    p50_seconds: float | None = None
    """None: no request in that time."""
    p99_seconds: float | None = None
    requests_per_second: float | None = None
    requests: float = 0.0
    """Counted since the agent first scraped it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How a pod fared over some time, on average."""

    p50_seconds: float | None = None
    p99_seconds: float | None = None
    requests_per_second: float | None = None
    cpu_throttled_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A pod before and after another one started beside it."""

    pod: str
    """``namespace/name`` of the newcomer."""
    seconds: float
    """Since it started."""
    before: Figures
    """Over up to five minutes before that."""
    after: Figures
    """Over up to five minutes from then on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Counters of one pod that only rise while the agent runs, for those who make rates of them themselves."""

    periods: int = 0
    throttled: int = 0
    throttled_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """How one pod fares."""

    at: float
    """Monotonic second of the reading."""
    namespace: str
    name: str
    uid: str
    cpu_throttled_ratio: float | None = None
    """Periods in which a quota held it back, of those in which it wanted to run: of its cgroup held back most."""
    cpu_stall_ratio: float | None = None
    memory_stall_ratio: float | None = None
    io_stall_ratio: float | None = None
    gpu_utilization_ratio: float | None = None
    """Share of the time in which its kernels ran, on the device that it keeps busiest."""
    latency: Latency | None = None
    """None: it shows no histogram, or there is nothing to compare yet."""
    latency_why: str = ""
    """Why its histogram cannot be read, although it says that it has one."""
    since_newcomer: Effect | None = None
    counted: Counted | None = None
    """None: it has no quota."""
    stalled: Mapping[Resource, float] = field(default_factory=dict)
    """As in :class:`PodCounters`."""

    def stale(self, now: float) -> bool:
        """Whether it is too old to be told."""
        return now - self.at > MAX_AGE

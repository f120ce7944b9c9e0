"""How fast a single pod may fill the board's memory for an eviction, or else a kill, to come in time.

The readings, the rules of pressure and the cadence are those of :mod:`edgeagent.plan.pressure`,
:mod:`edgeagent.plan.kills` and :mod:`edgeagent.plan.cadence`, run against a pod that takes memory at a
constant rate. When the pod begins, relative to the readings, is tried in steps, and the worst case counts.

A leak may be so slow that the pod's breach matures while the board is calm. Its eviction then has the long grace,
which nothing shortens afterwards, so there are slow fills that a board does not survive though it survives quicker
ones. What is told is the rate up to which it survives them all.

An evicted pod is taken to ignore SIGTERM and to go on filling until its memory is back, so that the answer
is a lower bound. A killed one stops at the signal: how long its memory takes to come back costs no more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgeagent.plan import cadence, kills
from edgeagent.plan.cadence import NVMAP_SECONDS, WORST_FILL
from edgeagent.plan.pressure import READINGS, SURE_PAIR, ahead, is_rate
from edgeagent.quantity import MIB

if TYPE_CHECKING:
    from edgeagent.config import Config
    from edgeagent.memory.types import Pool
    from edgeagent.plan.pressure import Danger

CALL_SECONDS = 0.1
"""From the reading that decides to the API server's receipt of the eviction: p95 as ``tests/bench`` measures it."""
SIGNAL_SECONDS = 0.02
"""From the decision to kill to the signal: p95 is 14 ms, measured by the service under load on an x86 machine."""
TEARDOWN_SECONDS = 1.0
"""From SIGKILL until the driver has given the memory back: assumed, to be measured on a board."""

PIDFD_KERNEL = (5, 3)
"""The first kernel with pidfd_open (pidfd_open(2))."""
PIDFD_L4T = 34
"""The first L4T with a kernel that has pidfd, 5.10. R32 has 4.9 (NVIDIA's Jetson Linux release notes)."""

_PHASES = 100
"""Moments between two readings at which the pod may begin to fill."""
_HALVINGS = 20
"""Steps of the bisection: they narrow a range of some thousand times the answer down to a few per mille of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """How the memory is watched, and how long an answer takes."""

    floor: int
    """Bytes."""
    horizon: float
    """Seconds ahead that a fall is drawn out."""
    fast: float
    """Seconds between two readings, at least."""
    interval: float
    """And at most."""
    answer: float
    """Seconds from the decision until the pod takes no more memory."""
    critical: int | None = None
    """Bytes, for the watch over a kill; None for that over an eviction."""

    def pause(self, usable: float, drop: float) -> float:
        """Seconds until the next reading."""
        return cadence.pause(usable - self.floor, drop, self.fast, self.interval)

    def far(self, fill: float) -> float:
        """Usable memory from which on more changes nothing: the fall is known before it matters."""
        return self.floor + self.interval * (max(WORST_FILL, fill) + READINGS * fill) + self.horizon * fill

    def alarmed(self, usable: float, drop: float) -> bool:
        """Whether this reading asks for pressure and, where it takes that, is critical too."""
        critical = self.critical is None or ahead(usable, drop, kills.AHEAD) < self.critical
        return critical and ahead(usable, drop, self.horizon) < self.floor


@dataclass(frozen=True, slots=True, kw_only=True)
class Calm:
    """The eviction of a pod that has been over for long enough while the board is not under pressure."""

    earliest: float
    """Seconds from the moment at which the pod went over to the decision, at least."""
    latest: float
    """And at most."""
    answer: float
    """Seconds from the decision until the pod takes no more memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """What the board survives from one state of its memory."""

    usable: int
    """Bytes that were usable when the pod began."""
    rate: float
    """Bytes per second: every constant fill up to this one ends above 0."""
    grace: int | None = None
    """Seconds of grace that bound it; None for a kill, which has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivals:
    """What it survives by one means. A field is None where the memory it starts from is not known."""

    now: Survival | None
    booked: Survival | None
    """When every advertised byte and every reserve but the headroom is in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook(Survivals):
    """What it survives by eviction, and else."""

    grace: int
    """Seconds of grace of an eviction under pressure."""
    calm_grace: int
    """Seconds of grace that a pod may have when it is evicted while the board is calm."""
    matures: float
    """Seconds that a pod must be over for that."""
    fast: float
    """Seconds between two readings near the floor."""
    kill: Survivals | None
    """By kill; None: nobody is killed."""
    no_kill: str
    """Why nobody is; empty where somebody is."""


def outlook(
    config: Config, danger: Danger, pool: Pool | None, kernel: str | None = None, l4t: str | None = None
) -> Outlook:
    """What the board survives.

    Args:
        config: the agent's.
        danger: the look at the memory from which the pod begins.
        pool: the one that GPU and host share; None: its size is not known.
        kernel: its release, ``5.15.148-tegra``; None: not known.
        l4t: the release of L4T, ``32.7.1``; None: none, or not known.
    """
    policy, sampling = config.policy, config.sampling
    grace, calm_grace = max(1, int(policy.pressure_grace)), max(1, int(policy.max_grace))
    watch = Watch(
        floor=danger.floor,
        horizon=config.pressure.horizon,
        fast=config.sampling.fast,
        interval=config.sampling.interval,
        answer=CALL_SECONDS + grace + TEARDOWN_SECONDS,
    )
    calm = Calm(
        earliest=policy.grace,
        # The first sample in which it is over, and the one after the time is full.
        latest=sampling.interval + policy.grace + min(NVMAP_SECONDS, sampling.interval),
        answer=CALL_SECONDS + calm_grace + TEARDOWN_SECONDS,
    )
    # Who holds what has to be read once more: what a decision to kill rests on is at most a second old.
    last = replace(watch, critical=danger.critical, answer=watch.fast + SIGNAL_SECONDS)
    headroom = next((reserve.bytes for reserve in (pool.reserves if pool else ()) if reserve.name == "headroom"), None)
    no_kill = "policy.kill is never" if policy.kill == "never" else _no_pidfd(kernel, l4t)
    return Outlook(
        now=_evicted(watch, calm, danger.usable, grace, calm_grace),
        booked=_evicted(watch, calm, headroom, grace, calm_grace),
        grace=grace,
        calm_grace=calm_grace,
        matures=policy.grace,
        fast=watch.fast,
        kill=None if no_kill else Survivals(now=_killed(last, danger.usable), booked=_killed(last, headroom)),
        no_kill=no_kill,
    )


def _no_pidfd(kernel: str | None, l4t: str | None) -> str:
    """Why no process can be killed here; empty where it can, or nothing tells. L4T tells where the kernel does not."""
    release = re.match(r"(\d{1,4})\.(\d{1,4})", kernel or "")
    major = (l4t or "").partition(".")[0]
    if release and (int(release[1]), int(release[2])) >= PIDFD_KERNEL:
        return ""
    old = release or (major.isdecimal() and int(major) < PIDFD_L4T)
    return "not on this kernel (pidfd needs Linux 5.3)" if old else ""


def _evicted(watch: Watch, calm: Calm, usable: int | None, grace: int, calm_grace: int) -> Survival | None:
    if usable is None:
        return None
    pressed, leak = rate(watch, usable), slowest_deadly(watch, calm, usable)
    if leak is not None and leak < pressed:
        return Survival(usable=usable, rate=leak, grace=calm_grace)
    return Survival(usable=usable, rate=pressed, grace=grace)


def _killed(watch: Watch, usable: int | None) -> Survival | None:
    return None if usable is None else Survival(usable=usable, rate=rate(watch, usable))


def slowest_deadly(watch: Watch, calm: Calm, usable: int) -> float | None:
    """The slowest fill, in bytes per second, that outlasts no eviction made while the board is calm.

    None: whatever is quick enough for that brings pressure before the pod's breach is mature.
    """
    if usable <= 0:
        return None
    slowest = usable / (calm.latest + calm.answer)
    # A quicker fill brings pressure sooner still, so the slowest one tells for all.
    return slowest if _pressed_by(watch, usable, slowest) > calm.earliest else None


def _pressed_by(watch: Watch, usable: int, fill: float) -> float:
    """Seconds after which a slow ``fill`` has brought pressure at the latest: its fall is known, two readings ask."""
    foreseen = (usable - watch.floor) / fill - watch.horizon
    pause = watch.pause(watch.floor + watch.horizon * fill, fill)
    return max(foreseen, SURE_PAIR) + (READINGS + 1) * pause


def rate(watch: Watch, usable: int) -> float:
    """The largest constant fill, in bytes per second, that pressure ends before ``usable`` bytes are gone."""
    if usable <= 0:
        return 0.0
    # Even a decision at once would come too late for more.
    survived, died = 0.0, usable / watch.answer
    for _ in range(_HALVINGS):
        middle = (survived + died) / 2
        if all(_lives(watch, usable, middle, step / _PHASES) for step in range(_PHASES)):
            survived = middle
        else:
            died = middle
    return survived


def _lives(watch: Watch, usable: float, fill: float, phase: float) -> bool:
    """Whether memory is left when the pod takes no more. ``phase``: part of the pause that had passed when it began."""
    usable = min(usable, watch.far(fill))
    pause = watch.pause(usable, 0.0)
    at = pause * (1 - phase)
    since, before, drop, alarms = pause, usable, 0.0, 0
    # Later than this a decision is too late whatever it is.
    latest = usable / fill - watch.answer
    while at < latest:
        left = usable - fill * at
        if is_rate(since, before - left, left - watch.floor):
            drop = max(drop, (before - left) / since)
            since, before = 0.0, left
        alarms = alarms + 1 if watch.alarmed(left, drop) else 0
        if alarms >= READINGS:
            return True
        pause = watch.pause(left, drop)
        at, since = at + pause, since + pause
    return False


def tidy(value: float) -> int:
    """``value`` in whole MiB with two figures, rounded down: more would promise what a simulation cannot."""
    whole = int(value / MIB)
    unit: int = 10 ** max(0, len(str(whole)) - 2)
    return whole // unit * unit * MIB

"""How fast a single pod may fill the board's memory for an eviction, or else a kill, to come in time.

The readings, the rules of pressure and the cadence are those of :mod:`edgeagent.plan.pressure`,
:mod:`edgeagent.plan.kills` and :mod:`edgeagent.plan.cadence`, run against a pod that takes memory at a
constant rate. When the pod begins, relative to the readings, is tried in steps, and the worst case counts.

An evicted pod is taken to ignore SIGTERM and to go on filling until its memory is back, so that the answer
is a lower bound. A killed one stops at the signal: how long its memory takes to come back costs no more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgeagent.plan import cadence, kills
from edgeagent.plan.cadence import WORST_FILL
from edgeagent.plan.pressure import READINGS, ahead, is_rate
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
class Survival:
    """What the board survives from one state of its memory."""

    usable: int
    """Bytes that were usable when the pod began."""
    rate: float
    """Bytes per second, the largest constant fill that ends above 0."""


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
    """Seconds of grace that were counted with."""
    fast: float
    """Seconds between two readings near the floor."""
    kill: Survivals | None
    """By kill; None: ``policy.kill`` is never."""


def outlook(config: Config, danger: Danger, pool: Pool | None) -> Outlook:
    """What the board survives. ``pool``: the one that GPU and host share; None: its size is not known."""
    grace = max(1, int(config.policy.pressure_grace))
    watch = Watch(
        floor=danger.floor,
        horizon=config.pressure.horizon,
        fast=config.sampling.fast,
        interval=config.sampling.interval,
        answer=CALL_SECONDS + grace + TEARDOWN_SECONDS,
    )
    # Who holds what has to be read once more: what a decision to kill rests on is at most a second old.
    last = replace(watch, critical=danger.critical, answer=watch.fast + SIGNAL_SECONDS)
    headroom = next((reserve.bytes for reserve in (pool.reserves if pool else ()) if reserve.name == "headroom"), None)
    kill = Survivals(now=_survival(last, danger.usable), booked=_survival(last, headroom))
    return Outlook(
        now=_survival(watch, danger.usable),
        booked=_survival(watch, headroom),
        grace=grace,
        fast=watch.fast,
        kill=kill if config.policy.kill == "pressure" else None,
    )


def _survival(watch: Watch, usable: int | None) -> Survival | None:
    return None if usable is None else Survival(usable=usable, rate=rate(watch, usable))


def rate(watch: Watch, usable: int) -> float:
    """The largest constant fill rate, in bytes per second, that ends before ``usable`` bytes are gone."""
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

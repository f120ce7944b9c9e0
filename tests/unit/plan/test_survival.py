"""The fill rate that a board survives, against arithmetic and against the agent's own rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from edgeagent.config import Pressure, Sampling
from edgeagent.plan import cadence, survival
from edgeagent.plan.pressure import Danger, observe
from edgeagent.plan.state import PressureMemory
from edgeagent.plan.survival import Calm, Survival, Watch
from tests.unit.factories import GIB, MIB, Run, Scene, config, meminfo
from tests.unit.plan.test_pressure import POOL

DEFAULTS = Watch(floor=128 * MIB, horizon=3.0, fast=0.1, interval=2.0, answer=3.1)
"""0.1 s to the call, 2 s of grace, 1 s until the memory is back."""
KILL = replace(DEFAULTS, critical=64 * MIB, answer=0.1 + 0.02)
"""0.1 s until it is read again who holds what, 0.02 s to the signal."""
CALM = Calm(earliest=15.0, latest=18.0, answer=31.1)
"""``policy.grace``, with 2 s until the first sample and 1 s until the one after; 0.1 s, 30 s of grace, 1 s."""
STEADY = replace(DEFAULTS, floor=GIB, fast=1.0, interval=1.0)
"""Readings a second apart, however low the memory."""


def test_by_the_floor_alone() -> None:
    # The floor is crossed just after a reading: 1 s and 2 s later two readings see it, 3.1 s after that the memory
    # is back. So 1024 MiB have to last for 5.1 s: 1024 / 5.1 = 200.8 MiB/s.
    watch = replace(STEADY, horizon=0.000_001)
    assert survival.rate(watch, 100 * GIB) / MIB == pytest.approx(200.8, rel=0.01)


def test_the_horizon_looks_three_seconds_ahead() -> None:
    # Alarmed from 1024 MiB + 3 s x rate on. That lasts for the same 5.1 s: rate = 1024 / (5.1 - 3) = 487.6 MiB/s.
    assert survival.rate(STEADY, 100 * GIB) / MIB == pytest.approx(487.6, rel=0.01)


def test_from_the_headroom_of_a_small_board() -> None:
    # 256 MiB usable are 128 above the floor, 0.06 s at 2 GiB/s: a reading every 0.1 s. The pod begins t before one.
    # That reading sees a fall of only rate x t / 0.1, and is not alarmed while rate x t + 3 x rate x t / 0.1 =
    # 31 x rate x t < 128. The two after it are, so the decision comes at t + 0.2 and the memory is back at t + 3.3:
    # (3.3 + 128 / (31 x rate)) x rate = 256, rate = (256 - 4.13) / 3.3 = 76.3 MiB/s.
    assert survival.rate(DEFAULTS, 256 * MIB) / MIB == pytest.approx(76.3, rel=0.01)


def test_a_kill_on_a_slow_watch() -> None:
    # Critical from 512 MiB + 0.5 s x rate on. The reading that just misses it is followed by two that do not, 1 s and
    # 2 s later, and 1.02 s after those comes the signal: 512 + 0.5 x rate = 3.02 x rate, rate = 512 / 2.52 = 203.2.
    watch = replace(STEADY, critical=512 * MIB, answer=1.02)
    assert survival.rate(watch, 100 * GIB) / MIB == pytest.approx(203.2, rel=0.01)


def test_a_kill_from_the_headroom_of_a_small_board() -> None:
    # A reading every 0.1 s, the first of them t after the pod began. It sees a fall of rate x t / 0.1, so it is
    # critical, below 64 of 256 MiB, once rate x t + 0.5 x rate x t / 0.1 = 6 x rate x t > 192. If it just is not, the
    # two after it are: the decision comes at t + 0.2, the signal at t + 0.32, with t = 32 / rate. 256 MiB last so long
    # up to 32 + 0.32 x rate = 256, rate = 700 MiB/s.
    assert survival.rate(KILL, 256 * MIB) / MIB == pytest.approx(700, rel=0.01)


def test_nothing_usable_survives_nothing() -> None:
    assert survival.rate(DEFAULTS, 0) == 0
    assert survival.slowest_deadly(DEFAULTS, CALM, 0) is None


def test_a_leak_outlasts_no_calm_eviction() -> None:
    # It is seen over after at most 2 s, mature 15 s later, seen so within 1 s: 18 s. Then 0.1 s to the call, 30 s of
    # grace and 1 s of teardown. 256 MiB last for 49.1 s at 5.21 MiB/s, and pressure comes after no less than
    # 128 / 5.21 - 3 = 21.5 s.
    assert _slowest(256) == pytest.approx(256 / 49.1)
    # Half of an Orin Nano: 3810 / 49.1 = 77.6 MiB/s, and (3810 - 128) / 77.6 - 3 = 44 s.
    assert _slowest(3810) == pytest.approx(77.6, rel=0.001)


def test_where_pressure_comes_first_no_eviction_is_calm() -> None:
    # 192 MiB last for 49.1 s at 3.91 MiB/s. 64 MiB above the floor they last for 16.4 s, and 3 s ahead is 13.4 s; with
    # 0.3 s for three readings that is below 15 s.
    assert _slowest(192) is None
    # 208: 4.24 MiB/s, 80 / 4.24 - 3 = 15.9 s.
    assert _slowest(208) == pytest.approx(208 / 49.1)
    # Below the floor there is pressure at once.
    assert _slowest(100) is None


def _slowest(usable: int) -> float | None:
    """MiB/s, from ``usable`` MiB."""
    found = survival.slowest_deadly(DEFAULTS, CALM, usable * MIB)
    return None if found is None else found / MIB


def _times(fill: float, usable: int, phase: float, *, kill: bool = False) -> Iterator[tuple[float, float]]:
    """(second, bytes left) of each reading up to the one that decides, as the agent's cadence has them."""
    sampling = Sampling()
    memory, danger = observe(PressureMemory(), 0.0, usable, Pressure(), POOL, sampling.max_age)
    begins = phase * _pause(danger, sampling)
    at, critical = 0.0, 0
    while True:
        at += _pause(danger, sampling)
        left = usable - fill * (at - begins)
        memory, danger = observe(memory, at, int(left), Pressure(), POOL, sampling.max_age)
        yield at - begins, left
        critical = critical + 1 if left - 0.5 * danger.drop < danger.critical else 0
        if danger.active and (critical >= 2 or not kill):
            return


def _pause(danger: Danger, sampling: Sampling) -> float:
    return cadence.meminfo(cast("Any", SimpleNamespace(danger=danger)), sampling)


def _lives(fill: float, usable: int, phase: float, answer: float, *, kill: bool) -> bool:
    """The decision of the agent's own rules comes while there is still memory for the seconds that it takes to act."""
    readings = list(_times(fill, usable, phase, kill=kill))
    decided, _ = readings[-1]
    return all(left > 0 for _, left in readings) and usable - fill * (decided + answer) > 0


@pytest.mark.parametrize("usable", [256 * MIB, GIB, 4 * GIB])
@pytest.mark.parametrize("watch", [DEFAULTS, KILL], ids=["eviction", "kill"])
def test_the_agents_own_rules_agree(watch: Watch, usable: int) -> None:
    rate, kill = survival.rate(watch, usable), watch.critical is not None
    phases = [step / 50 for step in range(50)]
    assert all(_lives(0.98 * rate, usable, phase, watch.answer, kill=kill) for phase in phases)
    assert not all(_lives(1.02 * rate, usable, phase, watch.answer, kill=kill) for phase in phases)


def test_now_and_when_all_is_booked() -> None:
    # 2 % of 8 GiB is 163.8 MiB, so the headroom is 256 MiB and the floor 128 MiB.
    plan = Run().step(Scene(meminfo=meminfo(8 * GIB, available=GIB)))
    (pool,) = plan.pools

    found = survival.outlook(config(), plan.danger, pool)

    # 1024 / 49.1 = 20.86 and 256 / 49.1 = 5.21 MiB/s: a leak that is evicted while the board is calm.
    assert found.now is not None
    assert found.booked is not None
    assert (found.now.usable, found.now.grace) == (GIB, 30)
    assert found.now.rate / MIB == pytest.approx(1024 / 49.1)
    assert (found.booked.usable, found.booked.grace) == (256 * MIB, 30)
    assert found.booked.rate / MIB == pytest.approx(256 / 49.1)
    assert (found.grace, found.calm_grace, found.matures) == (2, 30, 15)
    assert found.kill is not None
    assert found.kill.now == Survival(usable=GIB, rate=survival.rate(KILL, GIB))
    assert found.kill.booked == Survival(usable=256 * MIB, rate=survival.rate(KILL, 256 * MIB))


def test_where_nobody_is_killed_no_rate_is_survived_by_it() -> None:
    plan = Run().step(Scene(meminfo=meminfo(8 * GIB, available=GIB)))
    found = survival.outlook(config("policy: {kill: never}"), plan.danger, plan.pools[0])
    assert (found.kill, found.no_kill) == (None, "policy.kill is never")


@pytest.mark.parametrize(
    ("l4t", "kills"), [("28.2.1", False), ("32.7.6", False), ("34.1.1", True), ("36.4.4", True), (None, True)]
)
def test_nobody_is_killed_where_the_kernel_has_no_pidfd(l4t: str | None, kills: bool) -> None:  # noqa: FBT001
    """L4T R28 and R32 have Linux 4.4 and 4.9, from R34 on it is 5.10."""
    plan = Run().step(Scene(meminfo=meminfo(8 * GIB, available=GIB)))
    found = survival.outlook(config(), plan.danger, plan.pools[0], None, l4t)
    assert (found.kill is not None, found.no_kill == "") == (kills, kills)


def test_what_is_not_known_is_not_reckoned() -> None:
    plan = Run().step(Scene(meminfo=None))
    found = survival.outlook(config(), plan.danger, None)
    assert (found.now, found.booked) == (None, None)


def test_a_longer_grace_costs_speed() -> None:
    plan = Run().step(Scene(meminfo=meminfo(8 * GIB, available=GIB)))
    rates = [
        survival.outlook(config(f"policy: {{pressure_grace: {grace}, grace: 24h}}"), plan.danger, plan.pools[0]).booked
        for grace in ("2s", "10s")
    ]
    assert all(rates)
    assert rates[0] is not None
    assert rates[1] is not None
    assert rates[1].rate < rates[0].rate / 2


def test_a_shorter_longest_grace_saves_from_leaks() -> None:
    # With 2 s it is 18 + 3.1 s: 256 / 21.1 = 12.13 MiB/s. Pressure at that rate comes after 128 / 12.13 - 3 = 7.6 s,
    # before 15 s, so that what is left is the fill that pressure does not outrun.
    plan = Run().step(Scene(meminfo=meminfo(8 * GIB, available=GIB)))
    found = survival.outlook(config("policy: {max_grace: 2s}"), plan.danger, plan.pools[0]).booked
    assert found == Survival(usable=256 * MIB, rate=survival.rate(DEFAULTS, 256 * MIB), grace=2)


@pytest.mark.parametrize(("given", "shown"), [(197.9, 190), (76.9, 76), (7.9, 7), (0.9, 0), (1234.0, 1200)])
def test_two_figures_rounded_down(given: float, shown: int) -> None:
    assert survival.tidy(given * MIB) == shown * MIB


@pytest.mark.parametrize(
    ("kernel", "l4t", "possible"),
    [
        ("4.9.253-tegra", "32.7.1", False),
        ("5.2.21", None, False),
        ("5.3.0", None, True),
        ("5.15.148-tegra", "36.4.3", True),
        ("6.17.0-1032-nvidia", None, True),
        ("5.10.104", "32.7.1", True),  # a kernel of one's own: what runs tells
        ("odd", "32.7.1", False),
        (None, None, True),
    ],
)
def test_no_kill_on_a_kernel_without_pidfd(kernel: str | None, l4t: str | None, *, possible: bool) -> None:
    plan = Run().step(Scene(meminfo=meminfo(8 * GIB, available=2 * GIB)))
    found = survival.outlook(config(), plan.danger, plan.pools[0], kernel, l4t)
    assert (found.kill is not None, "pidfd needs Linux 5.3" in found.no_kill) == (possible, not possible)

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
from edgeagent.plan.survival import Watch
from tests.unit.factories import GIB, MIB, Run, Scene, config, meminfo
from tests.unit.plan.test_pressure import POOL

DEFAULTS = Watch(floor=128 * MIB, horizon=3.0, fast=0.1, interval=2.0, answer=3.1)
"""0.1 s to the call, 2 s of grace, 1 s until the memory is back."""
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


def test_nothing_usable_survives_nothing() -> None:
    assert survival.rate(DEFAULTS, 0) == 0


def _times(fill: float, usable: int, phase: float) -> Iterator[tuple[float, float]]:
    """(second, bytes left) of each reading, as the agent's cadence has them after a calm reading."""
    sampling = Sampling()
    memory, danger = observe(PressureMemory(), 0.0, usable, Pressure(), POOL, sampling.max_age)
    begins = phase * _pause(danger, sampling)
    at = 0.0
    while True:
        at += _pause(danger, sampling)
        left = usable - fill * (at - begins)
        memory, danger = observe(memory, at, int(left), Pressure(), POOL, sampling.max_age)
        yield at - begins, left
        if danger.active:
            return


def _pause(danger: Danger, sampling: Sampling) -> float:
    return cadence.meminfo(cast("Any", SimpleNamespace(danger=danger)), sampling)


def _lives(fill: float, usable: int, phase: float) -> bool:
    """The decision of the agent's own rules comes while there is still memory for the 3.1 s that it takes to act."""
    readings = list(_times(fill, usable, phase))
    decided, _ = readings[-1]
    return all(left > 0 for _, left in readings) and usable - fill * (decided + 3.1) > 0


@pytest.mark.parametrize("usable", [256 * MIB, GIB, 4 * GIB])
def test_the_agents_own_rules_agree(usable: int) -> None:
    rate = survival.rate(DEFAULTS, usable)
    phases = [step / 50 for step in range(50)]
    assert all(_lives(0.98 * rate, usable, phase) for phase in phases)
    assert not all(_lives(1.02 * rate, usable, phase) for phase in phases)


def test_now_and_when_all_is_booked() -> None:
    # 2 % of 8 GiB is 163.8 MiB, so the headroom is 256 MiB and the floor 128 MiB.
    plan = Run().step(Scene(meminfo=meminfo(8 * GIB, available=GIB)))
    (pool,) = plan.pools

    found = survival.outlook(config(), plan.danger, pool)

    assert found.now == survival.Survival(usable=GIB, rate=survival.rate(DEFAULTS, GIB))
    assert found.booked == survival.Survival(usable=256 * MIB, rate=survival.rate(DEFAULTS, 256 * MIB))
    assert found.grace == 2


def test_what_is_not_known_is_not_reckoned() -> None:
    plan = Run().step(Scene(meminfo=None))
    found = survival.outlook(config(), plan.danger, None)
    assert (found.now, found.booked) == (None, None)


def test_a_longer_grace_costs_speed() -> None:
    plan = Run().step(Scene(meminfo=meminfo(8 * GIB, available=GIB)))
    rates = [
        survival.outlook(config(f"policy: {{pressure_grace: {grace}}}"), plan.danger, plan.pools[0]).booked
        for grace in ("2s", "10s")
    ]
    assert all(rates)
    assert rates[0] is not None
    assert rates[1] is not None
    assert rates[1].rate < rates[0].rate / 2


@pytest.mark.parametrize(("given", "shown"), [(197.9, 190), (76.9, 76), (7.9, 7), (0.9, 0), (1234.0, 1200)])
def test_two_figures_rounded_down(given: float, shown: int) -> None:
    assert survival.tidy(given * MIB) == shown * MIB

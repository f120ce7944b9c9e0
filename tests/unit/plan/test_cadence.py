"""How soon the board is read again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgeagent.plan import cadence
from tests.unit.factories import GIB, MIB, Held, Run, Scene, config, meminfo, pod

SETTINGS = config("sampling: {interval: 2s, fast: 100ms}\npressure: {floor: 128Mi}\nreserves: {cma: 0}")


@pytest.mark.parametrize(
    ("available", "seconds"),
    [
        (6 * GIB, 2.0),  # (6144 - 128) MiB at 2 GiB/s are 2.9 s
        (1152 * MIB, 0.5),  # 1024 MiB at 2048 MiB/s
        (228 * MIB, 0.1),  # 0.05 s, not faster than fast
        (100 * MIB, 0.1),
    ],
)
def test_memory_is_read_again_before_the_floor_can_be_reached(available: int, seconds: float) -> None:
    plan = Run().step(Scene(config=SETTINGS, meminfo=meminfo(available=available)))
    assert cadence.meminfo(plan, SETTINGS.sampling) == pytest.approx(seconds)


def test_attribution_is_slow_on_a_calm_board_and_quicker_for_a_suspect() -> None:
    calm = Run().step(Scene(config=SETTINGS, meminfo=meminfo(available=6 * GIB)))
    assert cadence.attribution(calm, SETTINGS.sampling) == 2.0
    over = Scene(
        pods=(pod("a", GIB),), held={"a": Held(gpu=2 * GIB)}, config=SETTINGS, meminfo=meminfo(available=6 * GIB)
    )
    assert cadence.attribution(Run().step(over), SETTINGS.sampling) == 1.0


def test_the_first_reading_below_the_floor_asks_at_once_who_it_is() -> None:
    run = Run(outcome=None)
    low = Scene(pods=(pod("a", GIB),), held={"a": Held(gpu=GIB)}, config=SETTINGS, meminfo=meminfo(available=100 * MIB))
    assert cadence.attribution(run.step(low), SETTINGS.sampling) == 0.1
    assert cadence.attribution(run.steps(low, 0.1), SETTINGS.sampling) == 0.1
    # Under pressure without a culprit the driver's lock is taken once a second.
    assert cadence.attribution(run.steps(low, 0.2), SETTINGS.sampling) == 1.0
    # It falls again after it had recovered: as at first.
    run.steps(replace(low, meminfo=meminfo(available=6 * GIB)), 0.3)
    assert cadence.attribution(run.steps(low, 0.4), SETTINGS.sampling) == 0.1


def test_under_pressure_memory_that_goes_on_falling_is_asked_for_at_once() -> None:
    """A second culprit is found as soon as the first, and what falls cannot fall for ever."""
    run = Run(outcome=None)
    low = Scene(pods=(pod("a", GIB),), held={"a": Held(gpu=GIB)}, config=SETTINGS, meminfo=meminfo(available=100 * MIB))
    run.steps(low, 0.0, 0.1, 0.2)
    for second, amount, seconds in ((0.3, 84, 0.1), (0.4, 69, 1.0), (0.5, 69, 1.0), (0.6, 40, 0.1)):
        plan = run.steps(replace(low, meminfo=meminfo(available=amount * MIB)), second)
        assert cadence.attribution(plan, SETTINGS.sampling) == seconds


def test_before_the_first_plan_nothing_waits() -> None:
    assert cadence.attribution(None, SETTINGS.sampling) == 0.1
    assert cadence.meminfo(None, SETTINGS.sampling) == 2.0


def test_there_is_time_for_what_no_decision_needs_unless_the_board_is_in_danger() -> None:
    assert not cadence.calm(None)
    # A pod over its budget alone is no danger to the board; the first reading below the floor is, and pressure.
    over = Scene(
        pods=(pod("a", GIB),), held={"a": Held(gpu=2 * GIB)}, config=SETTINGS, meminfo=meminfo(available=6 * GIB)
    )
    assert cadence.calm(Run().step(over))
    run, low = Run(), Scene(config=SETTINGS, meminfo=meminfo(available=100 * MIB))
    assert not cadence.calm(run.step(low))
    assert not cadence.calm(run.step(replace(low, at=0.1)))

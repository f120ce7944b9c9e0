"""Use that swings around its limit, for a quarter of an hour, read four times a second."""

from __future__ import annotations

import itertools

import pytest

from tests.unit.factories import GIB, Held, Run, Scene, at, evicted, meminfo, pod

BUDGET = 4 * GIB
SWING = BUDGET // 100
"""1 %, which is 41 MiB: twice the tolerance of 0.5 %."""
EVERY = 0.25
STEPS = int(900 / EVERY)


def scene(second: float, used: int) -> Scene:
    given = Scene(pods=(pod("a", BUDGET),), held={"a": Held(gpu=used)}, meminfo=meminfo(64 * GIB, available=30 * GIB))
    return at(given, second)


@pytest.mark.parametrize("above", [1, 59])
def test_a_pod_that_is_never_above_for_its_grace_stays(above: int) -> None:
    """Below its budget for one sample in two, or for one in sixty: 59 x 0.25 s are 14.75 s, and the grace is 15."""
    run, conditions = Run(), set()
    turn = itertools.cycle([BUDGET + SWING] * above + [BUDGET - SWING])
    for step in range(STEPS):
        plan = run.step(scene(step * EVERY, next(turn)))
        assert evicted(plan) == []
        conditions.add(tuple((one.type, one.status) for one in plan.node.conditions))
    assert len(conditions) == 1


def test_a_quarter_of_a_second_more_is_its_grace() -> None:
    run = Run()
    plans = [run.step(scene(step * EVERY, BUDGET + SWING)) for step in range(61)]
    assert [step for step, plan in enumerate(plans) if evicted(plan)] == [60]

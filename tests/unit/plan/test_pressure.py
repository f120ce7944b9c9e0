"""The board itself in danger: by the floor, by the horizon, and when it is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgeagent.config import Pressure
from edgeagent.facts import HostFacts, MemInfo, PodCgroup, Reading
from edgeagent.memory.types import Pool, Reserve
from edgeagent.plan import cadence
from edgeagent.plan.pressure import Danger, floor, host_over, observe, outside_pods, usable
from edgeagent.plan.state import PressureMemory
from tests.unit.factories import GIB, MIB, Run, Scene, at, config, meminfo, pod

POOL = Pool(
    resource="edgeagent.dev/gpu-memory",
    kind="unified",
    devices=(),
    total=8 * GIB,
    reserves=(
        Reserve("os", GIB, "default"),
        Reserve("k3s", 512 * MIB, "default"),
        Reserve("cma", 0, "measured"),
        Reserve("headroom", 256 * MIB, "default"),
    ),
    host_committed=0,
    gpu_committed=0,
    foreign_committed=0,
    admitted=0,
    computed=0,
)
DEFAULTS = Pressure()
FLOOR = 128 * MIB
"""max(128 MiB, half of 256 MiB)."""


def seen(*readings: tuple[float, int], settings: Pressure = DEFAULTS) -> list[Danger]:
    """What each reading of (second, usable bytes) means after those before it."""
    memory = PressureMemory()
    found = []
    for second, amount in readings:
        memory, danger = observe(memory, second, amount, settings, POOL, 10.0)
        found.append(danger)
    return found


def active(*readings: tuple[float, int]) -> list[bool]:
    return [danger.active for danger in seen(*readings)]


def test_usable_memory() -> None:
    info = meminfo(8 * GIB, available=2 * GIB, cma_total=256 * MIB, cma_free=200 * MIB)
    assert usable(info, tegra=True) == 2 * GIB - 200 * MIB
    assert usable(info, tegra=False) == 2 * GIB
    assert usable(replace(info, available=None), tegra=True) is None
    assert usable(None, tegra=True) is None


@pytest.mark.parametrize(("headroom", "expected"), [(256, 128), (100, 128), (1000, 500)])
def test_the_floor_is_half_the_headroom(headroom: int, expected: int) -> None:
    pool = replace(POOL, reserves=(Reserve("headroom", headroom * MIB, "config"),))
    assert floor(Pressure(), pool) == expected * MIB
    assert floor(Pressure(floor=7), pool) == 7
    assert floor(Pressure(), None) == 128 * MIB


def test_two_readings_in_a_row_below_the_floor() -> None:
    assert active((0, FLOOR - 1), (2, FLOOR - 1)) == [False, True]
    assert active((0, FLOOR), (2, FLOOR)) == [False, False]
    assert active((0, FLOOR - 1), (2, GIB), (4, FLOOR - 1)) == [False, False, False]


def test_a_single_low_reading_is_none() -> None:
    # up again before the next low one, slowly enough not to count as a fall towards the floor
    assert active((0, FLOOR - 1), (2, FLOOR + MIB), (4, FLOOR + MIB), (6, FLOOR + MIB)) == [False] * 4


def test_the_same_reading_seen_twice_counts_once() -> None:
    assert active((0, FLOOR - 1), (0, FLOOR - 1)) == [False, False]


def test_falling_towards_the_floor() -> None:
    # 400 MiB/s: 1400 − 3 × 400 = 200 MiB, above; 1000 − 1200 below; 600 − 1200 below: two in a row
    found = seen((0, 1800 * MIB), (1, 1400 * MIB), (2, 1000 * MIB), (3, 600 * MIB))
    assert [danger.active for danger in found] == [False, False, False, True]
    assert not found[-1].by_floor
    assert found[-1].drop == 400 * MIB


def test_the_horizon_is_a_setting() -> None:
    # 1000 − 1 × 400 = 600 MiB, 600 − 400 = 200 MiB: above the floor
    readings = ((0, 1800 * MIB), (1, 1400 * MIB), (2, 1000 * MIB), (3, 600 * MIB))
    assert not any(danger.active for danger in seen(*readings, settings=Pressure(horizon=1.0)))


def test_the_largest_fall_of_the_last_five_seconds() -> None:
    found = seen((0, 4000 * MIB), (1, 3000 * MIB), (2, 3000 * MIB), (5, 3000 * MIB), (6.5, 3000 * MIB))
    assert [danger.drop for danger in found] == [0, 1000 * MIB, 1000 * MIB, 1000 * MIB, 0]


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        # 300 MiB at once, 3900 MiB above the floor: five readings of that would not reach it, and it does not go on
        ([(0, 4328), (0.1, 4028), (0.2, 4028), (0.3, 4028)], [False] * 4),
        # over 0.4 s it is a rate of 750 MiB/s: 4028 − 2250 is above the floor all the same
        ([(0, 4328), (0.1, 4028), (0.4, 4028), (0.5, 4028)], [False] * 4),
        # 300 MiB in 0.1 s with 472 above the floor: 600 − 9000 is below it, 300 − 9000 too
        ([(0, 900), (0.1, 600), (0.2, 300)], [False, False, True]),
        # too short a time for any rate, however near
        ([(0, 900), (0.04, 600), (0.08, 590)], [False, False, False]),
        # a fall is measured from its top: 300 MiB in 0.1 s, not 100 in 0.2
        ([(0, 700), (0.1, 900), (0.2, 600), (0.3, 300)], [False, False, False, True]),
    ],
)
def test_a_step_is_no_fall_where_there_is_time(readings: list[tuple[float, int]], expected: list[bool]) -> None:
    assert active(*((second, amount * MIB) for second, amount in readings)) == expected


def test_what_must_come_free() -> None:
    # by the floor: 128 + 128 − 100 = 156 MiB
    low = seen((0, 100 * MIB), (2, 100 * MIB))[-1]
    assert (low.by_floor, low.need) == (True, 156 * MIB)
    # the fall does not count once the floor is passed, although 100 − 3 × 200 would be less
    assert seen((0, 300 * MIB), (1, 100 * MIB), (2, 100 * MIB))[-1].need == 156 * MIB
    # by the horizon: 128 + 128 − (600 − 3 × 400) = 856 MiB
    falling = seen((0, 1800 * MIB), (1, 1400 * MIB), (2, 1000 * MIB), (3, 600 * MIB))[-1]
    assert falling.need == 856 * MIB
    # neither rule fires any more: nothing more must come free
    assert seen((0, 100 * MIB), (2, 100 * MIB), (4, 200 * MIB))[-1].need == 0


def test_it_ends_after_a_minute_well_above_the_floor() -> None:
    # above 128 + max(256, 32) = 384 MiB for 60 s
    calm = 385 * MIB
    start = ((0.0, FLOOR - 1), (2.0, FLOOR - 1))
    quiet = [(4.0 + second, calm) for second in range(0, 61, 5)]
    found = seen(*start, *quiet)
    assert [danger.active for danger in found] == [False, True, *[True] * 12, False]
    assert [danger.by_floor for danger in found][-2:] == [True, False]
    # a dip to the margin begins the minute again
    dip = [(second, 384 * MIB if second == 34.0 else calm) for second, _ in quiet]
    assert seen(*start, *dip)[-1].active


def test_a_gap_proves_no_calm() -> None:
    start = ((0.0, FLOOR - 1), (2.0, FLOOR - 1), (4.0, GIB))
    assert seen(*start, (70.0, GIB))[-1].active


def test_a_gap_proves_no_danger() -> None:
    assert active((0, FLOOR - 1), (11, FLOOR - 1)) == [False, False]


def test_a_reading_that_failed_changes_nothing() -> None:
    memory, _ = observe(PressureMemory(), 0.0, FLOOR - 1, Pressure(), POOL, 10.0)
    after, danger = observe(memory, 2.0, None, Pressure(), POOL, 10.0)
    assert (after, danger.active, danger.need) == (memory, False, 0)


def test_critical() -> None:
    assert seen((0, GIB))[0].critical == FLOOR // 2
    assert seen((0, GIB), settings=Pressure(critical=MIB))[0].critical == MIB


def test_only_the_floor_sets_the_condition() -> None:
    run = Run()
    falling = [2000, 1600, 1200, 800, 400]
    plans = [
        run.step(at(Scene(meminfo=meminfo(8 * GIB, available=amount * MIB)), float(second)))
        for second, amount in enumerate(falling)
    ]
    assert plans[-1].danger.active
    assert {condition.status for condition in plans[-1].node.conditions if condition.type == "GPUMemoryPressure"} == {
        "False"
    }
    plans = [run.step(at(Scene(meminfo=meminfo(8 * GIB, available=100 * MIB)), second)) for second in (6.0, 8.0)]
    assert [plan.node.conditions[0].status for plan in plans] == ["False", "True"]


# --- the host itself -----------------------------------------------------------------


def busy(**rows: int) -> MemInfo:
    return meminfo(8 * GIB, **rows)


def test_host_over() -> None:
    # os + k3s = 1536 MiB. System GPU 200 + anon 3000 + shmem 100 + slab 100 + stacks 50 + tables 50 − pods 1900 = 1600
    info = busy(
        anon_pages=3000 * MIB, shmem=100 * MIB, s_unreclaim=100 * MIB, kernel_stack=50 * MIB, page_tables=50 * MIB
    )
    facts = Scene(pods=(pod("a"), pod("b"), pod("c")), meminfo=info).facts().host
    cgroups = {
        "uid-a": PodCgroup(host_bytes=1000 * MIB, exact=True),
        "uid-b": PodCgroup(host_bytes=900 * MIB, exact=True),
    }
    host = replace(facts, pods=cgroups)
    pods = Scene(pods=(pod("a"), pod("b"), pod("c"))).pods

    def over(host: HostFacts, system: int | None) -> bool | None:
        return host_over(outside_pods(host, system, pods), POOL)

    assert over(host, 200 * MIB) is True
    assert over(host, 136 * MIB) is False  # exactly 1536
    assert over(host, None) is None
    assert over(replace(host, meminfo=Reading(0.0, None)), 0) is None
    assert over(replace(host, meminfo=Reading(0.0, replace(info, shmem=None))), 0) is None
    # a pod without a cgroup has no memory yet; of one that cannot be read nobody knows how much it has
    assert over(replace(host, pods={**cgroups, "uid-c": PodCgroup(host_bytes=None, exact=False)}), 200 * MIB) is None


def test_the_condition_says_when_it_is_the_host() -> None:
    run = Run()
    info = meminfo(8 * GIB, available=100 * MIB, anon_pages=7 * GIB)
    plan = run.steps(Scene(meminfo=info, host_processes=()), 0.0, 2.0)
    assert plan.node.conditions[0].reason == "HostMemory"


# --- how soon to look again ----------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "seconds"),
    [
        (8 * GIB, 2.0),  # (8192 − 128) / 2048 = 3.9 s, at most sampling.interval
        (128 * MIB + 2 * GIB, 1.0),
        (128 * MIB + 100 * MIB, 0.1),  # 0.05 s, at least sampling.fast
        (0, 0.1),
    ],
)
def test_meminfo_is_read_before_the_floor_could_be_reached(free: int, seconds: float) -> None:
    plan = Run().step(Scene(meminfo=meminfo(8 * GIB, available=free)))
    assert cadence.meminfo(plan, config().sampling) == pytest.approx(seconds)


def test_a_faster_fall_shortens_it() -> None:
    run = Run()
    run.step(Scene(meminfo=meminfo(64 * GIB, available=48 * GIB)))
    plan = run.step(at(Scene(meminfo=meminfo(64 * GIB, available=40 * GIB)), 1.0))
    # headroom 2 % of 64 GiB: 1 374 389 535, half of it is the floor; 8 GiB/s
    expected = (40 * GIB - 1_374_389_535 // 2) / (8 * GIB)
    assert cadence.meminfo(plan, config("sampling: {interval: 9s}").sampling) == pytest.approx(expected)

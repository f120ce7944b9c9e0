"""Is a pod over its budget, by how much, and for how long: one sample, then samples in a row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY, PodFacts
from edgeagent.plan.breaches import PodView, matured, overlap, tolerance
from edgeagent.plan.state import Window
from edgeagent.plan.types import Plan
from tests.unit.factories import (
    GIB,
    MIB,
    WALL,
    Held,
    Run,
    Scene,
    at,
    card,
    config,
    container,
    evicted,
    held_codes,
    igpu,
    meminfo,
    nvml,
    pid_of,
    pod,
    processes,
)


def view(scene: Scene, name: str = "a") -> PodView:
    return one(Run().step(scene), name)


def one(plan: Plan, name: str = "a") -> PodView:
    (found,) = [view for view in plan.pods if view.pod.name == name]
    return found


def holding(gpu: int, host: int = 0, *, exact: bool = True, given: PodFacts | None = None, **fields: Any) -> Scene:
    """A board of 8 GiB on which pod ``a`` holds so much, and meminfo agrees: nothing is counted twice."""
    given = given or pod("a", 2 * GIB, 4 * GIB)
    return Scene(
        pods=(given,),
        held={"a": Held(gpu=gpu, host=host, exact=exact)},
        meminfo=meminfo(8 * GIB, available=2 * GIB, free=8 * GIB - gpu - host, anon_pages=host),
        **fields,
    )


# --- one sample ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "setting", "amount"),
    [
        (0, None, 16 * MIB),
        (2 * GIB, None, 16 * MIB),  # 0.5 % = 10.24 MiB
        (16 * GIB, None, 85_899_346),  # 0.5 % of 17 179 869 184 = 85 899 345.92
        (16 * GIB, 0, 0),
        (0, GIB, GIB),
    ],
)
def test_tolerance(budget: int, setting: int | None, amount: int) -> None:
    assert tolerance(budget, setting) == amount


@pytest.mark.parametrize(
    ("used", "state", "excess"),
    [
        (2 * GIB, "ok", 0),
        (2 * GIB + 16 * MIB, "ok", 0),  # at the tolerance is not above it
        (2 * GIB + 16 * MIB + 1, "breach", 16 * MIB + 1),  # the excess is above the budget, not above the tolerance
    ],
)
def test_over_the_gpu_budget(used: int, state: str, excess: int) -> None:
    found = view(holding(used))
    assert (found.state, found.excess) == (state, excess)
    assert found.breach == ("gpu" if excess else None)


def test_a_configured_tolerance_replaces_both() -> None:
    strict = replace(holding(2 * GIB + 1), config=config("policy: {tolerance: 0}"))
    assert view(strict).state == "breach"


def test_over_the_total_budget_only() -> None:
    # budget 2 GiB of GPU, 4 GiB together; 2 + 3 = 5 GiB; 0.5 % of 4 GiB = 20.48 MiB of tolerance
    found = view(holding(2 * GIB, 3 * GIB))
    assert (found.state, found.breach, found.excess) == ("breach", "shared", GIB)
    # 21 474 837 is the tolerance, rounded up
    assert view(holding(2 * GIB, 2 * GIB + 21_474_837)).state == "ok"
    assert view(holding(2 * GIB, 2 * GIB + 21_474_838)).breach == "shared"


def test_over_both_is_gpu_with_the_larger_excess() -> None:
    # gpu: 3 − 2 = 1 GiB · together: 3 + 3 − 4 = 2 GiB
    found = view(holding(3 * GIB, 3 * GIB))
    assert (found.breach, found.excess) == ("gpu", 2 * GIB)


def test_host_memory_alone_does_not_clear_or_condemn_a_pod() -> None:
    # container memory says 409 MiB; the GPU budget of 13 GiB is exceeded by 27 075 − 13 312 = 13 763 MiB
    given = replace(pod("a", 13 * GIB, 12 * GIB))
    scene = Scene(
        pods=(given,),
        held={"a": Held(gpu=27_075 * MIB, host=409 * MIB)},
        meminfo=meminfo(122 * GIB),
    )
    found = view(scene)
    assert (found.breach, found.excess, found.held_bytes) == ("gpu", 13_763 * MIB, 27_484 * MIB)


def test_overlap() -> None:
    # used by the kernel's count: 8192 − 4096 free − 512 − 256 cache − 128 slab = 3200 MiB.
    # GPU 2048 + anon 1024 + shmem 256 + slab 64 + stacks 16 + tables 16 = 3424 MiB: 224 stand in both.
    info = meminfo(
        8192 * MIB,
        free=4096 * MIB,
        active_file=512 * MIB,
        inactive_file=256 * MIB,
        s_reclaimable=128 * MIB,
        anon_pages=1024 * MIB,
        shmem=256 * MIB,
        s_unreclaim=64 * MIB,
        kernel_stack=16 * MIB,
        page_tables=16 * MIB,
    )
    assert overlap(info, 2048 * MIB) == 224 * MIB
    assert overlap(info, 1024 * MIB) == 0
    assert overlap(info, None) is None
    assert overlap(None, GIB) is None
    for row in ("free", "anon_pages", "page_tables", "s_reclaimable"):
        missing: dict[str, Any] = {row: None}
        assert overlap(replace(info, **missing), GIB) is None


def test_a_shared_excess_must_survive_what_is_counted_twice() -> None:
    # 2 + 3 GiB against 4 GiB, but the kernel says that only 4 GiB are used: 1 GiB is counted twice
    scene = replace(holding(2 * GIB, 3 * GIB), meminfo=meminfo(8 * GIB, free=4 * GIB, anon_pages=3 * GIB))
    assert view(scene).state == "ok"
    # the gpu breach is none the smaller for it
    scene = replace(holding(3 * GIB, 2 * GIB), meminfo=meminfo(8 * GIB, free=4 * GIB, anon_pages=2 * GIB))
    found = view(scene)
    assert (found.breach, found.excess) == ("gpu", GIB)


def test_an_upper_bound_of_host_memory_is_no_ground() -> None:
    assert view(holding(2 * GIB, 6 * GIB, exact=False)).state == "ok"
    assert view(holding(3 * GIB, 0, exact=False)).breach == "gpu"


def test_a_pod_without_a_budget_is_unbudgeted_never_shared() -> None:
    found = view(holding(GIB, 6 * GIB, given=pod("a", None, GIB)))
    assert (found.state, found.breach) == ("unbudgeted", None)
    assert view(holding(0, 6 * GIB, given=pod("a", None, GIB))).state == "ok"


def test_a_budget_of_zero_is_exceeded_by_any_use() -> None:
    assert view(holding(17 * MIB, given=pod("a", 0))).breach == "gpu"


def test_the_default_budget_is_held_against_pods_that_asked_for_nothing() -> None:
    scene = replace(holding(GIB, given=pod("a")), config=config("policy: {default_budget: 0}"))
    assert view(scene).breach == "gpu"


def test_host_memory_beside_a_card_is_information_only() -> None:
    scene = Scene(
        pods=(pod("a", 2 * GIB, 3 * GIB),),
        held={"a": Held(host=60 * GIB)},
        files=replace(Scene().files, compatible=(), arch="x86_64"),
        nvml=nvml(card()),
        meminfo=meminfo(64 * GIB),
    )
    found = view(scene)
    assert (found.state, found.use.host) == ("ok", 60 * GIB)


def test_a_mixed_board_judges_each_pool_by_its_own_budget() -> None:
    given = pod("a", GIB)
    scene = Scene(pods=(given,), held={"a": Held(gpu=GIB)}, nvml=nvml(igpu(), card(minor=1)))
    found = view(scene)
    # the GiB is held in the integrated pool, the budget is of the card
    assert {key: budget.gpu for key, budget in found.budgets.items()} == {GPU_MEMORY: GIB, IGPU_MEMORY: None}
    assert found.state == "unbudgeted"


# --- states, in their order ----------------------------------------------------------


def test_state_precedence() -> None:
    over = holding(3 * GIB)

    def state(scene: Scene, **fields: Any) -> str:
        return view(replace(scene, pods=(replace(scene.pods[0], **fields),))).state

    assert state(over) == "breach"
    assert state(over, mirror=True) == "protected"
    assert state(over, mirror=True, terminating=True) == "terminating"
    blind = replace(over, readable=False)
    assert state(blind, mirror=True) == "unknown"
    assert state(blind, terminating=True) == "terminating"
    free = holding(GIB, given=pod("a"))
    assert state(free) == "unbudgeted"
    assert state(free, mirror=True) == "protected"
    # protected only where it would else be one of the two
    assert state(holding(GIB), mirror=True) == "ok"


def test_a_daemonset_pod_over_its_budget_is_a_breach() -> None:
    plan = Run().step(holding(3 * GIB, given=pod("a", 2 * GIB, owner=("DaemonSet", "ds"))))
    assert one(plan).state == "breach"
    assert held_codes(plan) == {"uid-a": "daemonset"}


# --- windows -------------------------------------------------------------------------

OVER, BELOW = 3 * GIB, GIB
BLIND = -1


def run(*samples: tuple[float, int]) -> list[str]:
    """UIDs evicted over samples of (second, GPU bytes of pod a); BLIND: the reading failed."""
    agent = Run()
    found = []
    for second, used in samples:
        scene = replace(holding(OVER), readable=False) if used == BLIND else holding(used)
        found += [f"{second:g}"] * len(evicted(agent.step(at(scene, second))))
    return found


def test_a_single_sample_never_evicts() -> None:
    assert run((0.0, OVER)) == []
    agent = Run()
    eager = replace(holding(OVER), config=config("policy: {grace: 1ms}"))
    assert agent.step(eager).evictions == ()
    # the same sample seen again, later, is still one sample
    again = replace(at(eager, 5.0), attributed_at=0.0)
    assert agent.step(again).evictions == ()
    assert agent.state.windows["uid-a"].samples == 1
    assert not matured(Window(seconds=60.0, samples=1, last_at=0.0), 1.0)
    assert evicted(agent.step(at(eager, 6.0))) == ["uid-a"]


def test_the_grace_is_15_seconds_between_samples_over() -> None:
    # 0 → 14 s are 14 seconds, 0 → 16 s are 16
    assert run(*[(float(second), OVER) for second in range(0, 16, 2)]) == []
    assert run(*[(float(second), OVER) for second in range(0, 18, 2)]) == ["16"]
    assert run((0.0, OVER), (7.5, OVER), (15.0, OVER)) == ["15"]


def test_a_sample_below_resets() -> None:
    assert run(*[(float(second), BELOW if second == 8 else OVER) for second in range(0, 26, 2)]) == []
    assert run(*[(float(second), BELOW if second == 8 else OVER) for second in range(0, 28, 2)]) == ["26"]


def test_short_spikes_are_no_breach() -> None:
    assert run(*[(second * 5.0, OVER if second % 2 else BELOW) for second in range(40)]) == []


def test_a_failed_reading_pauses() -> None:
    # over at 0 … 6 (6 s), failed at 8, over again from 10 on: 6 + 0 + (second − 10) ≥ 15 at 19, so at 20
    samples = [(float(second), BLIND if second == 8 else OVER) for second in range(0, 22, 2)]
    assert run(*samples) == ["20"]
    assert run(*samples[:-1]) == []


def test_a_gap_above_max_age_starts_anew() -> None:
    # 0 … 6, then 10.5 s without a sample: 15 s from 16.5 on
    before = [(float(second), OVER) for second in (0, 2, 4, 6)]
    after = [(16.5 + second, OVER) for second in (0.0, 7.0, 14.0, 15.0)]
    assert run(*before, *after) == ["31.5"]
    # 10 s are not above it: 6 + 10 = 16
    assert run(*before, (16.0, OVER)) == ["16"]


def test_failed_readings_over_a_gap_start_anew() -> None:
    samples = [(0.0, OVER), (2.0, OVER), *[(float(s), BLIND) for s in range(4, 14, 2)]]
    # last over at 2 s; over again at 14 s: a gap of 12 s
    assert run(*samples, (14.0, OVER), (22.0, OVER), (28.0, OVER)) == []


def test_the_window_belongs_to_the_uid() -> None:
    agent = Run()
    agent.steps(holding(OVER), 0.0, 7.0, 14.0)
    again = holding(OVER, given=pod("a", 2 * GIB, 4 * GIB, uid="uid-new"))
    assert agent.steps(again, 16.0, 24.0, 30.0).evictions == ()
    assert evicted(agent.step(at(again, 31.0))) == ["uid-new"]


def test_a_restart_of_the_agent_starts_anew() -> None:
    Run().steps(holding(OVER), 0.0, 7.0, 14.0)
    assert Run().steps(holding(OVER), 16.0, 24.0).evictions == ()


def test_a_shared_breach_that_cannot_be_judged_pauses() -> None:
    agent = Run()
    over = holding(2 * GIB, 3 * GIB)
    agent.steps(over, 0.0, 2.0, 4.0, 6.0)
    agent.step(at(replace(over, held={"a": Held(gpu=2 * GIB, host=None)}), 8.0))
    assert agent.steps(over, 10.0, 14.0, 18.0).evictions == ()  # 6 + 8 s
    assert evicted(agent.step(at(over, 19.0))) == ["uid-a"]


# --- start grace ---------------------------------------------------------------------


def started(scene: Scene, second: float | None) -> Scene:
    """The scene with pod a's container started at a monotonic second."""
    told = None if second is None else WALL + second
    item = replace(scene.pods[0].containers[0], started_at=told)
    return replace(scene, pods=(replace(scene.pods[0], containers=(item,)),))


def test_shared_does_not_count_while_a_model_loads() -> None:
    agent = Run()
    young = started(holding(2 * GIB, 3 * GIB), 0.0)
    for second in range(0, 120, 8):
        plan = agent.step(at(young, float(second)))
        (held,) = plan.held
        assert (held.code, held.seconds_left) == ("start-grace", 120.0 - second)
    # it counts from the first sample at 120 s on
    assert held_codes(agent.step(at(young, 120.0))) == {"uid-a": "grace"}
    assert agent.steps(young, 128.0, 134.0).evictions == ()
    assert evicted(agent.step(at(young, 135.0))) == ["uid-a"]


def test_the_gpu_budget_counts_from_the_start() -> None:
    young = started(holding(3 * GIB), 0.0)
    assert evicted(Run().steps(young, 0.0, 8.0, 15.0)) == ["uid-a"]


@pytest.mark.parametrize("told", [None, 10_000.0, -WALL], ids=["none", "future", "epoch"])
def test_an_implausible_start_time_falls_back_to_first_seen(told: float | None) -> None:
    agent = Run()
    scene = started(holding(2 * GIB, 3 * GIB), told)
    plan = agent.step(at(scene, 5.0))
    assert [(held.code, held.seconds_left) for held in plan.held] == [("start-grace", 120.0)]
    plan = agent.step(at(scene, 12.0))
    assert [held.seconds_left for held in plan.held] == [113.0]


def test_an_implausible_clock_falls_back_to_first_seen() -> None:
    scene = replace(started(holding(2 * GIB, 3 * GIB), -3600.0), wall=86_400.0)
    assert [(held.code, held.seconds_left) for held in Run().step(scene).held] == [("start-grace", 120.0)]


def test_the_container_that_started_last_counts() -> None:
    limits = {GPU_MEMORY: GIB, "memory": 2 * GIB}
    parts = (
        container("old", limits=limits, requests=limits),
        container("new", limits=limits, requests=limits, started_at=WALL - 20),
        container("fetch", "init", started_at=WALL - 1),
    )
    # 2 GiB of GPU, 4 together
    scene = holding(2 * GIB, 3 * GIB, given=pod("a", containers=parts))
    plan = Run().step(replace(scene, held={"a": Held(gpu=2 * GIB, host=3 * GIB, container_id="old-id")}))
    assert [(held.code, held.seconds_left) for held in plan.held] == [("start-grace", 100.0)]


# --- GPU figures from NVML -----------------------------------------------------------


def test_an_impossible_list_evicts_nobody() -> None:
    lists = processes((pid_of("a"), 3 * GIB), (4_294_967_295, 5151))
    thor = igpu("NVIDIA Thor", uuid="GPU-1", compute=lists)
    agent = Run()
    scene = replace(holding(0), nvml=nvml(thor), readable=False)
    plan = agent.steps(scene, 0.0, 8.0, 16.0, 24.0)
    assert one(plan).state == "unknown"
    assert (plan.evictions, plan.held) == ((), ())

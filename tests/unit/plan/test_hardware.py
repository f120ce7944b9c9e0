"""What the board still is when a reading fails: nothing by one hiccup, nothing unknown, nothing twice."""

from __future__ import annotations

from typing import Any

import pytest

from edgeagent.facts import GPU_MILLI, CgroupOwner, NvmlDevice, NvmlMemory, Process
from edgeagent.plan.types import Plan
from tests.unit.factories import (
    ABSENT,
    GIB,
    MIB,
    ORIN_UUID,
    Run,
    Scene,
    at,
    card,
    card_scene,
    config,
    igpu,
    meminfo,
    nvml,
    pid_of,
    pod,
    processes,
)


def devices(plan: Plan) -> list[tuple[str | None, str]]:
    return [(device.uuid, device.health) for device in plan.board.devices]


def series(*scenes: Scene) -> list[Plan]:
    run = Run()
    return [run.step(at(scene, 2.0 * count)) for count, scene in enumerate(scenes)]


# --- a Tegra's own GPU is one device, whether or not NVML names it -------------------


def test_nvml_that_comes_up_late_does_not_make_a_second_gpu() -> None:
    early, late = Scene(nvml=nvml(init=9, count=None)), Scene(nvml=nvml(igpu()))
    found = series(early, late, late, late, late)
    assert [devices(plan) for plan in found] == [[(None, "degraded")], *[[(ORIN_UUID, "ok")]] * 4]
    assert {plan.node.capacity[GPU_MILLI] for plan in found} == {"1000"}


def test_a_library_that_comes_later_does_not_either() -> None:
    found = series(Scene(nvml=ABSENT), Scene(nvml=nvml(igpu())), Scene(nvml=nvml(igpu())))
    assert devices(found[-1]) == [(ORIN_UUID, "ok")]


@pytest.mark.parametrize(("answer", "health"), [(nvml(init=18, count=None), "degraded"), (None, "unknown")])
def test_a_driver_that_fails_loses_no_gpu(answer: Any, health: str) -> None:
    good, bad = Scene(nvml=nvml(igpu())), Scene(nvml=answer)
    found = series(good, bad, bad, bad, bad, bad)
    assert [devices(plan) for plan in found[1:]] == [[(ORIN_UUID, health)]] * 5
    assert len({str(plan.node.capacity) for plan in found}) == 1


def test_on_a_mixed_board_a_silent_driver_proves_no_card_lost() -> None:
    both, down = Scene(nvml=nvml(igpu(), card("GPU-1", GIB, 0, minor=1))), Scene(nvml=nvml(init=999, count=None))
    found = series(both, *[down] * 5)
    assert {plan.board.kind for plan in found} == {"mixed"}
    assert devices(found[-1]) == [("GPU-1", "unknown"), (ORIN_UUID, "degraded")]
    assert len({str(plan.node.capacity) for plan in found}) == 1


# --- cards ---------------------------------------------------------------------------


def lost(code: int) -> NvmlDevice:
    return NvmlDevice(handle=code)


@pytest.mark.parametrize(("code", "health"), [(15, "lost"), (16, "reset-required"), (999, "degraded")])
def test_a_failing_handle_stands_for_the_card_that_did_not_answer(code: int, health: str) -> None:
    one, two, three = (card(f"GPU-{n}", n * GIB, 0, minor=n) for n in (1, 2, 3))
    found = series(card_scene(one, two, three), *[card_scene(one, lost(code), three)] * 3)
    assert [devices(plan) for plan in found[1:]] == [[("GPU-1", "ok"), ("GPU-2", health), ("GPU-3", "ok")]] * 3
    # 1 + 2 + 3 GiB, and without the second after three readings 4 GiB
    assert [plan.node.capacity["edgeagent.dev/gpu-memory"] for plan in found] == [
        "6144Mi",
        "6144Mi",
        "6144Mi",
        "4096Mi",
    ]


@pytest.mark.parametrize(
    ("code", "left"), [(15, "1024Mi"), (16, "1024Mi"), (999, "1024Mi"), (3, "3072Mi"), (10, "3072Mi")]
)
def test_a_failing_memory_call(code: int, left: str) -> None:
    """A lost card goes; one whose size cannot be read now keeps the one it told."""
    failed = NvmlMemory(code=code)
    one, two = card("GPU-1", GIB, 0), card("GPU-2", 2 * GIB, 0, minor=1)
    bad = card("GPU-2", minor=1, memory=failed, memory_v2=failed)
    found = series(card_scene(one, two), *[card_scene(one, bad)] * 3)
    assert found[-1].node.capacity["edgeagent.dev/gpu-memory"] == left


@pytest.mark.parametrize("code", [15, 16, 999])
def test_a_card_that_dropped_out_hides_no_process_on_the_others(code: int) -> None:
    """Until it is proven lost its processes are unknown, and so is who holds what; a lost card holds nothing."""
    one, two = card("GPU-1", compute=processes((pid_of("a"), 2 * GIB))), card("GPU-2", minor=1, compute=processes())
    held = (Process(pid=pid_of("a"), start_ticks=7, name="infer", owner=CgroupOwner("uid-a", "main-id")), 1)
    scenes = [card_scene(one, second, pods=(pod("a", GIB),), extra=(held,)) for second in (two, *[lost(code)] * 4)]
    states = [plan.pods[0].state for plan in series(*scenes)]
    # NVML says 15 of a device that is gone for certain.
    between = ["breach"] * 2 if code == 15 else ["unknown"] * 2
    assert states == ["breach", *between, "breach", "breach"]


def test_of_a_driver_that_never_answered_nobody_knows_who_holds_what() -> None:
    plan = Run().step(card_scene(card(), nvml=nvml(init=18, count=None), pods=(pod("a", GIB),)))
    assert [(view.state, view.use.gpu["edgeagent.dev/gpu-memory"]) for view in plan.pods] == [("unknown", None)]


def test_indices_that_move_are_no_matter() -> None:
    one, two, three = (card(f"GPU-{n}", n * GIB, 0, minor=n) for n in (1, 2, 3))
    found = series(card_scene(one, two, three), *[card_scene(three, one)] * 3)
    assert devices(found[-1]) == [("GPU-1", "ok"), ("GPU-2", "lost"), ("GPU-3", "ok")]


def test_a_card_that_failed_from_the_start_is_not_counted_twice_when_it_comes() -> None:
    found = series(card_scene(lost(15)), card_scene(lost(15)), card_scene(card("GPU-1")))
    assert devices(found[0]) == [(None, "lost")]
    assert devices(found[-1]) == [("GPU-1", "ok")]


def test_a_card_that_comes_back_is_well() -> None:
    one, two = card("GPU-1", GIB, 0), card("GPU-2", GIB, 0, minor=1)
    found = series(card_scene(one, two), *[card_scene(one)] * 4, card_scene(one, two))
    assert devices(found[-1]) == [("GPU-1", "ok"), ("GPU-2", "ok")]


def test_the_same_sample_seen_often_is_one_reading() -> None:
    run = Run()
    one, two = card("GPU-1", GIB, 0), card("GPU-2", GIB, 0, minor=1)
    run.step(card_scene(one, two))
    plans = [run.step(at(card_scene(one), 2.0 + tick / 10, attributed_at=2.0)) for tick in range(10)]
    assert [plan.node.capacity["edgeagent.dev/gpu-memory"] for plan in plans] == ["2048Mi"] * 10


def test_a_driver_that_hangs_once_and_comes_back() -> None:
    good, silent = card_scene(card("GPU-1")), card_scene(card(), nvml=None)
    found = series(good, silent, good)
    assert [devices(plan) for plan in found] == [[("GPU-1", "ok")], [("GPU-1", "unknown")], [("GPU-1", "ok")]]


# --- MemTotal ------------------------------------------------------------------------


def advertised(*totals: int) -> list[str]:
    """What each reading of MemTotal leads to, with 1 GiB of reserves."""
    settings = config("reserves: {os: 1Gi, k3s: 0, cma: 0, headroom: 0}")
    scenes = [Scene(meminfo=meminfo(total), config=settings) for total in totals]
    return [plan.node.capacity["edgeagent.dev/gpu-memory"] for plan in series(*scenes)]


def test_a_total_that_is_not_the_boards_changes_nothing() -> None:
    # 7 GiB = 7168 MiB. A reading that lost a digit, twice, is not three in a row.
    assert advertised(8 * GIB, GIB, 4 * GIB, 4 * GIB, 8 * GIB, 4 * GIB, 8 * GIB) == ["7168Mi"] * 7


def test_memory_that_was_plugged_out_counts_from_the_third_reading() -> None:
    assert advertised(8 * GIB, *[4 * GIB] * 4) == ["7168Mi", "7168Mi", "7168Mi", "3072Mi", "3072Mi"]


def test_one_percent_is_within_what_a_kernel_may_give_back() -> None:
    # 8192 MiB × 1 % = 81.92 MiB
    assert advertised(8 * GIB, 8 * GIB - 81 * MIB) == ["7168Mi", "7087Mi"]
    assert advertised(8 * GIB, 8 * GIB - 82 * MIB) == ["7168Mi", "7168Mi"]


def test_a_doubtful_reading_is_no_reading() -> None:
    run = Run()
    run.step(Scene(meminfo=meminfo(8 * GIB)))
    plan = run.step(at(Scene(meminfo=meminfo(GIB, available=MIB)), 2.0))
    assert (plan.available, plan.danger.usable) == (None, None)

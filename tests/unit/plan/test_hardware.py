"""What the board still is when a reading fails: nothing by one hiccup, nothing unknown, nothing twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgeagent.facts import GPU_MILLI, BoardFiles, CgroupOwner, MigInstance, NvmlDevice, NvmlMemory, Process
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
    card_files,
    card_scene,
    config,
    igpu,
    meminfo,
    node,
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


def test_an_instance_whose_memory_is_not_readable_keeps_what_it_told() -> None:
    def parts(code: int) -> Scene:
        second = NvmlMemory(code=0, total=2 * GIB, reserved=0) if code == 0 else NvmlMemory(code=code)
        first = MigInstance(uuid="MIG-1", memory_v2=NvmlMemory(code=0, total=GIB, reserved=0), compute=processes())
        return card_scene(
            card(mig_mode=1, mig=(first, MigInstance(uuid="MIG-2", memory_v2=second, compute=processes())))
        )

    found = series(parts(0), parts(4), parts(4), parts(4))
    assert devices(found[-1]) == [("MIG-1", "ok"), ("MIG-2", "degraded")]
    assert [plan.node.capacity["edgeagent.dev/gpu-memory"] for plan in found] == ["3072Mi"] * 4
    # Of one that was never readable nothing is offered.
    assert Run().step(parts(4)).node.capacity["edgeagent.dev/gpu-memory"] == "1024Mi"


@pytest.mark.parametrize("name", ["NVIDIA GB10", "NVIDIA Thor"])
def test_a_name_that_cannot_be_read_does_not_turn_shared_memory_into_a_cards(name: str) -> None:
    files = BoardFiles(arch="aarch64")
    told = igpu(name, uuid="GPU-1", compute=processes())
    good, bad = (Scene(files=files, nvml=nvml(one)) for one in (told, replace(told, name=None)))
    found = series(good, bad, good, *[bad] * 4)
    assert len({plan.board.kind for plan in found}) == 1
    assert {(one.name, one.memory, one.health) for plan in found for one in plan.board.devices} == {
        (name, "unified", "ok")
    }
    assert len({str(plan.node.capacity) for plan in found}) == 1
    assert found[0].node.capacity != {}


def test_when_every_card_is_lost_they_are_still_shown() -> None:
    found = series(card_scene(card("GPU-1")), *[card_scene(lost(15))] * 4)
    assert [devices(plan) for plan in found[1:]] == [[("GPU-1", "lost")]] * 4
    assert found[-1].node.capacity == {}


# --- asleep --------------------------------------------------------------------------

A, B = "0000:01:00.0", "0000:65:00.0"
LONG = (2.0, 4.0, 6.0, 8.0, 602.0, 640.0, 3600.0)
"""Samples over an hour: more than three readings, and longer than a last good value may stand in."""


def laptop(*cards: NvmlDevice, asleep: tuple[str, ...] = (A,), **fields: Any) -> Scene:
    """A machine with one card at A, that sleeps unless told otherwise."""
    given = {"pods": (pod("a", GIB),), "nvml": nvml(*cards), "files": card_files(pci_asleep=asleep)}
    return card_scene(**{**given, **fields})


KNOWN = card("GPU-1", 8 * GIB, 0, pci_address=A)
ASLEEP = {
    "kept by the agent": laptop(KNOWN),
    "not asked": laptop(nvml=nvml(count=None)),
    "a recording without NVML": laptop(nvml=ABSENT),
    "no list can be read": laptop(card("GPU-1", 8 * GIB, 0, pci_address=A, compute=None, graphics=None)),
    "no size can be read": laptop(card("GPU-1", pci_address=A, memory_v2=NvmlMemory(code=999))),
}


@pytest.mark.parametrize("scene", ASLEEP.values(), ids=ASLEEP)
def test_a_card_that_falls_asleep_is_as_large_as_before_and_no_problem(scene: Scene) -> None:
    run = Run()
    first = run.step(laptop(KNOWN, asleep=()))
    for second in LONG:
        plan = run.step(at(scene, second))
        assert devices(plan) == [("GPU-1", "asleep")]
        assert plan.node.capacity == first.node.capacity
        assert plan.node.labels == first.node.labels
        assert plan.board.warnings == ()
        assert [
            (condition.status, condition.reason)
            for condition in plan.node.conditions
            if condition.type == "GPUUnavailable"
        ] == [("False", "DeviceAsleep")]
        # Nobody holds anything: 0 is known.
        assert [view.use.gpu for view in plan.pods] == [{"edgeagent.dev/gpu-memory": 0}]
        assert plan.usage.trusted
        assert not [event for event in plan.events if event.reason == "GPUUnavailable"]
    woken = run.step(at(laptop(KNOWN, asleep=()), 3602.0))
    assert devices(woken) == [("GPU-1", "ok")]
    assert woken.node.capacity == first.node.capacity


@pytest.mark.parametrize("scene", [laptop(nvml=nvml(count=None)), laptop(nvml=ABSENT)], ids=["not-asked", "absent"])
def test_of_a_card_that_was_never_awake_nothing_is_made_up(scene: Scene) -> None:
    run = Run()
    for second in LONG:
        plan = run.step(at(scene, second))
        assert devices(plan) == [(None, "asleep")]
        assert (plan.node.capacity, plan.node.labels, plan.advertised) == ({}, {}, {})
        assert [condition.status for condition in plan.node.conditions if condition.type == "GPUUnavailable"] == [
            "False"
        ]
    woken = run.step(at(laptop(KNOWN, asleep=()), 3602.0))
    assert devices(woken) == [("GPU-1", "ok")]
    assert woken.node.capacity["edgeagent.dev/gpu-memory"] == "8192Mi"


def test_what_an_earlier_run_wrote_stays_while_the_card_sleeps() -> None:
    before = node(capacity={"edgeagent.dev/gpu-memory": "8192Mi"}, labels={"edgeagent.dev/gpu.product": "NVIDIA-L40S"})
    plan = Run().step(laptop(nvml=nvml(count=None), node=before))
    assert plan.node.capacity["edgeagent.dev/gpu-memory"] == "8192Mi"
    assert plan.node.labels == before.labels


OTHER = card("GPU-2", GIB, 0, pci_address=B, minor=1)


@pytest.mark.parametrize("listed", [True, False])
def test_one_of_two_sleeps_and_both_count(*, listed: bool) -> None:
    files = card_files(pci_displays=2, pci_asleep=(A,))
    run = Run()
    run.step(laptop(KNOWN, OTHER, files=card_files(pci_displays=2)))
    scene = laptop(*((KNOWN,) if listed else ()), OTHER, files=files)
    for second in LONG:
        plan = run.step(at(scene, second))
        assert devices(plan) == [("GPU-1", "asleep"), ("GPU-2", "ok")]
        assert plan.node.capacity["edgeagent.dev/gpu-memory"] == "9216Mi"  # 8 + 1 GiB


def test_one_of_two_sleeps_from_the_start_and_is_the_same_when_it_wakes() -> None:
    files = card_files(pci_displays=2, pci_asleep=(A,))
    sleeping = NvmlDevice(handle=0, pci_address=A, compute=processes(), graphics=processes())
    one, both = laptop(sleeping, OTHER, files=files), laptop(KNOWN, OTHER, files=card_files(pci_displays=2))
    found = series(one, one, both, both)
    assert [devices(plan) for plan in found] == [[(None, "asleep"), ("GPU-2", "ok")]] * 2 + [
        [("GPU-1", "ok"), ("GPU-2", "ok")]
    ] * 2
    assert found[1].node.capacity["edgeagent.dev/gpu-memory"] == "1024Mi"


def test_a_card_that_is_pulled_out_while_it_sleeps_is_gone_after_three_readings() -> None:
    out = card_scene(files=card_files(pci_displays=0, proc_gpus=0), nvml=nvml())
    found = series(laptop(KNOWN, asleep=()), laptop(KNOWN), out, out, out)
    assert [plan.board.kind for plan in found] == ["discrete"] * 4 + ["none"]


@pytest.mark.parametrize(("answer", "health"), [(nvml(init=18, count=None), "degraded"), (None, "unknown")])
def test_a_driver_that_fails_while_the_card_sleeps_is_seen(answer: Any, health: str) -> None:
    found = series(laptop(KNOWN, asleep=()), laptop(KNOWN), laptop(nvml=answer), laptop(nvml=answer))
    assert devices(found[-1]) == [("GPU-1", health)]
    assert found[-1].node.capacity == found[0].node.capacity


def test_after_an_upgrade_the_versions_are_named_and_capacity_stays() -> None:
    files = card_files(nvml_library="580.126.09")
    good = card_scene(card("GPU-1"), files=files)
    bad = card_scene(files=files, nvml=nvml(init=18, count=None))
    found = series(good, *[bad] * 4, good)
    assert [devices(plan) for plan in found] == [
        [("GPU-1", "ok")],
        *[[("GPU-1", "degraded")]] * 4,
        [("GPU-1", "ok")],
    ]
    assert all("580.95.05" in warning and "580.126.09" in warning for warning in found[1].board.warnings)
    assert len(found[1].board.warnings) == 1
    assert len({str(plan.node.capacity) for plan in found}) == 1


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

"""What capacity says: the formula, never below what admitted pods hold, and how it moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgeagent.facts import GPU_MEMORY, GPU_MILLI, IGPU_MEMORY, MemInfo, PodFacts
from edgeagent.plan.capacity import publish
from edgeagent.plan.decide import decide
from edgeagent.plan.state import Published
from edgeagent.plan.types import Plan
from tests.unit.factories import (
    ABSENT,
    GIB,
    KIB,
    MIB,
    Held,
    Run,
    Scene,
    at,
    card,
    card_files,
    card_scene,
    config,
    container,
    igpu,
    meminfo,
    node,
    nvml,
    pod,
)

# Σ reserves of the 8 GiB board of most tests: 1024 + 512 MiB; 8192 − 1536 = 6656 MiB are left.
FIXED = "reserves: {os: 1Gi, k3s: 512Mi, cma: 0, headroom: 0}"
ANNOTATED = {"edgeagent.dev/gpu-memory-limit": "1Gi"}


def scene(*pods: PodFacts, text: str = "", info: MemInfo | None = None, **fields: object) -> Scene:
    given = config(f"{FIXED}\n{text}")
    return Scene(pods=pods, config=given, meminfo=info or meminfo(), **fields)  # type: ignore[arg-type]


def capacity(plan: Plan, key: str = GPU_MEMORY) -> str | None:
    return plan.node.capacity.get(key)


def published(*pods: PodFacts, text: str = "", info: MemInfo | None = None) -> str | None:
    return capacity(Run().step(scene(*pods, text=text, info=info)))


# --- the formula ---------------------------------------------------------------------


def test_the_pool_minus_its_reserves() -> None:
    # 7 802 368 KiB = 7619.5 MiB − 1536 = 6083.5, floored
    assert published(info=meminfo(7_802_368 * KIB)) == "6083Mi"


def test_gb10() -> None:
    # 127 600 748 KiB = 124 610.1 MiB − 4096 − 1024 = 119 490.1
    spark = igpu("NVIDIA GB10", uuid="GPU-1")
    given = Scene(
        config=config("reserves: {os: 4Gi, k3s: 1Gi, cma: 0, headroom: 0}"),
        meminfo=meminfo(127_600_748 * KIB),
        nvml=nvml(spark),
        files=replace(Scene().files, compatible=(), pci_displays=1),
    )
    plan = Run().step(given)
    assert (plan.board.kind, plan.board.unified) == ("unified", True)
    assert capacity(plan) == "119490Mi"


def test_capacity_and_memory_requests_are_the_same_bytes() -> None:
    # a: 4 GiB for the whole board with 2 GiB of GPU: host part 2048 · b: no GPU, 512 MiB · 6656 − 2560 = 4096
    assert published(pod("a", 2 * GIB, 4 * GIB), pod("b", None, 512 * MIB)) == "4096Mi"


def test_static_coupling_leaves_host_parts_out() -> None:
    assert published(pod("a", 2 * GIB, 4 * GIB), text="unified: {coupling: static}") == "6656Mi"


@pytest.mark.parametrize("coupling", ["requests", "static"])
def test_budgets_that_the_scheduler_does_not_see_are_taken_off(coupling: str) -> None:
    # an annotation of 1024 MiB, without a memory request: 6656 − 1024
    assert published(pod("a", annotations=ANNOTATED), text=f"unified: {{coupling: {coupling}}}") == "5632Mi"


def test_finished_pods_count_nothing_and_terminating_ones_until_they_are_gone() -> None:
    assert published(pod("a", None, GIB, phase="Succeeded"), pod("b", None, GIB, phase="Failed")) == "6656Mi"
    assert published(pod("a", None, GIB, terminating=True)) == "5632Mi"


def test_never_below_what_admitted_pods_hold() -> None:
    # host parts of 6 GiB leave 512 MiB, but 3 GiB and 1 KiB are held: rounded up to 3073 MiB
    holders = (pod("a", 3 * GIB + KIB), pod("b", None, 6 * GIB))
    assert published(*holders) == "3073Mi"


def test_a_pod_that_is_bound_but_not_admitted_never_lifts_capacity() -> None:
    waiting = pod("a", 7 * GIB, phase="Pending", start_time=None)
    assert published(waiting) == "6656Mi"
    started = replace(waiting, start_time=1.0)
    assert published(started) == "7168Mi"


def test_reserves_above_the_pool_give_zero_and_a_finding() -> None:
    plan = Run().step(Scene(config=config("reserves: {os: 9000Mi, k3s: 0, cma: 0, headroom: 0}")))
    assert capacity(plan) == "0Mi"
    assert [(found.id, found.severity) for found in plan.findings] == [("reserves-exceed-pool", "error")]


def test_more_booked_than_there_is() -> None:
    # 6 GiB + 1 GiB = 7168 MiB of 6656
    plan = Run().step(scene(pod("a", 6 * GIB, start_time=1.0), pod("b", None, GIB, start_time=2.0)))
    (pool,) = plan.pools
    assert (pool.overcommitted, pool.booked, pool.host_committed, pool.gpu_committed) == (True, 7 * GIB, GIB, 6 * GIB)
    (finding,) = plan.findings
    assert (finding.id, finding.severity) == ("overcommitted", "error")
    assert "system-reserved=memory=1024Mi" in finding.remedy
    assert "kube-reserved=memory=512Mi" in finding.remedy
    assert [event.name for event in plan.events if event.reason == "Overcommitted"] == ["b"]  # the youngest


def test_exactly_booked_is_not_overcommitted() -> None:
    plan = Run().step(scene(pod("a", 6 * GIB), pod("b", None, 512 * MIB)))
    assert not plan.pools[0].overcommitted


def test_a_discrete_pool_never_looks_at_host_memory() -> None:
    given = card_scene(card(total=32_106 * MIB, reserved=0), pods=(pod("a", GIB, 64 * GIB),))
    for info in (meminfo(4 * GIB), meminfo(512 * GIB), None):
        assert capacity(Run().step(replace(given, meminfo=info))) == "32106Mi"


def test_a_mixed_board_has_two_pools_that_are_never_summed() -> None:
    both = nvml(igpu("NVIDIA Thor"), card(total=97_887 * MIB, reserved=0, minor=1))
    plan = Run().step(scene(pod("a", None, GIB), nvml=both))
    assert (capacity(plan), capacity(plan, IGPU_MEMORY)) == ("97887Mi", "5632Mi")  # 6656 − 1024


def test_the_same_capacity_whatever_the_load() -> None:
    cold = scene(pod("a", GIB), info=meminfo(8 * GIB, available=8 * GIB))
    hot = replace(
        cold, meminfo=meminfo(8 * GIB, available=GIB, free=MIB, active_file=6 * GIB), held={"a": Held(gpu=GIB)}
    )
    run = Run()
    first = run.step(cold)
    again = run.step(at(hot, 2.0))
    assert first.node.capacity == again.node.capacity


# --- how it moves --------------------------------------------------------------------


def test_a_decrease_goes_out_at_once() -> None:
    run = Run()
    run.step(scene())
    assert capacity(run.step(at(scene(pod("a", None, GIB)), 0.1))) == "5632Mi"


def test_an_increase_waits_five_seconds_without_change() -> None:
    run = Run()
    full = scene(pod("a", None, GIB), pod("b", None, GIB))
    assert capacity(run.step(full)) == "4608Mi"
    assert capacity(run.step(at(scene(pod("b", None, GIB)), 1.0))) == "4608Mi"
    # another change at 4 s: the five seconds begin again
    assert capacity(run.step(at(scene(), 4.0))) == "4608Mi"
    assert capacity(run.step(at(scene(), 8.9))) == "4608Mi"
    assert capacity(run.step(at(scene(), 9.0))) == "6656Mi"


def test_a_replacement_pod_finds_its_place() -> None:
    run = Run()
    one = scene(pod("a", None, GIB))
    run.step(one)
    run.step(at(scene(), 1.0))
    assert capacity(run.step(at(scene(pod("a2", None, GIB)), 3.0))) == "5632Mi"
    assert capacity(run.step(at(scene(pod("a2", None, GIB)), 60.0))) == "5632Mi"


def test_what_admitted_pods_hold_does_not_wait() -> None:
    run = Run()
    waiting = pod("a", 7 * GIB, phase="Pending", start_time=None)
    run.step(scene(waiting))
    assert capacity(run.step(at(scene(replace(waiting, start_time=1.0)), 0.1))) == "7168Mi"


def test_what_they_hold_goes_out_while_more_waits() -> None:
    before = Published(GIB, 0.0)
    waiting = publish(before, wanted=5 * GIB, held=2 * GIB, now=1.0)
    assert (waiting.value, waiting.rising, waiting.rising_since) == (2 * GIB, 5 * GIB, 1.0)
    assert publish(waiting, wanted=5 * GIB, held=2 * GIB, now=5.9).value == 2 * GIB
    assert publish(waiting, wanted=5 * GIB, held=2 * GIB, now=6.0).value == 5 * GIB


def test_the_first_value_goes_out_at_once_whatever_the_node_says() -> None:
    given = scene(node=node(capacity={GPU_MEMORY: "10Mi"}))
    assert capacity(Run().step(given)) == "6656Mi"


def test_a_value_that_others_reset_is_restored_at_once() -> None:
    run = Run()
    run.step(scene())
    plan = run.step(at(scene(node=node(capacity={GPU_MEMORY: "0"}, allocatable={GPU_MEMORY: "0"})), 1.0))
    assert plan.node.requests[0].body["status"]["capacity"][GPU_MEMORY] == "6656Mi"


def test_nothing_before_the_first_complete_list_and_nothing_from_an_old_view() -> None:
    facts = scene(node=node(capacity={GPU_MEMORY: "10Mi"})).facts()
    assert facts.cluster is not None
    early = replace(facts, cluster=replace(facts.cluster, pods=None))
    run = Run()
    _, plan = decide(run.state, early, 0.0)
    assert plan.node.requests == ()
    run.step(scene())
    # the view broke 11 s ago, max_age is 10 s: a pod that it lists since changes nothing
    old = run.step(replace(at(scene(pod("a", None, GIB)), 20.0), fresh_at=9.0))
    assert (capacity(old), old.node.requests) == ("6656Mi", ())
    assert capacity(run.step(replace(at(scene(pod("a", None, GIB)), 20.0), fresh_at=10.0))) == "5632Mi"


# --- unknown and gone ----------------------------------------------------------------


def test_an_unreadable_meminfo_keeps_the_last_good_value() -> None:
    run = Run()
    run.step(scene(pod("a", GIB)))
    blind = replace(scene(pod("a", GIB)), meminfo=None)
    assert capacity(run.step(at(blind, 2.0))) == "6656Mi"
    assert capacity(run.step(at(blind, 600.0))) == "6656Mi"
    # after ten minutes no free room is offered: exactly the 1 GiB that is held
    assert capacity(run.step(at(blind, 601.0))) == "1024Mi"
    assert capacity(run.step(at(scene(pod("a", GIB)), 602.0))) == "1024Mi"
    assert capacity(run.step(at(scene(pod("a", GIB)), 607.0))) == "6656Mi"


def test_a_minor_number_that_fails_once_takes_no_pool_away() -> None:
    settings = config("discrete: {pools: device}")
    run = Run()
    keys = ("edgeagent.dev/gpu-memory-0", GPU_MILLI)
    # 46068 − 450 MiB
    told = card_scene(card(minor=0), config=settings)
    assert [run.step(told).node.capacity[key] for key in keys] == ["45618Mi", "1000"]
    silent = at(card_scene(card(minor=None), config=settings), 2.0)
    assert [run.step(silent).node.capacity[key] for key in keys] == ["45618Mi", "1000"]


def test_beside_another_owner_an_unknown_pool_offers_no_room_either() -> None:
    run = Run()
    given = scene(pod("a", 2 * GIB), node=node(labels={"gpu": "on"}))
    assert capacity(run.step(replace(given, node=node()))) == "6656Mi"
    blind = replace(given, meminfo=None)
    assert capacity(run.step(at(blind, 2.0))) == "2048Mi"  # what the pod has; the last good value would be 6656Mi


def test_a_driver_that_does_not_answer_keeps_the_last_good_value() -> None:
    run = Run()
    good = card_scene(card(total=GIB, reserved=0), pods=(pod("a", 256 * MIB),))
    run.step(good)
    silent = replace(good, nvml=None)
    assert [capacity(run.step(at(silent, float(second)))) for second in (2, 4, 6, 8, 600)] == ["1024Mi"] * 5
    assert capacity(run.step(at(silent, 601.0))) == "256Mi"


def test_after_a_start_the_nodes_own_value_is_the_last_good_one() -> None:
    silent = card_scene(
        card(), nvml=nvml(init=18, count=None), node=node(capacity={GPU_MEMORY: "700Mi", GPU_MILLI: "1k"})
    )
    plan = Run().step(silent)
    assert capacity(plan) == "700Mi"
    assert not any("capacity" in request.body.get("status", {}) for request in plan.node.requests)


def test_a_broken_driver_at_the_start_takes_nothing_off_the_node() -> None:
    zero = node(capacity={GPU_MEMORY: "0", GPU_MILLI: "1k"}, allocatable={GPU_MEMORY: "0", GPU_MILLI: "1k"})
    plan = Run().step(card_scene(card(), nvml=nvml(init=18, count=None), node=zero))
    assert not any("capacity" in request.body.get("status", {}) for request in plan.node.requests)
    # but that the GPU is not available is said
    (conditions,) = [
        r.body["status"]["conditions"] for r in plan.node.requests if "conditions" in r.body.get("status", {})
    ]
    assert [(c["type"], c["status"]) for c in conditions][1] == ("GPUUnavailable", "True")


@pytest.mark.parametrize(
    "silent",
    [
        card_scene(card(), nvml=nvml(init=18, count=None)),
        card_scene(card(), nvml=None),
        card_scene(card(), nvml=None, files=replace(Scene().files, compatible=(), arch="x86_64")),
        replace(scene(nvml=nvml(init=18, count=None)), meminfo=None),
    ],
    ids=["refused", "hung", "kind-unknown", "jetson"],
)
def test_a_zero_on_the_node_is_never_the_truth_while_a_pod_holds_some(silent: Scene) -> None:
    asks = {GPU_MEMORY: 2 * GIB, GPU_MILLI: 250}
    holder = replace(pod("a"), containers=(container(requests=asks, limits=asks),))
    zero = node(capacity={GPU_MEMORY: "0", GPU_MILLI: "0"})
    run = Run()
    given = replace(silent, pods=(holder,), node=zero)
    for second in (0.0, 2.0, 700.0):
        assert run.step(at(given, second)).node.capacity == {GPU_MEMORY: "2048Mi", GPU_MILLI: "250"}


def test_a_gpu_proven_gone_takes_its_key_along_held_or_not() -> None:
    run = Run()
    good = card_scene(card(total=GIB, reserved=0), pods=(pod("a", 256 * MIB),))
    run.step(good)
    gone = replace(good, nvml=nvml(count=0))
    assert [capacity(run.step(at(gone, float(second)))) for second in (2, 4, 6)] == ["1024Mi", "1024Mi", None]


def test_one_lost_card_leaves_the_sum_after_three_readings_and_stays_listed() -> None:
    run = Run()
    one, two = card("GPU-1", GIB, 0), card("GPU-2", 2 * GIB, 0, minor=1)
    run.step(card_scene(one, two))
    lost = card_scene(one)
    found = [run.step(at(lost, float(second))) for second in (2, 4, 6, 8)]
    assert [capacity(plan) for plan in found] == ["3072Mi", "3072Mi", "1024Mi", "1024Mi"]
    assert [[(d.uuid, d.health) for d in plan.board.devices] for plan in found] == [
        [("GPU-1", "ok"), ("GPU-2", "lost")]
    ] * 4
    run.step(at(card_scene(one, two), 10.0))
    assert capacity(run.step(at(card_scene(one, two), 15.0))) == "3072Mi"


def test_a_hiccup_of_two_readings_changes_nothing() -> None:
    run = Run()
    one, two = card("GPU-1", GIB, 0), card("GPU-2", 2 * GIB, 0, minor=1)
    found = []
    for second in range(0, 20, 2):
        shown = card_scene(one, two) if second % 6 == 0 else card_scene(one)
        found.append(capacity(run.step(at(shown, float(second)))))
    assert found == ["3072Mi"] * 10


def test_keys_of_a_mixed_board_are_judged_apart() -> None:
    run = Run()
    big = card(total=GIB, reserved=0, minor=1)
    both, alone = scene(nvml=nvml(igpu(), big)), scene(nvml=nvml(igpu()))
    run.step(both)
    found = [run.step(at(alone, float(second))) for second in (2, 4, 6)]
    assert [capacity(plan) for plan in found] == ["1024Mi", "1024Mi", None]
    assert [capacity(plan, IGPU_MEMORY) for plan in found] == ["6656Mi"] * 3
    assert {plan.board.kind for plan in found} == {"mixed"}


def test_keys_keep_their_meaning_after_a_restart_with_the_card_lost() -> None:
    was = node(capacity={GPU_MEMORY: "1024Mi", IGPU_MEMORY: "6656Mi"})
    plan = Run().step(scene(nvml=nvml(igpu()), node=was))
    assert (capacity(plan), capacity(plan, IGPU_MEMORY)) == ("1024Mi", "6656Mi")


def test_one_pool_per_device() -> None:
    cards = (card("GPU-1", GIB, 0), card("GPU-2", 2 * GIB, 0, minor=1))
    plan = Run().step(card_scene(*cards, config=config("discrete: {pools: device}")))
    assert plan.node.capacity == {f"{GPU_MEMORY}-0": "1024Mi", f"{GPU_MEMORY}-1": "2048Mi", GPU_MILLI: "2000"}


def test_a_card_whose_minor_number_is_not_known_is_in_no_pool_and_that_is_said() -> None:
    # Of two cards that tell the same number, neither is known to be it.
    cards = (
        card("GPU-1", GIB, 0, minor=None),
        card("GPU-2", 2 * GIB, 0, minor=1),
        card("GPU-3", 4 * GIB, 0, minor=2),
        card("GPU-4", 8 * GIB, 0, minor=2),
    )
    plan = Run().step(card_scene(*cards, config=config("discrete: {pools: device}")))
    assert {key for key in plan.node.capacity if key != GPU_MILLI} == {f"{GPU_MEMORY}-1"}
    assert capacity(plan, f"{GPU_MEMORY}-1") == "2048Mi"
    said = [warning for warning in plan.board.warnings if "is in no pool" in warning]
    assert [next(one for one in ("GPU-1", "GPU-3", "GPU-4") if one in warning) for warning in said] == [
        *("GPU-1", "GPU-3", "GPU-4")
    ]
    # In one sum the numbers do not matter.
    summed = Run().step(card_scene(*cards))
    assert (capacity(summed), summed.board.warnings) == ("15360Mi", ())


def test_beside_another_owner_only_the_admitted_sum_is_published() -> None:
    waiting = pod("b", GIB, phase="Pending", start_time=None)
    given = scene(pod("a", 2 * GIB), waiting, node=node(labels={"gpu": "on"}))
    plan = Run().step(given)
    assert plan.node.capacity == {GPU_MEMORY: "2048Mi", GPU_MILLI: "0"}


# --- thousandths of a GPU ------------------------------------------------------------


def test_a_thousand_per_gpu() -> None:
    assert capacity(Run().step(scene()), GPU_MILLI) == "1000"
    assert capacity(Run().step(card_scene(card("GPU-1"), card("GPU-2", minor=1))), GPU_MILLI) == "2000"


# An integrated GPU and, on its bus, three cards that only NVML could count.
CARRIER = replace(Scene().files, pci_displays=3)


@pytest.mark.parametrize(
    "silent",
    [
        card_scene(card(), nvml=nvml(init=18, count=None)),
        card_scene(card(), nvml=ABSENT),
        card_scene(card(), nvml=None),
        card_scene(card(), nvml=ABSENT, files=card_files(pci_displays=0)),
        scene(nvml=nvml(init=18, count=None)),
        scene(nvml=ABSENT, files=CARRIER),
    ],
    ids=["refused", "library-missing", "hung", "driver-alone", "jetson", "carrier"],
)
def test_how_many_there_are_is_not_made_up_while_nvml_does_not_answer(silent: Scene) -> None:
    carried = node(capacity={GPU_MEMORY: "700Mi", GPU_MILLI: "4k"})
    run = Run()
    assert capacity(run.step(replace(silent, node=carried)), GPU_MILLI) in ("4000", "4k")
    assert capacity(run.step(at(silent, 2.0, node=carried)), GPU_MILLI) in ("4000", "4k")
    assert capacity(Run().step(replace(silent, node=node(capacity={GPU_MEMORY: "700Mi"}))), GPU_MILLI) is None


def test_a_jetson_without_nvml_has_one() -> None:
    assert capacity(Run().step(scene(nvml=ABSENT, node=node(capacity={GPU_MILLI: "4k"}))), GPU_MILLI) == "1000"


def test_it_does_not_change_while_a_pod_holds_it() -> None:
    asks = {GPU_MILLI: 250}
    holder = pod("a", containers=(container(requests=asks, limits=asks),))
    one, two = card("GPU-1"), card("GPU-2", minor=1)
    run = Run()
    run.step(card_scene(one))
    assert capacity(run.step(at(card_scene(one, two, pods=(holder,)), 2.0)), GPU_MILLI) == "1000"
    assert capacity(run.step(at(card_scene(one, two), 4.0)), GPU_MILLI) == "2000"
    # after a restart the node's own value is what the pod was admitted against
    was = node(capacity={GPU_MILLI: "1k"})
    assert capacity(Run().step(card_scene(one, two, pods=(holder,), node=was)), GPU_MILLI) == "1000"

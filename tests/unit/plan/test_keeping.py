"""What a restart of the agent remembers, and what it does not believe."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.facts import GPU_MEMORY, GPU_MILLI, IGPU_MEMORY, BoardFiles, MigInstance, NvmlDevice, NvmlMemory
from edgeagent.plan import keeping
from edgeagent.plan.decide import decide
from edgeagent.plan.state import Backoff, Good, State
from edgeagent.plan.types import Plan
from tests.unit.factories import (
    CARD_UUID,
    GIB,
    MIB,
    NO_RUNTIME,
    Held,
    Run,
    Scene,
    at,
    card,
    card_files,
    card_scene,
    config,
    evicted,
    held_codes,
    igpu,
    node,
    nvml,
    orin_files,
    pod,
    processes,
)

BOOT = keeping.Origin("3b0c9a52-7d41-4e0f-8a6c-51f2d9e7b034", "/", "0d5f6c1e8b7a4f2e9c3d1a2b3c4d5e6f")
REBOOTED = BOOT._replace(boot_id="9f1c7b60-22aa-4d0e-9d43-6b8f0e5a7c11")
OVER = Scene(
    pods=(pod("a", GIB, owner=("ReplicaSet", "shop-5d8f")), pod("b", GIB)),
    held={"a": Held(gpu=3 * GIB), "b": Held(gpu=2 * GIB)},
)


def after_an_eviction() -> State:
    """``a``, which is over by more, was evicted at 16 s."""
    run = Run()
    plan = run.steps(OVER, 0.0, 8.0, 16.0)
    assert evicted(plan) == ["uid-a"]
    return run.state


def again(document: Any, boot: keeping.Origin = BOOT, now: float = 20.0) -> State:
    """The state that a document leaves, which nothing is wrong with."""
    state, ignored = keeping.restored(json.loads(json.dumps(document)), boot, now)
    assert ignored == ""
    return state


def decided(state: State, scene: Scene, *seconds: float) -> Plan:
    """The plan of the last of several samples."""
    plans = []
    for second in seconds:
        state, plan = decide(state, at(scene, second).facts(), second)
        plans.append(plan)
    return plans[-1]


def test_what_follows_from_an_eviction_survives() -> None:
    before = after_an_eviction()
    after = again(keeping.kept(before, BOOT))
    assert (after.victims, after.backoff, after.evicted_at) == (before.victims, before.backoff, before.evicted_at)
    assert after.hold_down_until == before.hold_down_until
    assert after.windows == {}

    # The victim still holds its memory: its neighbour waits as if nothing had happened.
    plan = decided(after, OVER, 20.0, 28.0, 36.0)
    assert evicted(plan) == []
    assert held_codes(plan) == {"uid-b": "releasing"}


def test_the_successor_of_the_evicted_pod_meets_the_back_off() -> None:
    state = again(keeping.kept(after_an_eviction(), BOOT))
    successor = Scene(pods=(pod("c", GIB, owner=("ReplicaSet", "shop-5d8f")),), held={"c": Held(gpu=3 * GIB)})
    plan = decided(state, successor, 30.0, 38.0, 46.0)
    # Evicted at 16 s, left alone for a minute.
    assert [(held.code, held.seconds_left) for held in plan.held] == [("backoff", 30.0)]


def test_what_an_earlier_version_kept_is_taken_up() -> None:
    before = after_an_eviction()
    document = keeping.kept(before, BOOT)
    for key in ("machine_id", "mixed", "good"):
        del document[key]
    after = again(document)
    assert (after.victims, after.backoff, after.evicted_at) == (before.victims, before.backoff, before.evicted_at)
    assert (after.good, after.mixed) == ({}, False)


@pytest.mark.parametrize("boot_id", [REBOOTED.boot_id, None])
def test_another_boot_takes_up_what_belongs_to_the_machine_alone(boot_id: str | None) -> None:
    before = after_an_eviction()
    assert before.good != {}
    after = again(keeping.kept(before, BOOT), BOOT._replace(boot_id=boot_id), now=5.0)
    assert after == State(good=before.good)


@pytest.mark.parametrize(
    ("change", "origin", "now", "why"),
    [
        ({}, BOOT._replace(machine_id="another"), 20.0, "another machine"),
        ({}, BOOT._replace(host_root="/host"), 20.0, "another host root"),
        ({"format": 2}, BOOT, 20.0, "another version"),
        ({"evicted_at": "yesterday"}, BOOT, 20.0, "not as this agent writes it"),
        ({"victims": [{}]}, BOOT, 20.0, "not as this agent writes it"),
        ({"backoff": None}, BOOT, 20.0, "not as this agent writes it"),
        ({}, BOOT, 5.0, "times that cannot be"),  # before what is said to have happened
        ({"hold_down_until": float("inf")}, BOOT, 20.0, "times that cannot be"),
        ({"evicted_at": [float("nan")]}, BOOT, 20.0, "times that cannot be"),
        ({"hold_down_until": 10**400}, BOOT, 20.0, "not as this agent writes it"),
        (
            {"backoff": [{"owner": "abc", "minutes": float("inf"), "until": 0, "breached_at": 0}]},
            BOOT,
            20.0,
            "not as this agent writes it",
        ),
        ({"good": []}, BOOT, 20.0, "not as this agent writes it"),
        *(
            ({"good": {resource: {"bytes": amount, "devices": devices}}}, BOOT, 20.0, "not as this agent writes it")
            for resource, amount, devices in (
                (GPU_MEMORY, -MIB, []),
                (GPU_MEMORY, 17 * 1024 * GIB, []),  # no board has 17 TiB
                (GPU_MEMORY, 10**30, []),
                (GPU_MEMORY, GIB + 1, []),  # whole MiB are published
                (GPU_MEMORY, "1Gi", []),
                (GPU_MEMORY, 1e9, []),
                (GPU_MEMORY, True, []),
                (GPU_MEMORY, None, []),
                (GPU_MEMORY, GIB, None),
                (GPU_MEMORY, GIB, [1]),
                ("nvidia.com/gpu", GIB, []),
                ("memory", GIB, []),
            )
        ),
    ],
)
def test_what_is_not_believed_is_said_and_nothing_of_it_used(
    change: dict[str, Any], origin: keeping.Origin, now: float, why: str
) -> None:
    document = json.loads(json.dumps(keeping.kept(after_an_eviction(), BOOT) | change))
    state, ignored = keeping.restored(document, origin, now)
    assert state == State()
    assert why in ignored


@pytest.mark.parametrize(
    ("kept_as", "now"), [(None, BOOT.machine_id), (BOOT.machine_id, None), (None, None)], ids=["then", "now", "both"]
)
def test_a_machine_that_is_not_known_is_not_the_same_one(kept_as: str | None, now: str | None) -> None:
    before = after_an_eviction()
    document = keeping.kept(before, BOOT._replace(machine_id=kept_as))
    after = again(document, BOOT._replace(machine_id=now))
    assert (after.good, after.mixed) == ({}, False)
    assert after.victims == before.victims


@pytest.mark.parametrize("document", [None, 3, "format", [], {}, {"format": 1}])
def test_what_is_no_state_at_all_is_ignored_with_a_reason(document: Any) -> None:
    state, ignored = keeping.restored(document, BOOT, 20.0)
    assert state == State()
    assert ignored


# --- the last good capacity, over a restart ------------------------------------------

ONE, TWO = card("GPU-1", GIB, 0), card("GPU-2", 2 * GIB, 0, minor=1)
DOWN = nvml(init=18, count=None)
HELD = (pod("a", 256 * MIB),)
# 8192 MiB − 1536 = 6656 MiB
FIXED = config("reserves: {os: 1Gi, k3s: 512Mi, cma: 0, headroom: 0}")
JETSON = Scene(config=FIXED, pods=HELD)


def failing(code: int, uuid: str = CARD_UUID) -> NvmlDevice:
    """A card that tells who it is, but not how large."""
    return card(uuid, memory_v2=NvmlMemory(code=code))


def rebooted(*scenes: Scene) -> Run:
    """A run on the same machine after a reboot, that knows what a run over ``scenes`` has left."""
    first = Run()
    for count, scene in enumerate(scenes):
        first.step(at(scene, 2.0 * count))
    second = Run()
    second.state = again(keeping.kept(first.state, BOOT), REBOOTED, now=1.0)
    return second


def capacity(plan: Plan, key: str = GPU_MEMORY) -> str | None:
    return plan.node.capacity.get(key)


SPARK = BoardFiles(arch="aarch64", pci_displays=1, proc_driver="580.95.05", proc_gpus=1)


@pytest.mark.parametrize(
    ("good", "bad", "value"),
    [
        (JETSON, replace(JETSON, meminfo=None), "6656Mi"),
        # NVML comes up with a newer JetPack, and names what the SoC had before
        (JETSON, replace(JETSON, meminfo=None, nvml=nvml(igpu())), "6656Mi"),
        (card_scene(ONE, pods=HELD), card_scene(ONE, nvml=DOWN, pods=HELD), "1024Mi"),
        (card_scene(ONE, pods=HELD), card_scene(ONE, nvml=None, pods=HELD), "1024Mi"),
        (card_scene(ONE, pods=HELD), card_scene(failing(3, "GPU-1"), pods=HELD), "1024Mi"),
        # Without its name a GB10 looks like a card of unknown size; its memory is the host's all the same.
        (
            replace(JETSON, files=SPARK, nvml=nvml(igpu("NVIDIA GB10", "GPU-1"))),
            replace(JETSON, files=SPARK, nvml=DOWN),
            "6656Mi",
        ),
    ],
    ids=["meminfo", "meminfo and a name", "driver", "silence", "no size", "GB10"],
)
def test_the_last_good_value_stands_in_after_a_reboot_for_ten_minutes(good: Scene, bad: Scene, value: str) -> None:
    run = rebooted(good)
    assert [capacity(run.step(at(bad, second))) for second in (0.0, 2.0, 4.0, 6.0, 600.0)] == [value] * 5
    # then exactly the 256 MiB that are held
    assert capacity(run.step(at(bad, 601.0))) == "256Mi"


@pytest.mark.parametrize(
    ("own", "expected", "written"),
    [("700Mi", "700Mi", []), ("0", "1024Mi", ["1024Mi"]), ("0Mi", "1024Mi", ["1024Mi"]), ("x", "1024Mi", ["1024Mi"])],
)
def test_the_nodes_own_value_comes_first_unless_it_is_zero(own: str, expected: str, written: list[str]) -> None:
    present = {GPU_MEMORY: own, GPU_MILLI: "1k"}
    silent = card_scene(ONE, nvml=DOWN, node=node(capacity=present, allocatable=present))
    plan = rebooted(card_scene(ONE)).step(silent)
    assert capacity(plan) == expected
    bodies = [request.body.get("status", {}).get("capacity") for request in plan.node.requests]
    assert [body[GPU_MEMORY] for body in bodies if body] == written


def test_it_never_goes_below_what_is_held() -> None:
    silent = card_scene(ONE, nvml=DOWN, pods=(pod("a", 3 * GIB),))
    assert capacity(rebooted(card_scene(ONE)).step(silent)) == "3072Mi"


def test_a_pool_that_can_be_sized_does_not_wait_for_it() -> None:
    run = rebooted(card_scene(ONE))
    assert capacity(run.step(card_scene(card("GPU-1", 8 * GIB, 0)))) == "8192Mi"


def test_what_stood_in_for_ten_minutes_is_not_kept_as_a_good_value() -> None:
    scene = card_scene(ONE)
    silent = replace(scene, nvml=DOWN)
    run = rebooted(scene, *[silent] * 3)
    run.steps(silent, 0.0, 700.0)
    assert run.state.good == {GPU_MEMORY: Good(GIB, (("GPU-1", "GPU-1"),))}
    assert capacity(rebooted(scene, at(silent, 700.0)).step(silent)) == "1024Mi"


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (card_scene(ONE, failing(999, "GPU-2")), "3072Mi"),
        (card_scene(ONE, NvmlDevice(handle=15)), "3072Mi"),
        (card_scene(ONE, TWO, nvml=DOWN), "3072Mi"),
        # one was taken out
        (card_scene(ONE, nvml=DOWN), None),
        # another one in the place of one of them
        (card_scene(failing(3, "GPU-1"), failing(3, "GPU-3")), None),
        (card_scene(failing(3, "GPU-3")), None),
        (card_scene(failing(3, "GPU-1")), None),
    ],
    ids=["no size", "no handle", "driver", "one less", "another", "another alone", "one less, answering"],
)
def test_it_is_that_of_the_same_cards_alone(now: Scene, expected: str | None) -> None:
    assert capacity(rebooted(card_scene(ONE, TWO)).step(now)) == expected


def test_a_card_that_is_new_makes_it_another_board() -> None:
    assert capacity(rebooted(card_scene(ONE)).step(card_scene(failing(3, "GPU-1"), failing(3, "GPU-3")))) is None


def test_a_card_in_parts_is_one_card_while_nobody_answers() -> None:
    parts = tuple(
        MigInstance(uuid=f"MIG-{n}", gi=n, memory_v2=NvmlMemory(code=0, total=GIB, reserved=0), compute=processes())
        for n in (1, 2, 3)
    )
    whole = card_scene(card("GPU-1", mig_mode=1, mig=parts))
    assert capacity(rebooted(whole).step(card_scene(ONE, nvml=DOWN))) == "3072Mi"
    # Mode on, parts gone: what was theirs is nobody's.
    assert capacity(rebooted(whole).step(card_scene(card("GPU-1", mig_mode=1)))) is None


def test_what_a_jetson_had_is_not_a_cards() -> None:
    # The same disk in a machine with a card whose driver fails; a card never stands for a SoC's own GPU.
    assert capacity(rebooted(JETSON).step(card_scene(ONE, nvml=DOWN))) is None


def test_a_gpu_that_is_proven_gone_is_forgotten() -> None:
    scene = card_scene(ONE)
    empty = card_scene(files=card_files(pci_displays=0, proc_driver=None, proc_gpus=0), nvml=nvml())
    run = rebooted(scene, empty, empty, empty)
    assert run.state.good == {}
    assert capacity(run.step(replace(scene, nvml=DOWN))) is None


def test_a_board_of_which_nothing_is_seen_forgets_nothing() -> None:
    scene = card_scene(ONE)
    blind = card_scene(files=card_files(pci_displays=0, proc_driver=None, proc_gpus=0), nvml=None)
    run = rebooted(scene, blind, blind, blind)
    assert run.step(blind).board.kind == "unknown"
    assert capacity(run.step(at(replace(scene, nvml=DOWN), 2.0))) == "1024Mi"


def test_a_shared_pool_whose_gpu_is_lost_leaves_the_cards_as_it_is() -> None:
    big = card("GPU-1", GIB, 0, minor=1)
    both = replace(JETSON, files=SPARK, nvml=nvml(igpu("NVIDIA GB10", "GPU-0"), big))
    alone = replace(both, nvml=nvml(big))
    run = Run()
    plans = [run.step(at(scene, second)) for scene, second in ((both, 0.0), (alone, 2.0), (alone, 4.0), (alone, 6.0))]
    assert [capacity(plan) for plan in plans] == ["1024Mi"] * 4
    assert [capacity(plan, IGPU_MEMORY) for plan in plans] == ["6656Mi"] * 3 + [None]
    assert run.state.good == {GPU_MEMORY: Good(GIB, (("GPU-1", "GPU-1"),))}


# --- which key means which pool ------------------------------------------------------

MIXED = replace(JETSON, nvml=nvml(igpu(), card("GPU-1", GIB, 0, minor=1)), pods=())
ALONE = replace(MIXED, nvml=nvml(igpu()))


@pytest.mark.parametrize("present", [{}, {GPU_MEMORY: "0", IGPU_MEMORY: "0"}])
def test_a_board_that_was_mixed_stays_so_without_its_card(present: dict[str, str]) -> None:
    run = rebooted(MIXED)
    lost = replace(ALONE, node=node(capacity=present, allocatable=present))
    for second in (0.0, 2.0, 4.0, 6.0, 3600.0):
        plan = run.step(at(lost, second))
        # The card is not there, so what it had is not published; its key is nobody else's.
        assert (capacity(plan), capacity(plan, IGPU_MEMORY)) == (None, "6656Mi")
    run = Run()
    run.state = again(keeping.kept(rebooted(MIXED, ALONE, ALONE, ALONE).state, REBOOTED), BOOT)
    assert capacity(run.step(ALONE), IGPU_MEMORY) == "6656Mi"
    assert capacity(run.step(at(MIXED, 2.0))) == "1024Mi"


def test_the_card_of_a_mixed_board_is_as_it_was_while_its_driver_is_silent() -> None:
    there = replace(MIXED, nvml=DOWN, files=orin_files(pci_displays=1))
    plan = rebooted(MIXED).step(there)
    assert (capacity(plan), capacity(plan, IGPU_MEMORY)) == ("1024Mi", "6656Mi")
    out = replace(MIXED, nvml=DOWN, files=orin_files(pci_displays=0))
    plan = rebooted(MIXED).step(out)
    assert (capacity(plan), capacity(plan, IGPU_MEMORY)) == (None, "6656Mi")


def test_a_jetson_whose_gpu_was_taken_for_a_card_once_is_not_mixed_for_good() -> None:
    # A handle that fails beside the SoC's own GPU is no card that has told its size.
    odd = replace(ALONE, nvml=nvml(igpu(), NvmlDevice(handle=999)))
    plan = rebooted(odd).step(ALONE)
    assert (capacity(plan), capacity(plan, IGPU_MEMORY)) == ("6656Mi", None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    JSON
    | st.fixed_dictionaries(
        dict.fromkeys(keeping.kept(State(), BOOT), JSON)
        | {
            "boot_id": st.just(BOOT.boot_id),
            "machine_id": st.just(BOOT.machine_id),
            "host_root": st.just("/"),
            "format": st.just(1),
        }
    )
)
def test_no_document_breaks_the_start(document: Any) -> None:
    state, ignored = keeping.restored(document, BOOT, 20.0)
    assert not ignored or state == State()
    assert decide(state, at(OVER, 20.0).facts(), 20.0)


# --- how often it is written -------------------------------------------------------------


def document(breached_at: float, **changes: Any) -> dict[str, Any]:
    state = State(backoff={("apps", "Deployment", "shop"): Backoff(1, 700.0, breached_at)})
    return {**keeping.kept(state, BOOT), **changes}


def test_a_breach_that_goes_on_is_worth_a_write_each_five_minutes() -> None:
    assert keeping.worth(None, document(100.0))
    assert not keeping.worth(document(100.0), document(399.0))
    assert keeping.worth(document(100.0), document(400.0))


def test_all_else_that_changed_is_worth_one_at_once() -> None:
    before = document(100.0)
    assert keeping.worth(before, document(100.0, hold_down_until=1.0))
    assert keeping.worth(before, document(100.0, evicted_at=[1.0]))
    assert keeping.worth(before, keeping.kept(State(), BOOT))
    longer = State(backoff={("apps", "Deployment", "shop"): Backoff(2, 700.0, 100.0)})
    assert keeping.worth(before, keeping.kept(longer, BOOT))
    other = State(backoff={("apps", "Deployment", "other"): Backoff(1, 700.0, 100.0)})
    assert keeping.worth(before, keeping.kept(other, BOOT))


def test_a_breach_of_the_future_is_not_believed() -> None:
    """An owner would never be forgotten."""
    assert keeping.restored(document(1000.0), BOOT, 999.0).ignored == "it has times that cannot be"
    assert keeping.restored(document(1000.0), BOOT, 1000.0).ignored == ""


def test_a_pod_that_was_seen_using_the_gpu_is_remembered_for_this_boot_alone() -> None:
    """``ai-capable`` rests on it where the configuration of containerd cannot be read."""
    run = Run()
    run.step(Scene(runtime=NO_RUNTIME, pods=(pod("a", GIB),), held={"a": Held(gpu=GIB)}))
    document = keeping.kept(run.state, BOOT)
    calm = Scene(runtime=NO_RUNTIME)
    assert decided(again(document), calm, 22.0).gpu_path.proven is True
    assert decided(again(document, REBOOTED), calm, 22.0).gpu_path.proven is None
    # A board that does not tell its boot may have been started anew.
    unknown = BOOT._replace(boot_id=None)
    assert decided(again(document, unknown), calm, 22.0).gpu_path.proven is None

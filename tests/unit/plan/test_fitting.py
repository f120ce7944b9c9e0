"""Whether models fit, against sums worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgeagent.facts import GPU_MEMORY, GPU_MILLI, IGPU_MEMORY, PodFacts
from edgeagent.plan.fitting import answer, models
from edgeagent.plan.fitting.answer import Fitting
from edgeagent.plan.fitting.fit import fit as fitted
from tests.unit.factories import GIB, MIB, Run, Scene, card, card_scene, config, meminfo, node, pod

# 8 GiB - os 768 MiB - k3s 512 MiB - headroom 256 MiB, no CMA: 6656 MiB for pods.

BOARD = Scene(meminfo=meminfo(8 * GIB))


def fit(scene: Scene, *wishes: str) -> Fitting:
    wanted, problems = models.parse(wishes)
    assert problems == ()
    return fitted(Run().step(scene), scene.facts(), wanted)


def shorts(found: Fitting) -> list[list[tuple[str, int | None]]]:
    """(key, missing) of every model."""
    return [[(short.key, short.missing) for short in place.short] for place in found.places]


def with_pods(*pods: PodFacts, **fields: Any) -> Scene:
    return replace(BOARD, pods=pods, **fields)


def test_a_board_is_filled_to_the_last_mib() -> None:
    assert fit(BOARD, "a=gpu:6656Mi").fits
    assert shorts(fit(BOARD, "a=gpu:6657Mi")) == [[(GPU_MEMORY, MIB)]]


def test_a_whole_board_figure_is_booked_once() -> None:
    # 3 GiB each, 2 for the GPU and 1 for the host: 6144 of 6656 MiB, and 512 are left.
    found = fit(BOARD, "llm*2=gpu:2Gi,memory:3Gi")
    assert found.fits
    assert [place.host for place in found.places] == [GIB, GIB]
    assert [(room.key, room.left) for room in found.rooms] == [(GPU_MEMORY, 512 * MIB), ("memory", None)]


def test_a_smaller_memory_figure_counts_beside_the_gpus() -> None:
    # 2 GiB + 255 MiB is below gpu + 256 MiB: 2 + 2.249 GiB = 4351 MiB are booked. Two are 8702, 2046 more than 6656.
    found = fit(BOARD, "a*2=gpu:2Gi,memory:2303Mi")
    assert shorts(found) == [[], [(GPU_MEMORY, 2046 * MIB)]]
    assert "counts beside" in found.places[0].notes[0]
    # One MiB more can have been meant for the whole board: 2304 MiB each.
    assert fit(BOARD, "a*2=gpu:2Gi,memory:2304Mi").fits


def test_memory_alone_takes_from_the_same_pool() -> None:
    assert shorts(fit(BOARD, "web=memory:7Gi")) == [[(GPU_MEMORY, (7168 - 6656) * MIB)]]


def test_beside_what_is_bound() -> None:
    scene = with_pods(pod("llm", 2 * GIB, 3 * GIB), pod("gone", 2 * GIB, phase="Succeeded"))
    # 6656 - 3072 = 3584 MiB are free.
    assert fit(scene, "a=gpu:3584Mi").fits
    found = fit(scene, "a=gpu:4Gi")
    assert shorts(found) == [[(GPU_MEMORY, 512 * MIB)]]
    assert found.remedies[0] == f"a would have to ask for 512Mi less: 3584Mi of {GPU_MEMORY} at most"
    # 768 - 512 = 256 MiB would be left to the system.
    assert "the largest reserve is os, 768 MiB (reserves.os); lowering it is no way" in found.remedies[1]
    assert found.remedies[2] == f"apps/llm has booked the most of {GPU_MEMORY}, 3.00 GiB; without it there is room"


def test_the_system_is_left_with_512_mib() -> None:
    # 6656 MiB for pods; 768 - 256 = 512 MiB are just enough.
    assert fit(BOARD, "a=gpu:6912Mi").remedies[1].endswith("256Mi less of it would do, if the system can spare it")
    assert fit(BOARD, "a=gpu:6913Mi").remedies[1].endswith("257Mi less would leave less than 512 MiB")


def test_help_for_several_speaks_of_all() -> None:
    # 5000 + 3000 + 2000 MiB are asked for, 3344 more than 6656. Only the first fits.
    found = fit(BOARD, "a=gpu:5000Mi", "b=gpu:3000Mi", "c=gpu:2000Mi")
    assert shorts(found) == [[], [(GPU_MEMORY, 1344 * MIB)], [(GPU_MEMORY, 344 * MIB)]]
    assert found.remedies == (f"all models together would have to ask for 3344Mi less of {GPU_MEMORY}",)


def test_without_memory_no_host_part_is_booked_and_that_is_said() -> None:
    (note,) = fit(BOARD, "a=gpu:1Gi", "b=gpu:1Gi,memory:2Gi").notes[-1:]
    assert note.startswith("No host part is booked for a:")
    assert not any("No host part" in note for note in fit(BOARD, "b=gpu:1Gi,memory:2Gi").notes)


def test_a_pod_with_an_annotation_is_booked_too() -> None:
    bound = pod("a", annotations={"edgeagent.dev/gpu-memory-limit": "4Gi"})
    # 6656 - 4096 = 2560.
    assert shorts(fit(with_pods(bound), "b=gpu:2561Mi")) == [[(GPU_MEMORY, MIB)]]


def test_one_that_does_not_fit_leaves_its_room_to_the_next() -> None:
    assert shorts(fit(BOARD, "big=gpu:7Gi", "small=gpu:6Gi")) == [[(GPU_MEMORY, 512 * MIB)], []]


def test_the_order_is_that_of_the_question() -> None:
    assert shorts(fit(BOARD, "small=gpu:1Gi", "big=gpu:6Gi")) == [[], [(GPU_MEMORY, 512 * MIB)]]


def test_a_full_board_has_no_size_that_fits() -> None:
    found = fit(with_pods(pod("llm", 8 * GIB)), "a=gpu:1Gi")
    # 8 + 1 GiB - 6656 MiB = 2560 MiB.
    assert shorts(found) == [[(GPU_MEMORY, 2560 * MIB)]]
    assert "fits at no size" in found.remedies[0]


def test_the_schedulers_own_memory() -> None:
    scene = with_pods(
        pod("llm", 2 * GIB, 3 * GIB),
        node=node(capacity={"memory": "8Gi"}, allocatable={"memory": "4Gi"}),
    )
    # 4 - 3 = 1 GiB; the pool has 3584 MiB.
    found = fit(scene, "a=gpu:1Gi,memory:2Gi")
    assert shorts(found) == [[("memory", GIB)]]
    assert "MemTotal" not in found.places[0].short[0].why
    assert found.rooms[1] == answer.Room(key="memory", size=4 * GIB, booked=3 * GIB, asked=2 * GIB)


def test_a_kubelet_without_reserves_books_all_of_memtotal() -> None:
    scene = replace(BOARD, node=node(capacity={"memory": "8Gi"}, allocatable={"memory": "8388608Ki"}))
    assert fit(scene, "a=gpu:1Gi,memory:6Gi").fits
    (place,) = fit(scene, "a=gpu:1Gi,memory:9Gi").places
    assert [short.key for short in place.short] == [GPU_MEMORY, "memory"]
    assert "all of MemTotal" in place.short[1].why


def test_without_a_node_the_schedulers_memory_is_not_checked_and_that_is_said() -> None:
    found = fit(replace(BOARD, node=None), "a=gpu:1Gi,memory:2Gi")
    assert found.fits
    assert ["not checked" in note for note in found.notes] == [True]


def test_thousandths_of_a_gpu() -> None:
    bound = pod("a", GIB)
    (one,) = bound.containers
    asked = {**one.requests, GPU_MILLI: 600}
    bound = replace(bound, containers=(replace(one, requests=asked, limits=asked),))
    found = fit(with_pods(bound), "b=gpu:1Gi,gpu-milli:400", "c=gpu:1Gi,gpu-milli:1")
    assert shorts(found) == [[], [(GPU_MILLI, 1)]]
    assert found.remedies == (
        f"c would have to ask for 1 less of {GPU_MILLI}",
        f"apps/a has booked the most of {GPU_MILLI}, 600; without it there is room",
    )


def test_no_allocation_spans_two_cards() -> None:
    # Two cards of 10 GiB, of which the driver keeps 1 each: 18 GiB in the sum, 9 in one.
    cards = card_scene(
        card("GPU-a", total=10 * GIB, reserved=GIB), card("GPU-b", total=10 * GIB, reserved=GIB, minor=1)
    )
    found = fit(cards, "a=gpu:10Gi", "b*2=gpu:9Gi")
    assert shorts(found) == [[(f"{GPU_MEMORY} of one card", GIB)], [], []]
    assert any("several cards" in note for note in found.notes)


def test_host_memory_is_no_part_of_a_card() -> None:
    found = fit(card_scene(card(total=10 * GIB, reserved=GIB)), "a=gpu:9Gi,memory:64Gi")
    assert (found.fits, found.places[0].host) == (True, 0)


def test_a_key_that_the_board_does_not_have() -> None:
    found = fit(BOARD, "a=igpu:1Gi")
    assert shorts(found) == [[(IGPU_MEMORY, None)]]
    assert found.remedies == ()


def test_a_pool_whose_size_is_not_known_has_no_room() -> None:
    assert shorts(fit(replace(BOARD, meminfo=None), "a=gpu:1Gi")) == [[(GPU_MEMORY, None)]]


def test_beside_another_owner_nothing_is_free() -> None:
    scene = with_pods(pod("a", GIB), node=node(labels={"gpu": "on"}))
    found = fit(scene, "b=gpu:1Gi")
    assert shorts(found) == [[(GPU_MEMORY, GIB)]]
    assert "HAMi" in found.places[0].short[0].why
    assert found.rooms[0].left == -GIB


def test_static_coupling_leaves_host_parts_to_the_schedulers_own_memory() -> None:
    static = config("unified: {coupling: static}")
    scene = with_pods(pod("llm", 2 * GIB, 5 * GIB), config=static)
    # 6656 MiB are advertised whatever the host parts; 2048 of them are booked, 4608 left.
    found = fit(scene, "a=gpu:4608Mi,memory:64Gi")
    assert (found.fits, found.places[0].host) == (True, 0)
    assert (found.rooms[0].booked, found.rooms[0].left) == (2 * GIB, 0)
    found = fit(scene, "a=gpu:4609Mi,memory:64Gi")
    assert shorts(found) == [[(GPU_MEMORY, MIB)]]
    assert found.remedies[0] == f"a would have to ask for 1Mi less: 4608Mi of {GPU_MEMORY} at most"
    assert found.remedies[-1] == f"apps/llm has booked the most of {GPU_MEMORY}, 2.00 GiB; without it there is room"
    # 5 + 4 GiB of an allocatable memory of 8.
    counted = replace(scene, node=node(capacity={"memory": "8Gi"}, allocatable={"memory": "8Gi"}))
    assert shorts(fit(counted, "a=gpu:2Gi,memory:4Gi")) == [[("memory", GIB)]]


def test_pods_that_are_not_known_are_said() -> None:
    found = fit(replace(BOARD, cluster=False), "a=gpu:1Gi")
    assert found.fits
    assert any("not known" in note for note in found.notes)


@pytest.mark.parametrize(("wish", "fits"), [("a=gpu:1Gi", True), ("a=gpu:7Gi", False)])
def test_the_answer_as_json(wish: str, fits: bool) -> None:  # noqa: FBT001 (a parameter of the table)
    found = answer.document(fit(BOARD, wish))
    assert set(found) == {"fits", "models", "sum", "remedies", "notes"}
    assert found["fits"] is fits

"""Events, each once while its reason holds; findings, worst first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgeagent.plan.notices import order
from edgeagent.plan.types import Finding
from tests.unit.factories import (
    GIB,
    MIB,
    Held,
    Run,
    Scene,
    at,
    card,
    card_scene,
    config,
    meminfo,
    node,
    nvml,
    pod,
)

OVER = {"a": Held(gpu=2 * GIB)}


def reasons(run: Run, scene: Scene) -> list[tuple[str, str]]:
    run.step(scene)
    return [(event.reason, event.regarding) for event in run.told]


def test_a_breach_is_told_once_until_the_pod_is_below_again() -> None:
    run = Run()
    scene = Scene(pods=(pod("a", GIB),), held=OVER, node=None)
    told = [("MemoryBudgetExceeded", "pod apps/a")]
    assert reasons(run, scene) == told
    assert reasons(run, at(scene, 2.0)) == []
    assert reasons(run, at(replace(scene, held={}), 4.0)) == []
    assert reasons(run, at(scene, 6.0)) == told


def test_a_breach_under_pressure_does_not_speak_of_a_grace_that_nobody_has() -> None:
    # 100 MiB usable are below the floor of 128: pressure from the second reading on, in which the pod goes over.
    low = meminfo(available=100 * MIB, free=100 * MIB)
    run = Run()
    calm = Scene(pods=(pod("a", GIB),), meminfo=low, node=None)
    run.steps(calm, 0.0)
    run.step(at(replace(calm, held=OVER), 2.0))
    notes = {event.reason: event.note for event in run.told}
    assert "It is evicted now" in notes["MemoryBudgetExceeded"]
    assert "unless" not in notes["MemoryBudgetExceeded"]


def test_what_to_change_leaves_the_host_part_as_it_is() -> None:
    # 2560 MiB of 2048: 2816 with a tenth of room. memory 3072 − 2048 = 1024 for the host; 2816 + 1024 = 3840.
    run = Run()
    run.step(Scene(pods=(pod("a", 2 * GIB, 3 * GIB),), held={"a": Held(gpu=2560 * MIB)}, node=None))
    (event,) = (one for one in run.told if one.reason == "MemoryBudgetExceeded")
    assert "raise edgeagent.dev/gpu-memory to 2816Mi and memory to 3840Mi or more" in event.note


def test_the_advice_covers_the_host_part_as_well() -> None:
    """1200 MiB of GPU memory ask for 1320, and 3000 MiB beside them for 3300; 1024 were for the host before."""
    run = Run()
    plan = run.step(Scene(pods=(pod("a", GIB, 2 * GIB),), held={"a": Held(gpu=1200 * MIB, host=3000 * MIB)}))
    (event,) = (event for event in plan.events if event.reason == "MemoryBudgetExceeded")
    assert "raise edgeagent.dev/gpu-memory to 1320Mi and memory to 4620Mi or more" in event.note


def test_an_eviction_is_told_when_it_was_accepted() -> None:
    run = Run()
    scene = Scene(pods=(pod("a", GIB),), held=OVER, node=None)
    run.steps(scene, 0.0, 8.0)
    assert reasons(run, at(scene, 15.0)) == [("MemoryBudgetEvicted", "pod apps/a")]
    assert reasons(run, at(scene, 17.0)) == []


def test_a_refused_eviction_is_told_once() -> None:
    run = Run("blocked")
    scene = Scene(pods=(pod("a", GIB),), held=OVER, node=None)
    run.steps(scene, 0.0, 8.0)
    assert reasons(run, at(scene, 15.0)) == [("EvictionBlocked", "pod apps/a")]
    assert [reasons(run, at(scene, float(second))) for second in (17, 20, 22)] == [[], [], []]


def refused(run: Run, scene: Scene, first: int, last: int) -> list[str]:
    """Pods of which it is told that their eviction was refused, one look a second."""
    told = [reasons(run, at(scene, float(second))) for second in range(first, last)]
    return [about for one in told for reason, about in one if reason == "EvictionBlocked"]


def test_pods_that_wait_beside_each_other_are_told_once_each_for_as_long_as_they_are_over() -> None:
    """The refusal of one, which holds for five seconds, says nothing about what was told of the others."""
    run = Run("blocked")
    pods = tuple(pod(name, GIB // 4) for name in "abcde")
    scene = Scene(pods=pods, held={name: Held(gpu=GIB // 2) for name in "abcde"}, node=None)
    assert sorted(refused(run, scene, 0, 1200)) == [f"pod apps/{name}" for name in "abcde"]


def test_a_refusal_after_a_while_within_the_budget_is_told_anew_and_after_a_moment_is_not() -> None:
    run = Run("blocked")
    over = Scene(pods=(pod("a", GIB),), held=OVER, node=None)
    calm = replace(over, held={"a": Held(gpu=GIB)})
    assert refused(run, over, 0, 20) == ["pod apps/a"]
    assert refused(run, calm, 20, 75) == []
    assert refused(run, over, 75, 100) == []
    assert refused(run, calm, 100, 165) == []
    assert refused(run, over, 165, 190) == ["pod apps/a"]


def test_a_refusal_is_told_anew_after_a_while_even_if_others_were_told_of_meanwhile() -> None:
    run = Run("blocked")
    both = Scene(pods=(pod("a", GIB), pod("b", GIB)), held={"a": Held(gpu=2 * GIB), "b": Held(gpu=2 * GIB)}, node=None)
    one = replace(both, held={"a": Held(gpu=GIB), "b": Held(gpu=2 * GIB)})
    assert sorted(refused(run, both, 0, 30)) == ["pod apps/a", "pod apps/b"]
    assert refused(run, one, 30, 200) == []
    assert refused(run, both, 200, 230) == ["pod apps/a"]


def test_a_reading_that_failed_is_no_while_within_the_budget() -> None:
    run = Run("blocked")
    over = Scene(pods=(pod("a", GIB),), held=OVER, node=None)
    assert refused(run, over, 0, 20) == ["pod apps/a"]
    assert refused(run, replace(over, readable=False), 20, 200) == []
    assert refused(run, over, 200, 240) == []


def test_another_reason_of_a_refusal_is_told_and_the_same_in_turns_is_not() -> None:
    run = Run("unknown")
    over = Scene(pods=(pod("a", GIB),), held=OVER, node=None)
    assert refused(run, over, 0, 20) == ["pod apps/a"]
    run.outcome = "blocked"
    assert refused(run, over, 20, 40) == ["pod apps/a"]
    for number in range(10):
        run.outcome = "unknown" if number % 2 else "blocked"
        assert refused(run, over, 40 + 10 * number, 50 + 10 * number) == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"gpu": 2048}, "UnderRequested"),
        ({"gpu": 2 * GIB, "memory": GIB}, "UnderRequested"),
        ({"annotations": {"edgeagent.dev/gpu-memory-limit": "lots"}}, "BudgetInvalid"),
    ],
)
def test_figures_that_cannot_have_been_meant(fields: dict[str, Any], reason: str) -> None:
    run = Run()
    scene = Scene(pods=(pod("a", **fields),), node=None)
    assert reasons(run, scene) == [(reason, "pod apps/a")]
    assert reasons(run, at(scene, 2.0)) == []


def test_a_request_above_what_the_largest_card_has_for_pods() -> None:
    # Two cards of 1 GiB and of 2 GiB + 100 MiB, 100 of them the driver's: no allocation can have more than 2 GiB.
    cards = (card("GPU-1", GIB, 0), card("GPU-2", 2 * GIB + 100 * MIB, 100 * MIB, minor=1))
    scene = card_scene(*cards, pods=(pod("a", 2 * GIB), pod("b", 2 * GIB + MIB)), node=None)
    assert ("RequestTooLarge", "pod apps/b") in reasons(Run(), scene)
    assert ("RequestTooLarge", "pod apps/a") not in reasons(Run(), scene)


def test_a_capacity_that_is_published_is_told_on_the_node() -> None:
    run = Run()
    scene = Scene(config=config("reserves: {os: 1Gi, k3s: 512Mi, cma: 0, headroom: 0}"))
    assert reasons(run, scene) == [("CapacityPublished", "node edge-1")]
    # while the write is on its way
    assert reasons(run, at(scene, 2.0)) == []
    there = {"edgeagent.dev/gpu-memory": "6656Mi", "edgeagent.dev/gpu-milli": "1k"}
    done = replace(scene, node=node(capacity=there, allocatable=there))
    assert reasons(run, at(done, 4.0)) == []
    # a kubelet that starts again sets it to 0
    assert reasons(run, at(replace(scene, node=node(capacity={"edgeagent.dev/gpu-memory": "0"})), 6.0)) == [
        ("CapacityPublished", "node edge-1")
    ]


def test_a_device_that_is_not_well_is_told_on_the_node() -> None:
    run = Run()
    run.step(card_scene(card()))
    lost = card_scene(card(), nvml=nvml(count=0))
    assert ("GPUUnavailable", "node edge-1") in reasons(run, at(lost, 2.0))
    assert ("GPUUnavailable", "node edge-1") not in reasons(run, at(lost, 4.0))


def test_overcommitted_is_told_on_the_youngest_that_booked() -> None:
    pods = (pod("a", 5 * GIB, start_time=1.0), pod("b", 5 * GIB, start_time=2.0), pod("c", start_time=3.0))
    assert [one for one in reasons(Run(), Scene(pods=pods, node=None)) if one[0] == "Overcommitted"] == [
        ("Overcommitted", "pod apps/b")
    ]


def test_findings_are_sorted_worst_first() -> None:
    def finding(severity: Any, name: str) -> Finding:
        return Finding(id=name, severity=severity, certainty="certain", subject="node", summary="")

    mixed = [finding("info", "a"), finding("warning", "b"), finding("error", "d"), finding("error", "c")]
    assert [one.id for one in sorted(mixed, key=order)] == ["c", "d", "b", "a"]


def test_an_event_in_observe_mode_does_not_threaten() -> None:
    scene = Scene(pods=(pod("a", GIB),), held={"a": Held(gpu=2 * GIB)}, config=config("mode: observe"))
    (event,) = [event for event in Run().step(scene).events if event.reason == "MemoryBudgetExceeded"]
    assert "It is not evicted: mode: observe is configured." in event.note
    assert "unless" not in event.note

"""The last quarter of an hour: one point each five seconds, bounded, unknown where nothing was known."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from edgeagent.facts import GPU_MEMORY
from edgeagent.plan.types import Plan
from edgeagent.serve import trail
from edgeagent.serve.trail import Trail

from .states import MIB, NOW, PLAN, READINGS, shown, view


def plan(usable: int, **gpu: int | None) -> Plan:
    """A board with so many usable MiB, and pods with so many MiB of GPU memory and 10 MiB of host memory."""
    pods = tuple(
        view(name, gpu=None if held is None else held * MIB, host=10 * MIB, limit=None) for name, held in gpu.items()
    )
    return replace(PLAN, pods=pods, danger=replace(PLAN.danger, usable=usable * MIB))


def walked(*plans: Plan, step: float = 5.0, begin: float = NOW) -> Trail:
    """A trail over plans that were shown one after the other."""
    kept = Trail()
    for number, one in enumerate(plans):
        now = begin + number * step
        kept.take(shown(plan=one, at=now, readings={}), now)
    return kept


def told(kept: Trail, now: float) -> Any:
    return trail.document(kept.points, now)


def test_the_newest_figure_is_the_first() -> None:
    document = told(walked(plan(300, llm=1), plan(200, llm=2), plan(100, llm=3)), NOW + 10)

    assert document["step_seconds"] == 5
    assert document["ages_seconds"] == [0, 5, 10]
    assert document["usable_bytes"] == [100 * MIB, 200 * MIB, 300 * MIB]
    assert document["pools"] == [{"resource": GPU_MEMORY, "gpu_used_bytes": [3000 * MIB] * 3}]
    assert document["pods"] == [
        {
            "namespace": "apps",
            "name": "llm",
            "uid": "uid-llm",
            "gpu_bytes": [3 * MIB, 2 * MIB, 1 * MIB],
            "host_bytes": [10 * MIB] * 3,
            "pools": [],
        }
    ]


def test_before_the_first_point_the_lines_are_empty() -> None:
    assert told(Trail(), NOW) == {
        "step_seconds": 5,
        "ages_seconds": [],
        "usable_bytes": [],
        "pools": [],
        "pods": [],
    }


def test_zero_is_zero_and_unknown_is_null() -> None:
    document = told(walked(plan(0, idle=0, odd=None)), NOW)

    idle, odd = document["pods"]
    assert (document["usable_bytes"], idle["gpu_bytes"], odd["gpu_bytes"]) == ([0], [0], [None])


def test_a_pod_that_came_or_went_is_null_where_it_was_not() -> None:
    document = told(walked(plan(1, old=1), plan(1, old=1, new=2), plan(1, new=2)), NOW + 10)

    new, old = document["pods"]
    assert (new["gpu_bytes"], old["gpu_bytes"]) == ([2 * MIB, 2 * MIB, None], [None, 1 * MIB, 1 * MIB])
    assert old["host_bytes"] == [None, 10 * MIB, 10 * MIB]


def test_there_is_one_point_in_five_seconds_however_fast_the_cycles_are() -> None:
    # 100 cycles, 0.1 s apart, from second 1000.0 on: 9.9 s, which is two steps.
    assert len(walked(*[plan(1)] * 100, step=0.1).points) == 2


def test_a_step_without_a_cycle_is_a_gap() -> None:
    kept = walked(plan(3), plan(1), step=10.0)

    assert told(kept, NOW + 10)["usable_bytes"] == [1 * MIB, None, 3 * MIB]


def test_a_step_that_has_just_begun_has_no_point_yet_and_a_silent_agent_has_none_for_long() -> None:
    kept = walked(plan(2), plan(1))

    assert told(kept, NOW + 11)["usable_bytes"] == [1 * MIB, 2 * MIB]
    # 20 s after the last point: steps 1025, 1020, 1015 and 1010 have none.
    assert told(kept, NOW + 25)["usable_bytes"] == [None, None, None, None, 1 * MIB, 2 * MIB]


def test_a_quarter_of_an_hour_is_kept() -> None:
    document = told(walked(*(plan(number) for number in range(200))), NOW + 199 * 5)

    # 180 points of five seconds are 900 s.
    assert len(document["ages_seconds"]) == 180
    assert document["ages_seconds"][-1] == 895
    assert (document["usable_bytes"][0], document["usable_bytes"][-1]) == (199 * MIB, 20 * MIB)


def test_what_a_stale_reading_supplies_is_not_kept() -> None:
    kept = Trail()
    for number, name in enumerate(("meminfo", "nvmap", "cgroups")):
        now = NOW + 5 * number
        readings = {**READINGS, name: replace(READINGS[name], succeeded_at=now - 11)}
        fresh = {other: replace(one, succeeded_at=now) for other, one in readings.items() if other != name}
        kept.take(shown(plan=plan(1, llm=2), at=now, readings={**readings, **fresh}), now)

    document = told(kept, NOW + 10)
    (llm,) = document["pods"]
    assert document["usable_bytes"] == [1 * MIB, 1 * MIB, None]
    assert llm["gpu_bytes"] == [2 * MIB, None, 2 * MIB]
    assert document["pools"][0]["gpu_used_bytes"] == [3000 * MIB, None, 3000 * MIB]
    assert llm["host_bytes"] == [None, 10 * MIB, 10 * MIB]


def test_nothing_is_kept_of_a_sample_that_is_too_old() -> None:
    kept = Trail()
    kept.take(shown(at=NOW - 11), NOW)
    kept.take(shown(plan=None), NOW)

    assert kept.points == ()


def test_with_two_pools_a_pod_has_a_line_in_each() -> None:
    # A board with a card: the pod holds 1 MiB of the board's pool and 2 of the card's.
    other = "edgeagent.dev/igpu-memory"
    (first, *_) = PLAN.pods
    pod = replace(first, use=replace(first.use, gpu={GPU_MEMORY: 2 * MIB, other: 1 * MIB}, host=3 * MIB))
    pools = (*PLAN.pools, replace(PLAN.pools[0], resource=other))

    (line,) = told(walked(replace(PLAN, pools=pools, pods=(pod,))), NOW)["pods"]

    assert (line["gpu_bytes"], line["host_bytes"]) == ([None], [3 * MIB])
    assert line["pools"] == [
        {"resource": GPU_MEMORY, "gpu_bytes": [2 * MIB]},
        {"resource": other, "gpu_bytes": [1 * MIB]},
    ]


def test_a_board_with_more_pods_than_are_kept_keeps_the_largest() -> None:
    many = {f"pod-{number:03}": number for number in range(150)}

    document = told(walked(plan(1, **many)), NOW)

    # 110 of 150: those with 40 MiB and more.
    assert [pod["gpu_bytes"] for pod in document["pods"]] == [[number * MIB] for number in range(40, 150)]


def test_a_stream_of_short_lived_pods_makes_no_endless_document() -> None:
    plans = [plan(1, **{f"job-{step}-{number}": 1 for number in range(20)}) for step in range(60)]

    document = told(walked(*plans), NOW + 59 * 5)

    # 1200 pods were there; the latest 220 are told: all of the last eleven steps.
    names = {pod["name"] for pod in document["pods"]}
    assert names == {f"job-{step}-{number}" for step in range(49, 60) for number in range(20)}


def test_a_full_trail_takes_less_than_half_a_mebibyte() -> None:
    kept = walked(*[plan(1, **{f"pod-{number}": number for number in range(110)})] * 180)

    # 180 points with 2 × 110 figures of eight bytes: 317 kB, and the names once.
    figures = sum(sys.getsizeof(point.figures) for point in kept.points)
    assert figures < 350_000
    assert len({id(point.pods) for point in kept.points}) == 1

"""A whole agent while the API server, the clock or the uplink is gone, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from tests.faults.virtual import (
    Fault,
    Outpost,
    black_hole,
    cut_after,
    only,
    play,
    refused,
    says,
    wrong_certificate,
)
from tests.unit.factories import MIB

pytestmark = pytest.mark.may_block("what threads do is done in the loop here, so that time can be virtual")

TEN_MINUTES = 600.0
OVER = 1060
"""MiB, by 36 above the budget."""
OUTAGES = {"refuses": refused, "black hole": black_hole, "wrong certificate": wrong_certificate, "503": says(503)}


async def greedy(outpost: Outpost) -> None:
    """A pod that has just gone over its budget beside one that has not, on a board with room."""
    load = outpost.pod("greedy", 1024, 1000)
    outpost.pod("calm", 1024, 1000)
    outpost.start()
    await outpost.settle(20)
    # A larger step between two readings that happen to be near would be a fall that reaches the floor within 3 s.
    outpost.hold(load, OVER)


async def out(outpost: Outpost, fault: Fault) -> None:
    """The API server is gone for ten minutes."""
    outpost.api.fault = fault
    outpost.api.break_watches(ConnectionResetError(104, "Connection reset by peer"))
    await outpost.settle(TEN_MINUTES)
    outpost.api.fault = None


@pytest.mark.parametrize("fault", OUTAGES.values(), ids=OUTAGES)
def test_ten_minutes_without_an_api_server_end_in_one_eviction(fault: Fault, tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        await greedy(outpost)
        tasks, since = len(asyncio.all_tasks()), len(outpost.cycles)
        await out(outpost, fault)
        assert outpost.api.accepted == []
        # The loop has read on: who holds what each second while a pod is suspect, and not less often than each 2 s.
        during = outpost.cycles[since:]
        assert max(after - before for before, after in itertools.pairwise(during)) <= 2.01
        # Nothing waits: neither calls nor events nor writes have piled up.
        assert len(asyncio.all_tasks()) <= tasks + 2
        # The longest wait for the next try is 30 s, after ten minutes; before a list and a watch, and one decision.
        await outpost.settle(60)
        assert [name for name in outpost.evictions() if name == "greedy"] == ["greedy"]
        assert set(outpost.evictions()) == {"greedy"}
        assert len(outpost.api.accepted) == 1

    play(tmp_path, story)


def test_who_is_within_budget_again_after_the_outage_stays(tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        await greedy(outpost)
        await out(outpost, refused)
        outpost.hold(next(load for load in outpost.loads.values() if load.name == "greedy"), 1000)
        await outpost.settle(120)
        assert outpost.evictions() == []

    play(tmp_path, story)


def test_a_short_outage_ends_within_five_seconds(tmp_path: Path) -> None:
    """Below ten minutes the limit of the delay is 5 s; a list and a watch come after it."""

    async def story(outpost: Outpost) -> float:
        outpost.start()
        await outpost.settle(30)
        outpost.api.fault = refused
        outpost.api.break_watches(ConnectionResetError(104, "Connection reset by peer"))
        await outpost.settle(300)
        # Meanwhile the kubelet has taken the capacity away.
        outpost.api.node["status"]["capacity"] = {"cpu": "6"}
        outpost.api.node["status"]["allocatable"] = {"cpu": "6"}
        outpost.api.patch_node({})
        outpost.api.fault = None
        since = outpost.now
        await outpost.settle(20)
        return next(call.at for call in outpost.api.calls if call.method == "PATCH" and call.at > since) - since

    assert play(tmp_path, story) <= 5.5


# --- answers to an eviction ----------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "again"),
    [
        (says(429, retry="7", causes=("DisruptionBudget",)), (7.0, 7.0 * 1.25)),  # plus a quarter of jitter at most
        (says(429, retry="7"), (7.0, 7.0)),
        (says(403, "Forbidden"), (600.0, 600.0)),
        (says(500, message="This pod has more than one PodDisruptionBudget"), (300.0, 300.0)),
    ],
    ids=["disruption budget", "throttled", "forbidden", "two budgets"],
)
def test_a_refused_eviction_is_tried_again_when_it_may_be(
    answer: Fault, again: tuple[float, float], tmp_path: Path
) -> None:
    async def story(outpost: Outpost) -> tuple[float, float]:
        outpost.api.fault = only(lambda call: call.eviction, answer)
        await greedy(outpost)
        await outpost.settle(700)
        first, second, *_ = [call.at for call in outpost.api.calls if call.eviction]
        return first, second

    first, second = play(tmp_path, story)
    # It is asked for again at the next sample, each 2 s.
    assert again[0] <= second - first <= again[1] + 2.1


def test_a_call_that_was_carried_out_and_whose_answer_was_lost_is_not_made_twice(tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        outpost.api.fault = only(lambda call: call.eviction, cut_after)
        await greedy(outpost)
        await outpost.settle(120)
        assert outpost.evictions() == ["greedy"]

    play(tmp_path, story)


def test_a_pod_made_anew_under_the_same_name_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    """Its predecessor was over its budget; the view is broken while the one goes and the other comes."""

    async def story(outpost: Outpost) -> None:
        await greedy(outpost)
        old = next(load for load in outpost.loads.values() if load.name == "greedy")
        await outpost.settle(12)
        outpost.api.fault = only(lambda call: not call.eviction, refused)
        outpost.api.break_watches(ConnectionResetError(104, "Connection reset by peer"))
        # The object is made anew while the process of the old one still holds what it held.
        outpost.api.remove("greedy")
        new = outpost.pod("greedy", 1024, 20)
        await outpost.settle(8)
        outpost.api.fault = None
        await outpost.settle(120)
        assert outpost.api.accepted == []
        assert new.uid in outpost.loads
        assert old.uid in outpost.loads

    play(tmp_path, story)


# --- streams -------------------------------------------------------------------------

BROKEN = {
    "closed": b"",
    "410": {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}},
    "half a line": b'{"type": "MODIF',
    "no JSON": b"<html>\n",
    "reset": ConnectionResetError(104, "Connection reset by peer"),
}


@pytest.mark.parametrize("end", BROKEN.values(), ids=BROKEN)
def test_a_broken_stream_costs_no_eviction_and_no_object(end: object, tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        await greedy(outpost)
        outpost.api.break_watches(end)
        outpost.pod("late", 1024, 20)
        await outpost.settle(60)
        assert outpost.evictions() == ["greedy"]
        assert outpost.agent is not None
        assert outpost.agent.plan is not None
        assert {view.pod.name for view in outpost.agent.plan.pods} == {"calm", "late"}

    play(tmp_path, story)


def test_nobody_is_evicted_by_a_view_that_has_been_silent(tmp_path: Path) -> None:
    """After 75 s without a byte a watch is dead, and what it told is as old as its last byte."""

    async def story(outpost: Outpost) -> None:
        load = outpost.pod("greedy", 1024, 1000)
        outpost.start()
        await outpost.settle(20)
        outpost.api.bookmarks = False
        outpost.api.fault = black_hole
        await outpost.settle(80 + 10)  # the streams have ended, and ten seconds more
        outpost.hold(load, OVER)
        await outpost.settle(200)
        assert outpost.evictions() == []
        assert outpost.agent is not None
        assert outpost.agent.plan is not None
        assert [held.code for held in outpost.agent.plan.held] == ["stale"]

    play(tmp_path, story)


# --- clocks --------------------------------------------------------------------------

YEAR = 365 * 86400.0


@pytest.mark.parametrize("jump", [YEAR, -YEAR, 3600.0], ids=["a year on", "a year back", "an hour of sleep"])
def test_no_jump_of_the_wall_clock_matures_a_breach(jump: float, tmp_path: Path) -> None:
    """The monotonic clock stands still while a machine sleeps; its connections are dead when it wakes."""

    async def story(outpost: Outpost) -> None:
        await greedy(outpost)
        await outpost.settle(5)
        outpost.wall_offset += jump
        if jump == 3600.0:
            outpost.api.break_watches(ConnectionResetError(104, "Connection reset by peer"))
        await outpost.settle(8)
        assert outpost.evictions() == []  # over for 13 of the 15 seconds
        await outpost.settle(30)
        assert outpost.evictions() == ["greedy"]

    play(tmp_path, story)


def test_a_wait_of_an_hour_between_two_samples_proves_nothing(tmp_path: Path) -> None:
    """Where the monotonic clock runs on, the gap between two samples is longer than a reading is good for."""

    async def story(outpost: Outpost) -> None:
        await greedy(outpost)
        await outpost.settle(5)
        loop = asyncio.get_running_loop()
        loop.now += 3600.0  # type: ignore[attr-defined]
        await outpost.settle(12)
        assert outpost.evictions() == []
        await outpost.settle(30)
        assert outpost.evictions() == ["greedy"]

    play(tmp_path, story)


# --- steady --------------------------------------------------------------------------


def test_an_hour_without_change_sends_nothing(tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        outpost.pod("calm", 1024, 1000)
        outpost.start()
        await outpost.settle(60)
        since = outpost.now
        await outpost.settle(3600)
        assert [call.method for call in outpost.api.calls if call.at > since and call.method != "GET"] == []
        capacity = outpost.api.node["status"]["capacity"]
        # 7802736 kB less 768 + 512 + 256 + 256 MiB
        assert capacity["edgeagent.dev/gpu-memory"] == f"{(7802736 * 1024) // MIB - 1792}Mi"

    play(tmp_path, story)


# --- restarts ------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0.0, 0.5, 5.0, 20.0])
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
def test_a_restart_after_an_eviction_neither_repeats_it_nor_forgets_to_wait(
    seconds: float,
    killed: bool,  # noqa: FBT001 (a table's column)
    tmp_path: Path,
) -> None:
    """The victim has its 30 s; the next one that is over is not evicted before its process is gone, and 10 s more."""

    async def story(outpost: Outpost) -> None:
        await greedy(outpost)
        while not outpost.api.accepted:
            await outpost.settle(0.1)
        begun = outpost.now
        victim = next(load for load in outpost.loads.values() if load.name == "greedy")
        outpost.hold(next(load for load in outpost.loads.values() if load.name == "calm"), OVER)
        await outpost.settle(seconds)
        await outpost.stop(killed=killed)
        outpost.start()
        while len(outpost.api.accepted) < 2:
            await outpost.settle(1.0)
            assert outpost.now < begun + 120
        names = outpost.evictions()
        assert names.count("greedy") == 1
        assert names == ["greedy", "calm"]
        # 0.9 x 30 s later the process is gone, then the board settles.
        assert victim.uid not in outpost.loads
        assert outpost.api.accepted[1][0] - begun >= 27 + 10 - 2.1

    play(tmp_path, story)

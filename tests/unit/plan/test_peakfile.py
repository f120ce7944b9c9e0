"""What the peaks are after a restart, a reboot, or with a file that is not as it should be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.facts import GPU_MEMORY
from edgeagent.plan import peakfile
from edgeagent.plan.keeping import Origin
from edgeagent.plan.peaks import MOST, WEEK_HOURS, Peaks
from edgeagent.plan.peaktime import DAY, HOUR
from tests.unit.plan.workloads import GIB, LLM, MAX_AGE, MIB, WALL, fold, host_peak, peak, plan, view, watched

BOOT = Origin("3b0c9a52-7d41-4e0f-8a6c-51f2d9e7b034", "/", "0d5f6c1e8b7a4f2e9c3d1a2b3c4d5e6f")
REBOOTED = BOOT._replace(boot_id="9f1c7b60-22aa-4d0e-9d43-6b8f0e5a7c11")
LIMITS = {GPU_MEMORY: 2 * GIB, "memory": 3 * GIB}


def lived() -> Peaks:
    """Ten minutes with 1 GiB of GPU and 500 MiB of host memory."""
    return watched(plan(view(gpu=GIB, host=500 * MIB, limits=LIMITS)), 600.0)


def written(peaks: Peaks) -> Any:
    """The document, as it comes back from a disk."""
    return json.loads(json.dumps(peakfile.kept(peaks, BOOT)))


def again(document: Any, origin: Origin = BOOT, now: float = 700.0) -> Peaks:
    """The peaks that a document leaves, which nothing is wrong with."""
    found, ignored = peakfile.restored(document, origin, now)
    assert ignored == ""
    return found


def test_a_restart_changes_nothing() -> None:
    assert again(written(lived())) == lived()


def test_how_large_the_pool_is_is_known_after_a_restart_and_not_from_an_older_version() -> None:
    document = written(lived())
    assert again(document).room == {GPU_MEMORY: 8 * GIB}
    del document["room"]
    assert (again(document).room, again(document).records) == ({}, lived().records)


def test_the_time_between_two_processes_of_a_boot_is_not_watched() -> None:
    peaks = fold(again(written(lived())), plan(view(gpu=MIB, host=MIB, limits=LIMITS)), 700.0)
    assert (peak(peaks), host_peak(peaks)) == (GIB, 500 * MIB)
    course = peaks.records[LLM].gpu[GPU_MEMORY]
    assert (course.watched, peaks.time.seconds) == (600.0, 700.0)


@pytest.mark.parametrize("boot_id", [REBOOTED.boot_id, None])
def test_a_reboot_keeps_them_for_the_rest_of_the_window(boot_id: str | None) -> None:
    peaks = again(written(lived()), BOOT._replace(boot_id=boot_id), now=5.0)
    small = plan(view(gpu=MIB, host=MIB))
    off = 2 * HOUR  # between the last sample, at 600 s, and the first of the new boot
    peaks = fold(peaks, small, 5.0, wall=WALL + 600.0 + off)
    assert (peak(peaks), host_peak(peaks)) == (GIB, 500 * MIB)
    assert fold(peaks, small, 5.0 + DAY - off - 600.0, wall=0.0).time.hour == 24
    assert peak(fold(peaks, small, 5.0 + DAY - off - 600.0, wall=0.0)) == GIB
    # 26 hours after the peak
    later = fold(peaks, small, 5.0 + DAY, wall=0.0)
    assert (peak(later), peak(later, hours=WEEK_HOURS)) == (MIB, GIB)


@pytest.mark.parametrize("wall", [0.0, WALL - 5 * DAY, WALL + 80 * 365 * DAY], ids=["1970", "back", "2107"])
def test_a_reboot_into_a_wrong_clock_keeps_the_week_and_does_not_keep_it_for_ever(wall: float) -> None:
    small = plan(view(gpu=MIB))
    peaks = fold(again(written(lived()), REBOOTED, now=5.0), small, 5.0, wall=wall)
    assert peak(peaks, hours=WEEK_HOURS) == GIB
    assert peak(fold(peaks, small, 5.0 + 6 * DAY - HOUR, wall=wall), hours=WEEK_HOURS) == GIB
    assert peak(fold(peaks, small, 5.0 + 8 * DAY, wall=wall), hours=WEEK_HOURS) == MIB


def changed(*path: Any, value: Any) -> Any:
    """The document with another value at one place."""
    document: Any = written(lived())
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return document


COURSE = ("workloads", 0, "gpu", GPU_MEMORY)
TORN: tuple[Any, ...] = (
    None,
    [],
    {},
    "text",
    changed("workloads", value=None),
    changed("workloads", 0, value={}),
    changed("workloads", 0, "of", value=["apps", "Deployment", "llm"]),
    changed("workloads", 0, "of", value=["apps", "Deployment", "llm", ""]),
    changed("workloads", 0, "of", value=["apps", "Deployment", "llm", "x" * 254]),
    changed("workloads", 0, "of", value=["apps", "Deployment", "llm", 7]),
    changed("workloads", value=written(lived())["workloads"] * 2),
    changed(*COURSE, "steps", value=[[0, -1]]),
    changed(*COURSE, "steps", value=[[0, 1 << 45]]),
    changed(*COURSE, "steps", value=[[0, 1.5]]),
    changed(*COURSE, "steps", value=[[0, True]]),
    changed(*COURSE, "steps", value=[[-1, 5]]),
    changed(*COURSE, "steps", value=[[1, 5]]),  # in an hour that has not come
    changed(*COURSE, "steps", value=[[0, 5], [0, 4]]),  # an hour twice
    changed(*COURSE, "at", value=601.0),
    changed(*COURSE, "watched", value=-1.0),
    changed("workloads", 0, "memory_limit", value="3Gi"),
    changed("workloads", 0, "gpu_budgets", value={GPU_MEMORY: None}),
    changed("workloads", 0, "seen_at", value=1e9),
    changed("seconds", value=float("nan")),
    changed("seconds", value="600"),
    changed("at", value=1000.0),  # later than now, in the same boot
    changed("known", value=[1.0]),
    changed("known", value=[WALL, 601.0]),
)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (changed("format", value=2), "another version"),
        (changed("host_root", value="/host"), "another host root"),
        (changed("machine_id", value="another"), "another machine"),
        (changed("machine_id", value=None), "another machine"),
        *((document, "not as this agent writes it") for document in TORN),
    ],
)
def test_a_document_that_is_not_as_it_must_be_is_ignored_whole(document: Any, why: str) -> None:
    found, ignored = peakfile.restored(document, BOOT, 700.0)
    assert found == Peaks()
    assert why in ignored


@pytest.mark.parametrize(("steps", "taken"), [([[0, 5], [1, 4]], True), ([[0, 4], [1, 5]], False)])
def test_a_later_peak_is_a_smaller_one(steps: list[list[int]], *, taken: bool) -> None:
    document = {**changed(*COURSE, "steps", value=steps), "seconds": 2 * HOUR}
    assert (peakfile.restored(document, BOOT, 700.0).ignored == "") is taken


def test_a_machine_without_an_id_takes_up_nothing() -> None:
    found, ignored = peakfile.restored(written(lived()), BOOT._replace(machine_id=None), 700.0)
    assert found == Peaks()
    assert "which machine this is" in ignored


def test_more_workloads_than_an_agent_keeps_are_not_its_own() -> None:
    (one,) = written(lived())["workloads"]
    many = [{**one, "of": ["apps", "Pod", f"pod-{number}", "main"]} for number in range(MOST + 1)]
    assert peakfile.restored(changed("workloads", value=many[:MOST]), BOOT, 700.0).ignored == ""
    assert peakfile.restored(changed("workloads", value=many), BOOT, 700.0).ignored != ""


def test_somebody_may_look_at_the_file_of_any_machine() -> None:
    found, ignored = peakfile.looked_at(written(lived()))
    assert ignored == ""
    assert peak(found) == GIB
    # A file of a machine without an id is no agent's to take up, and may be looked at all the same.
    unnamed = changed("machine_id", value=None)
    assert peakfile.looked_at(unnamed) == (found, "")
    assert "another version" in peakfile.looked_at(changed("format", value=2)).ignored
    documents: tuple[Any, ...] = (None, [], {"machine_id": "a"})
    for document in documents:
        assert "not as this agent writes it" in peakfile.looked_at(document).ignored


@given(
    st.lists(
        st.tuples(
            st.integers(1, 40 * 3600),
            st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 10 * GIB)), max_size=3),
        ),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from([BOOT, REBOOTED]),
)
def test_a_restart_at_any_moment_loses_no_peak(
    samples: list[tuple[int, list[tuple[str, int | None]]]], origin: Origin
) -> None:
    straight, broken, at = Peaks(), Peaks(), 0.0
    for number, (gap, held) in enumerate(samples):
        at += gap
        seen = plan(*(view(name, gpu, gpu, owner=None) for name, gpu in dict(held).items()))
        straight = fold(straight, seen, at)
        if number == len(samples) // 2:
            # A longer gap than a day counts whole only within a boot.
            broken = again(written(broken), origin if gap <= DAY else BOOT, at)
        broken = fold(broken, seen, at)
    assert {who: one.gpu for who, one in broken.records.items()} == {
        who: one.gpu for who, one in straight.records.items()
    }


# --- what is worth a write ----------------------------------------------------------------


def test_a_new_peak_is_news_and_an_hour_that_goes_on_is_not() -> None:
    before = lived()
    same = plan(view(gpu=GIB - 1, host=100 * MIB, limits=LIMITS))
    assert not peakfile.higher(before, before)
    assert not peakfile.higher(before, fold(before, same, 700.0))
    assert not peakfile.higher(before, fold(before, same, 2 * HOUR))
    for more in (
        view(gpu=GIB + 1, host=100 * MIB, limits=LIMITS),
        view(gpu=MIB, host=501 * MIB, limits=LIMITS),
        view(gpu=MIB, host=MIB, limits={**LIMITS, "memory": 4 * GIB}),
        view("other", MIB, owner=None),
    ):
        assert peakfile.higher(before, fold(before, plan(more), 600.0 + MAX_AGE))

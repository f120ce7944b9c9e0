"""What workloads held at most: what counts, what does not, and when it is forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY, ContainerFacts, ContainerKind
from edgeagent.memory.types import Budget
from edgeagent.plan import peaks as peaking
from edgeagent.plan.peaks import DAY_HOURS, MOST, WEEK_HOURS, Peaks, Record, Steps, Workload, stepped
from edgeagent.plan.peaktime import DAY, HOUR
from tests.unit.plan.workloads import (
    DISCRETE,
    EVERY,
    GIB,
    LLM,
    MAX_AGE,
    MIB,
    MIXED,
    WALL,
    fold,
    host_peak,
    peak,
    plan,
    view,
    watched,
)

# --- what counts ---------------------------------------------------------------------


def seen(*views: Any, pools: Any = None) -> Peaks:
    """The peaks after one sample."""
    return fold(Peaks(), plan(*views, **({"pools": pools} if pools else {})), 100.0)


def record(peaks: Peaks, who: Workload = LLM) -> Record:
    return peaks.records[who]


def test_the_largest_of_several_samples_is_the_peak() -> None:
    peaks = Peaks()
    for number, gpu in enumerate((100 * MIB, 300 * MIB, 200 * MIB)):
        peaks = fold(peaks, plan(view(gpu=gpu, host=gpu // 2)), number * EVERY)
    assert (peak(peaks), host_peak(peaks)) == (300 * MIB, 150 * MIB)


def test_unknown_is_not_counted_and_never_0() -> None:
    peaks = seen(view(gpu=None, host=None))
    assert (peak(peaks), host_peak(peaks)) == (None, None)
    peaks = fold(peaks, plan(view(gpu=100 * MIB, host=50 * MIB)), 102.0)
    peaks = fold(peaks, plan(view(gpu=None, host=None)), 104.0)
    assert (peak(peaks), host_peak(peaks)) == (100 * MIB, 50 * MIB)


def test_host_memory_of_which_only_an_upper_bound_is_known_is_not_counted() -> None:
    peaks = seen(view(gpu=100 * MIB, host=50 * MIB, exact=False))
    assert (peak(peaks), host_peak(peaks)) == (100 * MIB, None)


def test_no_gpu_memory_of_a_container_that_may_not_run_tells_nothing() -> None:
    # Without a cgroup: it has ended, or waits to be started again.
    assert peak(seen(view(containers={"main": (0, None)}))) is None
    assert peak(seen(view(containers={"main": (0, 5 * MIB)}, host=5 * MIB))) == 0
    assert peak(seen(view(gpu=7 * MIB, containers={"main": (7 * MIB, None)}))) == 7 * MIB


def test_a_sample_that_is_seen_twice_counts_once() -> None:
    once = watched(plan(view(gpu=MIB)), 20.0)
    assert fold(once, plan(view(gpu=9 * MIB)), 20.0) is once


def test_the_last_figures_of_a_pod_that_is_on_its_way_out_count() -> None:
    assert peak(seen(view(gpu=100 * MIB, terminating=True))) == 100 * MIB


def test_a_pod_without_a_budget_is_there_too() -> None:
    assert record(seen(view(gpu=MIB))).gpu_budgets == {}
    assert peak(seen(view(gpu=MIB))) == MIB


def test_of_two_pods_of_a_workload_the_larger_counts_container_by_container() -> None:
    one = view("llm-a", containers={"main": (300 * MIB, 10 * MIB), "proxy": (0, 40 * MIB)})
    two = view("llm-b", containers={"main": (200 * MIB, 20 * MIB), "proxy": (5 * MIB, 30 * MIB)})
    peaks = seen(one, two)
    proxy = LLM._replace(container="proxy")
    assert (peak(peaks), host_peak(peaks)) == (300 * MIB, 20 * MIB)
    assert (peak(peaks, proxy), host_peak(peaks, proxy)) == (5 * MIB, 40 * MIB)


def test_one_pod_of_two_being_unknown_hides_nothing_of_the_other() -> None:
    assert peak(seen(view("llm-a", None), view("llm-b", 200 * MIB))) == 200 * MIB


def test_two_pods_are_watched_for_as_long_as_one() -> None:
    peaks = watched(plan(view("llm-a", MIB), view("llm-b", MIB)), 60.0)
    assert record(peaks).gpu[GPU_MEMORY].watched == 60.0


def test_init_containers_and_debuggers_are_no_part_of_a_workload() -> None:
    every: tuple[ContainerKind, ...] = ("regular", "sidecar", "init", "ephemeral")
    kinds = tuple(ContainerFacts(name=kind, kind=kind) for kind in every)
    one = view(containers={one.name: (MIB, MIB) for one in kinds})
    peaks = seen(replace(one, pod=replace(one.pod, containers=kinds)))
    assert {who.container for who in peaks.records} == {"regular", "sidecar"}


# --- whose it is -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "name", "expected"),
    [
        (("ReplicaSet", "llm-7f9c"), "llm-7f9c-x", ("Deployment", "llm")),
        (("StatefulSet", "db"), "db-0", ("StatefulSet", "db")),
        (None, "bare", ("Pod", "bare")),
        # 2024-06-01T00:00Z is Unix time 1717200000, minute 28620000.
        (("Job", "nightly-28620000"), "nightly-28620000-x", ("CronJob", "nightly")),
        (("Job", "import-20240601"), "import-20240601-x", ("Job", "import-20240601")),
        (("Job", "once"), "once-x", ("Job", "once")),
    ],
)
def test_a_workload_is_who_re_creates_its_pods(
    owner: tuple[str, str] | None, name: str, expected: tuple[str, str]
) -> None:
    (who,) = seen(view(name, MIB, owner=owner)).records
    assert who == ("apps", *expected, "main")


def test_static_pods_which_the_node_owns_are_each_their_own() -> None:
    own: dict[str, Any] = {"owner": ("Node", "edge-1"), "mirror": True}
    peaks = seen(view("proxy-edge-1", MIB, **own), view("dns-edge-1", MIB, **own))
    assert [who.name for who in sorted(peaks.records)] == ["dns-edge-1", "proxy-edge-1"]


# --- which pool ------------------------------------------------------------------------


def by_pool(peaks: Peaks, container: str = "main") -> dict[str, int | None]:
    who = LLM._replace(container=container)
    return {resource: peak(peaks, who, resource) for resource in (GPU_MEMORY, IGPU_MEMORY)}


@pytest.mark.parametrize(
    ("pools", "containers", "main"),
    [
        # One container: the pod's figures are its own.
        ({GPU_MEMORY: 5, IGPU_MEMORY: 7}, {"main": (12, 1)}, {GPU_MEMORY: 5, IGPU_MEMORY: 7}),
        ({GPU_MEMORY: None, IGPU_MEMORY: 7}, {"main": (None, 1)}, {GPU_MEMORY: None, IGPU_MEMORY: 7}),
        # Of several, the pod holds memory of one pool alone.
        ({GPU_MEMORY: 0, IGPU_MEMORY: 7}, {"main": (4, 1), "b": (3, 1)}, {GPU_MEMORY: 0, IGPU_MEMORY: 4}),
        # Of both, and only one container holds any.
        ({GPU_MEMORY: 5, IGPU_MEMORY: 7}, {"main": (12, 1), "b": (0, 1)}, {GPU_MEMORY: 5, IGPU_MEMORY: 7}),
        ({GPU_MEMORY: 5, IGPU_MEMORY: 7}, {"main": (0, 1), "b": (12, 1)}, {GPU_MEMORY: 0, IGPU_MEMORY: 0}),
        # Which container holds what of which pool cannot be told.
        ({GPU_MEMORY: 5, IGPU_MEMORY: 7}, {"main": (8, 1), "b": (4, 1)}, {GPU_MEMORY: None, IGPU_MEMORY: None}),
        ({GPU_MEMORY: 5, IGPU_MEMORY: None}, {"main": (None, 1), "b": (4, 1)}, {GPU_MEMORY: None, IGPU_MEMORY: None}),
    ],
)
def test_on_a_board_with_two_pools_a_figure_is_never_put_to_the_wrong_one(
    pools: dict[str, int | None], containers: dict[str, tuple[int | None, int | None]], main: dict[str, int | None]
) -> None:
    assert by_pool(seen(view(by_pool=pools, containers=containers), pools=MIXED)) == main


def test_which_pools_share_the_hosts_memory_is_remembered() -> None:
    assert seen(view(), pools=MIXED).shared == (IGPU_MEMORY,)
    assert seen(view(), pools=DISCRETE).shared == ()
    before = seen(view())
    assert before.shared == (GPU_MEMORY,)
    # The pool's size could not be read: nothing is known to have changed.
    assert fold(before, plan(view(), pools=()), 102.0).shared == (GPU_MEMORY,)


# --- the budgets -----------------------------------------------------------------------


def budgets(*views: Any) -> tuple[dict[str, int], int | None]:
    one = record(seen(*views))
    return dict(one.gpu_budgets), one.memory_limit


def test_the_budget_is_the_containers_own_limit() -> None:
    limits = {GPU_MEMORY: GIB, "memory": 2 * GIB}
    assert budgets(view(limits=limits)) == ({GPU_MEMORY: GIB}, 2 * GIB)
    # The pod's overhead is no part of what its manifest says.
    pod = {GPU_MEMORY: Budget(gpu=GIB + 256 * MIB, source="limit")}
    assert budgets(view(limits=limits, budgets=pod)) == ({GPU_MEMORY: GIB}, 2 * GIB)
    # 2 bytes, for want of a suffix, are no budget.
    none = {GPU_MEMORY: Budget(gpu=None, source="none")}
    assert budgets(view(limits={GPU_MEMORY: 2}, budgets=none)) == ({}, None)


def test_a_budget_of_the_pod_is_that_of_its_only_container() -> None:
    annotated = {GPU_MEMORY: Budget(gpu=GIB, source="annotation")}
    assert budgets(view(budgets=annotated)) == ({GPU_MEMORY: GIB}, None)
    assert budgets(view(budgets=annotated, containers={"main": (1, 1), "b": (0, 1)})) == ({}, None)


def test_the_youngest_pod_has_the_manifest_that_counts() -> None:
    old = view("llm-z", limits={GPU_MEMORY: GIB}, created_at=100.0)
    new = view("llm-a", limits={GPU_MEMORY: 2 * GIB}, created_at=200.0)
    for pods in ((old, new), (new, old)):
        assert budgets(*pods) == ({GPU_MEMORY: 2 * GIB}, None)


# --- for how long it was watched ---------------------------------------------------------


def test_only_time_between_figures_is_watched() -> None:
    peaks = watched(plan(view(gpu=MIB, host=MIB)), 60.0)
    course = record(peaks).gpu[GPU_MEMORY]
    assert (course.watched, record(peaks).host.watched) == (60.0, 60.0)
    # Host memory alone is known for 20 s, then nothing is read for longer than a reading may be old.
    peaks = watched(plan(view(gpu=None, host=MIB)), 20.0, peaks)
    assert (record(peaks).gpu[GPU_MEMORY].watched, record(peaks).host.watched) == (60.0, 80.0)
    peaks = fold(peaks, plan(view(gpu=MIB, host=MIB)), 80.0 + MAX_AGE + 0.5)
    assert (record(peaks).gpu[GPU_MEMORY].watched, record(peaks).host.watched) == (60.0, 80.0)


@pytest.mark.parametrize(
    "limits",
    [{GPU_MEMORY: 2 * GIB, "memory": 3 * GIB}, {GPU_MEMORY: 4 * GIB, "memory": 6 * GIB}, {GPU_MEMORY: 4 * GIB}, {}],
    ids=["budget", "memory", "no memory", "neither"],
)
def test_under_another_manifest_watching_begins_anew_and_the_peaks_stay(limits: dict[str, int]) -> None:
    before = {GPU_MEMORY: 4 * GIB, "memory": 3 * GIB}
    peaks = watched(plan(view(gpu=GIB, host=MIB, limits=before)), 60.0)
    peaks = watched(plan(view(gpu=GIB, host=MIB, limits=before)), 20.0, peaks)
    assert (record(peaks).gpu[GPU_MEMORY].watched, record(peaks).host.watched) == (80.0, 80.0)

    # The new pod has not been read yet; it is for 30 s after that.
    peaks = fold(peaks, plan(view("llm-b", None, None, limits=limits)), 85.0)
    assert (record(peaks).gpu[GPU_MEMORY].watched, record(peaks).host.watched) == (0.0, 0.0)
    peaks = fold(peaks, plan(view("llm-b", MIB, MIB, limits=limits)), 200.0)
    peaks = watched(plan(view("llm-b", MIB, MIB, limits=limits)), 30.0, peaks)
    assert (record(peaks).gpu[GPU_MEMORY].watched, record(peaks).host.watched) == (30.0, 30.0)
    assert (peak(peaks), host_peak(peaks)) == (GIB, MIB)


def test_pools_that_are_not_known_for_the_moment_are_no_other_manifest() -> None:
    limits = {GPU_MEMORY: 4 * GIB}
    one = view(gpu=MIB, host=MIB, limits=limits)
    peaks = watched(plan(one), 60.0)
    peaks = fold(peaks, plan(replace(one, budgets={}), pools=()), 62.0)
    assert record(peaks).gpu_budgets == limits
    assert record(fold(peaks, plan(one), 64.0)).gpu[GPU_MEMORY].watched == 64.0


# --- when it is forgotten ----------------------------------------------------------------


def folded(values: list[tuple[float, int]]) -> tuple[Peaks, float]:
    """The peaks after samples at (seconds after the one before, bytes), and the second of the last."""
    peaks, at = Peaks(), 0.0
    for gap, amount in values:
        at += gap
        peaks = fold(peaks, plan(view(gpu=amount)), at)
    return peaks, at


GAPS = st.one_of(st.floats(1.0, 2 * HOUR), st.floats(HOUR, 2 * DAY))
SAMPLES = st.lists(st.tuples(GAPS, st.integers(1, 50)), min_size=1, max_size=60)


@given(SAMPLES)
def test_a_peak_is_that_of_the_window_and_of_one_bucket_before_it_at_most(values: list[tuple[float, int]]) -> None:
    peaks, now = folded(values)
    told, at = [], 0.0
    for gap, amount in values:
        at += gap
        told.append((now - at, amount))
    for hours, window, most in ((DAY_HOURS, DAY, DAY + HOUR), (WEEK_HOURS, 7 * DAY, 8 * DAY)):
        found = peak(peaks, hours=hours)
        assert found is not None
        # Ages are sums of floats; a millisecond is nothing to an hour.
        assert found >= max(amount for age, amount in told if age <= window - 0.001)
        assert found <= max(amount for age, amount in told if age < most + 0.001)


@given(SAMPLES, st.integers(1, 20))
def test_what_is_stored_is_bounded(values: list[tuple[float, int]], times: int) -> None:
    peaks, _ = folded(values * times if len(values) * times < 300 else values)
    # 25 hours, and a value for each day that the six days before them touch.
    assert len(record(peaks).gpu[GPU_MEMORY].steps) <= 25 + 7


def test_a_peak_that_falls_hour_by_hour_is_what_takes_most_room() -> None:
    steps: Steps = ()
    for hour in range(1000):
        steps = stepped(steps, hour, 10_000 - hour)
        assert len(steps) <= 25 + 7
    # The window is the last of it: 24 hours before hour 999 the figure was 10,000 − 975.
    assert next(amount for hour, amount in steps if hour >= 999 - DAY_HOURS) == 10_000 - 975


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6).flatmap(
        lambda one: st.tuples(st.just(one), st.permutations(one))
    )
)
def test_within_an_hour_the_order_of_samples_does_not_matter(orders: tuple[list[int], list[int]]) -> None:
    before: Steps = ((90, 8), (95, 5), (99, 3))
    found = []
    for order in orders:
        steps = before
        for amount in order:
            steps = stepped(steps, 100, amount)
        found.append(steps)
    assert found[0] == found[1]


def test_of_the_peaks_of_an_earlier_day_none_is_forgotten_before_its_week_is_over() -> None:
    steps: Steps = ()
    for hour, amount in ((5, 100), (20, 90), (60, 1), (180, 1)):
        steps = stepped(steps, hour, amount)
    # Hour 20 is 160 hours ago, and hour 5, with which it shares a day, 175.
    assert next(amount for hour, amount in steps if hour >= 180 - WEEK_HOURS) >= 90
    # At hour 189 neither is left.
    assert next(amount for hour, amount in stepped(steps, 189, 1) if hour >= 189 - WEEK_HOURS) == 1


def test_a_pool_that_is_out_of_sight_keeps_its_peak() -> None:
    peaks = fold(seen(view(gpu=GIB)), plan(view(by_pool={}, budgets={}), pools=()), 102.0)
    assert peak(peaks) == GIB


def test_a_workload_that_is_gone_for_longer_than_a_week_leaves_nothing() -> None:
    peaks = seen(view(gpu=MIB))
    other = plan(view("other", MIB, owner=("StatefulSet", "other")))
    assert LLM in fold(peaks, other, 100.0 + 7 * DAY).records
    assert LLM not in fold(peaks, other, 100.0 + 8 * DAY + HOUR).records


def test_a_workload_that_comes_back_after_a_week_is_watched_anew() -> None:
    peaks = watched(plan(view(gpu=100 * MIB)), 60.0)
    peaks = fold(peaks, plan(view(gpu=None, host=MIB)), 4 * DAY)
    peaks = fold(peaks, plan(view(gpu=50 * MIB)), 9 * DAY)
    assert (peak(peaks, hours=WEEK_HOURS), record(peaks).gpu[GPU_MEMORY].watched) == (50 * MIB, 0.0)


def test_no_more_containers_are_remembered_than_fit_and_those_seen_last_stay() -> None:
    old = [view(f"old-{number}", MIB, owner=None) for number in range(MOST - 10)]
    new = [view(f"new-{number}", MIB, owner=None) for number in range(20)]
    peaks = fold(seen(*old), plan(*new), 102.0)
    assert len(peaks.records) == MOST
    assert sum(who.name.startswith("new") for who in peaks.records) == 20


def test_of_more_pods_than_fit_those_with_gpu_memory_stay() -> None:
    many = [view(f"a-{number}", 0, owner=None) for number in range(MOST)]
    all_ = plan(*many, *(view(f"z-{number}", MIB, owner=None) for number in range(5)))
    peaks = fold(Peaks(), all_, 100.0)
    assert len(peaks.records) == MOST
    assert sum(who.name.startswith("z") for who in peaks.records) == 5
    # And it is the same ones in each sample, or none of them would ever be watched for long.
    assert fold(peaks, all_, 102.0).records.keys() == peaks.records.keys()


def test_the_containers_that_use_the_gpu_can_be_told_apart() -> None:
    user = view("user", MIB, owner=None)
    idle = view("idle", 0, owner=None, limits={GPU_MEMORY: GIB})
    none = view("none", 0, owner=None)
    held = peaking.holding(seen(user, idle, none))
    assert [who.name for who in sorted(held.records)] == ["idle", "user"]


# --- clocks ------------------------------------------------------------------------------


@pytest.mark.parametrize("wall", [0.0, WALL, WALL + 80 * 365 * DAY], ids=["1970", "right", "2107"])
def test_a_clock_that_jumps_while_the_agent_runs_changes_nothing(wall: float) -> None:
    peaks = watched(plan(view(gpu=GIB)), 60.0)
    peaks = fold(peaks, plan(view(gpu=MIB)), 70.0, wall=wall)
    peaks = fold(peaks, plan(view(gpu=MIB)), 80.0, wall=WALL)
    assert peak(peaks) == GIB
    assert peaks.time.seconds == 80.0

"""Quantiles of histograms, held against the formula of PromQL and its own examples."""

from __future__ import annotations

import math
from bisect import bisect_left
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.facts.neighbours import Latency
from edgeagent.watch.histogram import Series, latency, quantile, since

HALVES = {0.1: 10.0, 0.2: 30.0, 0.5: 60.0, 1.0: 90.0, inf: 100.0}


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        # rank = share × 100; within a bucket: low + (high − low) × (rank − below) / (count in the bucket)
        (0.05, 0.05),  # 0 + 0.1 × 5 / 10
        (0.1, 0.1),  # 0 + 0.1 × 10 / 10
        (0.2, 0.15),  # 0.1 + 0.1 × 10 / 20
        (0.5, 0.4),  # 0.2 + 0.3 × 20 / 30
        (0.9, 1.0),  # 0.5 + 0.5 × 30 / 30
        (0.99, 1.0),  # beyond the last finite bound: that bound
    ],
)
def test_a_quantile_lies_evenly_within_its_bucket(share: float, expected: float) -> None:
    assert quantile(share, HALVES) == pytest.approx(expected)


@pytest.mark.parametrize(
    "buckets",
    [
        {},
        {inf: 5.0},  # no bound at all
        {0.1: 1.0, 0.5: 2.0},  # the bucket of all is missing
        {0.1: 0.0, inf: 0.0},  # nobody was observed
    ],
)
def test_there_is_no_quantile_of_nothing(buckets: dict[float, float]) -> None:
    assert quantile(0.5, buckets) is None


def test_a_first_bound_below_zero_is_the_answer_itself() -> None:
    # PromQL: "if the highest bound of the lowest bucket is not above zero, it is returned"
    assert quantile(0.5, {-1.0: 8.0, 1.0: 10.0, inf: 10.0}) == -1.0
    assert quantile(0.9, {-1.0: 8.0, 1.0: 10.0, inf: 10.0}) == 0.0  # -1 + 2 × (9 − 8) / 2


def test_counts_that_fall_from_bound_to_bound_are_lifted() -> None:
    # 20, 10, 30 cannot be cumulative: read as 20, 20, 30. rank 15: 0 + 1 × 15 / 20
    assert quantile(0.5, {1.0: 20.0, 2.0: 10.0, inf: 30.0}) == 0.75


def promql(share: float, buckets: list[tuple[float, float]]) -> float:
    """``bucketQuantile`` of prometheus/promql/quantile.go, line for line as its comment tells it."""
    rank = share * buckets[-1][1]
    place = bisect_left([count for _, count in buckets[:-1]], rank)
    if place == len(buckets) - 1:
        return buckets[-2][0]
    if place == 0 and buckets[0][0] <= 0:
        return buckets[0][0]
    start, end, count = 0.0, buckets[place][0], buckets[place][1]
    if place > 0:
        start, below = buckets[place - 1]
        count, rank = count - below, rank - below
    return start + (end - start) * (rank / count)


@given(
    bounds=st.lists(st.floats(-5, 100, allow_nan=False), min_size=1, max_size=12, unique=True),
    counts=st.lists(st.integers(0, 50), min_size=13, max_size=13),
    share=st.sampled_from([0.01, 0.5, 0.9, 0.99]),
)
def test_it_is_promql_s(bounds: list[float], counts: list[int], share: float) -> None:
    total, cumulative = 0.0, []
    for bound, count in zip([*sorted(bounds), inf], counts, strict=False):
        total += count
        cumulative.append((bound, total))
    if total == 0:
        assert quantile(share, dict(cumulative)) is None
    else:
        found = quantile(share, dict(cumulative))
        assert found is not None
        assert math.isclose(found, promql(share, cumulative), rel_tol=1e-9, abs_tol=1e-9)


GET: Series = (("method", "GET"),)
PUT: Series = (("method", "PUT"),)


def test_label_sets_are_summed() -> None:
    before = {GET: {0.1: 5.0, inf: 9.0}, PUT: {0.1: 1.0, inf: 1.0}}
    now = {GET: {0.1: 6.0, inf: 12.0}, PUT: {0.1: 4.0, inf: 5.0}}
    assert since(before, now) == {0.1: 4.0, inf: 7.0}  # (6 − 5) + (4 − 1); (12 − 9) + (5 − 1)


def test_a_label_set_that_is_new_has_counted_since_the_last_scrape() -> None:
    assert since({GET: {inf: 9.0}}, {GET: {inf: 9.0}, PUT: {inf: 2.0}}) == {inf: 2.0}
    assert since({}, {GET: {inf: 3.0}}) == {inf: 3.0}


def test_after_a_restart_there_is_nothing_to_compare() -> None:
    assert since({GET: {0.1: 5.0, inf: 9.0}}, {GET: {0.1: 1.0, inf: 9.0}}) is None
    assert since({GET: {inf: 9.0}, PUT: {inf: 1.0}}, {GET: {inf: 9.0}}) is None
    assert latency("x_seconds", {GET: {0.1: 5.0, inf: 9.0}}, {GET: {0.1: 1.0, inf: 2.0}}, 15.0) is None


def test_the_latency_of_the_time_between_two_scrapes() -> None:
    before, now = {GET: {0.1: 100.0, 0.2: 100.0, inf: 100.0}}, {GET: {0.1: 110.0, 0.2: 130.0, inf: 130.0}}
    # 30 requests in 15 s; rank 15: 0.1 + 0.1 × (15 − 10) / 20; rank 29.7: 0.1 + 0.1 × 19.7 / 20
    found = latency("x_seconds", before, now, 15.0)
    assert found is not None
    assert (found.requests_per_second, found.requests) == (2.0, 30.0)
    assert found.p50_seconds == pytest.approx(0.125)
    assert found.p99_seconds == pytest.approx(0.1985)


def test_without_a_request_there_is_a_rate_of_zero_and_no_latency() -> None:
    same = {GET: {0.1: 5.0, inf: 9.0}}
    assert latency("x_seconds", same, same, 15.0) == Latency(requests_per_second=0.0)


def test_a_unit_in_the_name_is_turned_into_seconds() -> None:
    before, now = {GET: {100.0: 0.0, inf: 0.0}}, {GET: {100.0: 10.0, inf: 10.0}}
    for metric, expected in (
        ("x_milliseconds", 0.05),
        ("x_ms", 0.05),
        ("x_microseconds", 5e-5),
        ("x_us", 5e-5),
        ("x", 50.0),
    ):
        found = latency(metric, before, now, 10.0)
        assert found is not None
        assert found.p50_seconds == pytest.approx(expected)  # 0 + 100 × 5 / 10, in the unit

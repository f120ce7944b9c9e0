"""The metrics as Prometheus would read them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from edgeagent.facts import GPU_MEMORY
from edgeagent.serve import metrics
from edgeagent.serve.histogram import Histogram
from edgeagent.serve.metrics.exposition import render
from edgeagent.serve.metrics.families import gauge
from edgeagent.serve.metrics.page import families
from edgeagent.serve.shown import Counters, LoopHealth

from .states import BOARD, DISCRETE, MIB, NOW, PLAN, WALL, cluster, reading, shown

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(now: float = NOW, **changes: Any) -> Series:
    text = metrics.text(shown(**changes), now, WALL + (now - NOW)).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, "two series with the same labels"
            found[key] = sample.value
    return found


def value(series: Series, metric: str, /, **labels: str) -> float:
    return series[f"edgeagent_{metric}", tuple(sorted(labels.items()))]


def names(series: Series) -> set[str]:
    return {name.removeprefix("edgeagent_") for name, _ in series}


def pod(name: str, **more: str) -> dict[str, str]:
    return {"namespace": "apps", "pod": name, "pod_uid": f"uid-{name}", **more}


def test_a_pool_and_its_reserves() -> None:
    series = scrape()

    pool = {"pool": GPU_MEMORY}
    assert value(series, "pool_total_bytes", **pool) == 7607 * MIB
    assert value(series, "pool_advertised_bytes", **pool) == 5303 * MIB
    assert value(series, "pool_host_committed_bytes", **pool) == 1024 * MIB
    assert value(series, "pool_gpu_committed_bytes", **pool) == 2048 * MIB
    assert value(series, "pool_gpu_used_bytes", **pool) == 3000 * MIB
    # 1024 + 2048 booked, 7607 − 768 − 512 to give
    assert value(series, "pool_overcommitted", **pool) == 0
    assert value(series, "reserve_bytes", **pool, name="os") == 768 * MIB
    assert value(series, "reserve_bytes", **pool, name="k3s") == 512 * MIB


def test_pods() -> None:
    series = scrape()

    assert value(series, "pod_gpu_bytes", **pod("llm", pool=GPU_MEMORY)) == 2900 * MIB
    assert value(series, "pod_host_bytes", **pod("llm")) == 500 * MIB
    assert value(series, "pod_gpu_budget_bytes", **pod("llm", pool=GPU_MEMORY)) == 2048 * MIB
    assert value(series, "pod_total_budget_bytes", **pod("llm", pool=GPU_MEMORY)) == 3072 * MIB
    assert value(series, "pod_state", **pod("llm", state="breach")) == 1
    assert [value(series, "pods", state=state) for state in ("ok", "breach", "unknown")] == [1, 1, 1]


def test_zero_is_told_and_unknown_is_absent() -> None:
    series = scrape()

    assert value(series, "pod_gpu_bytes", **pod("idle", pool=GPU_MEMORY)) == 0
    told = {(name, dict(labels).get("pod")) for name, labels in series}
    assert ("edgeagent_pod_gpu_bytes", "odd") not in told
    assert ("edgeagent_pod_host_bytes", "odd") not in told
    assert ("edgeagent_pod_gpu_budget_bytes", "odd") in told
    assert ("edgeagent_pod_gpu_budget_bytes", "idle") not in told
    assert "unattributed_gpu_bytes" not in names(series)
    assert value(series, "system_gpu_bytes") == 64 * MIB


# What each feed of a stale reading takes away; every other series stays.
GONE = {
    "nvmap": {
        "pod_gpu_bytes", "pool_gpu_used_bytes", "system_gpu_bytes", "leaving_bytes", "pod_state", "pods", "held_pods",
    },
    "cgroups": {"pod_host_bytes", "leaving_bytes", "pod_state", "pods", "held_pods"},
    "meminfo": {
        "host_available_bytes", "host_usable_bytes", "host_pressure", "host_pressure_floor_bytes", "pool_total_bytes",
        "reserve_bytes", "pool_overcommitted",
    },
    "nvml": {"device_info", "device_health"},
}  # fmt: skip


@pytest.mark.parametrize("name", GONE)
def test_series_of_a_stale_reading_disappear(name: str) -> None:
    before = scrape()
    after = scrape(readings=reading(name, succeeded_at=NOW - 11))

    assert names(before) - names(after) == GONE[name]
    assert value(before, "reading_stale", reading=name) == 0
    assert value(after, "reading_stale", reading=name) == 1
    assert value(after, "ready") == 0


def test_everything_of_the_plan_disappears_with_an_old_sample() -> None:
    series = scrape(NOW + 36)  # what is watched beside it is told for 35 s

    assert not {name for name in names(series) if name.startswith(("pool_", "pod", "host_", "board_", "reserve_"))}
    assert value(series, "sample_timestamp_seconds") == WALL
    assert value(series, "cycles_total") == 7


def test_times_are_unix_seconds_of_the_last_success() -> None:
    # Ten seconds later: nothing was read again, so no time may have moved.
    series = scrape(NOW + 10)

    assert value(series, "reading_last_success_timestamp_seconds", reading="nvmap") == WALL - 1
    assert value(series, "loop_last_turn_timestamp_seconds", loop="watch") == WALL - 20
    assert value(series, "api_last_success_timestamp_seconds") == WALL - 3
    assert value(series, "view_timestamp_seconds") == WALL


def test_what_never_happened_has_no_time() -> None:
    never = cluster(complete=False, fresh_at=float("-inf"), succeeded_at=None, published=False)

    series = scrape(cluster=never, readings=reading("nvmap", succeeded_at=None))

    assert "view_timestamp_seconds" not in names(series)
    assert "api_last_success_timestamp_seconds" not in names(series)
    assert value(series, "published") == 0
    assert ("edgeagent_reading_last_success_timestamp_seconds", (("reading", "nvmap"),)) not in series


def test_counters_and_the_agents_own_cost() -> None:
    series = scrape()

    assert value(series, "evictions_total", breach="gpu", outcome="accepted") == 2
    assert value(series, "api_calls_total", verb="PATCH", code="200") == 1
    assert value(series, "config_info", digest="abc123") == 1
    assert value(series, "config_last_reload_successful") == 1
    assert series["process_resident_memory_bytes", ()] == 40 * MIB
    assert series["process_cpu_seconds_total", ()] == 1.5
    assert series["process_start_time_seconds", ()] == WALL - 100


def test_label_values_are_escaped() -> None:
    (labels,) = [dict(labels) for name, labels in scrape() if name == "edgeagent_board_info"]

    assert labels["product"] == 'Orin "Nano"\\devkit'
    assert labels["module"] == ""


def test_devices() -> None:
    series = scrape(plan=DISCRETE)

    assert value(series, "device_total_bytes", device="GPU-1") == 23034 * MIB
    # what NVML says the driver keeps
    assert value(series, "device_usable_bytes", device="GPU-1") == (23034 - 500) * MIB
    assert value(series, "device_health", device="#1", health="lost") == 1
    assert ("edgeagent_device_total_bytes", (("device", "#1"),)) not in series


def test_two_devices_without_a_name_of_their_own_stay_two() -> None:
    lone = BOARD.devices[0]

    series = scrape(plan=replace(PLAN, board=replace(BOARD, devices=(lone, lone))))

    assert value(series, "device_info", device="#0", name="tegra234", memory="unified") == 1
    assert value(series, "device_info", device="#1", name="tegra234", memory="unified") == 1


def test_before_the_first_cycle_only_the_agent_itself_is_told() -> None:
    text = metrics.text(None, NOW, WALL).decode()

    told = {family.name for family in text_string_to_metric_families(text)}
    assert told == {
        "edgeagent_build_info",
        "edgeagent_ready",
        "edgeagent_unready_reason",
        "edgeagent_streams",
    }


def test_each_reason_of_readyz_is_a_series() -> None:
    well = scrape()
    hung = scrape(readings=reading("nvml", waiting_since=NOW - 120), cluster=cluster(published=False))

    assert "unready_reason" not in names(well)
    assert {dict(labels)["reason"] for name, labels in hung if name == "edgeagent_unready_reason"} == {
        "nvml-stalled",
        "not-published",
    }


def test_what_never_happened_is_counted_as_0_so_that_the_first_time_is_an_increase() -> None:
    series = scrape()

    # four breaches, nine outcomes; seven ends of a kill
    assert sum(name == "edgeagent_evictions_total" for name, _ in series) == 36
    assert sum(name == "edgeagent_kills_total" for name, _ in series) == 7
    assert value(series, "evictions_total", breach="shared", outcome="accepted") == 0
    assert value(series, "kills_total", outcome="killed") == 3
    assert value(series, "kills_total", outcome="refused") == 0


def test_pods_of_no_state_are_0_only_while_pods_are_known() -> None:
    assert value(scrape(), "pods", state="terminating") == 0
    assert "pods" not in names(scrape(plan=replace(PLAN, pods=(), listed=False)))


def test_cycles_are_counted_by_how_long_they_took_and_how_late_they_began() -> None:
    took, late = Histogram((0.5, 1.0)), Histogram((0.5, 1.0))
    for seconds in (0.25, 0.5, 0.75, 4.0):
        took.observe(seconds)
    late.observe(0.0)

    series = scrape(counters=Counters(cycle_seconds=took.taken(), late_seconds=late.taken()))

    # An upper end belongs to its bucket, and each bucket holds those before it.
    taken = [value(series, "cycle_duration_seconds_bucket", le=le) for le in ("0.5", "1.0", "+Inf")]
    assert taken == [2, 3, 4]
    assert value(series, "cycle_duration_seconds_sum") == 5.5
    assert value(series, "cycle_duration_seconds_count") == 4
    assert value(series, "cycle_lag_seconds_bucket", le="0.5") == value(series, "cycle_lag_seconds_count") == 1


def test_what_has_ended_has_no_time() -> None:
    series = scrape(loops={"reconcile": LoopHealth(beat_at=float("-inf"), allowed=30)})

    assert "loop_last_turn_timestamp_seconds" not in names(series)


def test_the_text_reads_back_as_what_was_told() -> None:
    told = [
        (series.name, dict(zip(series.labels, labels, strict=True)), value)
        for family in families(shown(), NOW, WALL)
        for series in family.series
        for labels, value in series.rows
    ]
    text = metrics.text(shown(), NOW, WALL).decode()
    read = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    # `product` has quotes and backslashes.
    assert [(sample.name, sample.labels, sample.value) for sample in read] == told
    assert {(family.name, family.type) for family in text_string_to_metric_families(text)} >= {
        ("edgeagent_evictions", "counter"),
        ("edgeagent_cycle_duration_seconds", "histogram"),
        ("edgeagent_ready", "gauge"),
        ("process_cpu_seconds", "counter"),
    }


@pytest.mark.parametrize(
    ("number", "printed"),
    [
        (0, "0.0"),
        (-3, "-3.0"),
        (True, "1.0"),
        (0.1, "0.1"),
        (1.5, "1.5"),
        (2**53 - 1, "9.007199254740991e+15"),  # 8 PiB: as many bytes are exact
        (1e300, "1e+300"),
    ],
)
def test_numbers_are_printed_without_loss(number: float, printed: str) -> None:
    text = render([gauge("n", "A number.", [((), number)])]).decode()

    assert text.splitlines()[-1] == f"edgeagent_n {printed}"


def test_line_breaks_in_labels_stay_in_their_line() -> None:
    text = render([gauge("n", "A number.", [(('a"b\\c\nd',), 1)], "l")]).decode()

    assert text.splitlines()[-1] == r'edgeagent_n{l="a\"b\\c\nd"} 1.0'

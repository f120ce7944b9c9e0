"""What is recommended, with the arithmetic, and the reasons that are given for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY
from edgeagent.memory.requests import host_part
from edgeagent.memory.types import Budget, Pool
from edgeagent.plan import advice as advising
from edgeagent.plan.peaks import Peaks
from edgeagent.plan.peaktime import DAY, HOUR
from tests.unit.plan.workloads import (
    DISCRETE,
    GIB,
    LLM,
    MIB,
    MIXED,
    advised,
    fold,
    plan,
    pool,
    view,
)

ROOM = {GPU_MEMORY: 8 * GIB, "memory": 16 * GIB}
"""Far more than anything in here needs: 8 GiB of GPU and 8 GiB of host memory."""


# --- the figures -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peak", "expected"),
    [
        # 10 % of 1740 MiB is 174: 1914 MiB, up to the next 64 is 1920.
        (1740 * MIB, 1920),
        # 10 % of 100 MiB is 10, the margin at least 64: 164, up to 192.
        (100 * MIB, 192),
        # 640 + 64 = 704 is a whole number of 64 MiB already, and a byte more is not.
        (640 * MIB, 704),
        (640 * MIB + 1, 768),
        (1, 128),
    ],
)
def test_gpu_memory_is_the_peak_and_a_tenth_in_whole_64_mib(peak: int, expected: int) -> None:
    one = advised(plan(view(gpu=peak, host=0)))
    assert one.gpu.recommended == expected * MIB
    assert one.write[GPU_MEMORY] == f"{expected}Mi"


@pytest.mark.parametrize(
    ("peak", "expected"),
    [
        # 10 % of 505 MiB is 50.5: 555.5 MiB, up to the next 32 is 576.
        (505 * MIB, 576),
        # 8 MiB and the margin of at least 32 are 40, up to 64.
        (8 * MIB, 64),
        (0, 32),
    ],
)
def test_host_memory_is_the_peak_and_a_tenth_in_whole_32_mib(peak: int, expected: int) -> None:
    one = advised(plan(view(gpu=0, host=peak)))
    assert one.host.recommended == expected * MIB
    assert one.write == {"memory": f"{expected}Mi"}


def test_on_a_board_with_one_memory_the_figure_is_for_both() -> None:
    one = advised(plan(view(gpu=1740 * MIB, host=505 * MIB)))
    # 1920 of GPU and 576 of host memory, as above.
    assert one.write == {GPU_MEMORY: "1920Mi", "memory": "2496Mi"}
    assert "`memory` is both: 1.88 GiB + 576 MiB." in one.why


def test_a_figure_for_both_is_large_enough_to_be_read_as_one() -> None:
    one = advised(plan(view(gpu=1740 * MIB, host=8 * MIB)))
    # 64 MiB of host memory would do; 1920 + 64 is less than 1920 + 256, and would be taken for host memory alone.
    assert (one.host.recommended, one.write["memory"]) == (256 * MIB, "2176Mi")
    assert "It is at least 256 MiB more than the GPU memory" in one.why


def test_on_cards_the_two_are_apart() -> None:
    one = advised(plan(view(gpu=1740 * MIB, host=8 * MIB), pools=DISCRETE))
    assert one.write == {GPU_MEMORY: "1920Mi", "memory": "64Mi"}
    assert "both" not in one.why


def test_on_a_board_with_both_only_the_integrated_ones_memory_is_the_hosts() -> None:
    for resource, memory in ((GPU_MEMORY, "576Mi"), (IGPU_MEMORY, "2496Mi")):
        held = {GPU_MEMORY: 0, IGPU_MEMORY: 0, resource: 1740 * MIB}
        one = advised(plan(view(by_pool=held, gpu=1740 * MIB, host=505 * MIB), pools=MIXED))
        assert one.write == {resource: "1920Mi", "memory": memory}
        assert one.gpu.peak_week == 1740 * MIB
        assert list(one.pools) == [resource]


def test_a_container_with_memory_of_two_pools_has_no_single_figure() -> None:
    held: dict[str, int | None] = {GPU_MEMORY: 640 * MIB, IGPU_MEMORY: 100 * MIB}
    one = advised(plan(view(by_pool=held, gpu=740 * MIB, host=505 * MIB), pools=MIXED))
    # 192 of the integrated GPU's and 576 of host memory.
    assert one.write == {GPU_MEMORY: "704Mi", IGPU_MEMORY: "192Mi", "memory": "768Mi"}
    assert (one.gpu.peak_week, one.gpu.recommended) == (None, None)


def test_of_the_two_windows_the_week_is_what_counts() -> None:
    before = fold(Peaks(), plan(view(gpu=GIB, host=0)), 1000.0 - 3 * DAY)
    one = advised(plan(view(gpu=100 * MIB, host=0)), before=before)
    assert (one.gpu.peak_day, one.gpu.peak_week) == (100 * MIB, GIB)
    # 1024 + 102.4, up to 1152
    assert one.gpu.recommended == 1152 * MIB


# --- beside a budget ----------------------------------------------------------------------


def of_gpu(peak: int, budget: int | None, seconds: float = 25 * HOUR, breach: str | None = None) -> tuple[int, str]:
    """MiB recommended, and why, of GPU memory on a card, with a budget in MiB."""
    limits = {} if budget is None else {GPU_MEMORY: budget * MIB}
    one = advised(plan(view(gpu=peak * MIB, limits=limits, breach=breach), pools=DISCRETE), seconds)
    assert one.gpu.budget == (None if budget is None else budget * MIB)
    return (one.gpu.recommended or 0) // MIB, one.why


def test_a_budget_below_peak_and_margin_is_raised_however_short_the_look() -> None:
    assert of_gpu(1740, 1750, seconds=0.0)[0] == 1920
    assert of_gpu(1740, 1024, seconds=0.0)[0] == 1920


def test_a_budget_is_lowered_only_after_a_day() -> None:
    at_once, why = of_gpu(1740, 4096, seconds=DAY - 1)
    assert (at_once, "before a day" in why) == (4096, True)
    later, why = of_gpu(1740, 4096, seconds=DAY)
    assert (later, "more than it needs" in why) == (1920, True)


def test_a_budget_with_a_little_room_stays() -> None:
    # 2560 − 1920 is a quarter of 2560; 2561 − 1920 is more than a quarter.
    assert of_gpu(1740, 1920)[0] == 1920
    assert of_gpu(1740, 2560)[0] == 2560
    assert of_gpu(1740, 2561)[0] == 1920


def test_nothing_is_recommended_below_the_budget_of_what_is_over_it() -> None:
    kept, why = of_gpu(1740, 8192, breach="shared")
    assert (kept, "over its budget now" in why) == (8192, True)
    assert of_gpu(8200, 8192, breach="gpu")[0] >= 8192


def test_a_budget_of_0_is_a_budget() -> None:
    assert of_gpu(100, 0)[0] == 192


def test_gpu_memory_that_was_never_held_is_not_recommended_away() -> None:
    recommended, why = of_gpu(0, 2048)
    assert recommended == 2048
    assert "GPU memory: none was held, out of a budget of 2.00 GiB." in why
    recommended, why = of_gpu(0, None)
    assert (recommended, "GPU memory: none was held." in why) == (0, True)


def test_the_host_part_of_a_memory_limit_is_its_budget() -> None:
    def host(memory: int, gpu: int | None) -> int | None:
        limits = {"memory": memory * MIB} | ({} if gpu is None else {GPU_MEMORY: gpu * MIB})
        budget = advised(plan(view(gpu=MIB, host=MIB, limits=limits))).host.budget
        return None if budget is None else budget // MIB

    assert host(3072, 2048) == 1024
    # Less than 2048 + 256 cannot have been meant for both.
    assert host(2200, 2048) == 2200
    assert host(3072, None) == 3072
    annotated = {GPU_MEMORY: Budget(gpu=2 * GIB, source="annotation")}
    one = advised(plan(view(gpu=MIB, host=MIB, limits={"memory": 3 * GIB}, budgets=annotated)))
    assert one.host.budget == GIB


def test_what_fits_stays_as_it_is_written() -> None:
    limits = {GPU_MEMORY: 2 * GIB, "memory": 3 * GIB}
    # 1740 MiB need 1920 of 2048; 800 MiB need 880, up to 896, of 1024.
    one = advised(plan(view(gpu=1740 * MIB, host=800 * MIB, limits=limits)))
    assert one.write == {GPU_MEMORY: "2048Mi", "memory": "3072Mi"}


# --- what is not known --------------------------------------------------------------------


def test_without_gpu_memory_the_figure_for_both_is_not_known() -> None:
    one = advised(plan(view(gpu=None, host=505 * MIB)))
    assert one.write == {}
    assert (one.gpu.peak_week, one.gpu.recommended, one.host.recommended) == (None, None, 576 * MIB)
    assert "GPU memory: not known." in one.why
    assert "What `memory` should be is not known." in one.why


def test_on_cards_it_is() -> None:
    assert advised(plan(view(gpu=None, host=505 * MIB), pools=DISCRETE)).write == {"memory": "576Mi"}


def test_without_host_memory_the_gpus_is_recommended_all_the_same() -> None:
    one = advised(plan(view(gpu=1740 * MIB, host=None)))
    assert one.write == {GPU_MEMORY: "1920Mi"}
    assert "Host memory: not known." in one.why


def test_a_live_pod_of_which_nothing_is_known_is_there() -> None:
    one = advised(plan(view(gpu=None, host=None)))
    assert (one.of, one.pods, one.observed, one.write) == (LLM, ("llm-7f9c-x",), 0.0, {})


def test_a_board_without_a_gpu_has_host_memory_alone() -> None:
    one = advised(plan(view(by_pool={}, budgets={}, host=505 * MIB), pools=()))
    assert (one.write, dict(one.pools)) == ({"memory": "576Mi"}, {})


# --- for how long somebody watched ----------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(12 * 60 + 59, "Suspected: watched for 12 min only."), (HOUR - 1, "Suspected: watched for 59 min only.")],
)
def test_an_hour_is_the_least_that_is_trusted(seconds: float, said: str) -> None:
    assert advised(plan(view(gpu=GIB)), seconds).why.startswith(said)
    assert "uspected" not in advised(plan(view(gpu=GIB)), HOUR).why


def test_the_figure_that_was_known_for_the_shortest_time_counts() -> None:
    peaks = fold(Peaks(), plan(view(gpu=GIB, host=None)), 1000.0)
    peaks = fold(peaks, plan(view(gpu=GIB, host=None)), 1010.0)
    peaks = fold(peaks, plan(view(gpu=GIB, host=MIB)), 1016.0)
    peaks = fold(peaks, plan(view(gpu=GIB, host=MIB)), 1020.0)
    (one,) = advising.advice(peaks, None)
    assert one.observed == 4.0


# --- as a document ----------------------------------------------------------------------------


def test_pods_that_live_now_are_named_and_none_where_that_is_not_known() -> None:
    found = plan(view("llm-b", MIB), view("llm-a", MIB))
    peaks = fold(Peaks(), found, 1000.0)
    assert [one.pods for one in advising.advice(peaks, found)] == [("llm-a", "llm-b")]
    assert [one.pods for one in advising.advice(peaks, None)] == [()]


def test_the_document() -> None:
    limits = {GPU_MEMORY: 1024 * MIB, "memory": 1536 * MIB}
    found = plan(view("llm-a", 1740 * MIB, 505 * MIB, limits=limits))
    (one,) = advising.documents(advising.advice(fold(Peaks(), found, 1000.0), found))
    gpu = {
        "peak_day_bytes": 1740 * MIB,
        "peak_week_bytes": 1740 * MIB,
        "budget_bytes": 1024 * MIB,
        "recommended_bytes": 1920 * MIB,
    }
    why = one.pop("why")
    assert one == {
        "namespace": "apps",
        "owner": {"kind": "Deployment", "name": "llm"},
        "container": "main",
        "pods": ["llm-a"],
        "gpu": gpu,
        "pools": [{"resource": GPU_MEMORY, **gpu}],
        # 1536 − 1024 MiB are the host part; 576 are more.
        "host": {
            "peak_day_bytes": 505 * MIB,
            "peak_week_bytes": 505 * MIB,
            "budget_bytes": 512 * MIB,
            "recommended_bytes": 576 * MIB,
        },
        "write": {GPU_MEMORY: "1920Mi", "memory": "2496Mi"},
        "observed_seconds": 0,
    }
    assert why == (
        "Suspected: watched for 0 min only. "
        "GPU memory: the peak of 1.70 GiB and a margin of 174 MiB, in whole 64 MiB, make 1.88 GiB; "
        "the budget of 1.00 GiB is less. "
        "Host memory: the peak of 505 MiB and a margin of 50 MiB, in whole 32 MiB, make 576 MiB; "
        "the budget of 512 MiB is less. "
        "CPU and GPU share this board's memory, so `memory` is both: 1.88 GiB + 576 MiB."
    )


def sized(total: int) -> tuple[Pool, ...]:
    """An integrated GPU's pool of so many bytes for pods."""
    return (replace(pool(), total=total),)


def test_more_than_the_pool_has_is_not_recommended() -> None:
    limits = {GPU_MEMORY: 6000 * MIB, "memory": 6000 * MIB + 300 * MIB}
    one = advised(plan(view(gpu=5900 * MIB, host=200 * MIB, limits=limits), pools=sized(6400 * MIB)))
    # 5900 + 590 = 6490, up to 6528: more than 6400. Host memory: 200 + 32 = 232, up to 256, of 300.
    assert one.write == {GPU_MEMORY: "6000Mi", "memory": "6300Mi"}
    assert "this does not fit this pool, so the budget of 5.86 GiB stays" in one.why


def test_gpu_and_host_memory_have_to_fit_the_pool_together() -> None:
    held = view(gpu=5000 * MIB, host=700 * MIB)
    # 5500, up to 5504; 770, up to 800: 6304 together.
    assert advised(plan(held, pools=sized(6304 * MIB))).write == {GPU_MEMORY: "5504Mi", "memory": "6304Mi"}
    one = advised(plan(held, pools=sized(6303 * MIB)))
    assert (one.write, one.why.count("this does not fit this pool")) == ({}, 2)


def test_a_memory_limit_stays_where_both_budgets_together_are_more_than_the_pool() -> None:
    # Read as host memory alone, because it is less than the GPU's: 6000 + 1000 of 6083.
    limits = {GPU_MEMORY: 6000 * MIB, "memory": 1000 * MIB}
    one = advised(plan(view(gpu=5900 * MIB, host=700 * MIB, limits=limits), pools=sized(6083 * MIB)))
    assert one.write == {GPU_MEMORY: "6000Mi", "memory": "1000Mi"}
    assert "is both" not in one.why


def test_on_cards_a_container_has_at_most_the_largest_one() -> None:
    cards = (replace(pool(kind="discrete"), total=16 * GIB, largest=8 * GIB),)
    # 8 GiB and a tenth are more than a card has, and less than two.
    assert advised(plan(view(gpu=8 * GIB, host=0), pools=cards)).write == {"memory": "32Mi"}
    assert advised(plan(view(gpu=7 * GIB, host=0), pools=cards)).write == {GPU_MEMORY: "7936Mi", "memory": "32Mi"}


VAST = sized(1024 * GIB)
AMOUNTS = st.integers(0, 64 * GIB)


@given(
    gpu=AMOUNTS,
    host=AMOUNTS,
    limits=st.fixed_dictionaries({}, optional={GPU_MEMORY: AMOUNTS, "memory": AMOUNTS}),
    seconds=st.floats(0, 10 * DAY),
    breach=st.sampled_from([None, "gpu", "shared"]),
)
def test_whoever_writes_what_is_recommended_is_within_his_budget(
    gpu: int, host: int, limits: dict[str, int], seconds: float, breach: str | None
) -> None:
    one = advised(plan(view(gpu=gpu, host=host, limits=limits, breach=breach), pools=VAST), seconds)
    written = {key: int(text.removesuffix("Mi")) * MIB for key, text in one.write.items()}
    wrote = written.get(GPU_MEMORY, 0)
    assert wrote >= gpu
    # As the memory model reads it: what is left beside the GPU's part holds the host's peak.
    assert host_part(written["memory"], wrote) >= host
    if breach or seconds < DAY:
        assert wrote >= limits.get(GPU_MEMORY, 0)
        if "memory" in limits:
            assert written["memory"] - wrote >= host_part(limits["memory"], limits.get(GPU_MEMORY, 0))

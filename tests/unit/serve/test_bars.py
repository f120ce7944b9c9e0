"""A pool as a bar: the segments add up to the total exactly, or nothing is said."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.memory.types import Usage
from edgeagent.serve.bars import bars

Json = dict[str, Any]

UNIFIED, CARD = "edgeagent.dev/igpu-memory", "edgeagent.dev/gpu-memory"
RESERVES = {"os": 768, "k3s": 512, "cma": 256, "headroom": 256}


def pool(resource: str = UNIFIED, total: int | None = 8000, **reserves: int) -> Json:
    lines = reserves or (RESERVES if resource == UNIFIED else {"driver": 400})
    return {
        "resource": resource,
        "kind": "unified" if resource == UNIFIED else "discrete",
        "total_bytes": total,
        "reserves": [{"name": name, "bytes": amount, "origin": "default"} for name, amount in lines.items()],
    }


def pod(name: str, host: int | None = 0, *, state: str = "ok", **gpu: int | None) -> Json:
    """``gpu``: bytes by ``igpu`` and ``card``."""
    keys = {"igpu": UNIFIED, "card": CARD}
    pools = [{"resource": keys[key], "gpu_bytes": amount} for key, amount in gpu.items()]
    return {"namespace": "a", "name": name, "uid": f"u-{name}", "state": state, "host_bytes": host, "pools": pools}


def document(*pods: Json, pools: tuple[Json, ...] = (), **host: Any) -> Json:
    given: dict[str, int | None] = {
        "available_bytes": 8000,
        "usable_bytes": 8000,
        "system_gpu_bytes": 0,
        "unattributed_gpu_bytes": 0,
        "leaving_bytes": 0,
    }
    return {"pools": list(pools or (pool(),)), "pods": list(pods), "host": {**given, **host}}


def segments(bar: Json) -> dict[tuple[str, str], int]:
    assert bar["segments"] is not None
    found = {(part["kind"], part["name"]): part["bytes"] for part in bar["segments"]}
    assert len(found) == len(bar["segments"])
    assert sum(found.values()) == bar["total_bytes"]
    return found


# --- a pool that CPU and GPU share -----------------------------------------------------------


def test_pods_the_host_what_is_free_and_what_is_kept_back() -> None:
    # 8000 − 3900 usable − 100 free CMA pages = 4000 in use, of which pods have 2000 + 500 + 700 + 100, Xorg 50:
    # 650 are the host's. With Xorg 700: 156 of them are CMA pages in use (256 − 100), 544 come out of os, which keeps
    # 768 − 544 = 224; k3s and headroom are whole. Free: 3900 − 224 − 512 − 256 = 2908.
    (bar,) = bars(
        document(
            pod("llm", 500, igpu=2000),
            pod("eye", 100, igpu=700),
            pod("web", 0, igpu=0),
            available_bytes=4000,
            usable_bytes=3900,
            system_gpu_bytes=50,
        )
    )

    assert (bar["resource"], bar["kind"], bar["total_bytes"]) == (UNIFIED, "unified", 8000)
    assert segments(bar) == {
        ("host", ""): 650,
        ("system-gpu", ""): 50,
        ("pod-gpu", "a/llm"): 2000,
        ("pod-host", "a/llm"): 500,
        ("pod-gpu", "a/eye"): 700,
        ("pod-host", "a/eye"): 100,
        ("free", ""): 2908,
        ("reserve", "os"): 224,
        ("reserve", "k3s"): 512,
        ("reserve", "cma"): 100,
        ("reserve", "headroom"): 256,
    }
    assert [part["uid"] for part in bar["segments"] if part["kind"] == "pod-gpu"] == ["u-llm", "u-eye"]


def test_a_host_that_uses_more_than_its_reserves_takes_from_what_is_free() -> None:
    # 2000 in use, all the host's: os, k3s and cma are gone (1536), 464 come from what would be free.
    (bar,) = bars(document(usable_bytes=6000, available_bytes=6000))

    assert segments(bar) == {("host", ""): 2000, ("free", ""): 5744, ("reserve", "headroom"): 256}


def test_pods_that_take_more_than_is_free_shorten_the_reserves_and_the_headroom_last() -> None:
    # 300 are left: the headroom of 256 is kept, and of the 256 − 100 for CMA 44; os and k3s are gone.
    (bar,) = bars(document(pod("llm", 0, igpu=7600), usable_bytes=300, available_bytes=300))

    assert segments(bar) == {
        ("host", ""): 100,
        ("pod-gpu", "a/llm"): 7600,
        ("free", ""): 0,
        ("reserve", "cma"): 44,
        ("reserve", "headroom"): 256,
    }


def test_what_is_free_is_told_at_zero_and_nothing_else() -> None:
    (bar,) = bars(document(pod("llm", 0, igpu=8000), usable_bytes=0, available_bytes=0))

    assert segments(bar) == {("pod-gpu", "a/llm"): 8000, ("free", ""): 0}


def test_free_cma_pages_are_kept_back_even_without_a_line() -> None:
    (bar,) = bars(document(pools=(pool(os=100),), usable_bytes=7700, available_bytes=7900))

    # 100 in use use up os.
    assert segments(bar) == {("host", ""): 100, ("free", ""): 7700, ("reserve", "cma"): 200}


def test_a_ceiling_is_kept_back_whatever_the_host_uses() -> None:
    (bar,) = bars(document(pools=(pool(os=768, headroom=256, ceiling=3000),), usable_bytes=7000, available_bytes=7000))

    # 1000 in use, 768 of them out of os: 7000 − 256 − 3000 = 3744 are free.
    assert segments(bar) == {
        ("host", ""): 1000,
        ("free", ""): 3744,
        ("reserve", "headroom"): 256,
        ("reserve", "ceiling"): 3000,
    }


def test_memory_that_stands_in_two_places_leaves_no_less_than_nothing_for_the_host() -> None:
    # By name 5000 are held, and 4000 are in use: what is registered with the GPU is counted twice. 3000 can be left.
    (bar,) = bars(
        document(pod("llm", 2000, igpu=3000), pools=(pool(headroom=256),), usable_bytes=4000, available_bytes=4000)
    )

    assert segments(bar)["free", ""] == 2744
    assert ("host", "") not in segments(bar)


def test_terminating_pods_are_leaving_by_name_and_the_rest_without_one() -> None:
    (bar,) = bars(
        document(
            pod("old", 100, state="terminating", igpu=900),
            pod("new", 0, igpu=500),
            leaving_bytes=1300,
            usable_bytes=6000,
            available_bytes=6000,
        )
    )

    found = segments(bar)
    assert (found["leaving", "a/old"], found["leaving", ""]) == (1000, 300)
    assert found["pod-gpu", "a/new"] == 500
    assert ("pod-gpu", "a/old") not in found


def test_host_memory_that_is_not_known_is_left_to_the_host() -> None:
    (bar,) = bars(document(pod("new", None, igpu=0), usable_bytes=7000, available_bytes=7000))

    assert segments(bar)["host", ""] == 1000


@pytest.mark.parametrize(
    "unknown",
    ["available_bytes", "usable_bytes", "system_gpu_bytes", "unattributed_gpu_bytes", "leaving_bytes"],
)
def test_without_a_figure_of_the_host_nothing_is_said(unknown: str) -> None:
    told = document()
    told["host"][unknown] = None

    (bar,) = bars(told)

    assert (bar["total_bytes"], bar["segments"]) == (8000, None)


def test_without_the_gpu_memory_of_a_pod_nothing_is_said() -> None:
    (bar,) = bars(document(pod("llm", 5, igpu=100), pod("odd", 5, igpu=None)))

    assert bar["segments"] is None


def test_without_a_size_nothing_is_said() -> None:
    (bar,) = bars(document(pools=(pool(total=None),)))

    assert (bar["total_bytes"], bar["segments"]) == (None, None)


def test_more_than_there_is_cannot_be_shown() -> None:
    (bar,) = bars(document(pod("llm", 0, igpu=8001)))

    assert bar["segments"] is None


# --- cards --------------------------------------------------------------------------------------


def usage(used: int | None, *, shared: int | None = 0, leaving: int = 0, more: dict[str, int] | None = None) -> Usage:
    return Usage(
        pods={},
        system_gpu=None,
        unattributed_gpu=None,
        leaving=0,
        gpu_total={CARD: used, **(more or {})},
        system_shared=shared,
        leaving_shared=leaving,
    )


def test_a_card_has_no_host_memory() -> None:
    (bar,) = bars(document(pod("llm", 999, card=3000), pools=(pool(CARD),)))

    assert segments(bar) == {("pod-gpu", "a/llm"): 3000, ("free", ""): 4600, ("reserve", "driver"): 400}


def test_what_no_pod_holds_of_a_card_is_told_apart_by_what_is_in_use() -> None:
    # Leaving are 700 of the card and 300 of the host. In use 4200 − 3000 − 100 of the system − 700 = 400.
    told = document(
        pod("llm", 0, card=3000),
        pod("old", 300, state="terminating", card=500),
        pools=(pool(CARD),),
        system_gpu_bytes=100,
        unattributed_gpu_bytes=400,
        leaving_bytes=1000,
    )

    (bar,) = bars(told, usage(4200, leaving=300))

    assert segments(bar) == {
        ("system-gpu", ""): 100,
        ("pod-gpu", "a/llm"): 3000,
        ("unattributed", ""): 400,
        ("leaving", "a/old"): 500,
        ("leaving", ""): 200,
        ("free", ""): 3400,
        ("reserve", "driver"): 400,
    }
    assert bars(told)[0]["segments"] is None, "from the document alone it cannot be told"


@pytest.mark.parametrize("odd", [usage(None), usage(3000), usage(4000, shared=None), usage(4000, shared=101)])
def test_figures_that_do_not_agree_are_not_shown(odd: Usage) -> None:
    (bar,) = bars(document(pod("llm", 0, card=3000), pools=(pool(CARD),), system_gpu_bytes=100), odd)

    assert bar["segments"] is None


def test_a_mixed_board_has_two_bars() -> None:
    # The system has 60: 20 of the shared memory, 40 of the card. Of the card 1000 + 40 are in use.
    told = document(
        pod("both", 200, igpu=500, card=1000),
        pools=(pool(CARD), pool(UNIFIED, 8000, headroom=256)),
        system_gpu_bytes=60,
        usable_bytes=7000,
        available_bytes=7000,
    )

    card, shared = bars(told, usage(1040, shared=20))

    assert segments(card) == {
        ("system-gpu", ""): 40,
        ("pod-gpu", "a/both"): 1000,
        ("free", ""): 6560,
        ("reserve", "driver"): 400,
    }
    assert segments(shared) == {
        ("host", ""): 280,
        ("system-gpu", ""): 20,
        ("pod-gpu", "a/both"): 500,
        ("pod-host", "a/both"): 200,
        ("free", ""): 6744,
        ("reserve", "headroom"): 256,
    }


def test_with_a_pool_for_each_card_what_no_pod_holds_is_one_part() -> None:
    second = f"{CARD}-1"
    told = document(
        pod("llm", 0, card=3000),
        pools=(pool(CARD), {**pool(CARD), "resource": second}),
        system_gpu_bytes=150,
    )

    one, other = bars(told, usage(3100, more={second: 50}))

    assert (segments(one)["unattributed", ""], segments(other)["unattributed", ""]) == (100, 50)


# --- whatever the figures -----------------------------------------------------------------------

_amount = st.integers(0, 10_000)
_maybe = st.none() | _amount


@st.composite
def documents(draw: st.DrawFn) -> Json:
    kinds = draw(st.sampled_from([(UNIFIED,), (CARD,), (CARD, UNIFIED)]))
    keys = {UNIFIED: "igpu", CARD: "card"}
    pods = [
        pod(f"p{number}", draw(_maybe), state=state, **{keys[kind]: draw(_maybe) for kind in kinds})
        for number, state in enumerate(draw(st.lists(st.sampled_from(["ok", "breach", "terminating"]), max_size=4)))
    ]
    host = {name: draw(_maybe) for name in ("system_gpu_bytes", "unattributed_gpu_bytes", "leaving_bytes")}
    usable = draw(_maybe)
    available = None if usable is None else usable + draw(_amount)
    pools = tuple(pool(kind, draw(_amount)) for kind in kinds)
    return document(*pods, pools=pools, usable_bytes=usable, available_bytes=available, **host)


@given(documents(), st.none() | st.builds(usage, _maybe, shared=_maybe, leaving=_amount))
def test_no_part_is_below_nothing_and_the_sum_is_the_total(told: Json, known: Usage | None) -> None:
    for bar in bars(told, known):
        for part in bar["segments"] or ():
            assert part["bytes"] > 0 or part["kind"] == "free"
        if bar["segments"] is not None:
            assert sum(part["bytes"] for part in bar["segments"]) == bar["total_bytes"]

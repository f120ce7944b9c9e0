"""The page of ``edgeagent top``: every figure and name on it is one of the document's."""

from __future__ import annotations

import itertools
import unicodedata
from typing import Any

import pytest

from edgeagent.console.frame import View, lines
from edgeagent.console.podtable import ORDERS
from edgeagent.plan.report.style import Style, render

from .documents import GPU, MIB, pod, poisoned, segment, state, unsampled

WIDE = Style(width=80)


def page(document: dict[str, Any], *, order: str = "usage", style: Style = WIDE, **view: Any) -> str:
    shown = View(**{"state": document, "source": "127.0.0.1:9843", "agent": True, **view})
    return render(lines(shown, order, style), style)


def rows(text: str, start: str) -> list[str]:
    """The lines from the one that begins so, up to the next empty one."""
    found = text.splitlines()
    first = next(index for index, row in enumerate(found) if row.startswith(start))
    return list(itertools.takewhile(bool, found[first:]))


def test_the_head_says_which_board_and_who_says_so() -> None:
    assert page(state()).splitlines()[:2] == [
        "orin-1, jetson, Orin Nano",
        "edgeagent 0.1.0 at 127.0.0.1:9843, 18:00:00 UTC",
    ]


def test_the_pool_is_one_bar_in_which_each_pod_has_its_letter() -> None:
    found = rows(page(state()), "POOL")

    # 5632 − 3072 = 2560 MiB are left to request.
    assert found[0] == "POOL gpu-memory 8.00 GiB   advertised 5.50 GiB   requested 3.00 GiB"
    assert found[1] == "left to request 2.50 GiB"
    # 76 columns for 8192 MiB: 1000 → 9.28, 2900 → 26.90, 500 → 4.64, 512 → 4.75, 200 → 1.86, 2824 → 26.20,
    # 256 → 2.38. Whole columns make 72; the four largest remainders get one more: .90, .86, .75, .64.
    bar = "█" * 9 + "A" * 27 + "a" * 5 + "B" * 5 + "b" * 2 + "·" * 26 + "-" * 2
    assert found[2] == f"  [{bar}]"
    legend = " ".join(found[3:])
    for said in (
        "A GPU memory of pod A",
        "a its host memory",
        "█ host 1000 MiB",
        "· free 2.76 GiB",
        "- reserved 256 MiB",
    ):
        assert said in legend


def test_pods_stand_by_usage_with_letter_budget_and_state() -> None:
    assert rows(page(state()), "PODS") == [
        "PODS by usage            GPU    BUDGET                  HOST  STATE",
        # 852 of 2900 MiB are above the budget: 2.35 columns of 8, rounded up.
        "! A shop/llm        2.83 GiB  2.00 GiB  [█████!!!]   500 MiB  breach",
        "  B shop/vision      512 MiB  1.00 GiB  [████····]   200 MiB  ok",
        "?   shop/odd         unknown  1.00 GiB               unknown  unknown",
    ]


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("usage", ["big", "over", "near", "blind"]),
        # A breach first; then 100 MiB below the budget before 3000 MiB below it; unknown last.
        ("excess", ["over", "near", "big", "blind"]),
        ("name", ["big", "blind", "near", "over"]),
    ],
)
def test_pods_can_be_sorted(order: str, names: list[str]) -> None:
    pods = [
        pod("big", "ok", 3000, 0, 6000),
        pod("blind", "unknown", None, 0, 100),
        pod("near", "ok", 900, 0, 1000),
        pod("over", "breach", 1000, 0, 900),
    ]

    found = rows(page(state(pods=pods, bars=[{**state()["bars"][0], "segments": None}]), order=order), "PODS")

    assert found[0].startswith(f"PODS by {order}")
    assert [next(name for name in names if f"shop/{name} " in row) for row in found[1:]] == names


def test_usage_above_the_budget_for_both_is_an_excess_too() -> None:
    shared = {**pod("shared", "breach", 900, 600, 1000), "total_budget_bytes": 1200 * MIB}

    # 900 + 600 − 1200 = 300 against 900 − 1000 = −100.
    assert ORDERS["excess"](shared)[1] == (False, -300 * MIB)


def test_next_says_whom_and_when_and_why() -> None:
    plan = {
        "evictions": [
            {
                "namespace": "shop",
                "name": "llm",
                "uid": "uid-llm",
                "breach": "gpu",
                "grace_seconds": 30,
                "message": "Evicted: too much",
            }
        ],
        "kills": [{"uid": "uid-llm", "pids": [1], "message": "Killed to keep the board alive"}],
        "held": [{"uid": "uid-gone", "code": "observe", "seconds_left": None, "why": "observing"}],
        "events": [],
    }

    assert rows(page(state(plan=plan)), "NEXT") == [
        "NEXT",
        "  evict shop/llm, 30 s grace: too much",
        "  kill processes of shop/llm: Killed to keep the board alive",
        "  hold uid-gone, observe: observing",
    ]
    assert rows(page(state()), "NEXT")[1] == "  hold shop/llm, grace, 9 s left: over its budget for 6 of 15 s"


def test_nothing_to_do_and_not_known_are_two_things() -> None:
    idle: dict[str, Any] = {"evictions": [], "kills": [], "held": [], "events": []}

    assert "NEXT  nothing to do" in page(state(plan=idle))
    assert "NEXT  not known" in page(unsampled(("sample-stale", "the last sample is 20 s old")))


def test_what_happened_last_comes_first_and_once() -> None:
    found = rows(page(state()), "LATELY")

    # 17:59:18 is 42 s before 18:00:00, and 17:40 is 20 min. The event of the eviction tells of the same.
    assert found[:2] == [
        "LATELY",
        "  42 s ago: MemoryBudgetExceeded, pod shop/llm: GPU memory is above the budget",
    ]
    assert " ".join(row.strip() for row in found[2:]) == (
        "20 min ago: evicted shop/chat: GPU memory 3.22 GiB exceeds the budget of 3.00 GiB. To run it here, raise it."
    )
    assert "told again" not in page(state())


def test_pods_that_are_not_known_are_not_none() -> None:
    waiting = {"complete": False, "view_age_seconds": None, "error": ""}

    assert "PODS  not known: no cluster is asked" in page(state(pods=None, cluster=None))
    assert "PODS  not known: own pods were not listed yet" in page(state(pods=None, cluster=waiting))
    assert rows(page(state(pods=[])), "PODS")[1] == "  none"


def test_findings_that_ask_for_somebody_are_shown() -> None:
    text = page(state())

    assert "FINDINGS  sudo edgeagent doctor says what to do" in text

    assert "  error runtime-class-missing: there is no RuntimeClass nvidia" in text
    assert "cgroup-v1" not in text


def test_before_a_diagnosis_nobody_has_looked() -> None:
    assert rows(page(state(findings=[], diagnosed=False)), "  not looked") == ["  not looked for yet, or not lately"]
    assert "FINDINGS" not in page(state(findings=[], diagnosed=True))


def test_memory_and_the_boards_health() -> None:
    assert rows(page(state()), "MEMORY") == [
        "MEMORY   700 MiB usable, floor 128 MiB   no pressure   GPU outside pods 64 MiB",
        "  power mode 15W, gpu 61 C",
    ]
    pressed = state(host={**state()["host"], "pressure": True}, vitals=None)
    assert rows(page(pressed), "MEMORY")[0].split("   ")[2] == "under pressure"
    hot = {**state()["vitals"], "throttled": True, "throttle_reasons": ["thermal"]}
    assert "throttled: thermal" in page(state(vitals=hot))
    silent = {**state()["vitals"], "power_mode": None, "temperatures": [], "throttled": None}
    assert len(rows(page(state(vitals=silent)), "MEMORY")) == 1
    assert page(state(vitals=silent)) == page(state(vitals=None))


# --- what is not as it should be ---------------------------------------------------------------


def test_a_stale_reading_is_named_and_its_values_are_unknown() -> None:
    stale = state(
        stale=["gpu"],
        readings={"attribution": {"age_seconds": 42.0, "stale": True, "why": "the table is cut off"}},
        bars=[{**state()["bars"][0], "segments": None}],
        pods=[pod("llm", "unknown", None, None, 2048)],
    )

    text = page(stale)

    assert "STALE  attribution: last read 42 s ago, the table is cut off" in text
    assert "how it is divided is not known now" in text
    assert "[█" not in text
    assert rows(text, "PODS")[1].split() == ["?", "shop/llm", "unknown", "2.00", "GiB", "unknown", "unknown"]


def test_without_a_sample_there_is_no_figure_at_all() -> None:
    text = page(unsampled(("sample-stale", "the last sample is 20 s old"), ("nvml-stalled", "it hangs")))

    assert "orin-1, board not known" in text
    assert "NOT READY  sample-stale: the last sample is 20 s old; nvml-stalled: it hangs" in text
    assert "MiB" not in text.split("LATELY")[0]
    assert "PODS" not in text


def test_an_agent_that_does_not_answer_any_more_is_shown_as_old() -> None:
    text = page(state(), trouble="127.0.0.1:9843: Connection refused", age=75.0)

    assert "NOT CURRENT, 75 s OLD  127.0.0.1:9843: Connection refused" in text


def test_observing_says_why_nobody_is_evicted() -> None:
    text = page(state(mode="observe", observe_because="the configuration says mode: observe"))

    assert "OBSERVE  nothing is evicted: the configuration says mode: observe" in text


def test_without_an_agent_nothing_happens_next() -> None:
    text = page(state(mode=None, node=None, cluster=None, pods=None), agent=False, trouble="nobody answers")

    assert "NO AGENT  nobody answers" in text
    assert "NEXT" not in text
    assert "PODS  not known: no cluster is asked" in text


# --- room ------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    text = page(state(pods=[*state()["pods"], pod("a" * 200, "breach", 10, 10, 5)]), style=Style(width=width))

    assert [row for row in text.splitlines() if len(row) > width and "a" * 200 not in row] == []


def test_sixty_columns_do_without_bars_and_host_memory() -> None:
    found = rows(page(state(), style=Style(width=60)), "PODS")

    assert found[0].split() == ["PODS", "by", "usage", "GPU", "BUDGET", "STATE"]
    assert found[1] == "! A shop/llm        2.83 GiB  2.00 GiB  breach"


@pytest.mark.parametrize("height", [1, 5, 10, 16, 24, 40])
def test_a_low_terminal_is_never_overfull_and_keeps_its_keys(height: int) -> None:
    many = state(pods=[pod(f"p{number}", "ok", 10, 10, 20) for number in range(110)])
    view = View(state=many, source="x", agent=True)

    found = render(lines(view, "name", WIDE, height, "q quit"), WIDE).splitlines()

    assert len(found) <= height
    assert found[-1] == "q quit"


def test_what_is_cut_off_is_counted() -> None:
    many = state(pods=[pod(f"p{number:03}", "ok", 10, 10, 20) for number in range(110)])
    view = View(state=many, source="x", agent=True)

    found = render(lines(view, "name", WIDE, 30, "q quit"), WIDE)

    shown = sum(f"shop/p{number:03} " in found for number in range(110))
    assert 0 < shown < 110
    assert f"and {110 - shown} more pods" in found


def test_a_name_that_is_too_long_has_its_own_line_or_is_cut_where_lines_are_few() -> None:
    name = "inference-server-" + "7d9c6bf5b9-abcde" * 3
    long = state(pods=[pod(name, "ok", 10, 10, 20)])
    view = View(state=long, source="x", agent=True)

    assert f"shop/{name}" in page(long)
    low = render(lines(view, "name", WIDE, 40, "q quit"), WIDE)
    assert f"shop/{name}" not in low
    assert "shop/inference-server-" in low


def test_many_small_pods_share_one_sign() -> None:
    small = [segment("pod-gpu", 10, f"shop/p{number}", f"uid-p{number}") for number in range(100)]
    bar = {"resource": GPU, "kind": "unified", "total_bytes": 8192 * MIB}
    segments = [segment("host", 2000), *small, segment("free", 5192)]

    found = rows(page(state(bars=[{**bar, "segments": segments}])), "POOL")

    # 100 × 10 MiB of 8192 are 9.28 of 76 columns; 2000 → 18.55, 5192 → 48.17: one more for .55.
    assert found[2] == f"  [{'█' * 19}{'*' * 9}{'·' * 48}]"
    assert "* other pods 1000 MiB" in " ".join(found)


def test_two_pools_are_two_bars_and_two_rows_of_a_pod() -> None:
    igpu = "edgeagent.dev/igpu-memory"
    two = {
        **pod("llm", "ok", None, 10, None),
        "pools": [
            {"resource": GPU, "gpu_bytes": 100 * MIB, "gpu_budget_bytes": 200 * MIB},
            {"resource": igpu, "gpu_bytes": 0, "gpu_budget_bytes": None},
        ],
    }
    first, bar = state()["pools"][0], state()["bars"][0]
    text = page(state(pods=[two], pools=[first, {**first, "resource": igpu}], bars=[bar, {**bar, "resource": igpu}]))

    assert text.count("POOL ") == 2
    assert [row.split() for row in rows(text, "PODS")[2:]] == [
        ["gpu-memory", "100", "MiB", "200", "MiB"],
        ["igpu-memory", "0", "MiB", "none"],
    ]


# --- what a terminal is given -----------------------------------------------------------------


@pytest.mark.parametrize("agent", [True, False])
def test_no_text_from_outside_reaches_the_terminal_as_a_command(agent: bool) -> None:  # noqa: FBT001 (a table)
    trouble = poisoned("x", "why")
    styles = (Style(width=80, colour=True), Style(width=60, plain=True))
    for style in styles:
        view = View(state=poisoned(state()), source=trouble, agent=agent, trouble=trouble)
        for height in (None, 30):
            text = render(lines(view, "usage", Style(width=style.width, plain=style.plain), height), WIDE)
            bad = {sign for sign in text if unicodedata.category(sign) in ("Cc", "Cf") and sign != "\n"}
            assert bad == set()


def test_a_locale_without_signs_gets_ascii() -> None:
    assert page(state(), style=Style(width=80, plain=True)).isascii()


def test_a_state_of_a_later_version_is_shown_by_its_name() -> None:
    later = state(pods=[pod("llm", "hibernating", 1, 1, 2)])
    later["incidents"][0]["kind"] = "hibernated"
    later["bars"][0]["segments"][0]["kind"] = "firmware"

    text = page(later)

    assert rows(text, "PODS")[1].endswith("hibernating")
    assert "hibernated shop/chat" in text

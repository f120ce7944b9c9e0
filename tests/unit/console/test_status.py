"""What ``edgeagent status`` makes of a state, for scripts and for people."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

import pytest

from edgeagent.console import said, statuspage
from edgeagent.console.summary import summary
from edgeagent.plan.report.style import Style
from tests.unit.test_docs import page as page_of

from .documents import GPU, MIB, pod, poisoned, state, unsampled


def page(document: dict[str, Any], style: Style | None = None) -> str:
    return statuspage.text(summary(document, "127.0.0.1:9843"), style or Style(width=100))


def row(text: str, name: str) -> str:
    """What stands behind ``name``."""
    (found,) = (line for line in text.splitlines() if line.split(" ")[0] == name)
    return found[11:]


def test_the_summary_counts_and_subtracts() -> None:
    found = summary(state(), "127.0.0.1:9843")

    assert found["ready"] is True
    assert found["pools"] == [
        {
            "resource": GPU,
            "total_bytes": 8192 * MIB,
            "reserved_bytes": 1536 * MIB,  # 768 + 512 + 256
            "advertised_bytes": 5632 * MIB,
            "committed_bytes": 3072 * MIB,
            "free_bytes": 2560 * MIB,  # 5632 − 3072
            "overcommitted": False,
        }
    ]
    states = {"ok": 1, "breach": 1, "unbudgeted": 0, "unknown": 1, "protected": 0, "terminating": 0}
    assert found["pods"] == states
    assert [one["name"] for one in found["not_well"]] == ["llm", "odd"]
    assert found["findings"] == {"error": 1, "warning": 0, "info": 1}
    assert (found["last_decision"]["kind"], found["last_decision"]["outcome"]) == ("eviction", "accepted")


def test_ten_lines_say_how_it_is() -> None:
    assert page(state()).splitlines() == [
        "agent      edgeagent 0.1.0 on orin-1, 127.0.0.1:9843, up 3 d",  # 27th to 30th
        "ready      yes",
        "board      Orin Nano (jetson), JetPack 6.2.1",
        "mode       enforce",
        "pool       gpu-memory: 5.50 GiB advertised, 3.00 GiB requested, 2.50 GiB free",
        "memory     700 MiB usable, floor 128 MiB, no pressure",
        "pods       3, shop/llm over its budget, shop/odd not known",
        "decision   20 min ago: evicted shop/chat: GPU memory 3.22 GiB exceeds the budget of 3.00 GiB",
        "findings   1 error, 1 info; sudo edgeagent doctor says what to do",
        "cluster    the view is current",
    ]


def test_what_is_not_known_is_neither_zero_nor_none() -> None:
    document = unsampled(("first-reading", "the board was not read completely yet"))
    document.update(mode=None, started=None, incidents=[], cluster=None, node=None, config=None)
    found, text = summary(document, "x:1"), page(document)

    assert (found["ready"], found["pods"], found["findings"], found["board"]) == (False, None, None, None)
    assert (found["usable_bytes"], found["pressure"], found["pools"]) == (None, None, [])
    assert row(text, "agent") == "edgeagent 0.1.0, 127.0.0.1:9843"
    assert row(text, "ready") == "no: first-reading: the board was not read completely yet"
    assert row(text, "pods") == "not known: the board was not read lately"
    for name in ("board", "mode", "findings"):
        assert row(text, name) == "not known"
    assert row(text, "memory") == "unknown usable, floor unknown, whether there is pressure is not known"
    assert row(text, "decision") == "none is kept"
    assert row(text, "cluster") == "none is asked: standalone"


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (None, "no cluster is asked"),
        ({"complete": False, "view_age_seconds": None, "error": ""}, "own pods were not listed yet"),
    ],
)
def test_pods_that_are_not_known_are_not_none(cluster: dict[str, Any] | None, why: str) -> None:
    document = state(pods=None, cluster=cluster)

    assert (summary(document, "x:1")["pods"], summary(document, "x:1")["not_well"]) == (None, [])
    assert row(page(document), "pods") == f"not known: {why}"
    assert row(page(state(pods=[])), "pods") == "0"


def test_a_configuration_that_was_refused_is_told_and_only_that() -> None:
    problems = ["config.yaml: unknown key polcy; the nearest known key is policy", "config.yaml: mode: wrong"]
    document = state(config={"digest": "0f8c2d5e", "last_reload_ok": False, "problems": problems})

    assert row(page(document, Style(width=200)), "config") == f"last change refused: {'; '.join(problems)}"
    assert "\nconfig " not in page(state())


def test_only_findings_that_ask_for_somebody_name_the_doctor() -> None:
    (_, info) = state()["findings"]

    assert row(page(state(findings=[info])), "findings") == "1 info"


def test_a_pool_whose_size_is_stale_has_no_reserves_to_tell() -> None:
    stale = {**state()["pools"][0], "total_bytes": None, "reserves": [], "overcommitted": None}

    found = summary(state(pools=[stale]), "x:1")["pools"][0]

    assert (found["total_bytes"], found["reserved_bytes"], found["free_bytes"]) == (None, None, 2560 * MIB)


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (
            {"complete": False, "view_age_seconds": None, "error": "HTTP 403"},
            "own node and own pods were not listed yet",
        ),
        ({"complete": True, "view_age_seconds": 300.0, "error": "connection refused"}, "the view is 5 min old"),
        ({"complete": True, "view_age_seconds": 0.4, "error": ""}, "the view is current"),
    ],
)
def test_the_view_of_the_cluster(cluster: dict[str, Any], words: str) -> None:
    error = f": {cluster['error']}" if cluster["error"] else ""

    assert row(page(state(cluster=cluster)), "cluster") == words + error


def test_pressure_overcommitment_and_observing_are_said() -> None:
    over = {**state()["pools"][0], "advertised_bytes": 1024 * MIB, "overcommitted": True}
    text = page(
        state(
            host={**state()["host"], "pressure": True},
            pools=[over],
            mode="observe",
            observe_because="the node is annotated",
        )
    )

    assert row(text, "memory") == "700 MiB usable, floor 128 MiB, under pressure"
    # 1024 − 3072 is below 0.
    assert row(text, "pool") == "gpu-memory: 1.00 GiB advertised, 3.00 GiB requested, nothing free, overcommitted"
    assert row(text, "mode") == "observe, nothing is evicted: the node is annotated"


def test_three_pods_are_named_those_over_their_budget_first() -> None:
    pods = [pod(f"u{number}", "unknown", None, None, None) for number in range(4)] + [pod("llm", "breach", 2, 2, 1)]

    assert row(page(state(pods=pods)), "pods") == (
        "5, shop/llm over its budget, shop/u0 not known, shop/u1 not known, 2 more"
    )


def test_no_text_from_outside_reaches_the_terminal_as_a_command() -> None:
    for style in (Style(width=80), Style(width=80, plain=True)):
        text = page(poisoned(state(mode="observe")), style)

        assert {sign for sign in text if unicodedata.category(sign) in ("Cc", "Cf")} == {"\n"}


def test_the_reference_shows_every_key_and_the_very_page() -> None:
    section = page_of("reference/cli.md").partition("\n## edgeagent status\n")[2].partition("\n## ")[0]
    document = json.loads(re.findall(r"^    (\{\"format\".*?\})$\n\n", section, re.MULTILINE | re.DOTALL)[0])

    assert keys(document) == keys(
        summary(state(ready={"status": "x", "reasons": [{"name": "", "message": ""}]}), "x:1")
    )
    shown = page(state()).splitlines()
    assert "\n".join(f"    {line}" for line in shown) in section


def keys(value: Any) -> Any:
    """The document without its values."""
    if isinstance(value, dict):
        return {key: keys(item) for key, item in value.items()}
    return keys(value[0]) if isinstance(value, list) and value else None


# --- words -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (119.4, "119 s"),
        (120, "2 min"),
        (7199, "119 min"),
        (7200, "2 h"),
        (172_799, "47 h"),
        (172_800, "2 d"),
    ],
)
def test_how_long(seconds: float, words: str) -> None:
    assert said.lasting(seconds) == words


def test_a_time_to_come_is_now() -> None:
    assert said.between("2026-11-30T18:00:05.000Z", "2026-11-30T18:00:00.000Z") == 0
    assert said.between("2026-11-30T18:00:00.000Z", "2026-11-30T18:00:05.250Z") == 5.25


@pytest.mark.parametrize(
    ("kind", "outcomes", "what"),
    [
        ("eviction", ["accepted"], "evicted shop/chat"),
        ("eviction", ["blocked"], "tried to evict shop/chat (blocked)"),
        ("eviction", ["blocked", "accepted"], "evicted shop/chat"),
        ("eviction", [], "evicted shop/chat"),
        ("kill", ["killed"], "killed processes of shop/chat"),
        ("kill", ["refused"], "tried to kill processes of shop/chat (refused)"),
        ("would-evict", [], "observed only, would evict shop/chat"),
    ],
)
def test_what_a_decision_came_to(kind: str, outcomes: list[str], what: str) -> None:
    one = {**state()["incidents"][0], "kind": kind, "outcomes": [{"outcome": outcome} for outcome in outcomes]}

    assert said.decided(one).what == what


def test_a_decision_from_before_the_clock_was_set_has_no_time() -> None:
    one = {**state()["incidents"][0], "wall": "1970-01-01T00:01:00.000Z", "wall_plausible": False, "pod": None}
    document = state(incidents=[{**one, "kind": "nobody"}])

    assert row(page(document), "decision").startswith("some time ago: killed nobody")
    assert said.happened(document["incidents"], document["events"])[-1].decision


def test_before_the_first_diagnosis_no_finding_is_not_said_to_be_none() -> None:
    assert row(page(state(findings=[], diagnosed=False)), "findings") == "not looked for yet, or not lately"
    assert row(page(state(findings=[], diagnosed=True)), "findings") == "none"
    # A plan has some of itself, and an agent of an older version does not say.
    assert row(page(state(diagnosed=False)), "findings").startswith("1 error")
    assert row(page(state(findings=[])), "findings") == "none"

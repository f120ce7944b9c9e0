"""Everything at once, at any time: what is known, and why the rest is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgeagent import __version__
from edgeagent.plan import explain
from edgeagent.serve import api, state
from edgeagent.serve.bars import bars
from edgeagent.serve.look import Look
from edgeagent.serve.shown import ConfigHealth, Shown
from edgeagent.system import journal
from tests.unit.plan.test_history import decision, outcome

from .states import NOW, PLAN, WALL, cluster, reading, shown

SAMPLED = ("board", "devices", "host", "pools", "pods", "plan", "findings")


def told(shown: Shown | None, now: float = NOW) -> Any:
    return state.document(Look(shown, now, WALL + now - NOW))


def test_it_has_all_parts_of_the_api() -> None:
    look = Look(shown(), NOW, WALL)
    document = state.document(look)

    explained = explain.document(PLAN, NOW, shown().settings)
    assert {part: document[part] for part in SAMPLED} == {part: explained[part] for part in SAMPLED}
    for name in ("budgets", "neighbours", "vitals", "events", "incidents"):
        assert {name: document[name]} == api.answer(name, look)[1]
    assert document["bars"] == bars(explained, PLAN.usage)


def test_it_says_who_tells_it_and_when() -> None:
    document = told(shown())

    # 1_700_000_000 is 22:13:20 on the 14th of November 2023.
    assert (document["at"], document["node"], document["version"]) == ("2023-11-14T22:13:20.000Z", "n", __version__)
    assert (document["mode"], document["observe_because"]) == ("enforce", "")
    assert document["ready"] == {"status": "ok", "reasons": []}


def test_the_start_is_told_right_by_a_clock_that_was_set_after_it() -> None:
    # The start is 100 s before NOW, whatever the wall clock said then; it is told in whole seconds.
    for passed in (0.0, 50.0, 50.0004):
        at = NOW + passed
        assert told(shown(), at)["started"] == "2023-11-14T22:11:40.000Z"
    assert state.document(Look(shown(), NOW, 100.0))["started"] == "1970-01-01T00:00:00.000Z"


def test_observing_is_said_with_its_reason() -> None:
    document = told(shown(plan=replace(PLAN, observe="mode: observe is configured")))

    assert (document["mode"], document["observe_because"]) == ("observe", "mode: observe is configured")


def test_before_a_diagnosis_no_finding_is_not_told_as_a_result() -> None:
    assert told(shown())["diagnosed"] is True
    assert told(shown(diagnosed=False))["diagnosed"] is False
    # A sample that is too old tells nothing.
    assert told(shown(), NOW + 11)["diagnosed"] is False


def test_whether_pods_can_use_the_gpu_is_told_with_the_reason() -> None:
    why = "A pod was seen using the GPU since the board started."
    assert told(shown())["ai_capable"] == {"value": True, "why": why}
    # Devices that were not read lately prove nothing, and of an old sample nothing is known.
    cards = shown(readings=reading("nvml", succeeded_at=NOW - 11, feeds=frozenset({"devices"})))
    assert told(cards)["ai_capable"] == {"value": None, "why": "The GPUs were not read lately."}
    assert told(shown(), NOW + 11)["ai_capable"] is None


def test_the_age_of_every_reading_is_told() -> None:
    document = told(shown(readings=reading("nvmap", succeeded_at=None, why="permission denied")), NOW + 2.5)

    assert document["sample_age_seconds"] == 2.5
    assert document["readings"]["meminfo"] == {"age_seconds": 2.5, "stale": False, "why": ""}
    assert document["readings"]["nvmap"] == {"age_seconds": None, "stale": True, "why": "permission denied"}
    assert document["stale"] == ["gpu"]


def test_no_value_of_a_stale_reading_is_told() -> None:
    document = told(shown(readings=reading("nvmap", succeeded_at=NOW - 11)))

    assert [pod["gpu_bytes"] for pod in document["pods"]] == [None, None, None]
    assert [bar["segments"] for bar in document["bars"]] == [None]


def test_a_sample_that_is_too_old_leaves_its_parts_empty_and_the_others_there() -> None:
    lines = (journal.encoded(decision()),)
    document = told(shown(incidents=lines, events=PLAN.events), NOW + 11)

    empty: dict[str, Any] = {
        "board": None,
        "devices": [],
        "host": None,
        "pools": [],
        "pods": None,
        "plan": None,
        "findings": [],
    }
    assert {part: document[part] for part in SAMPLED} == empty
    assert document["bars"] == []
    assert document["sample_age_seconds"] == 11
    assert "sample-stale" in [reason["name"] for reason in document["ready"]["reasons"]]
    assert (len(document["incidents"]), len(document["events"])) == (1, 1)
    assert document["mode"] == "enforce"


@pytest.mark.parametrize("before", [None, shown(plan=None)], ids=["no cycle", "no plan"])
def test_before_the_first_sample_there_is_a_state_too(before: Shown | None) -> None:
    document = told(before)

    assert list(document) == list(told(shown()))
    assert (document["board"], document["pods"], document["mode"]) == (None, None, None)
    assert document["sample_age_seconds"] is None
    assert document["ready"]["status"] == "unavailable"


def test_pods_that_were_not_listed_are_not_known() -> None:
    unlisted = replace(PLAN, pods=(), listed=False)
    assert told(shown(plan=unlisted))["pods"] is None
    assert told(shown(plan=unlisted, cluster=None))["pods"] is None
    # Listed, and there is none.
    assert told(shown(plan=replace(PLAN, pods=())))["pods"] == []


def test_a_configuration_that_was_refused_is_told_with_the_reason() -> None:
    refused = ConfigHealth(digest="abc123", refused=("config.yaml: mode: wrong",))

    assert told(shown(config=refused))["config"] == {
        "digest": "abc123",
        "last_reload_ok": False,
        "problems": ["config.yaml: mode: wrong"],
    }
    assert told(None)["config"] is None


def test_standalone_it_has_no_node() -> None:
    assert told(shown(cluster=None))["node"] is None
    assert told(shown(cluster=cluster(node=None)))["node"] is None


def test_incidents_are_told_without_their_readings() -> None:
    document = told(shown(incidents=tuple(map(journal.encoded, (decision(), outcome())))))

    (incident,) = document["incidents"]
    assert {"before", "after"}.isdisjoint(incident)
    assert (incident["kind"], incident["reason"]) == ("eviction", "because")
    assert incident["ended"]["why"] == "back"

"""Lines of incidents are read back whole or not at all, and joined to what happened."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.plan import history, owing
from edgeagent.plan.incidents import Moment
from edgeagent.plan.types import Event
from edgeagent.quantity import GIB, MIB

BOOT = "d3b07384-d113-4ec6-a1b1-0123456789ab"
WHEN: dict[str, Any] = {
    "wall": "2026-11-30T08:00:00.000Z",
    "wall_plausible": True,
    "boot_id": BOOT,
    "seconds": 5000.0,
}
NAME: dict[str, Any] = {"namespace": "apps", "name": "greedy", "uid": "u-1", "owner": None}


def row(t: float, usable: int | None, *pods: list[int | None] | None) -> dict[str, Any]:
    figures = {"t": t, "pods_t": t, "usable_bytes": usable, "floor_bytes": 128 * MIB, "drop_bytes": 0}
    return {**figures, "pods": list(pods)}


def decision(**changes: Any) -> dict[str, Any]:
    """An eviction that was decided on."""
    return {
        "format": 1,
        "line": "decision",
        "id": "one",
        **WHEN,
        "node": "edge-1",
        "kind": "eviction",
        "mode": "enforce",
        "pod": NAME,
        "breach": "gpu",
        "resource": "edgeagent.dev/gpu-memory",
        "used_bytes": 2 * GIB,
        "budget_bytes": GIB,
        "excess_bytes": GIB,
        "over_since": -15.0,
        "place": 1,
        "places": 1,
        "reason": "because",
        "grace_seconds": 30,
        "pids": [],
        "more_pids": 0,
        "pods": [
            {
                **NAME,
                "state": "breach",
                "breach": "gpu",
                "held": None,
                "resource": "edgeagent.dev/gpu-memory",
                "gpu_budget_bytes": GIB,
                "total_budget_bytes": None,
            }
        ],
        "more_pods": 0,
        "before": [row(-1.0, GIB, [2 * GIB, None]), row(0.0, GIB, [2 * GIB, 0])],
        "left_out": 0,
        **changes,
    }


def outcome(**changes: Any) -> dict[str, Any]:
    """It was accepted, and the memory came back."""
    return {
        "format": 1,
        "line": "outcome",
        "id": "one",
        **WHEN,
        "t": 12.0,
        "ended": "back",
        "attempts": 1,
        "outcomes": [{"t": 0.2, "outcome": "accepted", "message": ""}],
        "after": [row(12.0, 3 * GIB, None)],
        **changes,
    }


EVENT = Event(
    reason="MemoryBudgetEvicted",
    kind="Pod",
    namespace="apps",
    name="greedy",
    uid="u-1",
    note="gone",
    id="e-1",
    at=5000.0,
)


def owed(**changes: Any) -> dict[str, Any]:
    line = owing.owed("one", EVENT, Moment(5000.0, 5000.0, 5000.0, 1_796_025_600.0, BOOT, "edge-1"))
    return {**line, **changes}


def told(ending: str = "told") -> dict[str, Any]:
    return {"format": 1, "line": "told", "event": "e-1", "ending": ending} | {
        "wall": "2026-11-30T09:00:00.000Z",
        "seconds": 8600.0,
    }


def test_the_lines_of_an_incident_are_joined() -> None:
    (found,), unreadable, foreign = history.joined([decision(), owed(), outcome(), told()])
    assert (unreadable, foreign) == (0, 0)
    assert found["ended"] == {"t": 12.0, "why": "back"}
    assert (found["attempts"], found["outcomes"], found["after"]) == (1, outcome()["outcomes"], outcome()["after"])
    assert found["events"] == [
        {"reason": "MemoryBudgetEvicted", "note": "gone", "ending": "told", "ended": "2026-11-30T09:00:00.000Z"}
    ]
    assert {key: value for key, value in decision().items() if key != "line"}.items() <= found.items()


def test_a_second_outcome_adds_to_the_first() -> None:
    blocked = outcome(outcomes=[{"t": 0.2, "outcome": "blocked", "message": "a budget"}], ended="time", t=60.0)
    late = outcome(attempts=9, t=700.0, after=[row(700.0, 2 * GIB, [0, 0])])
    (found,), _, _ = history.joined([decision(), blocked, late])
    assert [one["outcome"] for one in found["outcomes"]] == ["blocked", "accepted"]
    assert (found["attempts"], found["ended"], len(found["after"])) == (9, {"t": 700.0, "why": "back"}, 2)


def test_without_a_second_line_the_end_is_not_known() -> None:
    (found,), _, _ = history.joined([decision(), owed()])
    assert (found["ended"], found["attempts"], found["outcomes"], found["after"]) == (None, None, [], [])
    assert found["events"][0]["ending"] is None


def test_what_belongs_to_no_incident_that_is_left_is_passed_over_without_a_word() -> None:
    assert history.joined([outcome(id="gone"), owed(id="gone"), told()]) == ((), 0, 0)


def test_a_line_that_came_twice_counts_once() -> None:
    (found,), _, _ = history.joined([decision(), decision(used_bytes=0), owed(), owed()])
    assert (found["used_bytes"], len(found["events"])) == (2 * GIB, 1)


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        (None, (1, 0)),
        ({}, (1, 0)),
        (decision(format=2), (0, 1)),
        (decision(format="1"), (1, 0)),
        (decision(format=True), (1, 0)),
        (decision(line="secret"), (1, 0)),
        (decision(line=["decision"]), (1, 0)),
        (decision(kind="murder"), (1, 0)),
        (decision(used_bytes="much"), (1, 0)),
        (decision(used_bytes=True), (1, 0)),
        (decision(used_bytes=1.5), (1, 0)),
        (decision(wall="yesterday"), (1, 0)),
        (decision(pod={}), (1, 0)),
        (decision(pods=None), (1, 0)),
        (decision(before=[{}]), (1, 0)),
        (decision(before=[row(0.0, 1, [1])]), (1, 0)),
        (decision(over_since=float("nan")), (1, 0)),
        (decision(over_since=float("inf")), (1, 0)),
        ({key: value for key, value in decision().items() if key != "reason"}, (1, 0)),
        (outcome(ended="well"), (1, 0)),
    ],
)
def test_a_line_that_is_not_as_it_is_written_is_counted_and_costs_no_other(
    line: dict[str, Any] | None, counts: tuple[int, int]
) -> None:
    found = history.joined([decision(id="before"), line, decision(id="after")])
    assert [one["id"] for one in found.incidents] == ["before", "after"]
    assert (found.unreadable, found.foreign) == counts


@pytest.mark.parametrize("ending", ["told", "refused", "dropped"])
def test_an_event_has_one_of_three_ends(ending: str) -> None:
    (found,), _, _ = history.joined([decision(), owed(), told(ending)])
    assert found["events"][0]["ending"] == ending


def test_a_key_that_a_later_version_adds_is_no_reason_to_pass_a_line_over() -> None:
    (found,), _, _ = history.joined([decision(mood="calm")])
    assert "mood" not in found


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(decision())), inner, max_size=6),
    max_leaves=8,
)


@given(st.sampled_from([decision(), outcome(), owed(), told()]), st.data())
def test_no_line_whatever_stands_in_it_is_worth_an_exception(line: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(line)))
    changed = {**line, key: data.draw(anything)}
    found = history.joined([decision(id="before"), changed])
    assert found.incidents[0]["id"] == "before"
    json.dumps(found.incidents)


@pytest.mark.parametrize("number", [10**400, -(10**400), 10**15, 1e15])
@pytest.mark.parametrize(
    "key", ["used_bytes", "over_since", "seconds", "grace_seconds", "left_out", "places", "more_pods", "pids"]
)
def test_a_number_that_nobody_has_ever_had_costs_its_line_alone(key: str, number: float) -> None:
    value: Any = [number] if key == "pids" else number
    found = history.joined([decision(id="before"), decision(**{key: value}), decision(id="after")])
    assert ([one["id"] for one in found.incidents], found.unreadable) == (["before", "after"], 1)


@pytest.mark.parametrize("seconds", [-1, -1e14, 1e11])
def test_seconds_since_a_boot_are_some_and_not_thousands_of_years(seconds: float) -> None:
    for line in (decision(seconds=seconds), outcome(seconds=seconds), owed(seconds=seconds)):
        assert history.checked(line) is None
    assert history.checked({**told(), "seconds": seconds}) is None


@pytest.mark.parametrize(
    "wall", ["9999-12-31T23:59:59.999-2359", "0001-01-01T00:00:00.0+0000", "1969-12-31T23:59:59.0Z"]
)
def test_a_date_that_no_clock_tells_costs_its_line_alone(wall: str) -> None:
    assert history.checked(decision(wall=wall)) is None
    assert history.checked(owed(wall=wall)) is None


def test_half_of_a_surrogate_pair_is_no_text() -> None:
    """It can be neither shown nor sent; JSON lets it through."""
    half = json.loads('"a\\ud800"')
    assert history.checked(decision(reason=half)) is None
    assert history.checked(owed(event={**owed()["event"], "note": half})) is None


@pytest.mark.parametrize("name", ["../../x", "..", "", "a/b", "A", "a" * 254])
@pytest.mark.parametrize("key", ["name", "namespace"])
def test_an_event_is_about_an_object_that_can_be(key: str, name: str) -> None:
    """The names become part of the path of a call."""
    assert history.checked(owed()) is not None
    assert history.checked(owed(event={**owed()["event"], key: name})) is None


# --- events of before a restart --------------------------------------------------------

WALL = 1_796_025_600.0
"""2026-11-30 08:00:00, when the event happened."""


def test_an_event_of_the_same_boot_happened_as_many_seconds_ago_as_have_passed() -> None:
    found = owing.event(owed(), BOOT, 5600.0)
    assert found == dataclasses.replace(EVENT, at=5000.0, wall=None)
    # Read by a clock that is behind the line: it cannot have happened in the future.
    assert owing.event(owed(), BOOT, 4000.0).at == 4000.0


@pytest.mark.parametrize(("before", "now"), [(BOOT, "another"), (None, None), (BOOT, None), (None, BOOT)])
def test_an_event_of_an_earlier_boot_happened_when_its_clock_said(before: str | None, now: str | None) -> None:
    """Whatever the clock of this boot says: it may not be set yet."""
    assert owing.event(owed(boot_id=before), now, 100.0).wall == WALL


def test_an_event_whose_time_nobody_knows_happened_now() -> None:
    found = owing.event(owed(wall_plausible=False), "another", 100.0)
    assert (found.at, found.wall) == (100.0, None)

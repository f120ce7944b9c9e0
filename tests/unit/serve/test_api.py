"""The API's answers are the explain document's parts without what stale readings supplied, and what is kept beside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgeagent.config import Config, plain
from edgeagent.plan import explain, history
from edgeagent.serve import api
from edgeagent.serve.look import Look
from edgeagent.serve.trail import Trail
from edgeagent.system import journal
from tests.unit.plan.test_history import decision, outcome, owed
from tests.unit.plan.test_history import told as told_event

from .states import DISCRETE, MIB, NOW, PLAN, WALL, reading, shown


def get(name: str, **changes: Any) -> Any:
    status, body = api.answer(name, Look(shown(**changes), NOW, WALL))
    assert status == 200
    return body


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("board", ["board", "devices", "host"]),
        ("pools", ["pools"]),
        ("pods", ["pods"]),
        ("plan", ["plan"]),
        ("findings", ["findings"]),
    ],
)
def test_the_parts_are_those_of_the_explain_document(name: str, keys: list[str]) -> None:
    document = explain.document(PLAN, NOW, shown().settings)

    assert get(name) == {key: document[key] for key in keys}


@pytest.mark.parametrize("name", api.PARTS)
def test_no_answer_before_the_first_reading(name: str) -> None:
    for state in (None, shown(plan=None)):
        status, body = api.answer(name, Look(state, NOW, WALL))

        assert (status, list(body), body["reasons"][0]["name"]) == (503, ["status", "reasons"], "first-reading")


@pytest.mark.parametrize("name", api.PARTS)
def test_no_answer_from_a_sample_that_is_too_old(name: str) -> None:
    status, body = api.answer(name, Look(shown(), NOW + 11, WALL))

    assert (status, body["reasons"][0]["name"]) == (503, "sample-stale")
    assert "11 s old" in body["reasons"][0]["message"]


def stale(name: str) -> dict[str, Any]:
    return {"readings": reading(name, succeeded_at=NOW - 11)}


def test_stale_gpu_bytes_become_unknown_and_nothing_else_does() -> None:
    idle, llm, _ = get("pods", **stale("nvmap"))["pods"]

    assert (llm["gpu_bytes"], llm["pools"][0]["gpu_bytes"], llm["containers"][0]["gpu_bytes"]) == (None, None, None)
    assert (llm["host_bytes"], llm["gpu_budget_bytes"]) == (500 * MIB, 2048 * MIB)
    assert (llm["state"], idle["state"]) == ("unknown", "unknown")
    host = get("board", **stale("nvmap"))["host"]
    assert (host["system_gpu_bytes"], host["leaving_bytes"], host["available_bytes"]) == (None, None, 900 * MIB)


def test_stale_host_bytes_become_unknown() -> None:
    llm = get("pods", **stale("cgroups"))["pods"][1]

    assert (llm["host_bytes"], llm["containers"][0]["host_bytes"], llm["gpu_bytes"]) == (None, None, 2900 * MIB)
    assert get("board", **stale("cgroups"))["host"]["leaving_bytes"] is None


def test_stale_memory_makes_the_size_of_a_unified_pool_unknown() -> None:
    (pool,) = get("pools", **stale("meminfo"))["pools"]

    assert (pool["total_bytes"], pool["reserves"], pool["overcommitted"]) == (None, [], None)
    # What the node says does not follow load, nor a reading that fails for a while.
    assert (pool["advertised_bytes"], pool["gpu_committed_bytes"]) == (5303 * MIB, 2048 * MIB)
    host = get("board", **stale("meminfo"))["host"]
    assert (host["available_bytes"], host["usable_bytes"], host["pressure"]) == (None, None, None)
    assert host["system_gpu_bytes"] == 64 * MIB


def test_stale_devices_make_the_size_of_a_discrete_pool_unknown() -> None:
    device = get("board", plan=DISCRETE, **stale("nvml"))["devices"][0]

    assert (device["uuid"], device["total_bytes"], device["usable_bytes"], device["health"]) == (
        "GPU-1",
        None,
        None,
        "unknown",
    )
    assert get("pools", plan=DISCRETE, **stale("nvml"))["pools"][0]["total_bytes"] is None
    assert get("pools", plan=DISCRETE, **stale("meminfo"))["pools"][0]["total_bytes"] == 7607 * MIB


def test_a_terminating_pod_stays_terminating() -> None:
    leaving = replace(PLAN, pods=(replace(PLAN.pods[0], state="terminating", reason="r"),))

    (pod,) = get("pods", plan=leaving, **stale("nvmap"))["pods"]

    assert (pod["state"], pod["reason"], pod["gpu_bytes"]) == ("terminating", "r", None)


# --- what is kept beside the last sample ----------------------------------------------------

EVENT = PLAN.events[0]


@pytest.mark.parametrize("name", api.KEPT)
def test_what_is_kept_is_told_however_old_the_sample_is_and_not_before_the_first_cycle(name: str) -> None:
    look = Look(shown(plan=None), NOW, WALL)

    assert api.answer(name, look) == api.answer(name, Look(shown(), NOW, WALL))
    assert list(api.answer(name, look)[1]) == [name]
    status, body = api.answer(name, Look(None, NOW, WALL))
    assert (status, body["reasons"][0]["name"]) == (503, "first-reading")


def test_events_have_the_time_at_which_they_happened() -> None:
    """By the seconds since boot; those of an earlier boot by the clock of that time."""
    events = (replace(EVENT, at=NOW - 20), replace(EVENT, at=NOW, wall=WALL - 3600), replace(EVENT, at=None))

    told = get("events", events=events)["events"]

    # WALL is 22:13:20.
    assert [one["at"] for one in told] == ["2023-11-14T22:13:00.000Z", "2023-11-14T21:13:20.000Z", None]
    assert told[0] == {"at": told[0]["at"], "reason": "MemoryBudgetExceeded", "regarding": "pod apps/llm", "note": "n"}


def test_incidents_are_those_of_the_history_command_newest_first() -> None:
    records = [decision(), owed(), outcome(), decision(id="two"), told_event()]

    (second, first) = get("incidents", incidents=tuple(map(journal.encoded, records)))["incidents"]

    assert (first, second) == history.joined(records).incidents
    assert first["events"][0]["ending"] == "told"


def test_the_configuration_is_told_whole() -> None:
    values = plain(Config(mode="observe"))

    assert get("config", configured=values)["config"] == {
        "digest": "abc123",
        "last_reload_ok": True,
        "problems": [],
        "values": values,
    }


def test_history_ends_at_the_time_of_the_request() -> None:
    trail = Trail()
    trail.take(shown(), NOW)

    told = get("history", trail=trail.points)["history"]

    assert (told["ages_seconds"], told["usable_bytes"]) == ([0], [700 * MIB])

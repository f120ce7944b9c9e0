"""The page about incidents shows what the program prints, and names every key that it writes."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from edgeagent import cli
from edgeagent.plan import describing, history, incidents, owing, readings
from edgeagent.plan.incidents import Moment
from edgeagent.plan.notices import pod_event
from edgeagent.plan.types import Event, KillOutcome, Outcome
from edgeagent.reconcile.outbox import Ending
from edgeagent.system import journal
from tests.unit.factories import GIB, MIB, WALL, Held, Scene, meminfo, pod
from tests.unit.plan.test_history import decision, outcome, owed
from tests.unit.plan.test_incidents import BOOT, Keeping, a_long_pod
from tests.unit.test_docs import documented, page

PAGE = "reference/history.md"


def an_eviction() -> list[dict[str, Any]]:
    """A board of 8 GiB on which ``shop/llm`` grows over its budget of 3 GiB, and ends 3 s after it is told to."""
    pods = (
        pod("llm", 3 * GIB, namespace="shop", owner=("ReplicaSet", "llm-6c9f4")),
        pod("detector", GIB, namespace="shop"),
    )

    def scene(gpu: int) -> Scene:
        held = {"llm": Held(gpu=gpu, host=400 * MIB), "detector": Held(gpu=700 * MIB, host=200 * MIB)}
        left = 6400 * MIB - gpu - 700 * MIB - 600 * MIB
        return Scene(pods=pods, held=held, meminfo=meminfo(8 * GIB, available=left, free=left))

    keeping = Keeping(scene(2900 * MIB))
    keeping.steps(0.0, 16.0, each=2.0)
    plan = keeping.steps(18.0, 33.0, scene=scene(3300 * MIB))
    keeping.answer(plan, "accepted", 33.1)
    keeping.steps(34.0, 35.0, scene=scene(3300 * MIB))
    gone = dataclasses.replace(
        scene(0), held={"detector": Held(gpu=700 * MIB, host=200 * MIB)}, meminfo=meminfo(8 * GIB, available=5500 * MIB)
    )
    keeping.steps(36.0, 37.0, scene=gone)
    told = Event(
        reason="MemoryBudgetEvicted", kind="Pod", namespace="shop", name="llm", uid="uid-llm", note="", id="e-1"
    )
    moment = Moment(33.1, 33.0, 33.0, WALL + 33.1, BOOT, "edge-1")
    late = {"format": 1, "line": "told", "event": "e-1", "ending": "told", "seconds": 640.0}
    return [
        *keeping.records,
        owing.owed(keeping.records[0]["id"], told, moment),
        {**late, "wall": describing.stamp(WALL + 640.0)},
    ]


def test_the_page_that_is_shown_is_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal.append(tmp_path, [journal.encoded(record) for record in an_eviction()])
    assert cli.main(["history", "--state-dir", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    blocks = re.findall(r"(?:^    .*\n(?:^\n(?=    ))?)+", page(PAGE), re.MULTILINE)
    examples = [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in blocks if "EVICTION" in block]
    assert examples == [out]


def keys(value: Any, path: str = "") -> set[str]:
    """As ``pods[].name``; the pairs in a row have no names."""
    if isinstance(value, dict):
        found = {f"{path}.{key}" if path else key for key in value}
        return found.union(*(keys(one, f"{path}.{key}" if path else key) for key, one in value.items()))
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return set().union(*(keys(one, f"{path}[]") for one in value))
    return set()


def test_every_key_is_documented_and_no_other() -> None:
    killed = {"t": 0.0, "outcome": "killed", "message": "", "pids": [1], "more_pids": 0}
    owner = {"kind": "Job", "name": "j"}
    named = decision(pod={**decision()["pod"], "owner": owner}, pods=[{**decision()["pods"][0], "owner": owner}])
    (found,), _, _ = history.joined([named, owed(), outcome(outcomes=[killed])])
    # Rows before and after are alike, and so are owners.
    alike = ("after[].", "pods[].owner.")
    wanted = {key for key in keys(found) if not key.startswith(alike)}
    assert set(documented(page(PAGE))) >= wanted
    below = {key for key in documented(page(PAGE)) if re.fullmatch(r"[a-z_]+(\[\])?(\.[a-z_\[\]]+)+", key)}
    assert below - keys(found) == {"before[].pods[]", "incidents.jsonl"} & below


@pytest.mark.parametrize(
    "values", [incidents.Kind, incidents.Ended, Outcome, KillOutcome], ids=lambda values: get_args(values)[0]
)
def test_every_value_is_documented(values: Any) -> None:
    assert [value for value in get_args(values) if f"`{value}`" not in page(PAGE)] == []


def test_as_many_incidents_are_there_as_the_page_says() -> None:
    """The latest fill one file at least. Long names, many pods, as many readings as are kept, one answer, one event."""
    pods = tuple(a_long_pod(number, "") for number in range(110))
    held = {one.name: Held(gpu=2 * GIB, host=GIB) for one in pods[:5]}
    keeping = Keeping(Scene(pods=pods, held=held, meminfo=meminfo(64 * GIB, available=8 * GIB)))
    plan = keeping.steps(0.0, 16.0, each=4.0)
    keeping.answer(plan, "forbidden", 16.0, "why " * 1000)
    keeping.steps(17.0, 80.0, each=9.0)
    first = keeping.of("decision")[0]
    kept = [record for record in keeping.records if record["id"] == first["id"]]
    for record in kept:
        for rows in {"before", "after"}.intersection(record):
            record[rows] = record[rows][-1:] * readings.MOST_READINGS
    event = pod_event(pods[0], "EvictionBlocked", "why " * 1000)
    moment = Moment(16.0, 16.0, 16.0, WALL, BOOT, "edge-1")
    named = dataclasses.replace(event, id=f"{first['id']}/EvictionBlocked/1")
    kept += [owing.owed(first["id"], named, moment), owing.told(named.id, "told", moment)]
    size = sum(len(journal.encoded(record)) for record in kept)
    (most, least) = map(int, re.findall(r"and (\d+) kB at most: of such, at least the latest (\d+)", page(PAGE))[0])
    assert [record["line"] for record in kept] == ["decision", "outcome", "owed", "told"]
    assert size <= most * 1000
    assert least * size <= journal.LIMIT - journal.LONGEST


def test_every_end_of_an_event_is_documented() -> None:
    ends = [end for end in get_args(Ending) if end != "later"]
    assert [end for end in ends if f"`{end}`" not in documented(page(PAGE))["events[].ending"][-1]] == []
    assert f"has {('', 'one', 'two', 'three', 'four', 'five')[owing.MOST_ALIKE]} events of a reason" in page(PAGE)


def test_the_bounds_are_those_of_the_program() -> None:
    text = page(PAGE)
    assert f"{journal.LIMIT // MIB} MiB" in text
    assert f"{journal.LONGEST // 1024} KiB" in text
    for kind, most in incidents.MOST_PER_HOUR.items():
        assert documented(text)[kind][-1] == str(most)
    assert f"{incidents.MOST_PER_POD} in an hour about one pod" in text

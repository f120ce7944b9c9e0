"""The OpenAPI document is valid, says what is served, and nothing else is served."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from edgeagent.config import Config, plain
from edgeagent.facts.neighbours import Effect, Figures, Latency, Neighbour
from edgeagent.facts.vitals import Vitals
from edgeagent.plan.peaks import Course, Peaks, Record, workload
from edgeagent.plan.types import Eviction, Kill
from edgeagent.serve import dashboard, openapi
from edgeagent.serve.look import Look
from edgeagent.serve.pages import DOCUMENT as FILE
from edgeagent.serve.pages import FILES, OPEN, PAGES, STREAM, file
from edgeagent.serve.shown import ConfigHealth, Shown
from edgeagent.serve.trail import Trail
from edgeagent.system import journal
from tests.unit.plan.test_history import decision, outcome, owed, told

from .states import DISCRETE, MIB, NOW, PLAN, READINGS, WALL, shown

EXPLAINED = Path(__file__).parents[3] / "docs" / "reference" / "explain.schema.json"
DOCUMENT: Any = json.loads(FILE.read_text(encoding="utf-8"))
JSON_PAGES = sorted(path for path in PAGES if path != "/metrics")


def full(**changes: Any) -> Shown:
    """A state in which every list has something in it."""
    trail = Trail()
    trail.take(shown(), NOW - 10)
    trail.take(shown(), NOW)
    course = Course(steps=((0, 300 * MIB),), watched=60.0, at=0.0)
    record = Record(gpu={PLAN.pools[0].resource: course}, host=course, gpu_budgets={}, memory_limit=None, seen_at=0.0)
    figures = Figures(p50_seconds=0.1)
    neighbour = Neighbour(
        at=NOW,
        namespace="apps",
        name="llm",
        uid="uid-llm",
        cpu_throttled_ratio=0.5,
        latency=Latency(p50_seconds=0.1),
        since_newcomer=Effect(pod="apps/odd", seconds=60.0, before=figures, after=figures),
    )
    plan = replace(
        PLAN,
        evictions=(
            Eviction(namespace="apps", name="llm", uid="uid-llm", breach="gpu", grace_seconds=30, message="over"),
        ),
        kills=(Kill(uid="uid-llm", processes=((4242, 7),), message="now"),),
    )
    whole = shown(
        plan=plan,
        configured=plain(Config()),
        events=(replace(PLAN.events[0], at=NOW - 20), PLAN.events[0]),
        incidents=tuple(map(journal.encoded, (decision(), owed(), outcome(), told(), decision(id="two", pod=None)))),
        trail=trail.points,
        peaks=Peaks(records={workload(PLAN.pods[1].pod, "main"): record}),
        neighbours={"uid-llm": neighbour},
        vitals=Vitals(at=NOW, power_mode="15W", temperatures=(("cpu", 51.5), ("off", None)), busy={"tegra": 0.5}),
    )
    return replace(whole, **changes)


STATES = {
    "full": full(),
    "plain": shown(),
    "discrete": full(plan=DISCRETE),
    "observing": full(plan=replace(PLAN, observe="mode: observe is configured")),
    "before the first cycle": None,
    "no plan": full(plan=None),
    "old": full(at=NOW - 11),
    "standalone": full(cluster=None, plan=replace(PLAN, pods=(), listed=False)),
    "refused": full(config=ConfigHealth(digest="abc123", refused=("config.yaml: mode: wrong",))),
    **{
        f"stale {name}": full(readings={**READINGS, name: replace(READINGS[name], succeeded_at=NOW - 11)})
        for name in READINGS
    },
    "never read": full(readings={name: replace(one, succeeded_at=None, why="w") for name, one in READINGS.items()}),
}


def answers(operation: Any, status: int) -> Any:
    told = operation["responses"][str(status)]
    return DOCUMENT["components"]["responses"][str(status)] if "$ref" in told else told


def test_the_file_is_what_the_code_says() -> None:
    """Made anew by ``python -m edgeagent.serve.openapi docs/reference/explain.schema.json``."""
    explained = json.loads(EXPLAINED.read_text(encoding="utf-8"))

    assert FILE.read_text(encoding="utf-8") == openapi.encoded(openapi.document(explained))


def test_it_is_a_valid_document() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    assert [error.message for error in OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []


def test_it_has_the_paths_that_are_served_and_no_others() -> None:
    assert set(DOCUMENT["paths"]) == {*PAGES, *FILES, STREAM}
    assert {method for path in DOCUMENT["paths"].values() for method in path} == {"get", "head"}


def test_what_needs_no_token_is_said() -> None:
    told = {path for path, methods in DOCUMENT["paths"].items() if methods["get"].get("security") == [{}]}

    assert told == OPEN


def test_every_part_is_used() -> None:
    text = json.dumps({key: value for key, value in DOCUMENT.items() if key != "components"})
    used = text + json.dumps(DOCUMENT["components"])

    assert [name for name in DOCUMENT["components"]["schemas"] if f'#/components/schemas/{name}"' not in used] == []
    assert [name for name in DOCUMENT["components"]["responses"] if f'#/components/responses/{name}"' not in text] == []


@pytest.mark.parametrize("path", JSON_PAGES)
def test_every_answer_is_as_it_says(path: str) -> None:
    for name, state in STATES.items():
        for verbose in (False, True) if path in OPEN else (False,):
            status, content_type, body = PAGES[path](Look(state, NOW, WALL, verbose=verbose))

            schema = answers(DOCUMENT["paths"][path]["get"], status)["content"]["application/json"]["schema"]
            validator = Draft202012Validator({**schema, "components": DOCUMENT["components"]})
            assert content_type == "application/json; charset=utf-8"
            assert [error.message for error in validator.iter_errors(json.loads(body))] == [], name


def test_a_full_state_leaves_no_list_empty_so_that_every_part_was_looked_at() -> None:
    document = json.loads(PAGES["/api/v1/state"](Look(STATES["refused"], NOW, WALL))[2])

    empty = {"stale", "vitals.throttle_reasons", "board.warnings", "ready.reasons"}
    assert {where for where in _empty(document, "") if not where.startswith("incidents")} <= empty


def _empty(value: Any, where: str) -> set[str]:
    if isinstance(value, dict):
        found = [_empty(one, f"{where}.{key}".strip(".")) for key, one in value.items()]
    elif isinstance(value, list) and value:
        found = [_empty(value[0], where)]
    else:
        found = [{where} if value == [] else set()]
    return set().union(*found)


@pytest.mark.parametrize("path", dashboard.PATHS)
def test_the_files_of_the_dashboard_have_the_type_that_it_says(path: str) -> None:
    found = file(path)
    assert found

    (content_type,) = DOCUMENT["paths"][path]["get"]["responses"]["200"]["content"]
    assert found[0].partition(";")[0] == content_type

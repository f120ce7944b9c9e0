"""The reference names what is served, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families

from edgeagent.serve import api, health, listener, metrics, stream, trail
from edgeagent.serve import state as everything
from edgeagent.serve.look import Look
from edgeagent.serve.pages import DOCUMENT, FILES, PAGES, STREAM
from edgeagent.serve.shown import Refused

from .states import NOW, WALL, cluster, shown
from .whole import whole

REFERENCE = (Path(__file__).parents[3] / "docs" / "reference" / "http.md").read_text()

Series = dict[str, set[str]]
"""Label names by series."""


def served() -> Series:
    """Every series of two boards on which nothing is unknown."""
    found: Series = {}
    for state in (*whole().values(), None):
        text = metrics.text(state, NOW, WALL).decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def documented() -> Series:
    rows = re.findall(r"^\| (`(?:edgeagent|process)_.*?) \| (.*?) \|", REFERENCE, re.MULTILINE)
    return {
        name: set(re.findall(r"`(\w+)`", labels)) for names, labels in rows for name in re.findall(r"`(\w+)`", names)
    }


def test_every_series_is_in_the_reference_with_its_labels() -> None:
    assert documented() == served()


def test_every_path_is_in_the_reference() -> None:
    told = {
        path for row in re.findall(r"^\| (`/.*)\|$", REFERENCE, re.MULTILINE) for path in re.findall(r"`(/\S*)`", row)
    }
    assert told == {*PAGES, *FILES, STREAM}


EXAMPLES = re.findall(r"^`(/\S+)`:\n\n```json\n(.*?)```", REFERENCE, re.MULTILINE | re.DOTALL)


def test_every_path_of_the_api_has_an_example() -> None:
    api = [path for path in PAGES if path.startswith("/api/")]

    assert sorted(path for path, _ in EXAMPLES) == sorted(api)


@pytest.mark.parametrize(("path", "example"), EXAMPLES, ids=[path for path, _ in EXAMPLES])
def test_the_example_is_as_the_openapi_document_says(path: str, example: str) -> None:
    document = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    content = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
    validator = Draft202012Validator({**content["schema"], "components": document["components"]})

    assert [error.message for error in validator.iter_errors(json.loads(example))] == []


def test_the_limits_are_those_of_the_program() -> None:
    def number(pattern: str) -> int:
        told = re.search(pattern, REFERENCE)
        assert told, pattern
        return int({"eight": 8, "ten": 10, "five": 5}.get(told[1], told[1]))

    assert number(r"There can be (\w+) streams") == stream.MOST
    assert number(r"not taken an event within (\d+) s") == stream.PATIENCE
    assert number(r"again when (\w+) seconds\npass without a cycle") == stream.QUIET
    assert number(r"There are (\d+) places") == listener.PLACES
    assert number(r"beside the (\d+) places") == listener.PLACES
    assert number(r"but for a stream, lives for at most (\d+) s") == listener.LIFE
    assert number(r"One point each (\w+) seconds") == trail.STEP
    assert number(r"One point each five seconds, (\d+) of them") == trail.POINTS
    assert number(r"told too; (\d+) pods of each point") == trail.MOST_PODS
    assert number(r"that hold most, and (\d+) in all") == trail.MOST_LINES


def test_keys_of_the_state_are_in_the_reference() -> None:
    part = REFERENCE.split("### State and stream")[1].split("\n## ")[0]
    told = set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE))
    of_a_path = {"board", "devices", "host", *(name for name in (*api.PARTS, *api.KEPT))}

    assert told | of_a_path == {*everything.document(Look(None, NOW, WALL)), "config", "history"}


def test_every_check_is_in_the_reference() -> None:
    state = shown(cluster=cluster(refused=(Refused(part="evict", code=403, message="no"),)))
    names = {check["name"] for check in health.readyz(state, NOW, verbose=True)[1]["checks"]}
    names |= {health.sample(None, NOW).name}

    told = set(re.findall(r"^\| `(\S+)` \| .* \| (?:503)? ?\| 503 \|$", REFERENCE, re.MULTILINE))
    patterns = [re.sub(r"<\w+>", r".+", re.escape(name).replace(r"\<", "<").replace(r"\>", ">")) for name in told]
    assert [name for name in names if not any(re.fullmatch(pattern, name) for pattern in patterns)] == []
    assert [pattern for pattern in patterns if not any(re.fullmatch(pattern, name) for name in names)] == []

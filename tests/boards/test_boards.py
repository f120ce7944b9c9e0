"""Recorded machines: what ``edgeagent explain`` says of each, against figures worked out by hand from the recording.

Beside each snapshot, ``expected.yaml`` holds the whole document but for sentences meant for people, each number with
where it comes from; ``recorded.txt`` holds the lines of the recording that were used. What a machine did not record is
missing from its snapshot, and unknown in the document.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from edgeagent import cli

HERE = Path(__file__).parent
SCHEMA = json.loads((HERE.parent.parent / "docs/reference/explain.schema.json").read_text())
BOARDS = sorted(path.parent for path in HERE.glob("*/expected.yaml"))

QUIET = {
    "format": 1,
    "at": 0.0,
    "pods": [],
    "plan": {"evictions": [], "kills": [], "held": [], "events": []},
    "findings": [],
}
"""What ``expected.yaml`` leaves out: nothing runs there, and nothing is to be done."""

SENTENCES = frozenset({"message", "why", "note", "summary", "evidence", "remedy"})
"""Texts for people, which may be worded better one day."""


def plain(value: Any) -> Any:
    """The document without its sentences, and each float that is whole as an integer."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key not in SENTENCES}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def differences(expected: Any, found: Any, place: str = "") -> list[str]:
    """Where ``found`` is not exactly as expected."""
    if isinstance(expected, dict) and isinstance(found, dict):
        lines = [f"{place}/{key} is not there" for key in expected if key not in found]
        lines += [f"{place}/{key} is not expected" for key in found if key not in expected]
        inner = (differences(value, found[key], f"{place}/{key}") for key, value in expected.items() if key in found)
        return lines + [line for part in inner for line in part]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        parts = (
            differences(one, two, f"{place}/{index}")
            for index, (one, two) in enumerate(zip(expected, found, strict=True))
        )
        return [line for part in parts for line in part]
    return [] if expected == found and type(expected) is type(found) else [f"{place}: {found!r}, expected {expected!r}"]


def documents(out: str) -> list[dict[str, Any]]:
    """What was printed: one document, or one per line for a recording with frames."""
    return [json.loads(line) for line in out.splitlines()] if out.startswith('{"') else [json.loads(out)]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_a_recorded_machine_is_explained_as_worked_out_by_hand(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", str(board / "snapshot"), "--format", "json"]) == 0

    found = documents(capsys.readouterr().out)
    given = yaml.safe_load((board / "expected.yaml").read_text())
    expected = given.get("frames", [given])
    assert len(found) == len(expected)
    for one, other in zip(expected, found, strict=True):
        jsonschema.validate(other, SCHEMA)
        assert differences(plain(QUIET | one), plain(other)) == []


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_a_recorded_machine_tells_where_it_was_recorded(board: Path) -> None:
    lines = (board / "recorded.txt").read_text().splitlines()
    assert lines[0].startswith("# source: ")
    assert all(line.startswith("# ") or line.partition("| ")[0].rpartition(":")[2].isdigit() for line in lines)


def test_the_comparison_can_fail() -> None:
    found = {"a": 1, "b": [{"c": None}], "d": True, "f": 0}
    assert differences({"a": 2, "b": [{"c": 0}], "d": 1, "e": None}, found) == [
        "/e is not there",
        "/f is not expected",
        "/a: 1, expected 2",
        "/b/0/c: None, expected 0",
        "/d: True, expected 1",
    ]

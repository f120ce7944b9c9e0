"""Recorded machines: what ``edgeagent explain`` says of each, against figures worked out by hand from the recording.

``expected.yaml`` beside each snapshot holds the parts of the document that the recording decides, each number with
where it comes from. What a machine did not record is missing from its snapshot, and unknown in the document.
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


def differences(expected: Any, found: Any, place: str = "") -> list[str]:
    """Where ``found`` is not as expected; a mapping may have more keys than expected, a list not more items."""
    if isinstance(expected, dict) and isinstance(found, dict):
        absent = [f"{place}/{key} is not there" for key in expected if key not in found]
        inner = (differences(value, found[key], f"{place}/{key}") for key, value in expected.items() if key in found)
        return absent + [line for lines in inner for line in lines]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        inner = (
            differences(one, two, f"{place}/{index}")
            for index, (one, two) in enumerate(zip(expected, found, strict=True))
        )
        return [line for lines in inner for line in lines]
    return [] if expected == found and type(expected) is type(found) else [f"{place}: {found!r}, expected {expected!r}"]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_a_recorded_machine_is_explained_as_worked_out_by_hand(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", str(board / "snapshot"), "--format", "json"]) == 0

    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, SCHEMA)
    expected = yaml.safe_load((board / "expected.yaml").read_text())
    assert differences(expected, document) == []
    # Labels and capacity: exactly these, nothing invented for what was not recorded.
    for part in ("labels", "capacity"):
        assert document["node"][part] == expected["node"][part]


def test_the_comparison_can_fail() -> None:
    found = {"a": 1, "b": [{"c": None}], "d": True}
    assert differences({"a": 2, "b": [{"c": 0}], "d": 1, "e": None}, found) == [
        "/e is not there",
        "/a: 1, expected 2",
        "/b/0/c: None, expected 0",
        "/d: True, expected 1",
    ]

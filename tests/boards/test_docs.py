"""The page about boards tells of each recorded machine what its document says, and of no other machine."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from edgeagent.facts import GPU_MEMORY
from tests.boards.test_boards import BOARDS
from tests.unit.test_docs import page, part, rows

PAGE = page("reference/boards.md")
NOTHING = "–"
TABLE = [[cell.strip("`") for cell in row] for row in rows(part(PAGE, "Recorded machines"))]


def verdicts(document: dict[str, Any]) -> set[tuple[str, str]]:
    """Kind and advertised memory of each sample."""
    samples = document.get("frames", [document])
    return {(one["board"]["kind"], one["node"]["capacity"].get(GPU_MEMORY, NOTHING)) for one in samples}


def test_the_page_has_a_row_for_each_folder_and_no_other() -> None:
    assert TABLE[0] == ["folder", "machine", "recorded", "kind", "advertised"]
    assert [row[0] for row in TABLE[1:]] == [board.name for board in BOARDS]


@pytest.mark.parametrize("row", TABLE[1:], ids=lambda row: row[0])
def test_a_row_says_what_the_document_of_its_folder_says(row: list[str]) -> None:
    folder, machine, recorded, *verdict = row
    (board,) = [board for board in BOARDS if board.name == folder]

    assert verdicts(yaml.safe_load((board / "expected.yaml").read_text())) == {tuple(verdict)}
    assert machine
    assert recorded


def test_no_machine_is_both_recorded_and_left_out() -> None:
    left_out = set(re.findall(r"[a-z0-9]+(?:-[a-z0-9]+)+", part(PAGE, "Machines left out")))

    assert "agx-orin-32gb-jp511" in left_out
    assert left_out & {board.name for board in BOARDS} == set()


def test_a_machine_with_two_verdicts_fits_no_row() -> None:
    jetson = {"board": {"kind": "jetson"}, "node": {"capacity": {GPU_MEMORY: "1Mi"}}}
    none = {"board": {"kind": "none"}, "node": {"capacity": {}}}

    assert verdicts({"frames": [jetson, none]}) == {("jetson", "1Mi"), ("none", NOTHING)}

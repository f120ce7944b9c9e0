"""What holds for every rule: a snapshot triggers it, a near miss does not, and the page has a section of it."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

import pytest

from edgeagent.diagnose import rules
from edgeagent.diagnose.pages import page
from edgeagent.diagnose.registry import RULES
from edgeagent.diagnose.rule import Rule
from edgeagent.snapshot import recording, replay
from tests.diagnose.making import Capture, findings, found, healthy
from tests.unit.test_docs import DOCS

BOARDS = sorted(path.parent for path in (Path(__file__).parents[1] / "boards").glob("*/expected.yaml"))


def case(rule: Rule) -> Any:
    """The module of a rule's tests, which has TRIGGER and NEAR_MISS: files of a snapshot."""
    return importlib.import_module(f"tests.diagnose.test_{rule.id.replace('-', '_')}")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_it_finds_what_is_wrong(rule: Rule, tmp_path: Path, capsys: Capture) -> None:
    assert found(capsys, tmp_path, case(rule).TRIGGER, rule.id)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_it_does_not_take_a_near_miss_for_it(rule: Rule, tmp_path: Path, capsys: Capture) -> None:
    assert found(capsys, tmp_path, case(rule).NEAR_MISS, rule.id) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_finding_says_what_was_looked_at_and_what_to_do(rule: Rule, tmp_path: Path, capsys: Capture) -> None:
    for one in found(capsys, tmp_path, case(rule).TRIGGER, rule.id):
        assert one["evidence"]
        assert one["remedy"]
        assert one["summary"].endswith(".")


def test_nothing_is_found_on_a_healthy_node(tmp_path: Path, capsys: Capture) -> None:
    assert findings(capsys, tmp_path, healthy()) == []


def test_every_module_has_rules_and_no_id_is_taken_twice() -> None:
    ids = [rule.id for rule in RULES]
    assert len(ids) == len(set(ids))
    assert ids == sorted(ids)
    files = {path.stem for path in Path(rules.__path__[0]).glob("*.py")} - {"__init__"}
    assert {rule.id.replace("-", "_") for rule in RULES} >= {name for name in files if not name.startswith("_")}


def test_the_page_is_what_the_rules_say() -> None:
    # Written anew by scripts/findings-page.
    assert (DOCS / "reference/findings.md").read_text(encoding="utf-8") == page()


def test_no_finding_is_made_beside_its_rule() -> None:
    for path in Path(rules.__path__[0]).glob("*.py"):
        called = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert [one for one in called if isinstance(one, ast.Name) and one.id == "Finding"] == [], path


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_nothing_above_a_note_is_found_on_a_recorded_machine(board: Path) -> None:
    for _, plan in replay.plans(recording.read(board / "snapshot")):
        assert [one for one in plan.findings if one.severity != "info"] == []

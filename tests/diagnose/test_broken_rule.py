"""A rule that fails at something that it reads stops no other, and does not go unsaid."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgeagent.diagnose import diagnosis
from edgeagent.diagnose.collected import ClusterSeen
from edgeagent.diagnose.registry import RULES
from edgeagent.diagnose.rule import Rule
from edgeagent.facts import Finding
from edgeagent.facts.diagnosis import no_cluster
from tests.diagnose.making import CONTAINERD, Capture, containerd, findings, healthy, judged
from tests.diagnose.test_rounds import Round

BROKEN = "clock-invalid"
OTHER = "runtime-default-undefined"


@pytest.fixture(autouse=True)
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(_: object) -> Iterator[Finding]:
        yield from ()
        raise ValueError("x" * 1000)

    def changed(rule: Rule) -> Rule:
        return replace(rule, look=look, across=look) if rule.id == BROKEN else rule

    monkeypatch.setattr(diagnosis, "RULES", tuple(map(changed, RULES)))


def test_the_others_find_what_they_find(tmp_path: Path, capsys: Capture) -> None:
    found = findings(capsys, tmp_path, healthy(**{CONTAINERD: containerd("kata")}))
    assert OTHER in [one["id"] for one in found]
    (one,) = (one for one in found if one["id"] == BROKEN)
    assert judged(one) == ("info", "cannot-tell", "node edge-07")
    assert one["evidence"] == [f"ValueError: {'x' * 200}"]


def test_of_a_cluster_too() -> None:
    seen = ClusterSeen(nodes=(), bound={}, cluster=no_cluster("not asked"))
    assert (BROKEN, "cannot-tell") in [(one.id, one.certainty) for one in diagnosis.across(seen)]


@pytest.mark.asyncio
async def test_the_log_tells_of_it_once(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    board = await asyncio.to_thread(Round, tmp_path, healthy(**{CONTAINERD: containerd("kata")}), None)
    plan = board.saw()
    assert OTHER in await board.made()
    assert OTHER in await board.made()
    told = [record.message for record in caplog.records if record.message.startswith(f"the rule {BROKEN} fails")]
    assert told == [f"the rule {BROKEN} fails: ValueError: {'x' * 1000}"]
    assert all(one.event == "" for one in board.rounds.findings or () if one.id == BROKEN)
    assert plan.findings == ()

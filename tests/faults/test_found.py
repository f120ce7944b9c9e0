"""What a diagnosis finds is told once: not again each minute, not again by an agent that is started anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.diagnose.making import BINARY, CONTAINERD_PATH, containerd
from tests.faults.virtual import Call, Outpost, play

pytestmark = pytest.mark.may_block("what threads do is done in the loop here, so that time can be virtual")

ROUNDS = 130.0
"""Seconds in which there are two rounds, a minute apart, whatever the pods do."""


def told(outpost: Outpost) -> list[dict[str, Any]]:
    return [event for event in outpost.api.events.values() if event["reason"] == "RuntimeMissing"]


def sent(outpost: Outpost) -> list[Call]:
    """All that was written of the one event."""
    (name,) = (event["metadata"]["name"] for event in told(outpost))

    def about(call: Call) -> bool:
        return call.path.endswith(f"/events/{name}") or (
            call.path.endswith("/events") and call.body["metadata"]["name"] == name
        )

    return [call for call in outpost.api.calls if call.method != "GET" and about(call)]


def configure(outpost: Outpost, **binaries: str) -> None:
    path = outpost.board.root / CONTAINERD_PATH.lstrip("/")
    path.write_text(containerd(**binaries))


def test_a_finding_is_told_once_over_restarts_and_again_when_it_is_back(tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        configure(outpost)
        outpost.start()
        await outpost.settle(5 * ROUNDS)
        (event,) = told(outpost)
        assert event["regarding"]["kind"] == "Node"
        assert [call.method for call in sent(outpost)] == ["POST"]

        for killed in (False, True):
            await outpost.stop(killed=killed)
            outpost.start()
            await outpost.settle(ROUNDS)
        # Each agent asks once whether the server has it, and it has.
        assert [call.method for call in sent(outpost)] == ["POST", "POST", "POST"]
        assert len(told(outpost)) == 1

        configure(outpost, nvidia=BINARY)
        await outpost.settle(ROUNDS)
        configure(outpost)
        await outpost.settle(ROUNDS)
        # It was mended and is back: the same event, counted twice.
        assert len(told(outpost)) == 1
        assert sent(outpost)[-1].method == "PATCH"
        assert sent(outpost)[-1].body["series"]["count"] == 2

    play(tmp_path, story)


def test_other_words_of_a_finding_are_told_as_another_event(tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        configure(outpost)
        agent = outpost.start()
        await outpost.settle(ROUNDS)
        (first,) = told(outpost)
        # A pod that reaches the GPU some other way is named in the finding.
        outpost.pod("llm", 1024, 900)
        await outpost.settle(ROUNDS)
        assert agent.rounds.findings
        notes = {event["note"] for event in told(outpost)}
        assert len(notes) == len(told(outpost)) == 2
        assert first["note"] in notes
        assert any("apps/llm" in note for note in notes)

    play(tmp_path, story)

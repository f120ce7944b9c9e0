"""Upgrade and downgrade: the agent starts on the state of another version, and loses what it has to lose, no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgeagent.system.clock import boottime
from tests.system.service import furnish, running

BOOT_ID = "proc/sys/kernel/random/boot_id"
OWNER = ["apps", "ReplicaSet", "llm"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    furnish(tmp_path)
    return tmp_path


def first(folder: Path) -> dict[str, Any]:
    """A state as the first version wrote it: no machine, no last good capacity."""
    now = boottime()
    return {
        "format": 1,
        "boot_id": (folder / "host" / BOOT_ID).read_text().strip(),
        "host_root": str(folder / "host"),
        "gpu_seen": True,
        "hold_down_until": now - 20,
        "evicted_at": [now - 30],
        "backoff": [{"owner": OWNER, "minutes": 2, "until": now + 90, "breached_at": now - 30}],
        "victims": [],
    }


def after_a_run(folder: Path, document: Any) -> tuple[dict[str, Any], str]:
    """(the state that an agent leaves which found ``document``, its log)."""
    file = folder / "state/state.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    with running(folder) as agent:
        assert agent.get("/readyz")[0] == 200
        assert agent.stop() == 0
    found: dict[str, Any] = json.loads(file.read_text())
    return found, (folder / "log").read_text()


def test_the_state_of_the_first_version_is_taken_over(folder: Path) -> None:
    document = first(folder)

    found, log = after_a_run(folder, document)

    assert "is not used" not in log
    assert found["evicted_at"] == document["evicted_at"]
    assert found["backoff"] == document["backoff"]


def test_a_later_version_that_only_added_keys_is_taken_over(folder: Path) -> None:
    document = {**first(folder), "latency": {"apps/llm": [1, 2, 3]}}

    found, log = after_a_run(folder, document)

    assert "is not used" not in log
    assert found["backoff"] == document["backoff"]


def test_a_later_version_that_changed_what_a_key_means_is_ignored_with_a_word(folder: Path) -> None:
    found, log = after_a_run(folder, {**first(folder), "format": 2, "backoff": "elsewhere"})

    assert "is not used: it is of another version" in log
    assert (found["format"], found["backoff"], found["evicted_at"]) == (1, [], [])


@pytest.mark.parametrize("document", ["", "{", "[]", '"x"', '{"format": []}', "\x00" * 64], ids=range(6))
def test_whatever_is_in_the_file_the_agent_starts(folder: Path, document: str) -> None:
    found, log = after_a_run(folder, document)

    assert found["format"] == 1
    assert "is not used" in log

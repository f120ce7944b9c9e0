"""A state directory that is full for a while, and a state file that is not what it should be."""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from edgeagent.agent import Agent, Options
from edgeagent.config import Config
from edgeagent.facts import GPU_MEMORY
from edgeagent.plan import keeping
from edgeagent.plan.state import Good, State
from edgeagent.quantity import MIB
from edgeagent.system import statefile
from tests.faults.conftest import until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """A standalone agent on a board without any file."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    options = Options(host_root=tmp_path, nvml_replay=tmp_path / "none.json", state_dir=tmp_path)
    return Agent(options, Config(), clock=time.monotonic, wall=time.time)


async def test_state_is_written_until_that_succeeds_and_then_only_when_it_changed(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = mock.Mock(side_effect=["no space left", "no space left", ""])
    monkeypatch.setattr(statefile, "write", write)
    try:
        for number in (1, 2, 3):
            await agent.cycle()
            await until(lambda number=number: write.call_count == number and not _saving())  # type: ignore[misc]
        await agent.cycle()
        assert not _saving()
    finally:
        agent.reader.close()


MACHINE = "0d5f6c1e8b7a4f2e9c3d1a2b3c4d5e6f"
GOOD = {GPU_MEMORY: Good(6083 * MIB, (("soc", "soc"),))}


async def started(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> State:
    """The state with which the agent decides for the first time."""
    stop = asyncio.Event()
    found: list[State] = []

    async def cycle() -> None:
        found.append(agent.state)
        stop.set()

    monkeypatch.setattr(agent, "cycle", cycle)
    await agent.run(stop, lambda _: None)
    return found[0]


def left(folder: Path, **changes: Any) -> str:
    """A file of an earlier run on the machine at ``folder``, but for ``changes``."""
    (folder / "etc").mkdir()
    (folder / "etc/machine-id").write_text(f"{MACHINE}\n")
    document = keeping.kept(State(good=GOOD, mixed=True), keeping.Origin("another boot", str(folder), MACHINE))
    return json.dumps({**document, **changes})


async def test_what_an_earlier_run_has_left_is_taken_up_without_a_word(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / statefile.NAME).write_text(left(tmp_path))
    assert await started(agent, monkeypatch) == State(good=GOOD, mixed=True)
    assert statefile.NAME not in caplog.text


@pytest.mark.parametrize(
    ("change", "cut", "said"),
    [
        ({}, 40, "is not used"),
        ({}, 0, "is not used"),
        ({"machine_id": "another"}, None, "it is of another machine"),
        ({"format": 0}, None, "it is of another version"),
        ({"good": {GPU_MEMORY: {"bytes": 10**30, "devices": []}}}, None, "it is not as this agent writes it"),
        (None, None, "nothing is known of an earlier run"),
    ],
    ids=["torn", "empty", "foreign", "version", "absurd", "missing"],
)
async def test_a_file_that_cannot_be_used_is_one_line_in_the_log(
    change: dict[str, Any] | None,
    cut: int | None,
    said: str,
    agent: Agent,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    if change is not None:
        (tmp_path / statefile.NAME).write_text(left(tmp_path, **change)[:cut])
    assert await started(agent, monkeypatch) == State()
    (line,) = [record.getMessage() for record in caplog.records if statefile.NAME in record.getMessage()]
    assert said in line


def _saving() -> bool:
    return any(task.get_name() == "state file" for task in asyncio.all_tasks())


async def test_what_killed_runs_have_left_of_a_write_is_removed_at_the_start(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (tmp_path / f".{statefile.NAME}.{number}abcdefg").write_text("{")
    await started(agent, monkeypatch)
    assert [name for name in os.listdir(tmp_path) if name.startswith(".state")] == []  # noqa: PTH208 (in a loop)


async def test_a_pipe_in_the_place_of_the_file_does_not_stop_the_start(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(tmp_path / statefile.NAME)
    assert await asyncio.wait_for(started(agent, monkeypatch), 10) == State()
    assert "no regular file" in caplog.text

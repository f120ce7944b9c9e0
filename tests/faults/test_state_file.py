"""A state directory that is full for a while: what could not be written is written once that is possible."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from edgeagent.agent import Agent, Options
from edgeagent.config import Config
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


def _saving() -> bool:
    return any(task.get_name() == "state file" for task in asyncio.all_tasks())

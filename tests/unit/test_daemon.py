"""How the configuration is read again beside the cycles."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from unittest import mock

import pytest

from edgeagent import daemon
from edgeagent.agent import Agent, Options
from edgeagent.config import Config
from edgeagent.errors import ConfigError
from tests.faults.conftest import until
from tests.unit.factories import config
from tests.unit.serve.states import PLAN

if TYPE_CHECKING:
    from pathlib import Path

    from edgeagent.status import Status

OLD, NEW = Config(), config("mode: observe")


class Reloads:
    """Reloads under way. ``load`` waits for ``go`` each time; ``at_once`` is the most that ran at a time."""

    def __init__(self, *answers: Config | ConfigError) -> None:
        self.agent = SimpleNamespace(config=OLD, wake=mock.Mock())
        self.status = SimpleNamespace(refused=())
        self.notifier = mock.Mock(watchdog=None)
        self.wanted = asyncio.Event()
        self.go = threading.Semaphore(0)
        self.begun = 0
        self.at_once = self._running = 0
        self._answers = iter(answers)
        agent, status = cast("Agent", self.agent), cast("Status", self.status)
        self.task = asyncio.create_task(daemon.reloads(self.wanted, agent, status, self.notifier, self._load))

    def _load(self) -> Config:
        self.begun += 1
        self._running += 1
        self.at_once = max(self.at_once, self._running)
        assert self.go.acquire(timeout=60)
        self._running -= 1
        answer = next(self._answers)
        if isinstance(answer, ConfigError):
            raise answer
        return answer

    @property
    def told(self) -> list[str]:
        """What systemd was told."""
        return [call[0] for call in self.notifier.method_calls]


async def test_the_loop_goes_on_while_files_are_read() -> None:
    reloads = Reloads(NEW)
    reloads.wanted.set()

    await until(lambda: reloads.begun == 1)

    # This line runs in the loop, while the file is being read.
    assert (reloads.agent.config, reloads.told) == (OLD, ["reloading"])
    reloads.go.release()
    await until(lambda: len(reloads.told) == 2)
    assert (reloads.agent.config, reloads.told) == (NEW, ["reloading", "ready"])
    reloads.task.cancel()


async def test_what_is_wanted_meanwhile_is_read_afterwards_and_once() -> None:
    reloads = Reloads(OLD, NEW)
    reloads.wanted.set()
    await until(lambda: reloads.begun == 1)

    for _ in range(3):
        reloads.wanted.set()
    reloads.go.release(2)

    await until(lambda: len(reloads.told) == 4)
    assert reloads.told == ["reloading", "ready"] * 2
    assert (reloads.begun, reloads.at_once) == (2, 1)
    assert reloads.agent.config == NEW
    reloads.task.cancel()


async def test_a_mistake_is_noted_and_the_next_one_can_be_right() -> None:
    reloads = Reloads(ConfigError(["policy.grace: wrong"]), NEW)
    reloads.go.release(2)
    reloads.wanted.set()
    await until(lambda: len(reloads.told) == 2)
    assert (reloads.agent.config, reloads.status.refused) == (OLD, ("policy.grace: wrong",))

    reloads.wanted.set()
    await until(lambda: len(reloads.told) == 4)

    assert (reloads.agent.config, reloads.status.refused) == (NEW, ())
    # What is shown follows at once, a mistake too.
    assert reloads.agent.wake.call_count == 2
    reloads.task.cancel()


def test_the_line_of_status_has_the_board_what_is_published_and_the_mode() -> None:
    assert daemon.sentence(None) == ""
    assert daemon.sentence(PLAN) == "jetson, edgeagent.dev/gpu-memory 5303Mi, mode enforce"
    assert daemon.sentence(replace(PLAN, observe="configured")).endswith("Mi, mode observe")
    unlisted = replace(PLAN, node=replace(PLAN.node, capacity={}))
    assert daemon.sentence(unlisted) == "jetson, no capacity, mode enforce"


SLOW = config("sampling: {interval: 600s, fast: 1s, max_age: 1200s}")


@pytest.fixture
def slow(tmp_path: Path) -> Agent:
    """Reads its board every ten minutes."""
    options = Options(host_root=tmp_path, nvml_replay=tmp_path / "none.json")
    return Agent(options, SLOW, clock=time.monotonic, wall=time.time)


async def test_a_cycle_that_was_asked_for_does_not_wait_for_the_next_reading(slow: Agent) -> None:
    stop, modes = asyncio.Event(), list[str]()

    def shown(agent: Agent) -> None:
        assert agent.plan
        modes.append(agent.plan.observe)
        if len(modes) == 1:
            agent.config = replace(SLOW, mode="observe")
            agent.wake()
        else:
            stop.set()

    await asyncio.wait_for(slow.run(stop, shown), 60)
    assert modes[-1] == "mode: observe is configured"


async def test_a_longer_interval_that_is_read_again_lengthens_the_limit_of_the_watchdog() -> None:
    reloads = Reloads(SLOW)
    reloads.notifier.watchdog = 30.0
    reloads.go.release()
    reloads.wanted.set()

    await until(lambda: "ready" in reloads.told)

    # Five cycles of 600 s may be missed.
    reloads.notifier.watch_every.assert_called_once_with(3000.0)
    reloads.task.cancel()


@pytest.mark.parametrize("loop", ["link", "watch", "rounds"])
async def test_an_agent_does_not_outlive_one_of_its_loops(
    slow: Agent, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow.config = config("sampling: {interval: 1s, fast: 10ms}")
    monkeypatch.setattr(getattr(slow, loop), "run", mock.AsyncMock(side_effect=ZeroDivisionError(loop)))

    with pytest.raises(ZeroDivisionError, match=loop):
        await asyncio.wait_for(slow.run(asyncio.Event(), lambda _: None), 60)

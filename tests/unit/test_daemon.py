"""How the configuration is read again beside the cycles."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from unittest import mock

from edgeagent import daemon
from edgeagent.config import Config
from edgeagent.errors import ConfigError
from tests.faults.conftest import until
from tests.unit.factories import config

if TYPE_CHECKING:
    from edgeagent.agent import Agent
    from edgeagent.status import Status

OLD, NEW = Config(), config("mode: observe")


class Reloads:
    """Reloads under way. ``load`` waits for ``go`` each time; ``at_once`` is the most that ran at a time."""

    def __init__(self, *answers: Config | ConfigError) -> None:
        self.agent = SimpleNamespace(config=OLD)
        self.status = SimpleNamespace(reload_ok=True)
        self.notifier = mock.Mock()
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
    assert (reloads.agent.config, reloads.status.reload_ok) == (OLD, False)

    reloads.wanted.set()
    await until(lambda: len(reloads.told) == 4)

    assert (reloads.agent.config, reloads.status.reload_ok) == (NEW, True)
    reloads.task.cancel()

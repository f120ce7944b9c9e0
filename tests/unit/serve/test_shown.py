"""What a whole agent shows of itself beside its plan."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgeagent.agent import Agent, Options
from edgeagent.config import Config, plain
from edgeagent.serve import api
from edgeagent.serve.look import Look
from edgeagent.status import Status
from edgeagent.system import journal
from tests.unit.plan.test_history import decision

from .states import PLAN

FILES = {
    "proc/meminfo": "MemTotal: 7802736 kB\nMemFree: 3000000 kB\nMemAvailable: 4000000 kB\n",
    "proc/device-tree/compatible": "nvidia,p3767-0005\0nvidia,tegra234\0",
}


@pytest.fixture(autouse=True)
def no_blocking_calls() -> None:
    """The agent looks at its own cost in the loop, once in ten seconds."""


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    root = tmp_path / "root"
    for name, content in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    nvml = tmp_path / "nvml.json"
    nvml.write_text(json.dumps({"library": "absent"}))
    options = Options(host_root=root, nvml_replay=nvml, state_dir=tmp_path)
    now = iter(range(1000, 100_000))
    return Agent(options, Config(), clock=lambda: float(next(now)) / 10, wall=lambda: 1_700_000_000.0)


def told(name: str, status: Status, agent: Agent) -> Any:
    code, body = api.answer(name, Look(status.shown(), agent.now(), 1_700_000_000.0))
    assert code == 200
    return body[name]


async def test_events_are_told_newest_first(agent: Agent) -> None:
    status = Status(agent)
    agent.outbox.tell([replace(PLAN.events[0], note="first"), replace(PLAN.events[0], note="second")])

    assert [event.note for event in status.shown().events] == ["second", "first"]


async def test_incidents_of_an_earlier_run_are_there_from_the_start(agent: Agent, tmp_path: Path) -> None:
    journal.append(tmp_path, [journal.encoded(decision())])
    status = Status(agent)

    await agent.chronicle.open(None)

    (incident,) = told("incidents", status, agent)
    assert incident["reason"] == "because"


async def test_the_configuration_is_that_in_force(agent: Agent) -> None:
    status = Status(agent)
    before = told("config", status, agent)
    agent.config = replace(agent.config, mode="observe")
    status.refused = ("policy.grace: wrong",)
    after = told("config", status, agent)

    assert (before["values"], after["values"]) == (plain(Config()), plain(Config(mode="observe")))
    assert before["digest"] != after["digest"]
    assert (before["last_reload_ok"], after["last_reload_ok"]) == (True, False)
    assert (before["problems"], after["problems"]) == ([], ["policy.grace: wrong"])


async def test_each_cycle_may_add_a_point_to_the_history(agent: Agent) -> None:
    status = Status(agent)
    await agent.cycle()
    status.shown()
    first = agent.now()
    while agent.now() < first + 6:
        pass
    agent.host = None  # a new sample is due
    await agent.cycle()

    # 4,000,000 kB are available, and there are no CMA pages.
    assert [point.usable for point in status.shown().trail] == [4_000_000 * 1024] * 2
    agent.reader.close()

"""A whole agent on a board of files: what it watches is told, and gone when the board is in danger."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from edgeagent.agent import Agent, Options
from edgeagent.facts import ClusterFacts
from edgeagent.serve.shown import Shown
from edgeagent.status import Status
from edgeagent.watch import watching
from tests.unit import factories
from tests.unit.factories import config
from tests.unit.host.test_thermal import ORIN
from tests.unit.snapshot.making import nvmap, write
from tests.unit.test_host_pressure import LOW, ROOM, meminfo


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(watching, "ROUND", 0.01)
    monkeypatch.setattr(watching, "FIRST", 0.01)
    files = {
        **{path: entry for path, entry in ORIN.items() if entry is not None},
        "proc/meminfo": meminfo(ROOM),
        "proc/device-tree/compatible": b"nvidia,p3767-0005\0nvidia,tegra234\0",
        "sys/kernel/debug/nvmap/iovmm/clients": nvmap(("Xorg", 700, 64)),
    }
    return write(tmp_path / "host", files)


@pytest.fixture
def agent(root: Path) -> Agent:
    nvml = root.parent / "nvml.json"
    nvml.write_text(json.dumps({"library": "absent"}))
    settings = config("sampling: {interval: 20ms, fast: 10ms}")
    return Agent(Options(host_root=root, nvml_replay=nvml), settings, clock=time.monotonic, wall=time.time)


@pytest.fixture
def status(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Status:
    monkeypatch.setattr("edgeagent.status.measure", lambda *_: None)
    return Status(agent)


@asynccontextmanager
async def running(agent: Agent) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(agent.run(stop, lambda _: None))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(task, 20)


async def shown_with_vitals(status: Status) -> Shown:
    async def look() -> Shown:
        while True:
            shown = status.shown()
            if shown.vitals is not None:
                return shown
            await asyncio.sleep(0.01)

    return await asyncio.wait_for(look(), 20)


async def shown_in_danger(status: Status) -> Shown:
    """After 20 cycles, in which the watch would have looked many times."""
    while True:
        shown = status.shown()
        if shown.counters.cycles > 20 and shown.plan is not None and shown.plan.danger.active:
            return shown
        await asyncio.sleep(0.01)


async def test_the_board_s_health_is_told(agent: Agent, status: Status) -> None:
    async with running(agent):
        shown = await shown_with_vitals(status)
    assert shown.vitals is not None
    assert shown.vitals.power_mode == "MAXN_SUPER"
    assert dict(shown.vitals.temperatures)["cpu-thermal"] == 49.781
    assert shown.neighbours == {}
    assert shown.plan is not None
    assert shown.plan.node.labels["edgeagent.dev/jetson.power-mode"] == "MAXN_SUPER"


async def test_a_board_in_danger_is_not_asked_how_it_is(root: Path, agent: Agent, status: Status) -> None:
    (root / "proc/meminfo").write_text(meminfo(LOW))
    async with running(agent):
        shown = await asyncio.wait_for(shown_in_danger(status), 20)
    assert shown.vitals is None


async def viewed(agent: Agent, monkeypatch: pytest.MonkeyPatch, cluster: ClusterFacts | None) -> list[str] | None:
    """Names of the pods that are watched."""
    agent.host = await agent.reader.sample(())
    agent.reader.close()
    monkeypatch.setattr(agent.link, "facts", lambda _: cluster)
    monkeypatch.setattr(agent, "now", lambda: 100.0)
    monkeypatch.setattr("edgeagent.plan.cadence.calm", lambda _: True)
    view = agent._view()  # noqa: SLF001 (what the watch is given)
    assert view is not None
    return None if view.pods is None else [pod.name for pod in view.pods]


PODS = tuple(factories.pod(phase.lower(), phase=phase) for phase in ("Pending", "Running", "Succeeded", "Failed"))


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        # sampling.max_age is 10 s
        (ClusterFacts(node=None, pods=PODS, fresh_at=90.0), ["pending", "running"]),
        (ClusterFacts(node=None, pods=PODS, fresh_at=89.9), None),
        (ClusterFacts(node=None, pods=None, fresh_at=100.0), None),
        (ClusterFacts(node=None, pods=(), fresh_at=100.0), []),
        (None, None),
    ],
    ids=["fresh", "stale", "unknown", "empty", "standalone"],
)
async def test_only_live_pods_of_a_current_view_are_watched(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, cluster: ClusterFacts | None, expected: list[str] | None
) -> None:
    assert agent.config.sampling.max_age == 10.0
    assert await viewed(agent, monkeypatch, cluster) == expected


@pytest.mark.parametrize(("named", "expected"), [("", True), ("/kubeconfig", False)])
def test_an_empty_name_of_a_kubeconfig_is_none(
    root: Path, monkeypatch: pytest.MonkeyPatch, named: str, *, expected: bool
) -> None:
    monkeypatch.setenv("KUBECONFIG", named)
    link = Agent(Options(host_root=root), config(""), clock=time.monotonic, wall=time.time).link
    monkeypatch.setattr(link, "_nothing_found", True)  # as after the first look
    assert link.standalone is expected

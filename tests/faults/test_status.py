"""What the endpoint is told of the cluster and of the readings."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from edgeagent.agent import Agent, Options
from edgeagent.cluster.view import ClusterView
from edgeagent.config import Config
from edgeagent.facts import BoardFiles, ClusterFacts, NodeFacts, Process
from edgeagent.plan.decide import decide
from edgeagent.plan.state import State
from edgeagent.plan.types import EvictionResult, Outcome
from edgeagent.reconcile.node import NodeOutcome
from edgeagent.serve import health
from edgeagent.status import Status
from tests.faults.conftest import until
from tests.faults.server import Exchange, answers, holds, serving
from tests.unit.factories import GIB, Scene, at, card, card_files, card_scene, pod, processes

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.conftest import Connect


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    options = Options(host_root=tmp_path, nvml_replay=tmp_path / "none.json")
    return Agent(options, Config(), clock=time.monotonic, wall=time.time)


@pytest.fixture
def status(agent: Agent) -> Status:
    return Status(agent)


async def test_credentials_that_cannot_be_used_are_told(agent: Agent, status: Status) -> None:
    agent.link.unusable = "k is not a kubeconfig"

    cluster = (await asyncio.to_thread(status.shown)).cluster

    assert cluster
    assert cluster.unusable == "k is not a kubeconfig"


async def test_a_node_that_does_not_exist_is_named(agent: Agent, status: Status, connect: Connect) -> None:
    """A wrong name, or a kubelet that has not registered its node yet."""
    empty = answers(200, {"metadata": {"resourceVersion": "7"}, "items": []})

    async def nothing(exchange: Exchange) -> None:
        await (holds() if "watch" in exchange.request.query else empty)(exchange)

    async with serving(nothing) as server, connect(server.url) as client:
        view = ClusterView(client, "edge-07")
        agent.link.latest, agent.link.node, agent.link.view = client, "edge-07", view
        view.start()
        await until(lambda: all(health.open for health in view.health().values()))
        cluster = (await asyncio.to_thread(status.shown)).cluster
        await view.stop()
    assert cluster
    assert (cluster.complete, cluster.error) == (False, "there is no node edge-07")


async def test_a_node_that_cannot_be_written_any_more_is_not_published(agent: Agent, status: Status) -> None:
    """Its values were right once; others have changed them since, and every write fails."""
    facts = ClusterFacts(node=NodeFacts(name="edge-07", uid="1", version="1"), pods=(), fresh_at=0.0)
    agent.link.view = mock.Mock(facts=lambda _now: facts, health=dict)
    agent.link.reconciler = reconciler = mock.Mock(failed=False)
    agent.plan = plan = mock.Mock(pods=(), node=mock.Mock(capacity={"edgeagent.dev/gpu-memory": "1Gi"}))

    async def cluster(requests: list[str], outcome: NodeOutcome) -> tuple[bool, str]:
        plan.node.requests, reconciler.node.outcome = requests, outcome
        told = (await asyncio.to_thread(status.shown)).cluster
        assert told
        return told.published, told.error

    assert await cluster([], NodeOutcome()) == (True, "")
    assert await cluster(["a patch"], NodeOutcome(error="HTTP 401")) == (False, "HTTP 401")
    assert await cluster(["a patch"], NodeOutcome(done=("capacity",))) == (True, "")
    assert await cluster([], NodeOutcome(error="HTTP 401")) == (True, "")


async def test_an_agent_that_may_not_evict_says_so(agent: Agent, status: Status) -> None:
    facts = ClusterFacts(node=NodeFacts(name="edge-07", uid="1", version="1"), pods=(), fresh_at=0.0)
    agent.link.view = mock.Mock(facts=lambda _now: facts, health=dict)
    plan = mock.Mock(evictions=(mock.Mock(uid="0000-1", breach="gpu"),), pods=(), events=())
    agent.link.reconciler = mock.Mock(failed=False, evict=lambda _evictions: True)
    agent.link.reconciler.node.outcome = None

    async def refused(outcome: Outcome, code: int | None = None) -> list[tuple[str, int, str]]:
        agent.hand_over(plan)
        agent.learned(EvictionResult(uid="0000-1", outcome=outcome, message="no", code=code))
        told = (await asyncio.to_thread(status.shown)).cluster
        assert told
        return [(one.part, one.code, one.message) for one in told.refused]

    assert await refused("accepted") == []
    assert await refused("forbidden", 403) == [("evict", 403, "no")]
    assert await refused("forbidden", 422) == [("evict", 422, "no")]
    assert await refused("unauthorized", 401) == [("evict", 401, "no")]
    # A time-out says nothing about the right to evict; an answer does.
    assert await refused("unknown") == [("evict", 401, "no")]
    assert await refused("blocked", 429) == []


def ready(status: Status, scene: Scene, *, host_view: bool = True) -> tuple[int, dict[str, str]]:
    """Answer of ``/readyz`` a while after the start, and what it says of the attribution."""
    agent = status._agent  # noqa: SLF001 (a fixture of this module has made it)
    agent.link._nothing_found = True  # noqa: SLF001 (it was looked for a cluster)
    now = time.monotonic()
    facts = at(scene, now).facts()
    facts = replace(facts, host=replace(facts.host, host_view=host_view))
    agent.host = facts.host
    _, agent.plan = decide(State(), facts, now)
    code, body = health.readyz(status.shown(), now, verbose=True)
    return code, {check["name"]: check["message"] for check in body["checks"] if "attribution" in check["name"]}


HELD = card(compute=processes((4242, GIB), (900, None)))


@pytest.mark.parametrize(("wsl", "code"), [(True, 200), (False, 503)])
async def test_what_a_wsl_guest_can_never_tell_makes_nobody_unready(
    wsl: bool,  # noqa: FBT001 (a table's column)
    code: int,
    status: Status,
) -> None:
    """Beside it a container without the host's processes: there the same is a mistake in its manifest."""
    scene = card_scene(HELD, files=BoardFiles(arch="x86_64", wsl=wsl, pci_displays=1), pods=(pod("a", GIB),))
    found, said = await asyncio.to_thread(ready, status, scene, host_view=False)
    assert found == code
    expected = "attribution is not available" if wsl else "it was never read: the process table is not the host's own"
    assert expected in said["reading-stale:attribution"]


async def test_a_process_whose_memory_the_driver_does_not_know_makes_nobody_unready(status: Status) -> None:
    """The lists were read; that a figure in them is not available is no missing reading."""
    screen = (Process(pid=900, start_ticks=1, name="Xorg"), 0)
    found, said = await asyncio.to_thread(ready, status, card_scene(HELD, files=card_files(), extra=(screen,)))
    assert (found, said["reading-stale:attribution"]) == (200, "")


async def test_lists_that_cannot_be_read_do(status: Status) -> None:
    blind = card(compute=processes(code=999))
    found, said = await asyncio.to_thread(ready, status, card_scene(blind, files=card_files()))
    assert (found, said["reading-stale:attribution"][:17]) == (503, "it was never read")

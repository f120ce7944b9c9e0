"""What the endpoint is told of the cluster."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from edgeagent.agent import Agent, Options
from edgeagent.cluster.view import ClusterView
from edgeagent.config import Config
from edgeagent.facts import ClusterFacts, NodeFacts
from edgeagent.plan.types import EvictionResult, Outcome
from edgeagent.reconcile.node import NodeOutcome
from edgeagent.status import Status
from tests.faults.conftest import until
from tests.faults.server import Exchange, answers, holds, serving

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


async def test_a_node_that_does_not_exist_is_named(agent: Agent, status: Status, connect: Connect) -> None:
    """A wrong name, or a kubelet that has not registered its node yet."""
    empty = answers(200, {"metadata": {"resourceVersion": "7"}, "items": []})

    async def nothing(exchange: Exchange) -> None:
        await (holds() if "watch" in exchange.request.query else empty)(exchange)

    async with serving(nothing) as server, connect(server.url) as client:
        view = ClusterView(client, "edge-07")
        agent.link.client, agent.link.node, agent.link.view = client, "edge-07", view
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

    async def refused(outcome: Outcome) -> list[tuple[str, int, str]]:
        agent.hand_over(plan)
        agent.learned(EvictionResult(uid="0000-1", outcome=outcome, message="pods/eviction is forbidden"))
        told = (await asyncio.to_thread(status.shown)).cluster
        assert told
        return [(one.part, one.code, one.message) for one in told.refused]

    assert await refused("accepted") == []
    assert await refused("forbidden") == [("evict", 403, "pods/eviction is forbidden")]
    # A time-out says nothing about the right to evict; an answer does.
    assert await refused("unknown") == [("evict", 403, "pods/eviction is forbidden")]
    assert await refused("blocked") == []

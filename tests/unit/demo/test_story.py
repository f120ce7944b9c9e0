"""The order of what happens in the demo, from the requests that its API server received."""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass
from typing import Any

import pytest

from edgeagent.config import Config
from edgeagent.demo import play
from edgeagent.demo.apiserver import ApiServer, Request
from edgeagent.demo.narrator import Narrator
from tests.unit.demo.performing import setting

GPU = "edgeagent.dev/gpu-memory"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
PODS = "/api/v1/namespaces/default/pods"
NODE_STATUS = "/api/v1/nodes/orin-nano/status"


@dataclass
class Played:
    """A story that has been told."""

    requests: list[Request]
    text: str


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The whole story, once."""

    async def perform() -> Played:
        out = io.StringIO()
        async with ApiServer() as server:
            given = await setting(tmp_path_factory.mktemp("story"), Config(), server.url)
            assert await play.perform(given, Narrator(out, {}), asyncio.Event())
            return Played(list(server.requests), out.getvalue())

    return asyncio.run(perform())


def writes(played: Played, user: str, method: str, path: str) -> list[tuple[int, Any]]:
    """Place in the order of arrival, and body."""
    return [
        (at, one.body)
        for at, one in enumerate(played.requests)
        if (one.user, one.method, one.path) == (user, method, path)
    ]


def events(played: Played, reason: str) -> list[tuple[int, Any]]:
    return [(at, body) for at, body in writes(played, play.AGENT, "POST", EVENTS) if body["reason"] == reason]


def capacities(played: Played) -> list[tuple[int, str]]:
    """Every value of the pool that was published."""
    patches = writes(played, play.AGENT, "PATCH", NODE_STATUS)
    found = [(at, body.get("status", {}).get("capacity", {}).get(GPU)) for at, body in patches]
    return [(at, value) for at, value in found if value is not None]


def started(played: Played, name: str) -> int:
    ((at, _),) = writes(played, play.SCRIPT, "PATCH", f"{PODS}/{name}/status")
    return at


def test_the_first_value_published_is_that_of_the_empty_board(played: Played) -> None:
    # MemTotal 7802736 kB = 7619.9 MiB, less os 768, k3s 512, cma 256 and headroom 256 MiB: 5827.9, in whole MiB.
    assert capacities(played)[0][1] == "5827Mi"
    (at, body), *_ = writes(played, play.AGENT, "PATCH", NODE_STATUS)
    assert body["metadata"]["labels"]["ai-capable"] == "true"
    assert body["metadata"]["labels"]["edgeagent.dev/gpu.kind"] == "jetson"
    assert at < min(started(played, "detector"), started(played, "chat"))


def test_host_parts_lower_it_before_anything_is_over_its_budget(played: Played) -> None:
    # Each pod books 2432 - 2048 = 384 MiB of host memory: 5827 - 2 x 384 = 5059.
    at, lowest = capacities(played)[-1]
    assert lowest == "5059Mi"
    assert at < events(played, "MemoryBudgetExceeded")[0][0]


def test_the_pod_over_its_budget_is_warned_then_evicted_then_the_third_runs(played: Played) -> None:
    ((created, _),) = [
        (at, body) for at, body in writes(played, play.SCRIPT, "POST", PODS) if body["metadata"]["name"] == "speech"
    ]
    ((warned, warning),) = events(played, "MemoryBudgetExceeded")
    ((evicted, eviction),) = writes(played, play.AGENT, "POST", f"{PODS}/chat/eviction")
    ((said, reason),) = events(played, "MemoryBudgetEvicted")
    ((ended, _),) = writes(played, play.SCRIPT, "DELETE", f"{PODS}/chat")

    assert [created, warned, evicted, said, ended, started(played, "speech")] == sorted(
        [created, warned, evicted, said, ended, started(played, "speech")]
    )
    assert warning["regarding"]["name"] == reason["regarding"]["name"] == "chat"
    assert eviction["deleteOptions"]["preconditions"] == {"uid": warning["regarding"]["uid"]}
    # The pod's own grace, which is within policy.max_grace.
    assert eviction["deleteOptions"]["gracePeriodSeconds"] == 30


def test_the_neighbour_is_never_touched(played: Played) -> None:
    touched = [one for one in played.requests if one.path.startswith(f"{PODS}/detector") and one.method != "GET"]

    assert [(one.user, one.method, one.path) for one in touched] == [
        (play.SCRIPT, "PATCH", f"{PODS}/detector/status")
    ]


def test_the_agent_sends_nothing_that_the_server_refuses(played: Played) -> None:
    refused = [(one.method, one.path, one.status) for one in played.requests if one.status >= 400]

    assert refused == []


def test_it_is_told_in_eighty_columns_without_colour(played: Played) -> None:
    assert max(len(line) for line in played.text.splitlines()) <= 80
    assert "\x1b" not in played.text
    order = ["K3s registers", "5827Mi", "Insufficient", "MemoryBudgetExceeded", "MemoryBudgetEvicted", "speech 2.0"]
    places = [played.text.index(part) for part in order]
    assert places == sorted(places)

"""Own node and own pods together, and which node is the own one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edgeagent.cluster.client import Client
from edgeagent.cluster.naming import node_name
from edgeagent.cluster.view import ClusterView
from edgeagent.errors import UnreachableError
from tests.faults.conftest import Connect, until
from tests.faults.server import Exchange, Step, answers, holds, refuses, resets, script, serving

NODE = {"metadata": {"name": "n1", "uid": "node-1", "resourceVersion": "5"}, "status": {"capacity": {"memory": "8Gi"}}}
POD = {
    "metadata": {"namespace": "a", "name": "p", "uid": "pod-1", "resourceVersion": "6"},
    "spec": {"containers": [{"name": "main"}]},
}


def listing(*items: Any) -> Step:
    return answers(200, {"metadata": {"resourceVersion": "10"}, "items": list(items)})


def by_path(**steps: Step) -> Step:
    """``nodes``, ``nodes_watch``, ``pods``, ``pods_watch``."""

    async def step(exchange: Exchange) -> None:
        plural = exchange.request.path.rsplit("/", 1)[1]
        await steps[plural + ("_watch" if "watch" in exchange.request.query else "")](exchange)

    return step


async def changed(view: ClusterView) -> None:
    await view.changed.wait()
    view.changed.clear()


async def test_facts_of_node_and_pods(connect: Connect) -> None:
    handle = by_path(nodes=listing(NODE), pods=listing(POD), nodes_watch=holds(), pods_watch=holds())
    async with serving(handle) as server, connect(server.url) as client:
        view = ClusterView(client, "n1")
        before = view.facts(7.0)
        assert (before.node, before.pods, before.fresh_at) == (None, None, float("-inf"))
        view.start()
        while view.facts(7.0).fresh_at != 7.0:
            await changed(view)
        facts = view.facts(8.0)
        await view.stop()
    assert facts.node is not None
    assert (facts.node.name, facts.node.capacity) == ("n1", {"memory": "8Gi"})
    assert facts.pods is not None
    assert [pod.key for pod in facts.pods] == ["a/p"]
    assert facts.fresh_at == 8.0
    selectors = {request.path: request.query["fieldSelector"] for request in server.requests}
    assert selectors == {"/api/v1/nodes": "metadata.name=n1", "/api/v1/pods": "spec.nodeName=n1"}


async def test_view_is_as_old_as_its_older_half(connect: Connect) -> None:
    handle = by_path(nodes=listing(NODE), pods=refuses(403, "pods is forbidden"), nodes_watch=holds())
    async with serving(handle) as server, connect(server.url) as client:
        view = ClusterView(client, "n1")
        view.start()
        await until(lambda: view.health()["node"].open and view.health()["pods"].failures > 0)
        facts = view.facts(8.0)
        await view.stop()
    assert facts.node is not None
    assert facts.pods is None
    assert facts.fresh_at == float("-inf")


async def test_node_deleted_and_created_again(connect: Connect) -> None:
    reborn = {"metadata": {"name": "n1", "uid": "node-2", "resourceVersion": "20"}, "status": {}}
    go_on = asyncio.Event()

    async def lives(exchange: Exchange) -> None:
        await exchange.stream({"type": "DELETED", "object": NODE})
        await go_on.wait()
        await exchange.send({"type": "ADDED", "object": reborn})
        await asyncio.Event().wait()

    handle = by_path(nodes=listing(NODE), pods=listing(), nodes_watch=lives, pods_watch=holds())
    async with serving(handle) as server, connect(server.url) as client:
        view = ClusterView(client, "n1")
        view.start()
        while not (view.health()["node"].open and view.facts(0).node is None):
            await changed(view)
        go_on.set()
        while (node := view.facts(0).node) is None:
            await changed(view)
        await view.stop()
    assert node.uid == "node-2"


# --- the node's name


async def name(client: Client, **told: Any) -> str | None:
    nothing: dict[str, Any] = {"given": None, "environ": {}, "k3s": None, "host_name": None, "machine_id": None}
    return await node_name(client, **{**nothing, **told})


async def test_name_that_was_told_needs_no_question(connect: Connect) -> None:
    async with serving(refuses(500)) as server, connect(server.url) as client:
        told = {
            "given": "given",
            "environ": {"NODE_NAME": "environ"},
            "k3s": "K3s",
            "host_name": "h",
            "machine_id": "m",
        }
        assert await name(client, **told) == "given"
        assert await name(client, **{**told, "given": None}) == "environ"
        assert await name(client, **{**told, "given": None, "environ": {}}) == "k3s"
        assert server.requests == []


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (answers(200, {"status": {"nodeInfo": {"machineID": "4c4c"}}}), "edge-07"),
        (answers(200, {"status": {"nodeInfo": {"machineID": "other"}}}), None),
        (answers(200, {"status": {"nodeInfo": {"machineID": ""}}}), None),
        (refuses(404), None),
        (refuses(403), None),
    ],
    ids=["same machine", "another machine", "unknown machine", "no such node", "not ours to read"],
)
async def test_host_name_counts_if_that_node_is_this_machine(
    connect: Connect, node: Step, expected: str | None
) -> None:
    async with serving(node) as server, connect(server.url) as client:
        assert await name(client, host_name="Edge-07", machine_id="4c4c") == expected
    assert [request.path for request in server.requests] == ["/api/v1/nodes/edge-07"]


async def test_machine_without_an_id_has_no_name(connect: Connect) -> None:
    async with serving(refuses(500)) as server, connect(server.url) as client:
        assert await name(client, host_name="edge-07") is None
        assert server.requests == []


async def test_question_without_an_answer_is_asked_again_by_the_caller(connect: Connect) -> None:
    async with serving(script(resets())) as server, connect(server.url) as client:
        with pytest.raises(UnreachableError):
            await name(client, host_name="edge-07", machine_id="4c4c")

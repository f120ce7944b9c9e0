"""The node writer and the evictions of a reconciler: nothing twice, no queue, no fight."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from edgeagent.cluster.client import Client
from edgeagent.facts import GPU_MEMORY, NodeFacts
from edgeagent.plan.types import MERGE_PATCH, Event, Eviction, EvictionResult, Request
from edgeagent.reconcile import outbox
from edgeagent.reconcile.nodewriter import PROBE_SECONDS, SEEN_SECONDS
from edgeagent.reconcile.outbox import MOST_EVENTS
from edgeagent.reconcile.reconciler import Reconciler
from tests.faults.conftest import Connect, until
from tests.faults.server import Exchange, ScriptedServer, answers, refuses, serving

if TYPE_CHECKING:
    import pytest

PATH = "/api/v1/nodes/edge-07/status"
EVICTION = Eviction(namespace="shop", name="infer-0", uid="0000-1", breach="gpu", grace_seconds=2, message="over")


def patch(amount: str, **labels: str) -> Request:
    body: dict[str, Any] = {"status": {"capacity": {GPU_MEMORY: amount}, "allocatable": {GPU_MEMORY: amount}}}
    return Request(
        method="PATCH",
        path=PATH,
        content_type=MERGE_PATCH,
        body=body | ({"metadata": {"labels": labels}} if labels else {}),
    )


class Server:
    """A node on the API server: every patch is taken and raises its version."""

    def __init__(self) -> None:
        self.version = 10
        self.found = NodeFacts(name="edge-07", uid="node-1", version="10")

    async def __call__(self, exchange: Exchange) -> None:
        body = exchange.request.json
        self.version += 1
        self.found = replace(
            self.found,
            version=str(self.version),
            capacity={**self.found.capacity, **body.get("status", {}).get("capacity", {})},
            labels={**self.found.labels, **body.get("metadata", {}).get("labels", {})},
        )
        await exchange.answer(
            200, {**body, "metadata": {**body.get("metadata", {}), "resourceVersion": str(self.version)}}
        )

    def changed_by_others(self, amount: str) -> NodeFacts:
        self.version += 1
        self.found = replace(
            self.found, version=str(self.version), capacity={GPU_MEMORY: amount}, managers={GPU_MEMORY: "kubelet"}
        )
        return self.found


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@contextlib.asynccontextmanager
async def reconciling(
    client: Client, clock: Clock, *, still_over: bool = True
) -> AsyncIterator[tuple[Reconciler, list[EvictionResult]]]:
    results: list[EvictionResult] = []

    async def recheck(_: Eviction) -> bool:
        return still_over

    made = Reconciler(
        client,
        "edge-07",
        clock=clock,
        wall=lambda: 1.8e9,
        recheck=recheck,
        learned=results.append,
        rng=random.Random(1),
    )
    made.start()
    try:
        yield made, results
    finally:
        assert not made.failed
        await made.stop()


def has_received(server: ScriptedServer, count: int) -> bool:
    return len(server.requests) == count


async def settle() -> None:
    """Time enough for a request that is due to arrive."""
    await asyncio.sleep(0.05)


async def test_a_write_is_not_repeated_while_it_comes_back_through_the_watch(connect: Connect) -> None:
    node, clock = Server(), Clock()
    before = node.found
    async with serving(node) as server, connect(server.url) as client, reconciling(client, clock) as (made, _):
        made.node.wish([patch("100Mi")], before)
        await until(lambda: len(server.requests) == 1)
        for _ in range(3):
            made.node.wish([patch("100Mi")], before)
            await settle()
        assert len(server.requests) == 1

        # The view stays behind for too long: the write may have been lost on its way.
        clock.now += SEEN_SECONDS
        made.node.wish([patch("100Mi")], before)
        await until(lambda: len(server.requests) == 2)


async def test_the_pods_coming_and_going_are_no_quarrel(connect: Connect) -> None:
    node, clock = Server(), Clock()
    async with serving(node) as server, connect(server.url) as client, reconciling(client, clock) as (made, _):
        for turn in range(20):
            made.node.wish([patch("200Mi" if turn % 2 else "100Mi")], node.found)
            await until(partial(has_received, server, turn + 1))
        assert made.node.restores == 0


async def test_what_others_keep_changing_is_put_back_ever_more_slowly(connect: Connect) -> None:
    node, clock = Server(), Clock()
    async with serving(node) as server, connect(server.url) as client, reconciling(client, clock) as (made, _):
        made.node.wish([patch("100Mi")], node.found)
        await until(lambda: len(server.requests) == 1)
        waits = []
        for turn in range(6):
            found = node.changed_by_others("0")
            waited = 0.0
            made.node.wish([patch("100Mi")], found)
            await settle()
            while len(server.requests) == turn + 1:
                clock.now += 1
                waited += 1
                made.node.wish([patch("100Mi")], found)
                await settle()
            waits.append(waited)
        # Three at once and a fourth, then 2, 4 seconds after the one before.
        assert waits == [0, 0, 0, 0, 2, 4]
        assert made.node.restores == 6

        # A node that was made anew is nobody's fault.
        node.found = NodeFacts(name="edge-07", uid="node-2", version="1")
        made.node.wish([patch("100Mi")], replace(node.found, version=str(node.version)))
        await until(lambda: len(server.requests) == 8)


async def test_what_is_refused_is_left_for_ten_minutes_and_the_rest_goes_out(connect: Connect) -> None:
    node, clock = Server(), Clock()

    async def picky(exchange: Exchange) -> None:
        wrong = "bad" in exchange.request.json.get("metadata", {}).get("labels", {})
        await (refuses(422, "bad: not a label")(exchange) if wrong else node(exchange))

    async with serving(picky) as server, connect(server.url) as client, reconciling(client, clock) as (made, _):
        made.node.wish([patch("100Mi", good="1", bad="?")], node.found)
        await until(lambda: len(server.requests) == 4)  # together, then capacity and the labels alone
        assert node.found.capacity == {GPU_MEMORY: "100Mi"}
        assert node.found.labels == {"good": "1"}

        only_bad = Request(
            method="PATCH", path=PATH, content_type=MERGE_PATCH, body={"metadata": {"labels": {"bad": "?"}}}
        )
        made.node.wish([only_bad], node.found)
        await settle()
        assert len(server.requests) == 4
        clock.now += PROBE_SECONDS
        made.node.wish([only_bad], node.found)
        await until(lambda: len(server.requests) == 5)


async def test_only_the_last_state_is_sent_after_an_outage(connect: Connect) -> None:
    node, clock = Server(), Clock()
    up = False

    async def recovering(exchange: Exchange) -> None:
        await (node(exchange) if up else answers(503, {"kind": "Status"})(exchange))

    async with serving(recovering) as server, connect(server.url) as client, reconciling(client, clock) as (made, _):
        for amount in range(100, 110):
            made.node.wish([patch(f"{amount}Mi")], node.found)
            await asyncio.sleep(0)
        await until(lambda: len(server.requests) >= 1)
        up = True
        await until(lambda: node.found.capacity == {GPU_MEMORY: "109Mi"})
        assert {request.json["status"]["capacity"][GPU_MEMORY] for request in server.requests} <= {"100Mi", "109Mi"}


async def test_the_evictions_of_one_plan_at_a_time(connect: Connect) -> None:
    release = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await release.wait()
        await exchange.answer(201, {"kind": "Status"})

    async with serving(slow) as server, connect(server.url) as client, reconciling(client, Clock()) as (made, results):
        assert made.evict([EVICTION])
        await until(lambda: len(server.requests) == 1)
        assert not made.evict([replace(EVICTION, uid="0000-2")])
        release.set()
        await until(lambda: bool(results))
        assert results == [EvictionResult(uid="0000-1", outcome="accepted")]
        assert len(server.requests) == 1


async def test_a_pod_that_recovered_before_the_call_is_not_called_for(connect: Connect) -> None:
    async with (
        serving(answers(500, {})) as server,
        connect(server.url) as client,
        reconciling(client, Clock(), still_over=False) as (made, results),
    ):
        made.evict([EVICTION])
        await until(lambda: bool(results))
        assert results == [EvictionResult(uid="0000-1", outcome="recovered")]
        assert server.requests == []


async def test_events_are_lost_rather_than_heaped_up(connect: Connect) -> None:
    event = Event(reason="Overcommitted", kind="Pod", namespace="shop", name="infer-0", uid="0000-1", note="")
    async with (
        serving(answers(201, {})) as server,
        connect(server.url) as client,
        reconciling(client, Clock()) as (made, _),
    ):
        made.tell([replace(event, uid=str(number)) for number in range(MOST_EVENTS + 10)])
        await until(lambda: len(server.requests) >= MOST_EVENTS)
        await settle()
        assert len(server.requests) == MOST_EVENTS


async def test_events_that_the_server_did_not_take_are_told_until_it_does_and_no_more(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "SHORTEST", 0.001)
    killed = Event(reason="MemoryBudgetKilled", kind="Pod", namespace="shop", name="infer-0", uid="0000-1", note="")
    other = replace(killed, reason="Overcommitted", uid="0000-2")

    async def recovering(exchange: Exchange) -> None:
        refused = len(server.requests) <= 3
        await (answers(503, {"kind": "Status"}) if refused else answers(201, {}))(exchange)

    async with serving(recovering) as server, connect(server.url) as client, reconciling(client, Clock()) as (made, _):
        made.tell([killed, other])
        await until(lambda: len(server.requests) == 3 + 2)
        await settle()
        # Three attempts were refused, two were taken, one for each event, under the name of the attempts before.
        assert len(server.requests) == 3 + 2
        assert {request.json["reason"] for request in server.requests[3:]} == {killed.reason, other.reason}
        assert len({request.json["metadata"]["name"] for request in server.requests}) == 2


async def test_what_was_published_is_told_once_it_is(connect: Connect) -> None:
    node, clock = Server(), Clock()
    up = False

    async def recovering(exchange: Exchange) -> None:
        await (
            node(exchange) if up or exchange.request.method == "POST" else answers(503, {"kind": "Status"})(exchange)
        )

    def published(note: str) -> Event:
        return Event(reason="CapacityPublished", kind="Node", namespace="", name="edge-07", uid="node-1", note=note)

    async with serving(recovering) as server, connect(server.url) as client, reconciling(client, clock) as (made, _):
        made.node.wish([patch("100Mi")], node.found, [published("100Mi")])
        await until(lambda: bool(server.requests))
        made.node.wish([patch("200Mi")], node.found, [published("200Mi")])
        made.node.wish([patch("200Mi")], node.found)
        await settle()
        assert {request.method for request in server.requests} == {"PATCH"}
        up = True
        await until(lambda: any(request.method == "POST" for request in server.requests))
        assert [request.json["note"] for request in server.requests if request.method == "POST"] == ["200Mi"]

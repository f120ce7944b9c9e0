"""Writes to the node's status: what is sent, what is said of each part, and what is left when a part is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from edgeagent.facts import GPU_MEMORY
from edgeagent.plan.types import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Request
from edgeagent.reconcile import node
from edgeagent.reconcile.node import NodeOutcome, Refusal
from tests.faults.conftest import Connect
from tests.faults.server import Exchange, Step, answers, hangs, refuses, resets, script, serving

PATH = "/api/v1/nodes/edge-07/status"
KIND = "edgeagent.dev/gpu.kind"
SOC = "edgeagent.dev/jetson.soc"
OWNED = "edgeagent.dev/owned-keys"
WALL = 1795996800.25  # 2026-11-30T00:00:00.25Z

AMOUNTS = {"capacity": {GPU_MEMORY: "6083Mi"}, "allocatable": {GPU_MEMORY: "6083Mi"}}
COMBINED = {
    "status": AMOUNTS,
    "metadata": {"labels": {KIND: "jetson", SOC: "tegra234"}, "annotations": {OWNED: "{}"}},
}
PRESSURE = {"type": "GPUMemoryPressure", "status": "False", "reason": "Enough", "message": "fine"}


def merge(body: Any) -> Request:
    return Request(method="PATCH", path=PATH, content_type=MERGE_PATCH, body=body)


def conditions(*items: Any) -> Request:
    body = {"status": {"conditions": list(items)}}
    return Request(method="PATCH", path=PATH, content_type=STRATEGIC_MERGE_PATCH, body=body)


async def echo(exchange: Exchange) -> None:
    """A node that takes everything: the patch itself is what it then shows, removed keys left out."""
    shown = {
        place: {name: _without_nulls(values) for name, values in parts.items()}
        for place, parts in exchange.request.json.items()
    }
    await exchange.answer(200, shown)


def _without_nulls(values: Any) -> Any:
    if isinstance(values, list):
        return [value for value in values if "$patch" not in value]
    return {key: value for key, value in values.items() if value is not None}


def refusing(code: int, message: str, when: Callable[[Any], bool]) -> Step:
    """Refuse every patch for which ``when`` holds, take the others."""

    async def step(exchange: Exchange) -> None:
        await (refuses(code, message) if when(exchange.request.json) else echo)(exchange)

    return step


def labels(body: Any) -> dict[str, Any]:
    found: dict[str, Any] = body.get("metadata", {}).get("labels", {})
    return found


async def apply(connect: Connect, handle: Step, *requests: Request, **statuses: str) -> tuple[NodeOutcome, list[Any]]:
    async with serving(handle) as server, connect(server.url) as client:
        outcome = await node.apply(client, requests, statuses=statuses, wall=WALL)
    assert outcome.sent == len(server.requests)
    return outcome, [request.json for request in server.requests]


async def test_requests_are_sent_in_order_and_in_their_format(connect: Connect) -> None:
    async with serving(echo) as server, connect(server.url) as client:
        outcome = await node.apply(client, [merge(COMBINED), conditions(PRESSURE)], statuses={}, wall=WALL)
    assert outcome.done == ("capacity", f"label {KIND}", f"label {SOC}", "condition GPUMemoryPressure")
    assert (outcome.refused, outcome.error, outcome.sent) == ((), "", 2)
    first, second = server.requests
    assert first.json == COMBINED
    assert first.headers["content-type"] == "application/merge-patch+json"
    assert second.headers["content-type"] == "application/strategic-merge-patch+json"
    assert {(request.method, request.path) for request in server.requests} == {("PATCH", PATH)}
    assert first.query["fieldManager"] == "edgeagent"


async def test_nothing_to_send(connect: Connect) -> None:
    assert await apply(connect, echo) == (NodeOutcome(), [])


async def test_conditions_get_their_times(connect: Connect) -> None:
    """The transition time moves with the status alone, not with the reason."""
    lost = {"type": "GPUUnavailable", "status": "True", "reason": "Lost", "message": "gone"}
    removal = {"type": "GPURuntimeMisconfigured", "$patch": "delete"}
    outcome, (body,) = await apply(
        connect, echo, conditions(PRESSURE, lost, removal), GPUMemoryPressure="False", GPUUnavailable="False"
    )
    now = "2026-11-30T00:00:00Z"
    assert body["status"]["conditions"] == [
        {**PRESSURE, "lastHeartbeatTime": now},
        {**lost, "lastHeartbeatTime": now, "lastTransitionTime": now},
        removal,
    ]
    assert len(outcome.done) == 3


async def test_a_first_condition_has_a_transition_time(connect: Connect) -> None:
    _, (body,) = await apply(connect, echo, conditions(PRESSURE))
    assert body["status"]["conditions"][0]["lastTransitionTime"] == "2026-11-30T00:00:00Z"


@pytest.mark.parametrize("code", [403, 422])
async def test_one_label_refused_costs_that_label_alone(connect: Connect, code: int) -> None:
    handle = refusing(code, "label not allowed", lambda body: SOC in labels(body))
    outcome, bodies = await apply(connect, handle, merge(COMBINED), conditions(PRESSURE))
    assert bodies[1:4] == [
        {"status": AMOUNTS, "metadata": {"annotations": {OWNED: "{}"}}},
        {"metadata": {"labels": {KIND: "jetson"}}},
        {"metadata": {"labels": {SOC: "tegra234"}}},
    ]
    assert outcome.done == ("capacity", f"label {KIND}", "condition GPUMemoryPressure")
    assert outcome.refused == (Refusal(f"label {SOC}", code, "label not allowed"),)
    assert outcome.error == ""


async def test_capacity_refused_leaves_the_labels(connect: Connect) -> None:
    handle = refusing(422, "must be an integer", lambda body: "status" in body)
    outcome, _ = await apply(connect, handle, merge(COMBINED))
    assert outcome.done == (f"label {KIND}", f"label {SOC}")
    assert outcome.refused == (Refusal("capacity", 422, "must be an integer"),)


async def test_missing_permission_is_not_tried_part_by_part(connect: Connect) -> None:
    message = 'nodes "edge-07" is forbidden: User "x" cannot patch resource "nodes/status" in API group ""'
    outcome, bodies = await apply(connect, refuses(403, message), merge(COMBINED))
    assert len(bodies) == 1
    assert [refusal.part for refusal in outcome.refused] == ["capacity", f"label {KIND}", f"label {SOC}"]
    assert {refusal.message for refusal in outcome.refused} == {message}


async def test_patch_of_one_part_is_not_tried_twice(connect: Connect) -> None:
    outcome, bodies = await apply(connect, refuses(422, "no"), merge({"metadata": {"labels": {KIND: None}}}))
    assert len(bodies) == 1
    assert outcome.refused == (Refusal(f"label {KIND}", 422, "no"),)


async def test_ok_without_the_values_is_told(connect: Connect) -> None:
    """As when status is patched through the main resource: 200, and nothing has changed."""
    shown = {"metadata": {"labels": {KIND: "jetson"}, "annotations": {}}, "status": {"capacity": {"memory": "8Gi"}}}
    outcome, _ = await apply(connect, answers(200, shown), merge(COMBINED), conditions(PRESSURE))
    assert outcome.done == (f"label {KIND}",)
    assert [(refusal.part, refusal.code) for refusal in outcome.refused] == [
        ("capacity", 200),
        (f"label {SOC}", 200),
        ("condition GPUMemoryPressure", 200),
    ]
    for place in ("capacity", "allocatable", "annotations"):
        assert place in outcome.refused[0].message


@pytest.mark.parametrize(
    ("wanted", "shown", "taken"),
    [
        ("6144Mi", "6Gi", True),
        ("6083Mi", "6378487808", True),  # 6083 × 2^20
        ("6083Mi", "6084Mi", False),
        ("0", None, False),
        (None, None, True),
        (None, "0", False),
    ],
)
async def test_amounts_are_compared_as_numbers(
    connect: Connect,
    wanted: str | None,
    shown: str | None,
    taken: bool,  # noqa: FBT001 (a column of the table)
) -> None:
    there = {} if shown is None else {GPU_MEMORY: shown}
    outcome, _ = await apply(
        connect, answers(200, {"status": {"capacity": there}}), merge({"status": {"capacity": {GPU_MEMORY: wanted}}})
    )
    assert (outcome.done == ("capacity",)) == taken
    assert (outcome.refused == ()) == taken


async def test_label_is_compared_as_text(connect: Connect) -> None:
    shown = {"metadata": {"labels": {KIND: "1.0"}}}
    outcome, _ = await apply(connect, answers(200, shown), merge({"metadata": {"labels": {KIND: "1"}}}))
    assert outcome.done == ()


async def test_removal_of_everything(connect: Connect) -> None:
    gone = {
        "status": {"capacity": {GPU_MEMORY: None}, "allocatable": {GPU_MEMORY: None}},
        "metadata": {"labels": {KIND: None}, "annotations": {OWNED: None}},
    }
    removal = {"type": "GPUMemoryPressure", "$patch": "delete"}
    outcome, bodies = await apply(connect, echo, merge(gone), conditions(removal))
    assert bodies == [gone, {"status": {"conditions": [removal]}}]
    assert outcome.refused == ()
    still = {"status": {"conditions": [PRESSURE]}}
    outcome, _ = await apply(connect, answers(200, still), conditions(removal))
    assert [refusal.part for refusal in outcome.refused] == ["condition GPUMemoryPressure"]


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (refuses(404, 'nodes "edge-07" not found'), "not found"),
        (refuses(409, "conflict"), "conflict"),
        (refuses(500, "etcd is full"), "etcd is full"),
        (answers(429, b"too many requests"), "too many requests"),
        (refuses(401), "not accepted"),
        (resets(), "PATCH"),
        (answers(200, {"metadata": "edge-07"}), "not understood"),
        (answers(200, {"status": {"capacity": {GPU_MEMORY: "much"}}}), "not understood"),
    ],
    ids=["404", "409", "500", "429", "401", "reset", "no node", "no quantity"],
)
async def test_trouble_of_the_server_ends_the_cycle(connect: Connect, trouble: Step, said: str) -> None:
    """Nothing is repeated here and nothing further is sent: the next cycle compares anew."""
    async with serving(script(echo, trouble)) as server, connect(server.url) as client:
        first = conditions(PRESSURE)
        outcome = await node.apply(client, [first, merge(COMBINED), first], statuses={}, wall=WALL)
        bodies = [request.json for request in server.requests]
    assert outcome.done == ("condition GPUMemoryPressure",)
    assert outcome.refused == ()
    assert said in outcome.error
    assert bodies[-1] == COMBINED
    assert outcome.sent == 2


async def test_trouble_in_the_middle_of_the_parts_keeps_what_was_done(connect: Connect) -> None:
    handle = script(refuses(422, "no"), echo, resets(), hangs)
    outcome, bodies = await apply(connect, handle, merge(COMBINED))
    assert outcome.done == ("capacity",)
    assert outcome.error
    assert len(bodies) == 3

"""Every answer to an eviction, and what it means."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import pytest

from edgeagent.plan.types import Eviction, EvictionResult
from edgeagent.reconcile import evict as evicting
from edgeagent.reconcile.evict import evict
from tests.faults.conftest import Connect
from tests.faults.server import Exchange, Step, answers, hangs, refuses, resets, serving

UID = "0000-1"
PATH = "/api/v1/namespaces/shop/pods/infer-0"
EVICTION = Eviction(namespace="shop", name="infer-0", uid=UID, breach="gpu", grace_seconds=2, message="over its budget")
LONGEST = mock.Mock(spec=random.Random, uniform=lambda _low, high: high)
SHORTEST = mock.Mock(spec=random.Random, uniform=lambda low, _high: low)


def pod(uid: str = UID, **metadata: Any) -> Step:
    return answers(200, {"kind": "Pod", "metadata": {"name": "infer-0", "uid": uid, **metadata}})


def on(post: Step, get: Step = hangs) -> Step:
    async def step(exchange: Exchange) -> None:
        await (post if exchange.request.method == "POST" else get)(exchange)

    return step


async def test_what_is_sent(connect: Connect) -> None:
    async with serving(answers(201, {"kind": "Status"})) as server, connect(server.url) as client:
        result = await evict(client, EVICTION, rng=SHORTEST)
    assert result == EvictionResult(uid=UID, outcome="accepted")
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", f"{PATH}/eviction")
    assert request.json == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "infer-0", "namespace": "shop"},
        "deleteOptions": {"gracePeriodSeconds": 2, "preconditions": {"uid": UID}},
    }


async def test_grace_is_never_zero(connect: Connect) -> None:
    """0 would delete the object and leave the process behind."""
    none = Eviction(namespace="shop", name="infer-0", uid=UID, breach="gpu", grace_seconds=0, message="")
    async with serving(answers(201)) as server, connect(server.url) as client:
        await evict(client, none, rng=SHORTEST)
    assert server.requests[0].json["deleteOptions"]["gracePeriodSeconds"] == 1


BUDGET_403 = 'poddisruptionbudget.policy "web" is forbidden: pdb disruption allowance is negative'
RBAC_403 = 'pods "infer-0" is forbidden: User "agent" cannot create resource "pods/eviction" in API group ""'
WEBHOOK_403 = 'admission webhook "keep.example.com" denied the request: pod infer-0 must stay'
TWO_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


@pytest.mark.parametrize(
    ("answer", "outcome", "seconds"),
    [
        pytest.param(refuses(404), "gone", None, id="404"),
        pytest.param(refuses(409, "Precondition failed: UID"), "gone", None, id="409"),
        # A Retry-After of 0, or none, is no delay: 5 s at least.
        pytest.param(refuses(429, causes=("DisruptionBudget",)), "blocked", 5, id="budget"),
        pytest.param(refuses(429, causes=("DisruptionBudget",), Retry_After="0"), "blocked", 5, id="budget 0 s"),
        pytest.param(refuses(429, causes=("DisruptionBudget",), Retry_After="10"), "blocked", 10, id="budget 10 s"),
        pytest.param(answers(429, b"too many", {"Retry-After": "7"}), "throttled", 7, id="throttled"),
        pytest.param(refuses(429, causes=("Other",), Retry_After="7"), "throttled", 7, id="throttled for a cause"),
        pytest.param(answers(429, b"too many"), "throttled", 1, id="throttled without a time"),
        pytest.param(refuses(500, TWO_BUDGETS), "misconfigured", 300, id="two budgets"),
        pytest.param(refuses(403, BUDGET_403), "blocked", 300, id="403 of a budget"),
        pytest.param(refuses(403, RBAC_403), "unauthorized", 600, id="403 by an authorizer"),
        pytest.param(refuses(403, WEBHOOK_403), "forbidden", 600, id="403 by a webhook"),
        pytest.param(refuses(422, "denied by ValidatingAdmissionPolicy"), "forbidden", 600, id="422"),
        pytest.param(refuses(400, "no kind Eviction is registered"), "forbidden", 600, id="400"),
        pytest.param(refuses(401), "unauthorized", 30, id="401"),
    ],
)
async def test_answer_that_says_all(connect: Connect, answer: Step, outcome: str, seconds: float | None) -> None:
    async with serving(on(answer)) as server, connect(server.url) as client:
        result = await evict(client, EVICTION, rng=SHORTEST)
    assert (result.uid, result.outcome, result.retry_after) == (UID, outcome, seconds)
    assert {request.method for request in server.requests} == {"POST"}
    assert len(server.requests) == (2 if seconds == 30 else 1)  # after a 401 once more, with credentials read anew


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 422, 429])
async def test_a_refusal_has_the_code_of_its_answer(connect: Connect, code: int) -> None:
    async with serving(on(refuses(code))) as server, connect(server.url) as client:
        assert (await evict(client, EVICTION, rng=SHORTEST)).code == code


async def test_refusal_is_passed_on_in_its_own_words(connect: Connect) -> None:
    async with serving(refuses(403, RBAC_403)) as server, connect(server.url) as client:
        assert (await evict(client, EVICTION, rng=SHORTEST)).message == RBAC_403


async def test_blocked_pods_of_a_fleet_are_tried_again_at_different_times(connect: Connect) -> None:
    async with serving(refuses(429, causes=("DisruptionBudget",))) as server, connect(server.url) as client:
        assert (await evict(client, EVICTION, rng=LONGEST)).retry_after == 5 * 1.25


async def test_pause_asked_for_earlier_is_kept(connect: Connect) -> None:
    async with serving(answers(429, b"", {"Retry-After": "60"})) as server, connect(server.url) as client:
        await evict(client, EVICTION, rng=SHORTEST)
        result = await evict(client, EVICTION, rng=SHORTEST)
        assert len(server.requests) == 1
    assert result.outcome == "throttled"
    assert result.retry_after is not None
    assert 50 < result.retry_after <= 60


UNCLEAR = {
    "cut": resets(),
    "500": refuses(500, "etcdserver: request timed out"),
    "502": answers(502, b"bad gateway"),
    "503": refuses(503),
    "504": refuses(504, "couldn't update PodDisruptionBudget"),
    "no object": answers(201, b"<html>"),
}
FOUND = {
    "gone": (refuses(404), "gone"),
    "another of that name": (pod(uid="0000-2"), "gone"),
    "terminating": (pod(deletionTimestamp="2026-11-30T11:00:00Z"), "accepted"),
    "as before": (pod(), "unknown"),
    "unreadable": (resets(), "unknown"),
    "not to be read": (refuses(403), "unknown"),
    "odd": (answers(200, {"kind": "Pod"}), "unknown"),
}


@pytest.mark.parametrize("unclear", UNCLEAR.values(), ids=UNCLEAR)
@pytest.mark.parametrize("found", FOUND.values(), ids=FOUND)
async def test_unclear_end_is_resolved_by_reading_the_pod(
    connect: Connect, unclear: Step, found: tuple[Step, str]
) -> None:
    read, outcome = found
    async with serving(on(unclear, read)) as server, connect(server.url) as client:
        result = await evict(client, EVICTION, rng=SHORTEST)
    assert result.outcome == outcome
    assert result.message
    sent = [request for request in server.requests if request.method == "POST"]
    assert len(sent) == 1  # never a second time
    assert server.requests[-1].path == PATH


async def test_timeout_after_which_the_pod_is_terminating(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    assert evicting.TIMEOUT >= 15  # for a pending or finished pod the server retries conflicts for 20 × 0.5 s itself
    monkeypatch.setattr(evicting, "TIMEOUT", 0.1)
    handle = on(hangs, pod(deletionTimestamp="2026-11-30T11:00:00Z"))
    async with serving(handle) as server, connect(server.url) as client:
        assert (await evict(client, EVICTION, rng=SHORTEST)).outcome == "accepted"

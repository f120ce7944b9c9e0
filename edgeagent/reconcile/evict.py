"""Evicts one pod, by uid, and says how it ended.

Every answer is mapped to an outcome here, so that nobody else needs to know what the
eviction API says in how many ways. Nothing is repeated: a call whose answer was lost may
have been carried out, and only the pod itself can tell.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from edgeagent.cluster import objects
from edgeagent.cluster.client import DISRUPTION_BUDGET, Client
from edgeagent.errors import AnswerError, ClusterError
from edgeagent.plan.types import Eviction, EvictionResult, Outcome

TIMEOUT = 20.0
"""Seconds: for a pending or finished pod the server itself retries conflicts for about 10 s."""
READ_TIMEOUT = 5.0
BLOCKED = 5.0
"""Least seconds before a pod is tried again that a disruption budget protects: a Retry-After of 0 is no delay."""
SLOW = 300.0
"""Seconds before a trial that only a person's change can make successful."""
FORBIDDEN = 600.0
NOT_ALLOWED = 'cannot create resource "pods/eviction"'
"""How every authorizer words its no, by which it differs from the refusal of one pod in admission."""
SIGN_IN = 30.0
"""Seconds: credentials are renewed by themselves."""
_JITTER = 0.25

_UNAUTHORIZED = 401
_FORBIDDEN = 403
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500
_GONE = (404, 409)
_REFUSED = (400, 405, 415, 422)
"""422 by policy; the others from a server that does not know this call."""


async def evict(client: Client, eviction: Eviction, *, rng: random.Random) -> EvictionResult:
    """Ask the API server to evict the pod; ``rng`` spreads the retries of a fleet. Never raises for what it answers."""
    path = f"/api/v1/namespaces/{eviction.namespace}/pods/{eviction.name}"
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": eviction.name, "namespace": eviction.namespace},
        "deleteOptions": {
            # 0 would remove the object at once and leave the process to itself.
            "gracePeriodSeconds": max(1, eviction.grace_seconds),
            # A pod of the same name may have taken its place meanwhile.
            "preconditions": {"uid": eviction.uid},
        },
    }
    try:
        await client.request("POST", f"{path}/eviction", body=body, timeout=TIMEOUT)
    except AnswerError as error:
        known = _outcome(error)
        if known is None:
            return await _look(client, path, eviction.uid, str(error))
        outcome, seconds = known
        if outcome == "blocked":
            seconds *= 1 + rng.uniform(0, _JITTER)
        return EvictionResult(
            uid=eviction.uid,
            outcome=outcome,
            message=error.message,
            retry_after=seconds or None,
            code=error.code,
        )
    except ClusterError as error:
        return await _look(client, path, eviction.uid, str(error))
    return EvictionResult(uid=eviction.uid, outcome="accepted")


def _outcome(error: AnswerError) -> tuple[Outcome, float] | None:
    """Outcome and seconds to wait; None when the answer leaves open whether the pod is being evicted."""
    named = error.message.lower()
    if error.code in _GONE:
        return "gone", 0.0
    if error.code == _TOO_MANY_REQUESTS:
        blocked = DISRUPTION_BUDGET in error.causes
        return ("blocked" if blocked else "throttled"), max(error.retry_after or 0.0, BLOCKED if blocked else 1.0)
    if error.code == _SERVER_ERROR and "more than one poddisruptionbudget" in named:
        return "misconfigured", SLOW
    if error.code == _UNAUTHORIZED:
        return "unauthorized", SIGN_IN
    if error.code == _FORBIDDEN:
        return _forbidden(named)
    return ("forbidden", FORBIDDEN) if error.code in _REFUSED else None


def _forbidden(named: str) -> tuple[Outcome, float]:
    """Who said no: a disruption budget, an authorizer to this agent, or a policy for this pod."""
    if "poddisruptionbudget" in named:
        return "blocked", SLOW
    return ("unauthorized" if NOT_ALLOWED in named else "forbidden"), FORBIDDEN


async def _look(client: Client, path: str, uid: str, why: str) -> EvictionResult:
    """Read the pod to learn what became of a call whose end is not known."""
    outcome: Outcome
    try:
        pod = await client.request("GET", path, timeout=READ_TIMEOUT)
        outcome = objects.read("pod", pod, lambda found: _found(found, uid))
    except AnswerError as error:
        outcome = "gone" if error.code in _GONE else "unknown"
    except ClusterError:
        outcome = "unknown"
    return EvictionResult(uid=uid, outcome=outcome, message=why)


def _found(pod: Mapping[str, Any], uid: str) -> Outcome:
    metadata = pod["metadata"]
    if metadata["uid"] != uid:
        return "gone"
    return "accepted" if metadata.get("deletionTimestamp") is not None else "unknown"

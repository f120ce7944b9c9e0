"""Sends the writes of a plan to the node's status, and says what became of each part.

A status patch that is refused is taken apart: capacity is worth more than a label that an
admission policy does not like. A 200 proves nothing: a server can ignore what it does not
take, so the object it returns is compared.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from edgeagent import quantity
from edgeagent.cluster import objects
from edgeagent.cluster.client import Client
from edgeagent.errors import AnswerError, ClusterError
from edgeagent.plan.types import Request
from edgeagent.reconcile import stamps

_REFUSED = (403, 422)
_OK = 200
_Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A part that was not taken. ``code`` 200: answered so, but the value is not in the object returned."""

    part: str
    code: int
    message: str


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """What became of one set of writes.

    Parts are ``capacity`` (with allocatable and the annotation that lists what is ours),
    ``label <key>``, ``annotations`` where they go without capacity, and ``condition <type>``.
    """

    done: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    error: str = ""
    """Why nothing further was sent: no answer, no such node, a pause, a server in trouble."""
    sent: int = 0
    """Requests made."""
    version: str = ""
    """Resource version of the node after the last write that was taken; empty when none was."""


@dataclass(slots=True)
class _Tally:
    done: list[str] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    sent: int = 0
    version: str = ""


async def apply(
    client: Client, requests: Sequence[Request], *, statuses: Mapping[str, str], wall: float
) -> NodeOutcome:
    """Send ``requests`` in order; never raises for what the server says.

    ``statuses`` are the node's present conditions, status by type: a condition's transition
    time moves only when its status does. ``wall`` is the Unix time written into conditions.
    """
    tally = _Tally()
    try:
        for request in requests:
            await _send(client, request, _stamped(request.body, statuses, stamps.seconds(wall)), tally)
        error = ""
    except ClusterError as failure:
        error = str(failure)
    return NodeOutcome(tuple(tally.done), tuple(tally.refused), error, tally.sent, tally.version)


async def _send(client: Client, request: Request, body: _Body, tally: _Tally) -> None:
    pieces = list(parts(body))
    try:
        await _sent(client, request, body, pieces, tally)
    except AnswerError as refusal:
        if refusal.code not in _REFUSED:
            raise
        if len(pieces) == 1 or _missing_permission(refusal):
            tally.refused.extend(Refusal(name, refusal.code, refusal.message) for name, _ in pieces)
            return
        for _, piece in pieces:
            await _send(client, request, piece, tally)


async def _sent(
    client: Client, request: Request, body: _Body, pieces: Sequence[tuple[str, _Body]], tally: _Tally
) -> None:
    tally.sent += 1
    answer = await client.request(request.method, request.path, body=body, content_type=request.content_type)
    tally.version = objects.read("node", answer, _version)
    for name, piece in pieces:
        absent = objects.read("node", answer, partial(_absent, piece))
        if absent:
            message = f"the API server answered 200 and left out {', '.join(absent)}"
            tally.refused.append(Refusal(name, _OK, message))
        else:
            tally.done.append(name)


def _version(answer: Mapping[str, Any]) -> str:
    return str(objects.mapping(answer.get("metadata")).get("resourceVersion") or "")


def _missing_permission(refusal: AnswerError) -> bool:
    """The verb as a whole is not allowed, so no part of the patch would be: as RBAC says it."""
    return 'cannot patch resource "nodes/status"' in refusal.message


def _stamped(body: _Body, statuses: Mapping[str, str], now: str) -> _Body:
    conditions = body.get("status", {}).get("conditions")
    if conditions is None:
        return body
    stamped = [_stamp(condition, statuses, now) for condition in conditions]
    return {**body, "status": {**body["status"], "conditions": stamped}}


def _stamp(condition: Mapping[str, Any], statuses: Mapping[str, str], now: str) -> Mapping[str, Any]:
    if "$patch" in condition:
        return condition
    moved = statuses.get(condition["type"]) != condition["status"]
    return {**condition, "lastHeartbeatTime": now, **({"lastTransitionTime": now} if moved else {})}


def parts(body: _Body) -> Iterator[tuple[str, _Body]]:
    """The parts of a patch that make sense alone, by name, most important first."""
    status = dict(body.get("status", {}))
    metadata = dict(body.get("metadata", {}))
    conditions = status.pop("conditions", ())
    labels = metadata.pop("labels", {})
    if status:
        yield "capacity", {"status": status, **({"metadata": metadata} if metadata else {})}
    elif metadata:
        yield "annotations", {"metadata": metadata}
    for key, value in labels.items():
        yield f"label {key}", {"metadata": {"labels": {key: value}}}
    for condition in conditions:
        yield f"condition {condition['type']}", {"status": {"conditions": [condition]}}


def _absent(part: _Body, answer: Mapping[str, Any]) -> list[str]:
    """What ``part`` asked for that ``answer`` does not show."""
    return list(_lacking(part, answer))


def _lacking(part: _Body, answer: Mapping[str, Any]) -> Iterator[str]:
    for place in ("status", "metadata"):
        for name, wanted in part.get(place, {}).items():
            found: Any = (answer.get(place) or {}).get(name)
            if name == "conditions":
                yield from _conditions_absent(wanted, found or [])
                continue
            same = _equal_amounts if place == "status" else operator.eq
            yield from (f"{name} {key}" for key, value in wanted.items() if not same(value, (found or {}).get(key)))


def _conditions_absent(wanted: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    present = {condition["type"]: condition for condition in found}
    for condition in wanted:
        kind = condition["type"]
        there = present.get(kind)
        if "$patch" in condition:
            if there is not None:
                yield f"the removal of condition {kind}"
        elif there is None or any(there.get(key) != condition[key] for key in ("status", "reason")):
            yield f"condition {kind}"


def _equal_amounts(wanted: str | None, found: str | None) -> bool:
    """Compare as numbers: the server may write 6144Mi as 6Gi. None wants the key removed."""
    if wanted is None or found is None:
        return wanted is found
    return quantity.parse(wanted) == quantity.parse(found)

"""The fleet as a document for programs."""

from __future__ import annotations

from typing import Any

from edgeagent.fleet.types import Agent, Fleet, NodeRow, PoolRow, Waiting
from edgeagent.plan.describing import stamp

FORMAT = 1


def document(found: Fleet, taken: float) -> dict[str, Any]:
    """Every key is always there; what nothing tells is None, a time is RFC 3339. ``taken``: Unix seconds."""
    return {"format": FORMAT, "taken": stamp(taken), **content(found)}


def content(found: Fleet) -> dict[str, Any]:
    """The document without its time: equal as long as nothing has changed."""
    return {
        "nodes": [_node(row) for row in found.nodes],
        "other_nodes": found.others,
        "waiting": [_waiting(one) for one in found.waiting],
        "unread_objects": found.unread,
    }


def _node(row: NodeRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "edgeagent": row.ours,
        "kind": row.kind,
        "product": row.product,
        "pools": [_pool(pool) for pool in row.pools],
        "problems": [
            {"type": one.type, "status": one.status, "reason": one.reason, "since": _time(one.since)}
            for one in row.problems
        ],
        "judged": row.judged,
        "schedulable": row.schedulable,
        "mode": row.mode,
        "mode_why": row.mode_why,
        "agent": None if row.agent is None else _agent(row.agent),
        "last_write": _time(row.wrote),
    }


def _pool(pool: PoolRow) -> dict[str, Any]:
    return {
        "resource": pool.resource,
        "total_bytes": pool.total,
        "reserved_bytes": pool.reserved,
        "advertised_bytes": pool.advertised,
        "committed_bytes": pool.committed,
        "free_bytes": pool.free,
    }


def _agent(agent: Agent) -> dict[str, Any]:
    return {
        "pod": agent.pod,
        "image": agent.image,
        "version": agent.version,
        "ready": agent.ready,
        "started": _time(agent.started),
    }


def _waiting(one: Waiting) -> dict[str, Any]:
    return {
        "namespace": one.namespace,
        "name": one.name,
        "asks": dict(one.asks),
        "created": _time(one.created),
        "since": _time(one.since),
        "reason": one.reason,
        "message": one.message,
    }


def _time(at: float | None) -> str | None:
    return None if at is None else stamp(at)

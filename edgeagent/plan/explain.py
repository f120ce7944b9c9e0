"""The explain document: one plan as plain JSON values, every key always there, unknown as None.

Its format is versioned by ``format`` and described by docs/reference/explain.schema.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from edgeagent.memory import pools

if TYPE_CHECKING:
    from edgeagent.config import Reserves
    from edgeagent.memory.types import Pool
    from edgeagent.plan.breaches import PodView
    from edgeagent.plan.types import Finding, Plan

FORMAT = 1

Json = dict[str, Any]


def document(plan: Plan, at: float, settings: Reserves) -> Json:
    """The whole document; ``at`` is the second of the sample, ``settings`` the configured reserves."""
    return {
        "format": FORMAT,
        "at": at,
        "board": _board(plan),
        "devices": _devices(plan, settings),
        "pools": [_pool(pool, plan.advertised.get(pool.resource)) for pool in plan.pools],
        "host": _host(plan),
        "pods": [_pod(view) for view in plan.pods],
        "node": _node(plan),
        "plan": _decisions(plan),
        "findings": [finding(one) for one in plan.findings],
    }


def finding(found: Finding) -> Json:
    """One finding."""
    return {
        "id": found.id,
        "severity": found.severity,
        "certainty": found.certainty,
        "subject": found.subject,
        "summary": found.summary,
        "evidence": list(found.evidence),
        "remedy": found.remedy,
    }


def _board(plan: Plan) -> Json:
    """The verdict on the board."""
    shown = plan.board
    return {
        "kind": shown.kind,
        "unified": shown.unified,
        "signals": list(shown.signals),
        "product": shown.product,
        "soc": shown.soc,
        "module": shown.module,
        "l4t": shown.l4t,
        "jetpack": shown.jetpack,
        "warnings": list(shown.warnings),
    }


def _devices(plan: Plan, settings: Reserves) -> list[Json]:
    """The devices by uuid."""
    return [
        {
            "uuid": device.uuid,
            "name": device.name,
            "memory": device.memory,
            "total_bytes": device.total_bytes,
            "usable_bytes": pools.usable(device, settings),
            "health": device.health,
        }
        for device in plan.board.devices
    ]


def _pool(pool: Pool, advertised: int | None) -> Json:
    return {
        "resource": pool.resource,
        "kind": pool.kind,
        "total_bytes": pool.total,
        "reserves": [{"name": line.name, "bytes": line.bytes, "origin": line.origin} for line in pool.reserves],
        "host_committed_bytes": pool.host_committed,
        "gpu_committed_bytes": pool.gpu_committed,
        "advertised_bytes": advertised,
        "overcommitted": pool.overcommitted,
    }


def _host(plan: Plan) -> Json:
    """The board's memory beside the pods."""
    return {
        "available_bytes": plan.available,
        "usable_bytes": plan.danger.usable,
        "system_gpu_bytes": plan.usage.system_gpu,
        "unattributed_gpu_bytes": plan.usage.unattributed_gpu,
        "leaving_bytes": plan.usage.leaving,
        "pressure": plan.danger.active,
    }


def _pod(view: PodView) -> Json:
    """One live pod. Its top-level figures are those of its only pool, None where it has two."""
    resources = sorted(view.budgets)
    only = resources[0] if len(resources) == 1 else None
    budget = view.budgets[only] if only else None
    return {
        "namespace": view.pod.namespace,
        "name": view.pod.name,
        "uid": view.pod.uid,
        "gpu_bytes": view.use.gpu.get(only) if only else None,
        "host_bytes": view.use.host,
        "gpu_budget_bytes": budget.gpu if budget else None,
        "total_budget_bytes": budget.total if budget else None,
        "state": view.state,
        "reason": view.reason,
        "pools": [
            {
                "resource": resource,
                "gpu_bytes": view.use.gpu.get(resource),
                "gpu_budget_bytes": view.budgets[resource].gpu,
            }
            for resource in resources
        ],
        "containers": [
            {"name": name, "gpu_bytes": use.gpu, "host_bytes": use.host} for name, use in view.use.containers.items()
        ],
    }


def _node(plan: Plan) -> Json:
    """What the node should carry, and the writes due now."""
    wish = plan.node
    return {
        "capacity": dict(sorted(wish.capacity.items())),
        "labels": dict(sorted(wish.labels.items())),
        "conditions": [asdict(condition) for condition in wish.conditions],
        "requests": [
            {
                "method": request.method,
                "path": request.path,
                "content_type": request.content_type,
                "body": _plain(request.body),
            }
            for request in wish.requests
        ],
    }


def _decisions(plan: Plan) -> Json:
    """Evictions in victim order, kills, who is held and why, events."""
    return {
        "evictions": [asdict(eviction) for eviction in plan.evictions],
        "kills": [
            {"uid": kill.uid, "pids": [pid for pid, _ in kill.processes], "message": kill.message}
            for kill in plan.kills
        ],
        "held": [asdict(held) for held in plan.held],
        "events": [{"reason": event.reason, "regarding": event.regarding, "note": event.note} for event in plan.events],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value

"""What is watched beside the sample, as JSON: how pods fare, and how the board is. What is too old is not told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgeagent.facts.neighbours import Effect, Latency, Neighbour
    from edgeagent.facts.vitals import Vitals

Json = dict[str, Any]


def neighbours(found: Iterable[Neighbour], now: float) -> list[Json]:
    """How the pods fare at monotonic second ``now``, by namespace and name."""
    fresh = [one for one in found if not one.stale(now)]
    return [_neighbour(one) for one in sorted(fresh, key=lambda one: (one.namespace, one.name))]


def vitals(found: Vitals | None, now: float) -> Json | None:
    """How the board is at monotonic second ``now``; None: not known."""
    if found is None or found.stale(now):
        return None
    return {
        "power_mode": found.power_mode,
        "temperatures": [{"zone": zone, "celsius": celsius} for zone, celsius in found.temperatures],
        "throttled": found.throttled,
        "throttle_reasons": list(found.throttle_reasons),
        "fan_ratio": found.fan_ratio,
        "devices": [{"uuid": uuid, "utilization_ratio": busy} for uuid, busy in found.busy.items()],
        "source": found.source,
    }


def _neighbour(one: Neighbour) -> Json:
    return {
        "namespace": one.namespace,
        "name": one.name,
        "uid": one.uid,
        "cpu_throttled_ratio": one.cpu_throttled_ratio,
        "cpu_stall_ratio": one.cpu_stall_ratio,
        "memory_stall_ratio": one.memory_stall_ratio,
        "io_stall_ratio": one.io_stall_ratio,
        "gpu_utilization_ratio": one.gpu_utilization_ratio,
        "latency": _latency(one.latency) if one.latency else None,
        "latency_why": one.latency_why,
        "since_newcomer": _effect(one.since_newcomer) if one.since_newcomer else None,
    }


def _latency(latency: Latency) -> Json:
    return {
        "p50_seconds": latency.p50_seconds,
        "p99_seconds": latency.p99_seconds,
        "requests_per_second": latency.requests_per_second,
    }


def _effect(effect: Effect) -> Json:
    return {
        "pod": effect.pod,
        "seconds": round(effect.seconds, 1),
        "before": asdict(effect.before),
        "after": asdict(effect.after),
    }

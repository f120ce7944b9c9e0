"""Everything at once, for those who watch: the dashboard and ``edgeagent top``."""

from __future__ import annotations

from typing import Any

from edgeagent import __version__
from edgeagent.plan import describing
from edgeagent.serve import api, bars, health
from edgeagent.serve.look import Look
from edgeagent.serve.shown import ClusterHealth, Shown

Json = dict[str, Any]

_UNSAMPLED: Json = {"board": None, "devices": [], "host": None, "pools": [], "pods": None, "plan": None, "findings": []}
"""What is told of a sample that is too old."""
_LONG = frozenset({"before", "after"})
"""What an incident has most of; it never changes again and is told by its own path."""


def document(look: Look) -> Json:
    """The state as it may be told at the moment of ``look``. There always is one: ``ready`` says what is missing."""
    shown = look.shown
    sample = api.sampled(shown, look.now)
    return {
        "at": describing.stamp(look.wall),
        "node": shown.cluster.node if shown and shown.cluster else None,
        "version": __version__,
        "started": describing.stamp(shown.cost.started_at(look.now, look.wall)) if shown and shown.cost else None,
        "cluster": _cluster(shown.cluster, look.now) if shown and shown.cluster else None,
        "config": api.configured(shown) if shown else None,
        **_mode(shown),
        "ready": health.readyz(shown, look.now)[1],
        "sample_age_seconds": _age(shown.at, look.now) if shown and shown.plan else None,
        "floor_bytes": shown.plan.danger.floor if shown and shown.plan else None,
        "ai_capable": _ai_capable(shown, look.now) if shown and sample else None,
        "readings": _readings(shown, look.now) if shown else {},
        "stale": sorted(shown.stale_feeds(look.now)) if shown else [],
        **({part: sample[part] for part in _UNSAMPLED} if sample else _UNSAMPLED),
        "pods": sample["pods"] if shown and shown.plan and sample and shown.plan.listed else None,
        "diagnosed": bool(shown and sample and shown.diagnosed),
        "bars": _bars(shown, sample, look.now) if shown and sample else [],
        **{name: api.KEPT[name](shown, look) if shown else empty for name, empty in _KEPT.items()},
        "incidents": [_brief(one) for one in api.incidents(shown)] if shown else [],
    }


def _bars(shown: Shown, sample: Json, now: float) -> list[Json]:
    """How the pools are divided, of figures none of which is too old."""
    usage = None if shown.plan is None or shown.stale_feeds(now) & {"gpu", "host"} else shown.plan.usage
    return bars.bars(sample, usage)


def _ai_capable(shown: Shown, now: float) -> Json | None:
    """Whether a pod can use the GPU here, and why; devices that were not read lately prove nothing."""
    if shown.plan is None:
        return None
    path = shown.plan.gpu_path
    if "devices" in shown.stale_feeds(now):
        return {"value": None, "why": "The GPUs were not read lately."}
    return {"value": path.proven, "why": path.why}


_KEPT: Json = {"budgets": [], "neighbours": [], "vitals": None, "events": []}
"""What is told beside the sample, and what stands in its place before the first cycle."""


def _mode(shown: Shown | None) -> Json:
    """What the agent does about a breach, and why no more than that; None: it was not decided yet."""
    if shown is None or shown.plan is None:
        return {"mode": None, "observe_because": ""}
    return {"mode": "observe" if shown.plan.observe else "enforce", "observe_because": shown.plan.observe}


def _cluster(cluster: ClusterHealth, now: float) -> Json:
    """How current the view of the cluster is; its age is 0 while the watches are open, None before the first lists."""
    age = round(max(0.0, now - cluster.fresh_at), 3)
    return {
        "complete": cluster.complete,
        "view_age_seconds": age if cluster.complete else None,
        "error": cluster.error,
    }


def _readings(shown: Shown, now: float) -> Json:
    return {
        name: {
            "age_seconds": _age(reading.succeeded_at, now),
            "stale": reading.stale(now),
            "why": reading.why or reading.never,
        }
        for name, reading in sorted(shown.readings.items())
    }


def _age(at: float | None, now: float) -> float | None:
    return None if at is None else round(max(0.0, now - at), 3)


def _brief(incident: Json) -> Json:
    return {key: value for key, value in incident.items() if key not in _LONG}

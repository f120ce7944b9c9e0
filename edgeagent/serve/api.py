"""The read-only API: parts of the explain document without the values of stale readings, and what is kept beside it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgeagent.plan import advice, describing, explain, history
from edgeagent.serve import beside, health, trail
from edgeagent.serve.look import Look
from edgeagent.serve.shown import Feed, Shown

Json = dict[str, Any]

PARTS = {
    "board": ("board", "devices", "host"),
    "pools": ("pools",),
    "pods": ("pods",),
    "plan": ("plan",),
    "findings": ("findings",),
}
"""What an answer of the last sample holds, by the last part of its path."""


def answer(name: str, look: Look) -> health.Answer:
    """The answer for one of PARTS or KEPT; 503 with the reason while there is nothing to tell, or only what is old."""
    shown = look.shown
    if name in KEPT and shown is not None:
        return health.OK, {name: KEPT[name](shown, look)}
    document = sampled(shown, look.now)
    if document is None:
        return health.UNAVAILABLE, health.unavailable(health.sample(shown, look.now))
    return health.OK, {part: document[part] for part in PARTS[name]}


def sampled(shown: Shown | None, now: float) -> Json | None:
    """The explain document of the last sample, as far as it may still be told; None: there is none that may be."""
    if shown is None or shown.plan is None or shown.stale(now):
        return None
    document = explain.document(shown.plan, shown.at, shown.settings)
    _forget(document, shown.stale_feeds(now))
    return document


# --- what is told however old the last sample is -------------------------------------------


def _events(shown: Shown, look: Look) -> list[Json]:
    return [
        {
            "at": _time(event.at, event.wall, look),
            "reason": event.reason,
            "regarding": event.regarding,
            "note": event.note,
        }
        for event in shown.events
    ]


def _time(at: float | None, wall: float | None, look: Look) -> str | None:
    if wall is not None:
        return describing.stamp(wall)
    return None if at is None else look.time(at)


def incidents(shown: Shown) -> list[Json]:
    """The latest incidents, newest first."""
    return list(_joined(shown.incidents))


@functools.lru_cache(maxsize=1)
def _joined(lines: tuple[bytes, ...]) -> Sequence[Json]:
    """Told once a second while somebody watches, and new only once in a while."""
    return history.joined(json.loads(line) for line in lines).incidents[::-1]


def configured(shown: Shown) -> Json:
    """Which configuration is in force, and why not the one in the files, without its values."""
    config = shown.config
    return {"digest": config.digest, "last_reload_ok": config.last_reload_ok, "problems": list(config.refused)}


def _config(shown: Shown, _: Look) -> Json:
    return {**configured(shown), "values": shown.configured}


def _budgets(shown: Shown, _: Look) -> list[Any]:
    return advice.documents(shown.budgets)


def _neighbours(shown: Shown, look: Look) -> list[Json]:
    return beside.neighbours(shown.neighbours.values(), look.now)


def _vitals(shown: Shown, look: Look) -> Json | None:
    return beside.vitals(shown.vitals, look.now)


KEPT: Mapping[str, Callable[[Shown, Look], Any]] = {
    "events": _events,
    "incidents": lambda shown, _: incidents(shown),
    "history": lambda shown, look: trail.document(shown.trail, look.now),
    "config": _config,
    "budgets": _budgets,
    "neighbours": _neighbours,
    "vitals": _vitals,
}
"""What is told beside the last sample, by the last part of its path. Each looks after its own age."""


# --- what is not told ----------------------------------------------------------------------


def _forget(document: Json, stale: frozenset[Feed]) -> None:
    """Make every value unknown that a stale reading supplied."""
    if not stale:
        return
    _forget_host(document["host"], stale)
    for pool in document["pools"]:
        if sized_by(pool["kind"]) in stale:
            pool.update(total_bytes=None, reserves=[], overcommitted=None)
    if "devices" in stale:
        for device in document["devices"]:
            device.update(total_bytes=None, usable_bytes=None, health="unknown")
    for pod in document["pods"]:
        _forget_pod(pod, stale)


def sized_by(kind: str) -> Feed:
    """Which feed the size of a pool of this kind comes from."""
    return "memory" if kind == "unified" else "devices"


def _forget_host(host: Json, stale: frozenset[Feed]) -> None:
    if "memory" in stale:
        host.update(available_bytes=None, usable_bytes=None, pressure=None)
    if "gpu" in stale:
        host.update(system_gpu_bytes=None, unattributed_gpu_bytes=None)
    if stale & {"gpu", "host"}:
        host["leaving_bytes"] = None


def _forget_pod(pod: Json, stale: frozenset[Feed]) -> None:
    if "gpu" in stale:
        for part in (pod, *pod["pools"], *pod["containers"]):
            part["gpu_bytes"] = None
    if "host" in stale:
        for part in (pod, *pod["containers"]):
            part["host_bytes"] = None
    if stale & {"gpu", "host"} and pod["state"] != "terminating":
        pod.update(state="unknown", reason="a reading is stale")

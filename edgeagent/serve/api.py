"""The read-only API: parts of the explain document, without the values of stale readings."""

from __future__ import annotations

from typing import Any

from edgeagent.plan import explain
from edgeagent.serve import health
from edgeagent.serve.shown import Feed, Shown

Json = dict[str, Any]

PARTS = {
    "board": ("board", "devices", "host"),
    "pools": ("pools",),
    "pods": ("pods",),
    "plan": ("plan",),
}
"""What an answer holds, by the last part of its path."""


def answer(name: str, shown: Shown | None, now: float) -> health.Answer:
    """The answer for one of PARTS; 503 with the reason while there is no plan, or only an old one."""
    check = health.sample(shown, now)
    if check.message or shown is None or shown.plan is None:
        return health.UNAVAILABLE, health.unavailable(check)
    document = explain.document(shown.plan, shown.at, shown.settings)
    _forget(document, shown.stale_feeds(now))
    return health.OK, {part: document[part] for part in PARTS[name]}


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

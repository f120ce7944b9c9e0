"""Each pool as one bar: segments that add up to its total exactly, or the word that they are not known.

Pure arithmetic over :func:`edgeagent.plan.explain.document`, for the dashboard and the terminal page.

What is in use comes first, then what is free for pods, last what is still kept back:

``host``
    In use and nobody's by name: the operating system, its processes, and what cannot be told apart. Unified pools only.
``system-gpu``
    GPU memory of processes outside pods.
``pod-gpu``, ``pod-host``
    What a pod holds, by ``uid``; ``name`` is ``namespace/name``. ``pod-host`` exists in unified pools only.
``unattributed``
    GPU memory that no process can be named for. With a pool for each card, all that no pod holds.
``leaving``
    What comes back by itself: of a terminating pod by its name, the rest without one.
``free``
    What pods can still take before a reserve is touched. Always there, 0 too.
``reserve``
    What nobody has touched of the reserve ``name``. The host uses ``cma``, ``os`` and ``k3s`` up first, they are for
    that; pods that take more than is free then shorten all of them, ``headroom`` last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from edgeagent.memory.types import Usage

Json = dict[str, Any]

_HOST_LINES = ("cma", "os", "k3s")
"""Reserves that the host is meant to use, in this order: CMA pages that are not free are in use by it, surely."""


def bars(document: Json, usage: Usage | None = None) -> list[Json]:
    """One bar for each pool of an explain document, in its order.

    Args:
        document: the explain document, or its parts ``pools``, ``pods`` and ``host``; None where a value is stale.
        usage: of the same plan. The document sums what no pod holds over all pools and adds host memory to what is
            leaving; only with ``usage`` can that be told apart on a card, or on a board with several pools.

    Returns:
        ``{"resource", "kind", "total_bytes", "segments"}`` each. ``segments`` is None where a figure of the sum is not
        known, else ``{"kind", "name", "uid", "bytes"}`` each, none of them 0 but ``free``.
    """
    return [
        {
            "resource": pool["resource"],
            "kind": pool["kind"],
            "total_bytes": pool["total_bytes"],
            "segments": _segments(pool, document, usage),
        }
        for pool in document["pools"]
    ]


class _Others(NamedTuple):
    """Bytes of one pool that no pod holds that stays."""

    system: int
    unattributed: int
    leaving: int
    """Of terminating pods, and of processes whose pod or container is gone."""


def _segments(pool: Json, document: Json, usage: Usage | None) -> list[Json] | None:
    others = _others(pool, document, usage)
    if pool["total_bytes"] is None or others is None:
        return None
    live = list(_pods(pool, document["pods"]))
    if any(part["bytes"] is None for part in live):
        return None
    held = [
        _segment("system-gpu", others.system),
        *live,
        _segment("unattributed", others.unattributed),
        *_leaving(pool, document["pods"], others.leaving),
    ]
    rest = pool["total_bytes"] - sum(part["bytes"] for part in held)
    if rest < 0:
        return None
    edges = _edges(pool, document["host"], rest)
    if edges is None:
        return None
    host, fenced, left = edges
    kept = _untouched(pool["reserves"], host + others.system if pool["kind"] == "unified" else 0, fenced, left)
    free = _segment("free", left + fenced - sum(kept.values()))
    parts = [
        _segment("host", host),
        *held,
        free,
        *(_segment("reserve", amount, name) for name, amount in kept.items()),
    ]
    return [part for part in parts if part["bytes"] or part is free]


def _segment(kind: str, amount: int | None, name: str = "", uid: str = "") -> Json:
    return {"kind": kind, "name": name, "uid": uid, "bytes": amount}


def _in_pool(pod: Json, resource: str) -> int | None:
    """GPU bytes that a pod holds of one pool."""
    found: int | None = next((one["gpu_bytes"] for one in pod["pools"] if one["resource"] == resource), 0)
    return found


def _pods(pool: Json, pods: Sequence[Json]) -> Iterator[Json]:
    """What pods that stay hold. Host memory that is not known is left to what the host uses."""
    for pod in pods:
        if pod["state"] == "terminating":
            continue
        name = f"{pod['namespace']}/{pod['name']}"
        yield _segment("pod-gpu", _in_pool(pod, pool["resource"]), name, pod["uid"])
        yield _segment("pod-host", _hosted(pool, pod), name, pod["uid"])


def _leaving(pool: Json, pods: Sequence[Json], whole: int) -> Iterator[Json]:
    rest = whole
    for pod in pods:
        if pod["state"] == "terminating":
            held = (_in_pool(pod, pool["resource"]) or 0) + _hosted(pool, pod)
            held = min(held, rest)
            rest -= held
            yield _segment("leaving", held, f"{pod['namespace']}/{pod['name']}", pod["uid"])
    yield _segment("leaving", rest)


def _hosted(pool: Json, pod: Json) -> int:
    """Host bytes of a pod that this pool has to hold."""
    return (pod["host_bytes"] or 0) if pool["kind"] == "unified" else 0


def _others(pool: Json, document: Json, usage: Usage | None) -> _Others | None:
    """What no pod holds of ``pool``; None where it is not known, or known for all pools together only."""
    host = document["host"]
    whole = (host["system_gpu_bytes"], host["unattributed_gpu_bytes"], host["leaving_bytes"])
    if None in whole:
        return None
    alone = len(document["pools"]) == 1
    if not any(whole) or (alone and pool["kind"] == "unified"):
        return _Others(*whole)
    if usage is None or usage.system_shared is None:
        return None
    if pool["kind"] == "unified":
        # What no process can be named for is not told apart by pool: here it is a part of ``host``.
        return _Others(usage.system_shared, 0, usage.leaving_shared)
    used = usage.gpu_total.get(pool["resource"])
    if used is None:
        return None
    return _on_cards(pool, document, usage, used)


def _on_cards(pool: Json, document: Json, usage: Usage, used: int) -> _Others | None:
    """What no pod holds of a pool of cards, of which ``used`` bytes are in use."""
    host, resource = document["host"], pool["resource"]
    staying = sum(_in_pool(pod, resource) or 0 for pod in document["pods"] if pod["state"] != "terminating")
    if sum(one["kind"] == "discrete" for one in document["pools"]) == 1:
        system = host["system_gpu_bytes"] - (usage.system_shared or 0)
        leaving = host["leaving_bytes"] - usage.leaving_shared
    else:
        system = 0
        leaving = sum(_in_pool(pod, resource) or 0 for pod in document["pods"] if pod["state"] == "terminating")
    unattributed = used - staying - system - leaving
    found = _Others(system, unattributed, leaving)
    return found if min(found) >= 0 else None


def _edges(pool: Json, host: Json, rest: int) -> tuple[int, int, int] | None:
    """Of the ``rest`` that has no name: what the host uses, the free CMA pages, and what is left for anybody.

    A GPU cannot use free CMA pages: they are what MemAvailable has and usable memory has not.
    """
    if pool["kind"] != "unified":
        return 0, 0, rest
    if host["usable_bytes"] is None or host["available_bytes"] is None:
        return None
    left = min(host["usable_bytes"], rest)
    fenced = min(host["available_bytes"] - host["usable_bytes"], rest - left)
    return rest - left - fenced, fenced, left


def _untouched(reserves: Sequence[Json], own: int, fenced: int, left: int) -> dict[str, int]:
    """Bytes by reserve that neither the host, which uses ``own``, nor the pods have touched; ``fenced`` are CMA's."""
    wanted = {"os": 0, "k3s": 0, "cma": 0, **{line["name"]: line["bytes"] for line in reserves}}
    wanted["cma"] = max(0, wanted["cma"] - fenced)
    for name in _HOST_LINES:
        used = min(own, wanted[name])
        own -= used
        wanted[name] -= used
    kept = {}
    for name in reversed(wanted):
        kept[name] = min(wanted[name], left)
        left -= kept[name]
    kept["cma"] += fenced
    return {name: kept[name] for name in wanted}

"""The state of an agent in a few figures: the document of ``edgeagent status``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from edgeagent.console import said
from edgeagent.quantity import total

FORMAT = 1
STATES = ("ok", "breach", "unbudgeted", "unknown", "protected", "terminating")
SEVERITIES = ("error", "warning", "info")
_BOARD = ("kind", "product", "module", "l4t", "jetpack")
_NAMED = ("namespace", "name", "uid", "state", "reason")
_WELL = frozenset({"ok", "protected", "terminating"})

Json = dict[str, Any]


def summary(state: Mapping[str, Any], address: str) -> Json:
    """What /api/v1/state says, in short: every key always there, unknown is None. ``address``: who says it."""
    board, host, pods = state["board"], state["host"] or {}, state["pods"]
    last = state["incidents"][0] if state["incidents"] else None
    looked = diagnosed(state) or state["findings"]
    return {
        "format": FORMAT,
        "at": state["at"],
        "address": address,
        "version": state["version"],
        "node": state["node"],
        "started": state["started"],
        "ready": state["ready"]["status"] == "ok",
        "reasons": state["ready"]["reasons"],
        "mode": state["mode"],
        "observe_because": state["observe_because"],
        "board": {key: board[key] for key in _BOARD} if board else None,
        "pools": [_pool(pool) for pool in state["pools"]],
        "usable_bytes": host.get("usable_bytes"),
        "floor_bytes": state["floor_bytes"],
        "pressure": host.get("pressure"),
        # Without a sample, or a list of them, nobody knows how many there are, and 0 would be a number.
        "pods": None if pods is None else _counts(pods, "state", STATES),
        "not_well": [{key: pod[key] for key in _NAMED} for pod in pods or () if pod["state"] not in _WELL],
        "last_decision": _decision(last) if last else None,
        "findings": _counts(state["findings"], "severity", SEVERITIES) if board and looked else None,
        "cluster": state["cluster"],
        "config": state["config"],
        "stale": state["stale"],
    }


def diagnosed(state: Mapping[str, Any]) -> bool:
    """Whether no finding means that nothing was found. An agent of an older version does not say."""
    return bool(state.get("diagnosed", True))


def _counts(rows: list[Json], key: str, names: tuple[str, ...]) -> Json:
    found = Counter(row[key] for row in rows)
    return {name: found[name] for name in names}


def _pool(pool: Json) -> Json:
    advertised, committed = pool["advertised_bytes"], pool["gpu_committed_bytes"]
    return {
        "resource": pool["resource"],
        "total_bytes": pool["total_bytes"],
        # Of a pool that has no size no reserve is told either.
        "reserved_bytes": None if pool["total_bytes"] is None else total(one["bytes"] for one in pool["reserves"]),
        "advertised_bytes": advertised,
        "committed_bytes": committed,
        "free_bytes": None if advertised is None else advertised - committed,
        "overcommitted": pool["overcommitted"],
    }


def _decision(one: Json) -> Json:
    pod = one["pod"]
    return {
        "at": one["wall"],
        "at_plausible": one["wall_plausible"],
        "kind": one["kind"],
        "namespace": pod["namespace"] if pod else None,
        "name": pod["name"] if pod else None,
        "outcome": said.outcome(one),
        "what": said.decided(one).what,
        "why": one["reason"],
    }

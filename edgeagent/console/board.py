"""The board itself, in the words of an agent's state: what there is to see where no agent answers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from edgeagent import __version__
from edgeagent.plan import describing, explain
from edgeagent.serve import bars
from edgeagent.snapshot import live

if TYPE_CHECKING:
    from edgeagent.config import Config
    from edgeagent.snapshot.live import Source

_PARTS = ("board", "devices", "host", "pools", "pods", "plan", "findings")


def state(config: Config, source: Source) -> dict[str, Any]:
    """One look, with the keys of /api/v1/state. Nobody acts on it, so it has no mode, and nothing was done before.

    Raises:
        InputError: there is no such board, or this node's name is not certain.
        ClusterError: the API server could not be asked.
    """
    facts, plan = live.look(config, source)
    document = explain.document(plan, 0.0, config.reserves)
    cluster = facts.cluster
    return {
        "at": describing.stamp(time.time()),
        "node": cluster.node.name if cluster and cluster.node else None,
        "version": __version__,
        "cluster": None,
        "mode": None,
        "observe_because": "",
        "floor_bytes": plan.danger.floor,
        "readings": {},
        "stale": [],
        **{part: document[part] for part in _PARTS},
        "pods": document["pods"] if plan.listed else None,
        "bars": bars.bars(document, plan.usage),
        "vitals": None,
        "incidents": [],
        "events": [],
    }

"""Other projects that hand out GPU memory on a node. Two owners would each give away the whole of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeagent.facts import NodeFacts

# Node labels by which each project marks the nodes whose GPU memory it shares out.
_LABELS = {
    ("gpu", "on"): "HAMi",
    ("gpushare", "true"): "gpushare",
    ("SharedGPU", "true"): "KubeShare",
}
_LABEL_KEYS = {"nos.nebuly.com/gpu-partitioning": "nos"}
_CONDITIONS = {"gpu-fractioning.nvidia.com/Ready": "KAI", "gpu-sharing.nvidia.com/Ready": "KAI"}


def other_owner(node: NodeFacts | None) -> str | None:
    """The project that owns the node's GPU memory beside us, with the mark it is known by; None when there is none."""
    if node is None:
        return None
    for (key, value), owner in _LABELS.items():
        if node.labels.get(key) == value:
            return f"{owner} (label {key}={value})"
    for key, owner in _LABEL_KEYS.items():
        if key in node.labels:
            return f"{owner} (label {key})"
    for condition in node.conditions:
        owner_name = _CONDITIONS.get(str(condition.get("type")))
        if owner_name and condition.get("status") == "True":
            return f"{owner_name} (condition {condition.get('type')})"
    return None

"""The writes that make a node carry what it should: own keys only, and nothing when nothing differs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from edgeagent import quantity
from edgeagent.facts import GPU_MEMORY, GPU_MILLI, IGPU_MEMORY, PREFIX
from edgeagent.plan import conditions as condition_types
from edgeagent.plan.labels import DESCRIBED
from edgeagent.plan.types import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Condition, Request

if TYPE_CHECKING:
    from edgeagent.facts import NodeFacts

OWNED_KEYS = PREFIX + "owned-keys"
MODE = PREFIX + "mode"
_POOL = re.compile(rf"{re.escape(GPU_MEMORY)}(-\d+)?|{re.escape(IGPU_MEMORY)}|{re.escape(GPU_MILLI)}")
KUBERNETES = re.compile(r"(^|\.)(kubernetes|k8s)\.io$")


def owned(node: NodeFacts, part: str) -> frozenset[str]:
    """Keys of ``capacity``, ``labels`` or ``conditions`` that an earlier run put on the node, by its annotation."""
    try:
        told = json.loads(node.annotations.get(OWNED_KEYS, "{}"))
    except ValueError:
        return frozenset()
    keys = told.get(part, []) if isinstance(told, dict) else []
    return frozenset(key for key in keys if isinstance(key, str)) if isinstance(keys, list) else frozenset()


def own_labels(node: NodeFacts) -> frozenset[str]:
    """Labels on the node that are ours to change: by their name, or told by the annotation.

    Whatever the annotation says, the labels of Kubernetes itself are never ours.
    """
    told = {key for key in owned(node, "labels") if not KUBERNETES.search(key.rpartition("/")[0])}
    return frozenset(key for key in node.labels if key in DESCRIBED or key in told)


def own_capacity(node: NodeFacts) -> frozenset[str]:
    """Capacity and allocatable keys on the node that are ours: by their name, or under our prefix and told."""
    told = {key for key in owned(node, "capacity") if key.startswith(PREFIX)}
    return frozenset(key for key in (*node.capacity, *node.allocatable) if _POOL.fullmatch(key) or key in told)


def requests(
    node: NodeFacts, capacity: Mapping[str, str], labels: Mapping[str, str], wanted: Iterable[Condition]
) -> tuple[Request, ...]:
    """The writes due now: one merge-patch of the status with labels and annotation, then one of the conditions."""
    conditions = tuple(wanted)
    body: dict[str, Any] = {}
    status = _capacity_patch(node, capacity)
    if status:
        body["status"] = status
    metadata = _metadata_patch(node, capacity, labels, conditions)
    if metadata:
        body["metadata"] = metadata
    path = f"/api/v1/nodes/{node.name}/status"
    found = []
    if body:
        found.append(Request(method="PATCH", path=path, content_type=MERGE_PATCH, body=body))
    changed = _conditions_patch(node, conditions)
    if changed:
        # A merge-patch would replace the whole list, the kubelet's Ready with it.
        patch = {"status": {"conditions": changed}}
        found.append(Request(method="PATCH", path=path, content_type=STRATEGIC_MERGE_PATCH, body=patch))
    return tuple(found)


def _capacity_patch(node: NodeFacts, wanted: Mapping[str, str]) -> dict[str, dict[str, str | None]]:
    capacity: dict[str, str | None] = {}
    allocatable: dict[str, str | None] = {}
    for key, value in sorted(wanted.items()):
        if not quantity.equal(node.capacity.get(key), value):
            capacity[key] = value
            # The kubelet copies capacity within ten seconds; until then the scheduler sees allocatable only.
            allocatable[key] = value
        elif _empty(node.allocatable.get(key)) and not quantity.equal(value, "0"):
            allocatable[key] = value
    for key in sorted(own_capacity(node) - wanted.keys()):
        if key in node.capacity:
            capacity[key] = None
        if key in node.allocatable:
            allocatable[key] = None
    return {name: part for name, part in (("capacity", capacity), ("allocatable", allocatable)) if part}


def _metadata_patch(
    node: NodeFacts, capacity: Mapping[str, str], labels: Mapping[str, str], conditions: tuple[Condition, ...]
) -> dict[str, dict[str, str | None]]:
    changed: dict[str, str | None] = {
        key: value for key, value in sorted(labels.items()) if node.labels.get(key) != value
    }
    changed |= dict.fromkeys(sorted(own_labels(node) - labels.keys()))
    told = {"capacity": sorted(capacity), "conditions": sorted(c.type for c in conditions), "labels": sorted(labels)}
    annotation = json.dumps(told, separators=(",", ":"), sort_keys=True)
    found: dict[str, dict[str, str | None]] = {}
    if changed:
        found["labels"] = changed
    if node.annotations.get(OWNED_KEYS) != annotation:
        found["annotations"] = {OWNED_KEYS: annotation}
    return found


def _conditions_patch(node: NodeFacts, wanted: tuple[Condition, ...]) -> list[dict[str, str]]:
    present = {condition.get("type"): condition for condition in node.conditions}
    changed = [
        {"type": condition.type, "status": condition.status, "reason": condition.reason, "message": condition.message}
        for condition in wanted
        if (present.get(condition.type, {}).get("status"), present.get(condition.type, {}).get("reason"))
        != (condition.status, condition.reason)
    ]
    names = {condition.type for condition in wanted}
    dropped = [
        {"type": name, "$patch": "delete"} for name in condition_types.TYPES if name in present and name not in names
    ]
    return changed + dropped


def _empty(present: str | None) -> bool:
    return present is None or quantity.equal(present, "0")

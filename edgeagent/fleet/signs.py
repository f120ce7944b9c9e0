"""What on a node tells of edgeagent, beside the figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from edgeagent.cluster import objects
from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY, NodeFacts
from edgeagent.fleet.types import Problem
from edgeagent.plan import conditions, node, owners

MANAGER = "edgeagent"
"""The field manager of every write of the agent."""
READY = "Ready"
_POOL = re.compile(rf"{re.escape(GPU_MEMORY)}(-\d+)?|{re.escape(IGPU_MEMORY)}", re.ASCII)


def is_pool(resource: str) -> bool:
    """Whether the resource is GPU memory of ours."""
    return _POOL.fullmatch(resource) is not None


def ours(found: NodeFacts) -> bool:
    """Whether the node carries anything that edgeagent writes. The mode is written by people, so it says nothing."""
    types = {condition["type"] for condition in found.conditions}
    return bool(
        node.OWNED_KEYS in found.annotations
        or node.own_labels(found)
        or node.own_capacity(found)
        or types.intersection(conditions.TYPES)
    )


def mode(found: NodeFacts) -> str | None:
    """Why an agent on this node observes; None: nothing here says that it does."""
    if found.annotations.get(node.MODE) == "observe":
        return f"the node is annotated {node.MODE}: observe"
    return owners.other_owner(found)


def problems(found: NodeFacts) -> Iterator[Problem]:
    """What is wrong: Ready first, then the GPU's conditions."""
    present = {condition["type"]: condition for condition in found.conditions}
    ready = present.get(READY, {})
    if ready.get("status") != "True":
        yield _problem(READY, ready)
    for kind in conditions.TYPES:
        if kind in present and present[kind].get("status") != "False":
            yield _problem(kind, present[kind])


def _problem(kind: str, condition: Mapping[str, Any]) -> Problem:
    return Problem(
        kind,
        str(condition.get("status") or "Unknown"),
        str(condition.get("reason") or ""),
        objects.unix_time(condition.get("lastTransitionTime")),
    )


def judged(found: NodeFacts, kind: str | None) -> bool:
    """Whether the GPU's conditions are there, or it is known that there is no GPU."""
    types = {condition["type"] for condition in found.conditions}
    return kind == "none" or types.issuperset(conditions.TYPES)


def wrote(metadata: Mapping[str, Any]) -> float | None:
    """When the agent last changed something on the node, by the API server's own record."""
    entries = map(objects.mapping, objects.sequence(metadata.get("managedFields")))
    times = (objects.unix_time(entry.get("time")) for entry in entries if entry.get("manager") == MANAGER)
    return max((at for at in times if at is not None), default=None)

"""The node does not carry the capacity that this board has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.diagnose.placement import unmet
from edgeagent.diagnose.rule import Rule
from edgeagent.facts import GPU_MEMORY
from edgeagent.memory import requests
from edgeagent.plan import labels, owners

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgeagent.diagnose.collected import ClusterSeen, Collected
    from edgeagent.facts import Finding

PATIENCE = 30.0
"""Seconds that a running agent has for its first write, and for bringing back what others took away."""


def look(seen: Collected) -> Iterator[Finding]:
    """Of a recording only a pod that asks tells that somebody misses it: the agent may not have run yet."""
    if seen.node is None:
        return
    lacking = [
        key
        for key, amount in seen.plan.node.capacity.items()
        if _is_none(seen.node.allocatable, key) and quantity.parse(amount) > 0
    ]
    asking = [
        pod.key
        for pod in seen.everyone()
        if not (pod.admitted or pod.terminating or unmet(pod.placement, seen.node))
        and any(requests.total(pod, key, "requests") for key in lacking)
    ]
    if not lacking or not (asking or (seen.owed is not None and seen.owed >= PATIENCE)):
        return
    yield RULE.finding(
        seen.node_subject,
        f"The node has no {' and no '.join(lacking)}, which this board has"
        + (f"; {', '.join(asking)} cannot be scheduled here." if asking else "."),
        evidence=tuple(
            f"node status.allocatable.{key}: {seen.node.allocatable.get(key, 'absent')}, should be "
            f"{seen.plan.node.capacity[key]}"
            for key in lacking
        ),
    )


def across(seen: ClusterSeen) -> Iterator[Finding]:
    """Nodes that say they have a GPU and offer none of its memory."""
    for node in seen.nodes:
        kind = node.labels.get(labels.KIND, "none")
        # What is 0 was published so: all of it may be booked.
        offered = any(key.startswith(GPU_MEMORY) for key in node.allocatable)
        if kind != "none" and not offered and not owners.other_owner(node):
            yield RULE.finding(
                f"node {node.name}",
                f"The node's label says that it has a GPU ({kind}), and it has no {GPU_MEMORY}.",
                evidence=(
                    f"label {labels.KIND}: {kind}",
                    f"node status.allocatable.{GPU_MEMORY}: absent",
                ),
            )


def _is_none(amounts: Mapping[str, str], key: str) -> bool:
    return key not in amounts or quantity.equal(amounts[key], "0")


RULE = Rule(
    id="capacity-missing",
    title="The node has no GPU memory to offer",
    severity="error",
    looks_at="`status.allocatable` of the node, what the agent would publish, and pods that ask for it. Told at once "
    "where a pod asks; else after 30 seconds in which a running agent could not publish",
    matters="The scheduler sends no pod that asks for `edgeagent.dev/gpu-memory` to a node that does not offer it.",
    remedy="Let the agent run on this node; what the API server refuses it stands in /readyz and in its log:\n"
    "systemctl status edgeagent\n"
    "journalctl -u edgeagent -n 50",
    look=look,
    across=across,
)
RULES = (RULE,)

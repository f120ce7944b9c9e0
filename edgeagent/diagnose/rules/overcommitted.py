"""More is booked of a pool than it has."""

from __future__ import annotations

from edgeagent.diagnose.rule import Rule, by_decisions

RULE = Rule(
    id="overcommitted",
    title="More is booked than there is",
    severity="error",
    looks_at="the size of each pool and its reserves, and what live pods have booked of it: requests of GPU memory, on "
    "unified memory the host part of `memory` requests too, and GPU budgets by annotation or another project's key. "
    "The finding names the pods that booked most; the event goes to the youngest",
    matters="All of them cannot have at once what they were promised. It comes about where memory is booked that the "
    "scheduler does not see: K3s' kubelet offers all memory of the board as `memory`, and annotations are no requests. "
    "No new room is offered until it fits again.",
    remedy="End the youngest pods until it fits; on unified memory give the kubelet the reserves of edgeagent, so that "
    "the scheduler counts the same: see the commands and lines in the finding, and "
    "[set K3s' reserves](../how-to/set-k3s-reserves.md).",
    look=by_decisions,
    event="Overcommitted",
)
RULES = (RULE,)

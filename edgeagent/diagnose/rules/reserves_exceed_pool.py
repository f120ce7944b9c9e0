"""The reserves of a pool leave nothing of it."""

from __future__ import annotations

from edgeagent.diagnose.rule import Rule, by_decisions

RULE = Rule(
    id="reserves-exceed-pool",
    title="The reserves take all of the pool",
    severity="error",
    looks_at="the size of each pool and its reserve lines, each with where it comes from: a default, the "
    "configuration, the kubelet's own settings, or measured",
    matters="Nothing is offered, so no pod that asks for GPU memory is sent here.",
    remedy="Lower the largest line where it was set: see the lines in the finding, and "
    "[the memory model](../explanation/memory-model.md). What the kubelet reserves has to be lowered in its own "
    "settings.",
    look=by_decisions,
    event="",
)
RULES = (RULE,)

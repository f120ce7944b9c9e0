"""Asks every rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgeagent.diagnose.registry import RULES
from edgeagent.plan.notices import order

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import ClusterSeen, Collected
    from edgeagent.facts import Finding


def diagnose(collected: Collected) -> tuple[Finding, ...]:
    """What the rules find, worst first; the same finding once."""
    found = {one: None for rule in RULES for one in rule.look(collected)}
    return tuple(sorted(found, key=order))


def across(seen: ClusterSeen) -> tuple[Finding, ...]:
    """What those rules find that need the API alone, worst first."""
    found = {one: None for rule in RULES if rule.across for one in rule.across(seen)}
    return tuple(sorted(found, key=order))

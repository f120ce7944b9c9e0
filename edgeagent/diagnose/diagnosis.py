"""Asks every rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from edgeagent.diagnose.registry import RULES
from edgeagent.plan.notices import order

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import ClusterSeen, Collected
    from edgeagent.diagnose.rule import Rule
    from edgeagent.facts import Finding

Seen = TypeVar("Seen")
Told = Callable[[str, Exception], None]
"""Takes the id of a rule that is broken, and what it raised."""


def diagnose(collected: Collected, broken: Told = lambda *_: None) -> tuple[Finding, ...]:
    """What the rules find, worst first; the same finding once. A rule that is broken says so and stops no other."""
    subject = collected.node_subject
    return _sorted(one for rule in RULES for one in _asked(rule, rule.look, collected, subject, broken))


def across(seen: ClusterSeen, broken: Told = lambda *_: None) -> tuple[Finding, ...]:
    """What those rules find that need the API alone, worst first."""
    return _sorted(one for rule in RULES if rule.across for one in _asked(rule, rule.across, seen, "cluster", broken))


def _sorted(found: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(dict.fromkeys(found), key=order))


def _asked(
    rule: Rule, look: Callable[[Seen], Iterable[Finding]], seen: Seen, subject: str, broken: Told
) -> Iterator[Finding]:
    """Anybody who may make a pod chooses texts that a rule reads: one that it fails at must not hide the rest."""
    try:
        yield from look(seen)
    except Exception as error:  # noqa: BLE001 (whatever it is)
        broken(rule.id, error)
        yield rule.broken(subject, error)

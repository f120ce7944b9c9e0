"""The kill switch on many nodes: the annotation that makes agents observe, set and taken away."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from edgeagent.cluster import node
from edgeagent.errors import ClusterError
from edgeagent.fleet.api import Api
from edgeagent.fleet.words import one_line
from edgeagent.plan.node import MODE

OBSERVE = "observe"
_AT_ONCE = 8
"""Requests under way together."""


class Switched(NamedTuple):
    """What became of one node."""

    node: str
    before: str | None = None
    """The annotation as it was; None: there was none."""
    after: str | None = None
    """The annotation as it is; None: there is none."""
    failure: str = ""
    """Why it is not known, or not as it should be."""

    @property
    def changed(self) -> bool:
        """Whether there was anything to do, and it is done."""
        return not self.failure and self.before != self.after

    def told(self, *, dry_run: bool) -> str:
        """In a few words."""
        if not self.changed:
            return "stays as it is: " + ("observe" if self.after else "no annotation")
        was = "was not set" if self.before is None else f"was {one_line(self.before)}"
        would = "would be " if dry_run else ""
        if self.after is None:
            return f"{MODE} {would}removed ({was})"
        return f"{MODE} {would}set to {self.after} ({was})"


def selected(api: Api, selector: str | None) -> list[str]:
    """Names of the nodes that match a label selector, all without one.

    Raises:
        ClusterError: they cannot be listed.
    """
    return sorted(one_line(obj["metadata"]["name"]) for obj in api.list("nodes", selector).items)


def switch(api: Api, names: Iterable[str], wanted: str | None, *, dry_run: bool) -> list[Switched]:
    """Set the annotation to ``wanted`` on each node, None removes it; where it is so already nothing is sent."""

    def one(name: str) -> Switched:
        try:
            before = node.parse(api.node(name)).annotations.get(MODE)
            if before != wanted:
                api.set_mode(name, wanted, dry_run=dry_run)
        except ClusterError as error:
            return Switched(name, failure=str(error))
        return Switched(name, before, wanted)

    with ThreadPoolExecutor(_AT_ONCE) as workers:
        return list(workers.map(one, dict.fromkeys(names)))

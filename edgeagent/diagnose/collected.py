"""Everything that a rule may look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeagent.facts import Facts, NodeFacts, PodFacts
    from edgeagent.facts.diagnosis import ClusterLook, HostLook
    from edgeagent.plan.breaches import PodView
    from edgeagent.plan.peaks import Peaks
    from edgeagent.plan.types import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """One look at board and cluster, with the plan that was made of the same facts."""

    now: float
    """Monotonic second of the look."""
    facts: Facts
    """The last sample: board, node, pods that are bound to it, configuration, wall time."""
    plan: Plan
    """Board, devices, pools and usage as decisions have them. ``plan.node`` is what the node should carry."""
    host: HostLook
    """What more was read on the board."""
    cluster: ClusterLook
    """What more was listed in the cluster."""
    before: HostLook | None = None
    """The look before this one, for what is a difference; None: there was none."""
    owed: float | None = None
    """Seconds for which the node has lacked what it should carry while an agent could write; None: no agent runs."""
    peaks: Peaks | None = None
    """What workloads held at most, as an agent keeps it; None: no agent runs."""

    @property
    def has_gpu(self) -> bool:
        """This board is known to have a GPU."""
        return self.plan.board.kind not in ("none", "unknown")

    @property
    def node(self) -> NodeFacts | None:
        """This node's object; None where the cluster was not asked, or has none."""
        return self.facts.cluster.node if self.facts.cluster else None

    @property
    def node_subject(self) -> str:
        """What a finding about the board as a whole is about."""
        return f"node {self.node.name}" if self.node else "node"

    @property
    def pods(self) -> tuple[PodFacts, ...]:
        """Live pods that are bound to this node, by namespace and name; () where they are not known."""
        return tuple(view.pod for view in self.plan.pods)

    @property
    def waiting(self) -> tuple[PodFacts, ...]:
        """Pods that are bound to no node; () where they are not known: see ``cluster.waiting``."""
        return self.cluster.waiting.items or ()

    def view(self, pod: PodFacts) -> PodView | None:
        """Budgets and use of a pod that is bound here."""
        return next((view for view in self.plan.pods if view.pod.uid == pod.uid), None)

    def everyone(self) -> Iterator[PodFacts]:
        """Pods that are bound here, then those that wait."""
        yield from self.pods
        yield from self.waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSeen:
    """What the API server alone tells, of all nodes: for an operator who is on none of them."""

    nodes: tuple[NodeFacts, ...]
    bound: Mapping[str, tuple[PodFacts, ...]]
    """Live pods by the node that they are bound to."""
    cluster: ClusterLook
    wall: float | None = None
    """Unix time of the look; None: not known."""

    def everyone(self) -> Iterator[PodFacts]:
        """Pods that are bound, then those that wait."""
        for name in sorted(self.bound):
            yield from self.bound[name]
        yield from self.cluster.waiting.items or ()


def pod_subject(pod: PodFacts) -> str:
    """What a finding about a pod is about."""
    return f"pod {pod.key}"

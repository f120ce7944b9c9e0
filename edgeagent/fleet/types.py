"""What is told about a fleet. Amounts are integer bytes, times Unix seconds; None is what nothing tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from edgeagent.facts import PodFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRow:
    """One pool of a node, by what the node's object and its pods say."""

    resource: str
    total: int | None
    """By the label; None too for a pool that no label is about."""
    advertised: int | None
    """Capacity; None: the node does not have the key."""
    allocatable: int | None
    """What the scheduler counts with; the same as capacity but for the moment between two writes."""
    committed: int | None
    """Σ requests of bound pods that have not finished; None: one of them is not understood."""

    @property
    def reserved(self) -> int | None:
        """What of the total is not offered."""
        return None if self.total is None or self.advertised is None else self.total - self.advertised

    @property
    def free(self) -> int | None:
        """What the scheduler still has; below 0 where more is bound than offered."""
        return None if self.allocatable is None or self.committed is None else self.allocatable - self.committed


@dataclass(frozen=True, slots=True)
class Problem:
    """A condition that is not as it should be: True, or False for Ready, or Unknown."""

    type: str
    status: str
    reason: str
    since: float | None
    """Time of its last transition, where whoever wrote it gave one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The pod of the DaemonSet on a node."""

    pod: str
    """``namespace/name``."""
    image: str
    version: str | None
    """The image's tag; None where the image is named by digest alone."""
    ready: bool | None
    started: float | None
    """Start of its container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node."""

    name: str
    ours: bool
    """It carries a key that edgeagent writes."""
    kind: str | None
    product: str | None
    pools: tuple[PoolRow, ...]
    problems: tuple[Problem, ...]
    judged: bool
    """Its GPU conditions are there, or it is known to have no GPU."""
    schedulable: bool
    """Not cordoned."""
    mode: Literal["observe"] | None
    """None: nothing on the node says so, and the agent's configuration is not seen from here."""
    mode_why: str | None
    agent: Agent | None
    wrote: float | None
    """When edgeagent last changed something on the node; it does not write while nothing changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A pod that asks for GPU memory and is on no node."""

    namespace: str
    name: str
    asks: Mapping[str, int]
    """Bytes by resource."""
    created: float | None
    since: float | None
    """When the scheduler first said no; None: it has said nothing so far."""
    reason: str | None
    message: str | None
    """The scheduler's words."""


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod that has not finished. ``facts`` None: its object is not understood."""

    node: str
    """"" while it is bound to none."""
    facts: PodFacts | None
    asks: Mapping[str, int]
    """Bytes by resource that it requests of pools."""
    agent: Agent | None
    waiting: Waiting | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All that one view shows."""

    nodes: tuple[NodeRow, ...]
    others: int
    """Nodes without a key of edgeagent's that are not among ``nodes``."""
    waiting: tuple[Waiting, ...]
    unread: int
    """Objects that are not understood."""

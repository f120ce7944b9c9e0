"""What the API server said of this node and its pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ContainerKind = Literal["regular", "sidecar", "init", "ephemeral"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFacts:
    """One container of a pod. Amounts are in bytes (units for resources without a byte unit)."""

    name: str
    kind: ContainerKind
    requests: Mapping[str, int] = field(default_factory=dict)
    """The larger of spec and status while a resize is under way."""
    limits: Mapping[str, int] = field(default_factory=dict)
    container_id: str | None = None
    """The current id without its ``containerd://`` scheme."""
    former_id: str | None = None
    """The id that it had before its last restart."""
    started_at: float | None = None
    """Unix time of ``state.running.startedAt``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """One pod bound to this node, reduced to what decisions need."""

    namespace: str
    name: str
    uid: str
    phase: str = "Pending"
    config_hash: str | None = None
    """What a static pod is known by on the node."""
    start_time: float | None = None
    """Unix time of ``status.startTime``; set once the kubelet has admitted the pod."""
    created_at: float | None = None
    terminating: bool = False
    grace_seconds: int = 30
    priority: int = 0
    owner: tuple[str, str] | None = None
    """(kind, name) of the controller."""
    mirror: bool = False
    """A static pod's mirror: deleting it changes nothing on the node."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    required_labels: frozenset[str] = frozenset()
    """Node label keys that its nodeSelector or required node affinity name."""
    excluded_labels: frozenset[str] = frozenset()
    """Those of them that must not be there, or not have certain values (DoesNotExist, NotIn)."""
    containers: tuple[ContainerFacts, ...] = ()
    unparsable: tuple[str, ...] = ()
    """Amounts of resources that are no quantity, or below 0, as ``key: text``; they count as not given."""
    pod_requests: Mapping[str, int] = field(default_factory=dict)
    """Pod-level resources (``spec.resources``)."""
    pod_limits: Mapping[str, int] = field(default_factory=dict)
    overhead: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def cgroup_uid(self) -> str:
        """The uid its cgroup carries: the config hash of a static pod, else the uid."""
        return self.config_hash or self.uid

    @property
    def live(self) -> bool:
        """Bound and not finished; terminating pods count until their object is gone."""
        return self.phase not in ("Succeeded", "Failed")

    @property
    def admitted(self) -> bool:
        """Live, and running or with a start time: the kubelet would check it again at a restart."""
        return self.live and (self.phase == "Running" or self.start_time is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """This node's object, as the API server has it."""

    name: str
    uid: str
    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[Mapping[str, Any], ...] = ()
    machine_id: str | None = None
    version: str = ""
    """The object's resourceVersion: equal means the same object, nothing else."""
    managers: Mapping[str, str] = field(default_factory=dict)
    """Field manager that last set each of our capacity keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The cluster's view of this node. ``fresh_at``: monotonic second up to which the view is known to be current."""

    node: NodeFacts | None
    pods: tuple[PodFacts, ...] | None
    """None until the first complete list."""
    fresh_at: float

"""What the API server said of this node and its pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ContainerKind = Literal["regular", "sidecar", "init", "ephemeral"]


@dataclass(frozen=True, slots=True)
class Term:
    """One requirement on a label of the node, or on its name, as node affinity has it."""

    key: str
    operator: str
    """``In``, ``NotIn``, ``Exists``, ``DoesNotExist``, ``Gt``, ``Lt``."""
    values: tuple[str, ...] = ()
    field: bool = False
    """It is on a field of the node's, of which there is one: ``metadata.name``. Every DaemonSet's pod has it."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node; as a toleration, what a pod puts up with."""

    key: str
    value: str = ""
    effect: str = ""
    """Of a toleration "" for any."""
    operator: str = "Equal"
    """Of a toleration: ``Exists`` for any value, and with key "" for any taint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a pod may run."""

    selector: Mapping[str, str] = field(default_factory=dict)
    """Its nodeSelector."""
    terms: tuple[tuple[Term, ...], ...] = ()
    """Required node affinity: one of them has to hold as a whole. () for none."""
    tolerations: tuple[Taint, ...] = ()


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
    former_started_at: float | None = field(default=None, compare=False)
    """When the run before the last restart began, for a diagnosis alone; None: there was none, or nobody knows."""
    image: str = field(default="", compare=False)
    """For a diagnosis alone."""
    visible_devices: str | None = None
    """What ``NVIDIA_VISIBLE_DEVICES`` is set to in its manifest; None: it is not, or not by a plain value."""
    other_ways: tuple[str, ...] = ()
    """What else in its manifest may give it a device: ``privileged``, ``hostPath /dev``, ``resource claim gpu``."""
    user: int | None = None
    """The user that its manifest makes it run as; None: the image says."""
    group: int | None = None
    """The same of its first group."""
    waiting: tuple[str, str] | None = None
    """(reason, message) of ``state.waiting``: ``CrashLoopBackOff``, ``CreateContainerError`` …"""
    ended: tuple[str, int, str] | None = None
    """(reason, exit code, message) of how it, or the run of it before this one, ended."""
    restarts: int = 0


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
    ip: str | None = None
    """``status.podIP``; the node's own in its network."""
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
    runtime_class: str | None = None
    groups: tuple[int, ...] = ()
    """Groups that all of its containers are in beside their own (``supplementalGroups``, ``fsGroup``)."""
    strict_groups: bool = False
    """They are in no group that the image alone names."""
    placement: Placement = field(default_factory=Placement)
    told: tuple[str, str] = ("", "")
    """(reason, message) of its status: ``UnexpectedAdmissionError``, ``OutOfcpu``, ``Evicted`` …"""
    unschedulable: str | None = None
    """What the scheduler says about it not being bound; None: it is, or the scheduler has not looked at it yet."""

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
    taints: tuple[Taint, ...] = ()
    kubelet_version: str | None = None
    """As ``v1.35.1+k3s1``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The cluster's view of this node. ``fresh_at``: monotonic second up to which the view is known to be current."""

    node: NodeFacts | None
    pods: tuple[PodFacts, ...] | None
    """None until the first complete list."""
    fresh_at: float

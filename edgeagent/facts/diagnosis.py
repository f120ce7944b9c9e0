"""What is looked at for a diagnosis alone, seldom: more files of the board, more lists of the cluster.

``None`` is *cannot tell*, an empty tuple is *there is none*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from edgeagent.facts.cluster import Placement, PodFacts

T = TypeVar("T")


# --- the board ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeConfig:
    """A file that names container runtimes, whoever reads it."""

    path: str
    """As it is on the host: ``/etc/docker/daemon.json``."""
    problem: str = ""
    """Why it says nothing: not readable, not TOML, empty. Then the other fields are empty too."""
    there: bool = True
    """False: no such file."""
    twice: str = ""
    """A key that it sets twice, which is why nobody can read it."""
    version: str = ""
    """Of its syntax; "" where it names none."""
    default: str | None = None
    """``default_runtime_name``; None where it is not set: then it is runc."""
    pods: bool = True
    """It answers the kubelet; False: its plug-in for that is disabled, so it runs no pods."""
    runtimes: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    """Runtime name → (binary, exists under the host root); ("", False) where it names no binary of its own."""

    def has(self, name: str) -> bool:
        """Pods can be started under it. Two names are known without a table of their own."""
        return name in self.runtimes or name in ("runc", "io.containerd.runc.v2")

    @property
    def nvidia(self) -> tuple[str, ...]:
        """The names of NVIDIA's runtimes among them."""
        return tuple(name for name, (binary, _) in self.runtimes.items() if is_nvidia(name, binary))


def is_nvidia(name: str, binary: str) -> bool:
    """Whether a runtime of this name and binary gives containers the GPU."""
    return name.startswith("nvidia") or "nvidia-container-runtime" in binary.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeTemplate:
    """A template that K3s makes its containerd's configuration from."""

    path: str
    base: bool
    """It takes in what K3s itself would write, the runtimes that it found included."""
    nvidia: bool
    """It names an NVIDIA runtime itself, outside comments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CdiSpec:
    """One file that describes devices for containers (Container Device Interface)."""

    path: str
    kind: str = ""
    devices: tuple[str, ...] = ()
    """Names of its devices, as ``0``, ``all``, ``GPU-…``."""
    problem: str = ""
    """Why it says nothing; then kind and devices are empty."""
    closed: bool = False
    """It may well say something: it could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvLists:
    """NVIDIA's lists of files that a Jetson's containers get from the host."""

    folder: str
    files: tuple[str, ...] | None
    """Names of the lists; None: there is no such folder, or it cannot be read."""
    problem: str = ""
    """Why the folder, or a list in it, cannot be read."""
    settings: bool = False
    """The folder above it is there, which has the settings of NVIDIA's runtime."""
    listed: int = 0
    """Files, links and devices that they name, patterns with ``*`` left out."""
    missing: tuple[str, ...] = ()
    """Those of them that are not there."""
    devices: int = 0
    """Those of the listed that are below ``/dev``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """One row of ``/proc/swaps``, in bytes."""

    path: str
    bytes: int
    used: int

    @property
    def zram(self) -> bool:
        """It is memory itself, packed."""
        return self.path.rpartition("/")[2].startswith("zram")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that holds GPU device nodes open."""

    pid: int
    name: str
    nodes: tuple[str, ...]
    """``/dev/nvidia0``, ``/dev/nvmap`` …, sorted."""
    pod_uid: str | None
    """As the cgroup spells it; None: it is in no pod."""
    container_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holders:
    """Who holds GPU device nodes open. Told for containers apart: one may be readable where another is not."""

    processes: tuple[Holder, ...] = ()
    closed: frozenset[str] = frozenset()
    """Ids of containers with a process whose open files cannot be read: it may hold one."""
    seen: frozenset[str] = frozenset()
    """Ids of containers of which a process was looked at."""
    inside: frozenset[int] = frozenset()
    """Pids of processes in containers."""
    problem: str = ""
    """Why nothing is known at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """A device node, and who may open it."""

    path: str
    """``/dev/nvmap``."""
    uid: int
    gid: int
    mode: int
    """As in ``0o660``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceParams:
    """With which owner and mode NVIDIA's driver makes its device nodes (``/proc/driver/nvidia/params``)."""

    uid: int
    gid: int
    mode: int
    """As in ``0o660``."""
    modify: bool
    """The driver sets them anew when they differ."""


CgroupVersion = Literal["v1", "v2", "hybrid"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLook:
    """What more was looked at on the board."""

    at: float
    """Monotonic second."""
    containerd: RuntimeConfig
    """The file that the containerd of this node reads."""
    elsewhere: tuple[RuntimeConfig, ...] = ()
    """Other files that name runtimes, which it does not read."""
    templates: tuple[RuntimeTemplate, ...] = ()
    k3s: bool = False
    """K3s runs here, or did."""
    external: str | None = None
    """K3s was told to use another container runtime than its own: its endpoint, or ``docker``."""
    toolkit: tuple[str, ...] = ()
    """Where ``nvidia-container-runtime`` is."""
    toolkit_mode: str | None = None
    """``mode`` of ``/etc/nvidia-container-runtime/config.toml``; None: not set, or no such file."""
    cdi: tuple[CdiSpec, ...] = ()
    csv: CsvLists | None = None
    """None: not looked at, this is no Tegra."""
    cgroups: CgroupVersion | None = None
    swaps: tuple[Swap, ...] | None = None
    holders: Holders = field(default_factory=Holders)
    device_nodes: tuple[str, ...] = ()
    """Names below ``/dev`` of NVIDIA's: ``nvidia0``, ``nvmap`` …"""
    devices_listed: bool = False
    """All of ``/dev`` was seen, so that a node which is not among them is not there."""
    nodes: tuple[DeviceNode, ...] = ()
    """Those of them whose owner and mode are known, and what is below ``/dev/nvgpu``."""
    device_params: DeviceParams | None = None
    plugin_sockets: tuple[str, ...] | None = None
    """Sockets in the kubelet's folder of device plugins, its own left out; None: not readable."""
    cpu_seconds: Mapping[str, float] = field(default_factory=dict)
    """CPU time of containers since they started, by id."""
    uptime: float | None = None
    """Seconds since boot."""


# --- the cluster ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Generic[T]):
    """A list that may have been refused."""

    items: tuple[T, ...] | None
    """None: cannot tell."""
    why: str = ""
    """Why not, in a few words."""
    right: str = ""
    """The right that is missing, as ``list runtimeclasses.node.k8s.io``; empty: it is not for want of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeClassFacts:
    """A RuntimeClass."""

    name: str
    handler: str
    placement: Placement
    """On which nodes its pods may run (``scheduling``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSetFacts:
    """A DaemonSet, as far as one of a device plugin is to be recognised and placed."""

    namespace: str
    name: str
    images: tuple[str, ...]
    labels: Mapping[str, str]
    """Of the pods that it makes."""
    placement: Placement
    runtime_class: str | None = None
    wanted: int | None = None
    """``status.desiredNumberScheduled``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFacts:
    """A warning that a component of Kubernetes has recorded."""

    reason: str
    note: str
    kind: str
    """Of the object that it is about: ``Pod``, ``ReplicaSet`` …"""
    namespace: str
    name: str
    uid: str = ""
    last: float | None = None
    """Unix time when it was last seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLog:
    """The end of a container's log."""

    container: str
    """Its name in the pod."""
    text: str | None = None
    """None: cannot tell."""
    why: str = ""
    """Why not, in a few words."""
    right: str = ""
    """The right that is missing, as ``get pods/log in the namespace shop``."""


def unlisted(why: str) -> Listed[T]:
    """A list that nobody made."""
    return Listed(items=None, why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLook:
    """What more was looked at in the cluster."""

    runtime_classes: Listed[RuntimeClassFacts]
    daemon_sets: Listed[DaemonSetFacts]
    events: Listed[EventFacts]
    waiting: Listed[PodFacts]
    """Pods that are bound to no node yet."""


def no_cluster(why: str) -> ClusterLook:
    """The look at a cluster that nobody asked."""
    return ClusterLook(
        runtime_classes=unlisted(why), daemon_sets=unlisted(why), events=unlisted(why), waiting=unlisted(why)
    )

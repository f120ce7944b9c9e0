"""Frozen facts that cross stage borders: what the board and the cluster said, and when.

Units: memory is integer bytes, times are seconds. ``at`` is monotonic, ``wall`` is Unix
time. ``None`` always means *unknown* (not readable, not said), which is never the same as
0. Nothing in this module decides anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from edgeagent import quantity

if TYPE_CHECKING:
    from edgeagent.config import Config

T_co = TypeVar("T_co", covariant=True)

PREFIX = "edgeagent.dev/"
GPU_MEMORY = PREFIX + "gpu-memory"
IGPU_MEMORY = PREFIX + "igpu-memory"
GPU_MILLI = PREFIX + "gpu-milli"

MemoryKind = Literal["unified", "discrete"]

PID_MAX = 1 << 22
"""The largest pid limit of a 64-bit kernel (proc_sys_kernel(5), pid_max): a larger pid was never one."""


@dataclass(frozen=True, slots=True)
class Reading(Generic[T_co]):
    """One reading of one source.

    ``value`` is None when the source could not be read or gave nothing plausible; ``why``
    then says so in a few words. ``at`` is the monotonic second of the attempt.
    """

    at: float
    value: T_co | None
    why: str = ""
    waiting_since: float | None = None
    """When a call began that has not come back, as a hung driver leaves it; None: no call is overdue."""


# --- the board -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardFiles:
    """What the files of a board say about its hardware; read at start and when they change.

    ``None`` stands for a file that is not there or not readable; an empty tuple for a
    readable place without entries.
    """

    arch: str
    """Machine architecture as ``uname -m`` prints it: ``aarch64``, ``x86_64``."""
    compatible: tuple[str, ...] = ()
    """Entries of the device tree's ``compatible``, most specific first."""
    model: str | None = None
    """Text of the device tree's ``model``."""
    soc_family: str | None = None
    """``/sys/devices/soc0/family``; ``Tegra`` on Tegra kernels."""
    l4t_release: str | None = None
    """First line of ``/etc/nv_tegra_release``."""
    devfreq: tuple[str, ...] = ()
    """GPU nodes under ``/sys/class/devfreq``: ``ga10b``, ``gpu-gpc-0``."""
    nvmap: bool = False
    """``/dev/nvmap``, its debugfs folder or its rows in ``/proc/meminfo`` exist: only a Tegra has them."""
    pci_listed: bool = False
    """Devices on the PCI bus can be seen, so that one which is not among them is not there."""
    pci_displays: int = 0
    """NVIDIA PCI display devices (vendor 10de, class 03xx) under ``/sys/bus/pci``."""
    pci_asleep: tuple[str, ...] = ()
    """Addresses of those of them that are powered down; to ask NVML about one would power it up."""
    proc_driver: str | None = None
    """``/proc/driver/nvidia/version``'s driver version; None without that file."""
    proc_gpus: int = 0
    """Entries under ``/proc/driver/nvidia/gpus``."""
    nvml_library: str | None = None
    """Version in the file name of the NVML library; looked for where a driver is loaded."""
    wsl: bool = False
    """A WSL2 kernel (``/proc/sys/kernel/osrelease`` or ``/dev/dxg``)."""
    cpuless_numa_bytes: int = 0
    """Σ MemTotal of NUMA nodes without CPUs: HBM of GH200 and GB200, never host memory."""
    page_size: int = 4096
    machine_id: str | None = None
    boot_id: str | None = None
    product: str | None = None
    """DMI product name, for machines without a device tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemInfo:
    """``/proc/meminfo`` in bytes.

    A row the kernel does not print is None, CMA and Hugetlb excepted: no row, no such memory.
    """

    total: int
    free: int | None = None
    available: int | None = None
    """MemAvailable; None when absent or outside 0 … total: never guessed."""
    active_file: int | None = None
    inactive_file: int | None = None
    s_reclaimable: int | None = None
    s_unreclaim: int | None = None
    anon_pages: int | None = None
    shmem: int | None = None
    kernel_stack: int | None = None
    page_tables: int | None = None
    cma_total: int = 0
    cma_free: int = 0
    hugetlb: int = 0
    """The Hugetlb row, or HugePages_Total × Hugepagesize where it is absent."""
    swap_total: int = 0

    @property
    def held(self) -> int | None:
        """What processes and the kernel hold of it, GPU memory and page cache excepted; None when a row is missing."""
        return quantity.total((self.anon_pages, self.shmem, self.s_unreclaim, self.kernel_stack, self.page_tables))


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlMemory:
    """One NVML memory query: the return code and, on success (0), bytes."""

    code: int
    total: int | None = None
    reserved: int | None = None
    used: int | None = None
    free: int | None = None


@dataclass(frozen=True, slots=True)
class NvmlProcess:
    """One entry of an NVML process list. ``used`` None: the driver does not know."""

    pid: int
    used: int | None
    gi: int | None = None
    ci: int | None = None


@dataclass(frozen=True, slots=True)
class NvmlProcesses:
    """One NVML process list: the return code and its entries ( () unless the code is 0)."""

    code: int
    processes: tuple[NvmlProcess, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """One MIG device: a compute instance of a GPU instance."""

    uuid: str | None
    gi: int | None = None
    """Number of the GPU instance, whose memory all of its compute instances share."""
    memory: NvmlMemory | None = None
    memory_v2: NvmlMemory | None = None
    compute: NvmlProcesses | None = None
    graphics: NvmlProcesses | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlDevice:
    """One device as NVML told it. A field is None where its function is missing or failed.

    ``handle`` is the return code of handle-by-index; unless 0 nothing else is known.
    ``errors`` holds the codes of the single fields that failed, by field name.
    """

    handle: int
    name: str | None = None
    uuid: str | None = None
    pci_address: str | None = None
    """As sysfs spells it, ``0000:01:00.0``; None too for a device that is on no PCI bus."""
    minor: int | None = None
    cuda_capability: tuple[int, int] | None = None
    memory: NvmlMemory | None = None
    memory_v2: NvmlMemory | None = None
    compute: NvmlProcesses | None = None
    graphics: NvmlProcesses | None = None
    mps: NvmlProcesses | None = None
    mig_mode: int | None = None
    mig: tuple[MigInstance, ...] = ()
    errors: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvml:
    """One complete NVML sample. Return codes are NVML's own: 0 success, 3 not supported, 15 GPU lost."""

    library: Literal["present", "absent"]
    init: int = 0
    driver_version: str | None = None
    cuda_version: int | None = None
    """CUDA driver version as NVML encodes it: 12060 is 12.6."""
    count: int | None = None
    devices: tuple[NvmlDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class NvmapRow:
    """One client row of ``nvmap/iovmm/clients``. ``pid`` 0 is a kernel client."""

    client: str
    process: str
    pid: int
    bytes: int


@dataclass(frozen=True, slots=True)
class NvmapTable:
    """The nvmap client table, every record read at its fixed place, and the driver's own total."""

    rows: tuple[NvmapRow, ...]
    total_bytes: int


@dataclass(frozen=True, slots=True)
class CgroupOwner:
    """The pod and container that a cgroup path names; ``container_id`` None at pod level."""

    pod_uid: str
    """As the cgroup spells it, with dashes: the uid, or a static pod's config hash."""
    container_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process of the host's view. Identity is (pid, start_ticks): pids are used again."""

    pid: int
    start_ticks: int | None
    """Field 22 of ``/proc/<pid>/stat``, clock ticks since boot."""
    name: str
    kernel: bool = False
    """A kernel thread, which can never own GPU memory."""
    owner: CgroupOwner | None = None
    """None: not in any pod, or the cgroup could not be read (then ``cgroup_readable`` is False)."""
    container_id: str | None = None
    """The container that a path outside of all pods names: from inside a cgroup namespace the pod does not show."""
    cgroup_readable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProcess:
    """A process that is in no pod's cgroup, and the memory of its own."""

    pid: int
    name: str
    """As the kernel has it: any character may stand in it."""
    bytes: int | None
    """RssAnon + RssShmem, else all that is resident: GPU memory is in neither of the two rows. None: not readable."""
    unit: str = ""
    """The systemd unit of its cgroup, ``ollama.service``, ``app.scope of user-1000.slice``; "" where none is named."""
    container_id: str | None = None
    """The container that its cgroup names, which may be a pod's all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCgroup:
    """Memory of one pod's cgroup.

    ``host_bytes`` is current − active_file − inactive_file − slab_reclaimable (v2), usage −
    total_active_file − total_inactive_file (v1). Without memory.stat it is the whole figure,
    an upper bound, and ``exact`` is False. GPU memory is charged to no cgroup.
    """

    host_bytes: int | None
    exact: bool
    containers: Mapping[str, int | None] = field(default_factory=dict)
    """Host bytes by container id, None where unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """The kubelet's memory settings by K3s' own precedence; each value is (text, where it was set) or None.

    The text is a quantity or, for ``eviction_hard``, possibly a percentage of MemTotal.
    """

    server: bool = False
    """``<data-dir>/server`` exists: this node runs the control plane too."""
    data_dir: str = "/var/lib/rancher/k3s"
    system_reserved: tuple[str, str] | None = None
    kube_reserved: tuple[str, str] | None = None
    eviction_hard: tuple[str, str] | None = None
    problems: tuple[str, ...] = ()
    """Files that could not be read or parsed, one sentence each."""
    node_name: str | None = None
    """K3s' own ``node-name`` setting."""


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """What containerd's own configuration says about NVIDIA runtimes.

    ``readable`` False: not there or not readable, so nothing is proven. ``nvidia`` maps the
    runtime name to its binary and whether that exists under the host root.
    """

    readable: bool
    path: str
    nvidia: Mapping[str, tuple[str, bool]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """One sample of the board."""

    files: BoardFiles
    meminfo: Reading[MemInfo]
    nvml: Reading[Nvml]
    nvmap: Reading[NvmapTable]
    gpu_node_holders: Reading[int]
    """Processes that hold a GPU device node open; unknown when any process could not be looked into."""
    processes: Mapping[int, Process]
    """By pid: every process that a reading of this sample names and that still exists."""
    pods: Mapping[str, PodCgroup]
    """By the uid in the cgroup path."""
    kubelet: KubeletSettings
    runtime: RuntimeFacts
    host_view: bool = True
    """The process table is the host's own; False: pids of readings cannot be mapped."""
    host_processes: tuple[HostProcess, ...] | None = None
    """Those outside pods of which one is the largest; () none could be read; None: nobody asked."""

    @property
    def attributed_at(self) -> float:
        """Monotonic second of the sample that says who holds what; ``meminfo`` may be newer."""
        return self.nvmap.at


# --- the cluster ---------------------------------------------------------------------

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything one decision is made from, beside the state and the time."""

    wall: float
    """Unix time of the sample, for comparing with the API server's time stamps only."""
    config: Config
    host: HostFacts
    cluster: ClusterFacts | None
    """None: no cluster was found, the agent runs standalone."""
    own_pod: str | None = None
    """UID of the agent's own pod, where it runs in one."""

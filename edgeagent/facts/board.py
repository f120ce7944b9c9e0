"""What the files of a board said: hardware, memory, processes, K3s' settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgeagent import quantity
from edgeagent.facts.nvml import Nvml
from edgeagent.facts.reading import Reading

PID_MAX = 1 << 22
"""The largest pid limit of a 64-bit kernel (proc_sys_kernel(5), pid_max): a larger pid was never one."""


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
    kernel: str | None = None
    """Release of the kernel, as ``/proc/sys/kernel/osrelease`` has it: ``5.15.148-tegra``."""
    wsl: bool = False
    """A WSL2 kernel (``/proc/sys/kernel/osrelease`` or ``/dev/dxg``)."""
    cpuless_numa_bytes: int = 0
    """Σ MemTotal of NUMA nodes without CPUs: HBM of GH200 and GB200, never host memory."""
    page_size: int = 4096
    machine_id: str | None = None
    boot_id: str | None = None
    product: str | None = None
    """DMI product name, for machines without a device tree."""
    power_mode: str | None = None
    """The power mode that a Jetson is set to: ``MAXN_SUPER``."""


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
    path: str = field(default="", compare=False)
    """Where it lies under the host's root; "" where the pod has no cgroup of its own. It says nothing of the memory."""
    container_paths: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The same by container id."""


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
    k3s: bool = field(default=False, compare=False)
    """K3s runs here, or did; which sets nothing."""
    external_runtime: str | None = None
    """K3s was told to use another container runtime than its own: its endpoint, or ``docker``."""


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

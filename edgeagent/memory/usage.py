"""Who holds GPU and host memory: processes to containers to pods, nothing counted twice, unknown never 0.

Which source counts GPU bytes depends on the device. NVML lists processes with their bytes on
discrete cards, GB10 and Thor. On a Tegra up to Orin those lists are empty and the kernel's
nvmap table has the bytes. RSS is never added: pages that a process maps from nvmap show up
there too, while memory of the pod's cgroup and nvmap overlap only in registered host memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.facts import PID_MAX, CgroupOwner
from edgeagent.memory.processlists import Row, in_use, listed, tells
from edgeagent.memory.types import ContainerUse, PodUse, Usage

if TYPE_CHECKING:
    from edgeagent.facts import HostFacts, NvmapTable, PodCgroup, PodFacts, Process
    from edgeagent.memory.pools import PoolKey

MOST = 1 << 44
"""16 TiB, more memory than any board has: what a row may hold at most where MemTotal was never read."""

_MPS_NAMES = ("nvidia-cuda-mps-server", "nvidia-cuda-mps-control", "nvidia-cuda-mps")


@dataclass(frozen=True, slots=True)
class Source:
    """GPU bytes of one pool by process. ``rows`` None: not readable or not trusted."""

    rows: tuple[Row, ...] | None
    total: int | None
    """Bytes in use, by the rows or, where it is more, by the driver's own sum."""
    why: str = ""
    lost: bool = False
    """One of the pool's devices cannot be asked any more, so it may hold what no row names."""

    @property
    def rest(self) -> int | None:
        """Bytes that no row names; None where a row is not known, which may hold all of them."""
        return None if self.total is None else self.total - sum(row.bytes or 0 for row in self.rows or ())


def attribute(
    keys: Sequence[PoolKey],
    host: HostFacts,
    listed_pods: Sequence[PodFacts] | None,
    *,
    complete: bool = True,
    short: Collection[str] = (),
    memory: int | None = None,
) -> Usage:
    """Usage of every live pod, and of what is no pod's.

    ``listed_pods`` None: the pods of this node are not known, so nobody can say which are leaving.
    ``complete`` False: whether the board has further pools, or any, cannot be told.
    ``short``: resources of ``keys`` that have lost a device, which is not among theirs any more.
    ``memory``: MemTotal as it was last known, for a sample that could not read it.
    """
    pods = listed_pods or ()
    sources = {key.resource: source(key, host, short=key.resource in short, memory=memory) for key in keys}
    if not host.host_view:
        foreign = "the process table is not the host's own"
        sources = {resource: Source(None, given.total, foreign) for resource, given in sources.items()}
    tally = _Tally(host, None if listed_pods is None else {pod.cgroup_uid: pod for pod in pods})
    for resource, given in sources.items():
        for row in given.rows or ():
            tally.count(resource, row)
    trusted = all(given.rows is not None for given in sources.values())
    known = complete and trusted
    uses = {pod.uid: tally.use(pod, sources, trusted=trusted) for pod in pods if pod.live}
    # nvmap's total includes handles that no process references any more: camera driver, descriptors in flight.
    # A card's own figure includes what crashed processes left behind.
    rest = quantity.total(
        sources[key.resource].rest for key in keys if key.kind == "discrete" or sources[key.resource].total is not None
    )
    shared = {key.resource for key in keys if key.kind == "unified"}
    return Usage(
        pods=uses,
        system_gpu=quantity.total(tally.system.values()) if known else None,
        unattributed_gpu=_plus(tally.unattributed, rest) if known else None,
        trusted=known,
        leaving=_leaving(tally, pods, uses, sources) if listed_pods is not None else 0,
        system_shared=quantity.total(
            tally.system[resource] if sources[resource].rows is not None else None for resource in shared
        ),
        system_processes={pid: held for (resource, pid), held in tally.outside.items() if resource in shared},
        leaving_shared=_leaving(tally, pods, uses, shared) if listed_pods is not None else 0,
        gpu_total={resource: given.total for resource, given in sources.items()},
        problems=tuple(sorted({given.why for given in sources.values() if given.why})),
    )


def source(key: PoolKey, host: HostFacts, *, short: bool = False, memory: int | None = None) -> Source:
    """The GPU bytes by process of one pool, from the first source that holds a value.

    ``short``: it lost a device. ``memory``: MemTotal as it was last known.
    """
    nvml = host.nvml.value
    limit = host.meminfo.value.total if host.meminfo.value is not None else (memory or MOST)
    rows, why = listed(nvml, key.devices, limit) if nvml is not None else (None, host.nvml.why or "NVML gave no answer")
    # On a Tegra a list that was refused has the bytes; another table may know of a few of them only.
    refused = rows is None and nvml is not None and tells(nvml, key.devices)
    if refused or not any(device.tegra for device in key.devices):
        # On unified memory the device's own figure, where a driver tells one, has the host's use in it.
        used = in_use(nvml, key.devices) if nvml is not None and key.kind == "discrete" else None
        return Source(rows, _whole(rows, used), why, lost=short or any(one.health == "lost" for one in key.devices))
    return _of_tegra(rows, host, limit)


def _of_tegra(rows: tuple[Row, ...] | None, host: HostFacts, limit: int) -> Source:
    """The GPU bytes of a SoC's own GPU, which NVML lists as ``rows``."""
    if rows and any(row.bytes for row in rows):
        return Source(rows, _sum(rows))
    table = host.nvmap.value
    if table is not None and any(row.bytes > 0 for row in table.rows):
        return _nvmap(table, limit)
    # A Thor lists graphics processes with 0 bytes; on a SoC that nvmap counts for, zeros like these tell nothing.
    if rows and any(row.bytes is not None for row in rows):
        return Source(rows, _sum(rows))
    if host.gpu_node_holders.value == 0:
        return Source((), table.total_bytes if table is not None else 0)
    held = host.gpu_node_holders.value
    reason = host.nvmap.why or "the nvmap table shows no bytes"
    if held:
        return Source(None, None, f"{reason}, and {held} processes hold a GPU device node")
    return Source(None, None, f"{reason}, and whether a process holds a GPU device node cannot be told")


def _nvmap(table: NvmapTable, limit: int) -> Source:
    total = sum(row.bytes for row in table.rows)
    if total > limit:
        return Source(None, None, "the rows of the nvmap table hold more than the memory of the board")
    if any(not 0 <= row.pid <= PID_MAX for row in table.rows):
        return Source(None, None, "the nvmap table has an impossible pid")
    kept = tuple(Row(row.pid, row.bytes) for row in table.rows)
    return Source(kept, max(total, table.total_bytes))


def _sum(rows: tuple[Row, ...] | None) -> int | None:
    """Σ of the rows; None as soon as one of them is unknown."""
    return None if rows is None else quantity.total(row.bytes for row in rows)


def _whole(rows: tuple[Row, ...] | None, used: int | None) -> int | None:
    """What is in use of a pool: what the devices say, unless their processes, read a moment later, hold more."""
    held = _sum(rows)
    return held if held is None or used is None else max(held, used)


def _plus(one: int | None, two: int | None) -> int | None:
    return None if one is None or two is None else one + two


@dataclass(slots=True)
class _Tally:
    """Rows summed up by where their process belongs. Lives within one call of :func:`attribute`."""

    host: HostFacts
    by_cgroup: Mapping[str, PodFacts] | None
    system: dict[str, int | None] = field(default_factory=lambda: defaultdict(int))
    outside: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    """By resource and pid, of processes outside pods."""
    unattributed: int | None = 0
    leaving: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    gpu: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    containers: dict[tuple[str, str | None], int] = field(default_factory=lambda: defaultdict(int))
    unknown: set[tuple[str, str]] = field(default_factory=set)
    unknown_containers: set[tuple[str, str | None]] = field(default_factory=set)
    processes: dict[str, set[tuple[int, int | None]]] = field(default_factory=lambda: defaultdict(set))
    mps: set[str] = field(default_factory=set)
    served: set[str] = field(default_factory=set)
    """Pools in which an MPS server holds memory of its clients."""
    foreign: set[str] = field(default_factory=set)
    """Pools of which a kernel thread is said to hold memory: that pid is one of another pid namespace."""

    def count(self, resource: str, row: Row) -> None:
        """Add one row to the pod, the system, or what nobody can be named for."""
        process = self.host.processes.get(row.pid)
        if process is not None and process.name in _MPS_NAMES:
            self.served.add(resource)
        if process is not None and process.kernel:
            self.foreign.add(resource)
        if row.pid == 0:
            self.system[resource] = _plus(self.system[resource], row.bytes)
        elif process is None or process.kernel or not process.cgroup_readable:
            self.unattributed = _plus(self.unattributed, row.bytes)
        elif (owner := process.owner or self._by_container(process.container_id)) is None:
            self.system[resource] = _plus(self.system[resource], row.bytes)
            self.outside[resource, row.pid] += row.bytes or 0
        elif self.by_cgroup is None:
            self.unattributed = _plus(self.unattributed, row.bytes)
        else:
            self._count_pod(resource, row, process, owner)

    def _by_container(self, container_id: str | None) -> CgroupOwner | None:
        """The pod of a container whose path names no pod; a container of no live pod is the host's."""
        for uid, pod in (self.by_cgroup or {}).items():
            if (
                container_id is not None
                and pod.live
                and any(one.container_id == container_id for one in pod.containers)
            ):
                return CgroupOwner(uid, container_id)
        return None

    def _count_pod(self, resource: str, row: Row, process: Process, owner: CgroupOwner) -> None:
        pod = self.by_cgroup.get(owner.pod_uid) if self.by_cgroup else None
        container_id = owner.container_id
        if pod is None or not pod.live or not _current(pod, container_id):
            self.leaving[resource] += row.bytes or 0
            return
        self.processes[pod.uid].add((process.pid, process.start_ticks))
        if process.name in _MPS_NAMES:
            self.mps.add(pod.uid)
        if row.bytes is None:
            self.unknown.add((pod.uid, resource))
            self.unknown_containers.add((pod.uid, container_id))
        self.gpu[pod.uid, resource] += row.bytes or 0
        self.containers[pod.uid, container_id] += row.bytes or 0

    def use(self, pod: PodFacts, sources: Mapping[str, Source], *, trusted: bool) -> PodUse:
        """What ``pod`` uses, after all rows were counted; ``trusted``: every source was read."""
        gpu: dict[str, int | None] = {}
        why = ""
        for resource, given in sources.items():
            held = self.gpu.get((pod.uid, resource), 0)
            shared, stranded, misread = resource in self.served, given.lost, resource in self.foreign
            if (shared or stranded or misread) and (held or not _may_use(pod, resource)):
                shared = stranded = misread = False
            blind = given.rows is None or (pod.uid, resource) in self.unknown
            gpu[resource] = None if blind or shared or stranded or misread else held
            if blind:
                why = given.why or "the driver does not know the memory of one of its processes"
            elif shared:
                why = "an MPS server holds the memory of its clients"
            elif stranded:
                why = "it may use a GPU that is lost"
            elif misread:
                why = "the driver names a process by the pid of another pid namespace, and it may be this pod's"
        cgroup = self.host.pods.get(pod.cgroup_uid)
        processes = self.processes.get(pod.uid, ())
        return PodUse(
            gpu=gpu,
            host=cgroup.host_bytes if cgroup else None,
            host_exact=bool(cgroup and cgroup.exact),
            containers={
                item.name: self._container(pod, item.container_id, cgroup, trusted=trusted) for item in pod.containers
            },
            processes=tuple(sorted(processes, key=lambda identity: identity[0])),
            mps=pod.uid in self.mps,
            seen=bool(processes),
            why=why,
        )

    def _container(
        self, pod: PodFacts, container_id: str | None, cgroup: PodCgroup | None, *, trusted: bool
    ) -> ContainerUse:
        if container_id is None:
            return ContainerUse(None, None)
        # What stands at the pod's own cgroup may be any container's.
        loose = self.containers.get((pod.uid, None), 0) > 0
        known = trusted and not loose and (pod.uid, container_id) not in self.unknown_containers
        return ContainerUse(
            self.containers.get((pod.uid, container_id), 0) if known else None,
            cgroup.containers.get(container_id) if cgroup else None,
        )


def _may_use(pod: PodFacts, resource: str) -> bool:
    """The pod asks for a GPU, so its memory may stand under the MPS server's process."""
    return any(key == resource or key.startswith("nvidia.com/") for item in pod.containers for key in item.limits)


def _current(pod: PodFacts, container_id: str | None) -> bool:
    """Whether a container id in a cgroup path still belongs to the pod.

    While the API has not told the id of every running container, an unknown one may be new
    and counts to the pod.
    """
    ids = {container.container_id for container in pod.containers}
    former = {container.former_id for container in pod.containers}
    return container_id is None or container_id in ids or (None in ids and container_id not in former)


def _leaving(tally: _Tally, pods: Sequence[PodFacts], uses: Mapping[str, PodUse], resources: Collection[str]) -> int:
    """Bytes that come back without anybody's doing: of terminating pods, and cgroups of pods that are gone.

    GPU bytes are those of the pools ``resources``.
    """
    live = {pod.cgroup_uid for pod in pods if pod.live}
    gone = sum(cgroup.host_bytes or 0 for uid, cgroup in tally.host.pods.items() if uid not in live)
    terminating = [uses[pod.uid] for pod in pods if pod.live and pod.terminating]
    return (
        gone
        + sum(
            sum(use.gpu.get(resource) or 0 for use in terminating) + tally.leaving[resource] for resource in resources
        )
        + sum(use.host or 0 for use in terminating)
    )

"""Small makers of facts for tests: each gives a plausible default, so that a test names only what it is about."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from edgeagent.config import Config, load
from edgeagent.facts import (
    GPU_MEMORY,
    BoardFiles,
    CgroupOwner,
    ClusterFacts,
    ContainerFacts,
    ContainerKind,
    Facts,
    HostFacts,
    HostProcess,
    KubeletSettings,
    MemInfo,
    NodeFacts,
    NvmapRow,
    NvmapTable,
    Nvml,
    NvmlDevice,
    NvmlMemory,
    NvmlProcess,
    NvmlProcesses,
    PodCgroup,
    PodFacts,
    Process,
    Reading,
    RuntimeFacts,
)
from edgeagent.plan.decide import decide
from edgeagent.plan.outcomes import learn
from edgeagent.plan.state import State
from edgeagent.plan.types import Event, EvictionResult, Outcome, Plan

KIB = 1024
MIB = 1024**2
GIB = 1024**3

WALL = 1_790_000_000.0
"""A plausible Unix time at monotonic second 0."""
ORIN_UUID = "aaaaaaaa-0000-4000-8000-000000000001"
CARD_UUID = "GPU-bbbbbbbb-0000-4000-8000-000000000002"
ORIN_TREE = ("nvidia,p3768-0000+p3767-0005", "nvidia,p3767-0005", "nvidia,tegra234")
ABSENT = Nvml(library="absent")
RUNTIME = RuntimeFacts(
    readable=True, path="config.toml", nvidia={"nvidia": ("/usr/bin/nvidia-container-runtime", True)}
)
NO_RUNTIME = RuntimeFacts(readable=False, path="config.toml")


def config(text: str = "") -> Config:
    """The configuration that YAML ``text`` gives."""
    return load([("test.yaml", text)])


def meminfo(total: int = 8 * GIB, available: int | None = None, **rows: Any) -> MemInfo:
    """A board of ``total`` bytes that uses nothing but what ``rows`` say."""
    given: dict[str, Any] = {
        "free": total,
        "active_file": 0,
        "inactive_file": 0,
        "s_reclaimable": 0,
        "s_unreclaim": 0,
        "anon_pages": 0,
        "shmem": 0,
        "kernel_stack": 0,
        "page_tables": 0,
    }
    return MemInfo(total=total, available=total if available is None else available, **{**given, **rows})


def processes(*entries: tuple[int, int | None], code: int = 0) -> NvmlProcesses:
    """A process list of (pid, bytes) entries."""
    return NvmlProcesses(code, tuple(NvmlProcess(pid, used) for pid, used in entries))


def card(
    uuid: str | None = CARD_UUID, total: int = 46068 * MIB, reserved: int = 450 * MIB, **fields: Any
) -> NvmlDevice:
    """A discrete card whose second memory query answers."""
    given: dict[str, Any] = {
        "handle": 0,
        "name": "NVIDIA L40S",
        "uuid": uuid,
        "minor": 0,
        "memory_v2": NvmlMemory(code=0, total=total, reserved=reserved, used=reserved, free=total - reserved),
        "compute": processes(),
        "graphics": processes(),
    }
    return NvmlDevice(**{**given, **fields})


def igpu(name: str = "Orin (nvgpu)", uuid: str | None = ORIN_UUID, **fields: Any) -> NvmlDevice:
    """An integrated GPU: both memory queries answer 3, not supported."""
    unsupported = NvmlMemory(code=3)
    given: dict[str, Any] = {"handle": 0, "name": name, "uuid": uuid, "memory": unsupported, "memory_v2": unsupported}
    return NvmlDevice(**{**given, **fields})


def nvml(*devices: NvmlDevice, **fields: Any) -> Nvml:
    """A complete NVML sample."""
    given: dict[str, Any] = {"library": "present", "count": len(devices), "devices": devices}
    return Nvml(**{**given, **fields})


def orin_files(**fields: Any) -> BoardFiles:
    """The files of an Orin Nano."""
    return BoardFiles(**{"arch": "aarch64", "compatible": ORIN_TREE, "model": "Test board", **fields})


def card_files(**fields: Any) -> BoardFiles:
    """The files of an x86 machine with one NVIDIA card."""
    return BoardFiles(**{"arch": "x86_64", "pci_displays": 1, "proc_driver": "580.95.05", "proc_gpus": 1, **fields})


def container(name: str = "main", kind: ContainerKind = "regular", **fields: Any) -> ContainerFacts:
    """A container; a regular one runs under the id ``<name>-id``, started an hour before monotonic second 0."""
    given: dict[str, Any] = {"container_id": f"{name}-id", "started_at": WALL - 3600}
    return ContainerFacts(name=name, kind=kind, **{**given, **fields})


def resources(gpu: int | None = None, memory: int | None = None, key: str = GPU_MEMORY) -> dict[str, int]:
    """A requests or limits map."""
    amounts = {key: gpu, "memory": memory}
    return {name: amount for name, amount in amounts.items() if amount is not None}


def pod(
    name: str = "a", gpu: int | None = None, memory: int | None = None, key: str = GPU_MEMORY, **fields: Any
) -> PodFacts:
    """A running pod of one container, requests equal to limits. Its uid is ``uid-<name>``."""
    asked = resources(gpu, memory, key)
    given: dict[str, Any] = {
        "namespace": "apps",
        "uid": f"uid-{name}",
        "phase": "Running",
        "start_time": WALL - 3600,
        "created_at": WALL - 3600,
        "containers": (container(requests=asked, limits=asked),),
    }
    return PodFacts(name=name, **{**given, **fields})


def node(**fields: Any) -> NodeFacts:
    """A node object without anything of ours."""
    return NodeFacts(**{"name": "edge-1", "uid": "node-uid", **fields})


@dataclass(frozen=True, kw_only=True)
class Held:
    """What one pod holds in a sample: GPU bytes of one process in its container, and host bytes of its cgroup."""

    gpu: int | None = 0
    host: int | None = 0
    exact: bool = True
    container_id: str | None = "main-id"


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One sample of a Jetson in a cluster: its pods and what each holds by its nvmap row.

    ``at`` is the time of all readings; ``attributed_at`` that of the attribution alone, where it is older.
    """

    pods: tuple[PodFacts, ...] = ()
    held: dict[str, Held] = field(default_factory=dict)
    """By pod name."""
    at: float = 0.0
    attributed_at: float | None = None
    config: Config = field(default_factory=config)
    files: BoardFiles = field(default_factory=orin_files)
    meminfo: MemInfo | None = field(default_factory=meminfo)
    nvml: Nvml | None = ABSENT
    node: NodeFacts | None = field(default_factory=node)
    kubelet: KubeletSettings = field(default_factory=KubeletSettings)
    runtime: RuntimeFacts = RUNTIME
    fresh_at: float | None = None
    cluster: bool = True
    readable: bool = True
    """The nvmap table could be read."""
    wall: float | None = None
    own_pod: str | None = None
    system: int = 0
    """GPU bytes of a process outside pods."""
    extra: tuple[tuple[Process, int], ...] = ()
    """Further processes with their GPU bytes."""
    host_processes: tuple[HostProcess, ...] | None = None
    """None: they were not asked for."""

    def facts(self) -> Facts:
        """The facts of this sample."""
        sampled = self.at if self.attributed_at is None else self.attributed_at
        return Facts(
            wall=WALL + self.at if self.wall is None else self.wall,
            config=self.config,
            host=self._host(sampled),
            cluster=ClusterFacts(
                node=self.node, pods=self.pods, fresh_at=self.at if self.fresh_at is None else self.fresh_at
            )
            if self.cluster
            else None,
            own_pod=self.own_pod,
        )

    def _host(self, sampled: float) -> HostFacts:
        rows = self._rows()
        table = NvmapTable(tuple(row for row, _ in rows), sum(row.bytes for row, _ in rows)) if self.readable else None
        return HostFacts(
            files=self.files,
            meminfo=Reading(self.at, self.meminfo),
            nvml=Reading(sampled, self.nvml, "" if self.nvml else "timed out"),
            nvmap=Reading(sampled, table, "" if self.readable else "permission denied"),
            gpu_node_holders=Reading(sampled, len(rows) if self.readable else None),
            processes={process.pid: process for _, process in rows} if self.readable else {},
            pods={
                one.cgroup_uid: PodCgroup(host_bytes=held.host, exact=held.exact)
                for one in self.pods
                if (held := self.held.get(one.name)) is not None
            },
            kubelet=self.kubelet,
            runtime=self.runtime,
            host_processes=self.host_processes,
        )

    def _rows(self) -> list[tuple[NvmapRow, Process]]:
        found = []
        for one in self.pods:
            held = self.held.get(one.name)
            if held is not None and held.gpu:
                owner = CgroupOwner(one.cgroup_uid, held.container_id)
                found.append(_row(Process(pid=pid_of(one.name), start_ticks=7, name="infer", owner=owner), held.gpu))
        found += [_row(process, amount) for process, amount in self.extra]
        if self.system:
            found.append(_row(Process(pid=2651, start_ticks=3, name="Xorg"), self.system))
        return found


def _row(process: Process, amount: int) -> tuple[NvmapRow, Process]:
    return NvmapRow("user", process.name, process.pid, amount), process


def pid_of(name: str) -> int:
    """The pid of the GPU process of the pod ``name`` in a :class:`Scene`."""
    return 10_000 + int.from_bytes(name.encode(), "big") % 1_000_003


def card_scene(*devices: NvmlDevice, **fields: Any) -> Scene:
    """One sample of an x86 machine with discrete cards."""
    return Scene(**{"files": card_files(pci_displays=len(devices)), "nvml": nvml(*devices), **fields})


def at(scene: Scene, second: float, **fields: Any) -> Scene:
    """The same scene at another time."""
    return replace(scene, at=second, **fields)


class Run:
    """An agent's decisions one after the other. An eviction is answered as ``outcome`` says before the next sample."""

    def __init__(self, outcome: Outcome | None = "accepted") -> None:
        self.state = State()
        self.outcome = outcome
        self.told: list[Event] = []

    def step(self, scene: Scene) -> Plan:
        """The plan for one more sample."""
        self.state, plan = decide(self.state, scene.facts(), scene.at)
        self.told = list(plan.events)
        if self.outcome is not None:
            for eviction in plan.evictions:
                result = EvictionResult(uid=eviction.uid, outcome=self.outcome)
                self.state, events = learn(self.state, plan, result, scene.at)
                self.told += events
        return plan

    def steps(self, scene: Scene, *seconds: float) -> Plan:
        """The plan of the last of several samples of one scene."""
        plan = None
        for second in seconds:
            plan = self.step(at(scene, second))
        assert plan is not None
        return plan


def evicted(plan: Plan) -> list[str]:
    """UIDs of the pods to evict, in order."""
    return [eviction.uid for eviction in plan.evictions]


def held_codes(plan: Plan) -> dict[str, str]:
    """Code by uid of the pods that are held."""
    return {held.uid: held.code for held in plan.held}

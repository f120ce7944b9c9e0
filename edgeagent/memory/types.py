"""What the memory model says, as frozen values. Bytes are integers; None is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from edgeagent.facts import MemoryKind

BoardKind = Literal["jetson", "unified", "discrete", "mixed", "wsl", "none", "unknown"]
Health = Literal["ok", "lost", "reset-required", "degraded", "asleep", "unknown"]
Origin = Literal["default", "config", "kubelet", "measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU, or one MIG instance. ``total_bytes`` and ``reserved_bytes`` are NVML's, None on unified memory."""

    uuid: str | None
    name: str
    memory: MemoryKind
    health: Health
    total_bytes: int | None = None
    reserved_bytes: int | None = None
    """What the driver keeps; None where only the first memory query answers, which does not tell it."""
    minor: int | None = None
    shares: tuple[str | None, int] | None = None
    """(uuid of the card, GPU instance) of a MIG device: compute instances with the same ones have one memory."""
    tegra: bool = False
    """The integrated GPU of a Tegra SoC: its processes may stand in the nvmap table."""
    failing: bool = False
    """NVML answers as it does for a device that has dropped out: enough such readings prove it lost."""
    why: str = ""
    """What is wrong, when the health is not ok."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """The verdict on a board, with the signals that agreed."""

    kind: BoardKind
    unified: bool | None
    signals: tuple[str, ...]
    product: str | None
    soc: str | None = None
    module: str | None = None
    l4t: str | None = None
    jetpack: str | None = None
    power_mode: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    cuda_arch: str | None = None
    warnings: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()
    readable: bool = True
    """False: the driver did not answer as it must, so a missing device is unknown, not gone."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """A named part of a pool that is not advertised."""

    name: str
    bytes: int
    origin: Origin
    source: str = ""
    """Where a value that is not a default was set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One pool, sized. ``computed`` is what the formula gives before rounding and before what is committed counts."""

    resource: str
    kind: MemoryKind
    devices: tuple[str | None, ...]
    """UUIDs of its devices."""
    total: int
    reserves: tuple[Reserve, ...]
    host_committed: int
    gpu_committed: int
    foreign_committed: int
    """Σ gpu budgets of live pods that come from an annotation or another project's key."""
    admitted: int
    """Σ gpu requests of admitted live pods: capacity never goes below it."""
    computed: int
    largest: int | None = None
    """Bytes of its largest device that pods may use; None where no device has a memory of its own."""

    @property
    def reserved(self) -> int:
        """Σ of the reserve lines."""
        return sum(line.bytes for line in self.reserves)

    @property
    def room(self) -> int:
        """The most that one container can ever have of it: no allocation spans two devices."""
        free = max(0, self.total - self.reserved)
        return free if self.largest is None else min(free, self.largest)

    @property
    def booked(self) -> int:
        """Everything that live pods have booked of this pool."""
        return self.host_committed + self.gpu_committed + self.foreign_committed

    @property
    def overcommitted(self) -> bool:
        """More is booked than the pool has after its reserves."""
        return self.booked > self.total - self.reserved


BudgetSource = Literal["limit", "annotation", "foreign", "default", "none"]


@dataclass(frozen=True, slots=True)
class BudgetProblem:
    """Something about a pod's figures that its owner should know; ``reason`` is an event reason."""

    reason: Literal["UnderRequested", "BudgetInvalid"]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one pod may use of one pool. ``gpu`` None: no budget."""

    gpu: int | None
    source: BudgetSource
    key: str = ""
    """The resource or annotation that the budget was read from."""
    gpu_request: int = 0
    host_request: int = 0
    """Host part of the memory requests: what the pod has booked beside its GPU bytes."""
    total: int | None = None
    """gpu budget + host part of the limits; None unless every container has a memory limit."""
    problems: tuple[BudgetProblem, ...] = ()

    @property
    def booked(self) -> int:
        """Bytes of the pool that this pod has booked."""
        foreign = self.gpu if self.source in ("annotation", "foreign") and self.gpu else 0
        return self.gpu_request + self.host_request + foreign


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUse:
    """What one pod uses. GPU bytes by pool resource; None where unknown."""

    gpu: Mapping[str, int | None] = field(default_factory=dict)
    host: int | None = None
    host_exact: bool = False
    """False: without memory.stat ``host`` is an upper bound, which proves no breach by itself."""
    containers: Mapping[str, ContainerUse] = field(default_factory=dict)
    processes: tuple[tuple[int, int | None], ...] = ()
    """(pid, start ticks) of its GPU processes."""
    mps: bool = False
    """An MPS server or daemon runs in it: the memory is its clients'."""
    seen: bool = False
    """At least one GPU process of it was seen."""
    why: str = ""
    """Why a figure is unknown."""


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """What one container uses, by its name in the pod. ``gpu`` is over all pools."""

    gpu: int | None
    host: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Who holds what, on the whole board. Sums are over all pools; None where a source was not trusted."""

    pods: Mapping[str, PodUse]
    """By pod uid, every live pod of the node."""
    system_gpu: int | None
    unattributed_gpu: int | None
    leaving: int
    """GPU and host bytes of terminating pods, and of processes whose pod or container is no longer current."""
    system_shared: int | None = None
    """Of ``system_gpu``, the bytes of the pool that shares its memory with the host; a card's own are none of it."""
    system_processes: Mapping[int, int] = field(default_factory=dict)
    """Of ``system_shared``, the bytes of each process by pid; the kernel's own are no process's."""
    leaving_shared: int = 0
    """Of ``leaving``, the bytes that come back to the host's memory; a card's own do not."""
    gpu_total: Mapping[str, int | None]
    """GPU bytes in use by pool resource: nvmap's total, or Σ of the NVML lists."""
    trusted: bool = True
    """Every source of GPU bytes was read and trusted, so a process that none names holds none."""
    problems: tuple[str, ...] = ()

"""What NVML said of the GPUs and their processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


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

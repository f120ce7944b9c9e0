"""Frozen facts that cross stage borders: what the board and the cluster said, and when.

Units: memory is integer bytes, times are seconds. ``at`` is monotonic, ``wall`` is Unix
time. ``None`` always means *unknown* (not readable, not said), which is never the same as
0. Nothing in here decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from edgeagent.facts.board import (
    PID_MAX,
    BoardFiles,
    CgroupOwner,
    HostFacts,
    HostProcess,
    KubeletSettings,
    MemInfo,
    NvmapRow,
    NvmapTable,
    PodCgroup,
    Process,
    RuntimeFacts,
)
from edgeagent.facts.cluster import (
    ClusterFacts,
    ContainerFacts,
    ContainerKind,
    NodeFacts,
    Placement,
    PodFacts,
    Taint,
    Term,
)
from edgeagent.facts.finding import Certainty, Finding, Severity
from edgeagent.facts.nvml import MigInstance, Nvml, NvmlDevice, NvmlMemory, NvmlProcess, NvmlProcesses
from edgeagent.facts.reading import Reading

if TYPE_CHECKING:
    from edgeagent.config import Config

__all__ = [
    "GPU_MEMORY",
    "GPU_MILLI",
    "IGPU_MEMORY",
    "PID_MAX",
    "PREFIX",
    "BoardFiles",
    "Certainty",
    "CgroupOwner",
    "ClusterFacts",
    "ContainerFacts",
    "ContainerKind",
    "Facts",
    "Finding",
    "HostFacts",
    "HostProcess",
    "KubeletSettings",
    "MemInfo",
    "MemoryKind",
    "MigInstance",
    "NodeFacts",
    "NvmapRow",
    "NvmapTable",
    "Nvml",
    "NvmlDevice",
    "NvmlMemory",
    "NvmlProcess",
    "NvmlProcesses",
    "Placement",
    "PodCgroup",
    "PodFacts",
    "Process",
    "Reading",
    "RuntimeFacts",
    "Severity",
    "Taint",
    "Term",
]

PREFIX = "edgeagent.dev/"
GPU_MEMORY = PREFIX + "gpu-memory"
IGPU_MEMORY = PREFIX + "igpu-memory"
GPU_MILLI = PREFIX + "gpu-milli"

MemoryKind = Literal["unified", "discrete"]


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
    findings: tuple[Finding, ...] | None = ()
    """What the last diagnosis found, which is made less often than decisions are; None: none was made yet."""

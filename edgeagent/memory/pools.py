"""Pools: which there are on this board, how large they are, what of them is committed and what may be advertised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY, MemoryKind
from edgeagent.memory import reserves
from edgeagent.memory.devices import apart
from edgeagent.memory.types import Board, Budget, Device, Origin, Pool, Reserve

if TYPE_CHECKING:
    from edgeagent.config import Config, Reserves
    from edgeagent.facts import KubeletSettings, MemInfo, PodFacts

Budgets = Mapping[str, Budget]
"""The budgets of one pod by pool resource."""


@dataclass(frozen=True, slots=True)
class PoolKey:
    """Which resource key stands for which memory."""

    resource: str
    kind: MemoryKind
    devices: tuple[Device, ...]


def keys(board: Board, *, per_device: bool, mixed_before: bool) -> tuple[PoolKey, ...]:
    """The pools of this board, discrete first: on a mixed board ``gpu-memory`` is the discrete one.

    Pools are never summed with each other. ``per_device`` publishes each discrete device as
    ``gpu-memory-<minor>`` in place of their sum. What a key means is fixed at first detection:
    on a board that had both, a card that is lost leaves the integrated pool its own key.
    """
    unified = tuple(device for device in board.devices if device.memory == "unified")
    discrete = tuple(device for device in board.devices if device.memory == "discrete")
    found = []
    if discrete and per_device:
        # The instances of one card share its minor number.
        minors = sorted({device.minor for device in discrete if device.minor is not None})
        for minor in minors:
            same = tuple(device for device in discrete if device.minor == minor)
            found.append(PoolKey(f"{GPU_MEMORY}-{minor}", "discrete", same))
    elif discrete:
        found.append(PoolKey(GPU_MEMORY, "discrete", discrete))
    if unified:
        if mixed_before and not discrete:
            found.append(PoolKey(GPU_MEMORY, "discrete", ()))
        found.append(PoolKey(IGPU_MEMORY if discrete or mixed_before else GPU_MEMORY, "unified", unified))
    return tuple(found)


def unified_total(meminfo: MemInfo, cpuless_numa: int, *, hugepages: bool) -> int:
    """Bytes of the pool that CPU and GPU share: MemTotal without huge pages and without memory of CPU-less nodes.

    Never a table by model (the same module shows different totals by firmware), never NVML's
    total, never MemFree, never swap, which GPU pages cannot use.
    """
    return meminfo.hugetlb if hugepages else meminfo.total - meminfo.hugetlb - cpuless_numa


def size(
    key: PoolKey, config: Config, meminfo: MemInfo | None, cpuless_numa: int, kubelet: KubeletSettings
) -> tuple[int, tuple[Reserve, ...]] | None:
    """(total, reserve lines) of a pool; None when a figure that it needs is unknown."""
    if key.kind == "unified":
        if meminfo is None:
            return None
        total = unified_total(meminfo, cpuless_numa, hugepages=config.unified.gpu_from_hugepages)
        lines = reserves.unified_lines(total, meminfo, config.reserves, kubelet)
    else:
        counted = [device for device in apart(key.devices) if device.total_bytes is not None]
        if not counted:
            return None
        total = sum(device.total_bytes or 0 for device in counted)
        lines = (_driver_line(counted, config.reserves),)
    return total, lines + reserves.ceiling_line(total, sum(line.bytes for line in lines), config.reserves)


def _driver_line(devices: Sequence[Device], settings: Reserves) -> Reserve:
    """The line ``driver``: per device, so that a setting never hides what one of them keeps."""
    parts = [
        reserves.discrete_reserve(device.total_bytes, device.reserved_bytes, settings.driver)
        for device in devices
        if device.total_bytes is not None
    ]
    origins: tuple[Origin, ...] = ("config", "measured", "default")
    origin = next(name for name in origins if any(name == given for _, given in parts))
    return Reserve("driver", sum(amount for amount, _ in parts), origin)


def usable(device: Device, settings: Reserves) -> int | None:
    """Bytes of one discrete device that pods may use; None where unknown, and on unified memory."""
    if device.total_bytes is None:
        return None
    return device.total_bytes - reserves.discrete_reserve(device.total_bytes, device.reserved_bytes, settings.driver)[0]


def fill(
    key: PoolKey,
    sized: tuple[int, tuple[Reserve, ...]],
    pods: Sequence[PodFacts],
    budgets: Mapping[str, Budgets],
    config: Config,
) -> Pool:
    """The pool with what live pods have committed of it; hardware, configuration and the set of pods decide."""
    total, lines = sized
    live = [(pod, budgets[pod.uid][key.resource]) for pod in pods if pod.live]
    host = sum(budget.host_request for _, budget in live)
    foreign = sum(budget.gpu or 0 for _, budget in live if budget.source in ("annotation", "foreign"))
    coupled = host if config.unified.coupling == "requests" else 0
    return Pool(
        resource=key.resource,
        kind=key.kind,
        devices=tuple(device.uuid for device in key.devices),
        total=total,
        reserves=lines,
        host_committed=host,
        gpu_committed=sum(budget.gpu_request for _, budget in live),
        foreign_committed=foreign,
        admitted=sum(budget.gpu_request for pod, budget in live if pod.admitted),
        computed=total - sum(line.bytes for line in lines) - coupled - foreign,
        largest=max(
            (most for device in key.devices if (most := usable(device, config.reserves)) is not None), default=None
        ),
    )

"""NVML process lists of a pool's devices, merged and checked for plausibility."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from edgeagent import quantity
from edgeagent.facts import PID_MAX

if TYPE_CHECKING:
    from edgeagent.facts import MigInstance, Nvml, NvmlDevice, NvmlProcess, NvmlProcesses
    from edgeagent.memory.types import Device

_NO_LIST = (0, 3, 13)
"""Success, not supported and function not found: after any other code a list is not empty but unread."""


class Row(NamedTuple):
    """GPU bytes of one process; None where the driver does not know."""

    pid: int
    bytes: int | None


def listed(nvml: Nvml, devices: Sequence[Device], memory_limit: int | None) -> tuple[tuple[Row, ...] | None, str]:
    """The processes on ``devices`` and why not, if not: (rows or None, reason).

    A process may stand in the compute, the graphics and the MPS list at once, so the largest
    figure per (device, pid, instance) counts; twice in one list are two contexts and add up.
    One impossible pid or size means that the driver filled another struct than we read, and
    makes the whole answer untrusted.
    """
    rows: dict[int, int | None] = {}
    for device in devices:
        if device.health == "lost":
            continue
        found = _find(nvml, device)
        if found is None or found.compute is None or found.compute.code != 0:
            return None, f"NVML lists no processes of {device.name}"
        if any(lists is not None and lists.code not in _NO_LIST for lists in _lists(found)):
            return None, f"NVML lists only a part of the processes of {device.name}"
        merged = _merged(lists for lists in _lists(found) if lists is not None and lists.code == 0)
        limit = device.total_bytes or memory_limit
        reason = _implausible(merged, limit)
        if reason:
            return None, f"{device.name}: {reason}"
        for pid, used in merged.items():
            before = rows.get(pid, 0)
            rows[pid] = None if used is None or before is None else before + used
    return tuple(Row(pid, used) for pid, used in sorted(rows.items())), ""


def _find(nvml: Nvml, device: Device) -> NvmlDevice | MigInstance | None:
    for candidate in nvml.devices:
        if candidate.handle == 0 and candidate.uuid == device.uuid:
            return candidate
        for instance in candidate.mig:
            if instance.uuid == device.uuid:
                return instance
    return None


def _lists(device: NvmlDevice | MigInstance) -> tuple[NvmlProcesses | None, ...]:
    return (device.compute, device.graphics, getattr(device, "mps", None))


def _merged(lists: Iterable[NvmlProcesses]) -> dict[int, int | None]:
    best: dict[tuple[int, int | None, int | None], int | None] = {}
    for one in lists:
        for key, used in _summed(one.processes).items():
            other = best.get(key)
            best[key] = used if other is None or (used is not None and used > other) else other
    merged: dict[int, int | None] = {}
    for (pid, _, _), used in best.items():
        before = merged.get(pid, 0)
        merged[pid] = None if used is None or before is None else before + used
    return merged


def _summed(processes: Sequence[NvmlProcess]) -> dict[tuple[int, int | None, int | None], int | None]:
    grouped: dict[tuple[int, int | None, int | None], list[int | None]] = defaultdict(list)
    for process in processes:
        grouped[process.pid, process.gi, process.ci].append(process.used)
    return {key: quantity.total(used) for key, used in grouped.items()}


def _implausible(rows: dict[int, int | None], limit: int | None) -> str:
    for pid, used in rows.items():
        if not 0 < pid <= PID_MAX:
            return f"NVML lists the impossible pid {pid}"
        if used is not None and limit is not None and not 0 <= used <= limit:
            return f"NVML lists {used} bytes for pid {pid}, more than there are"
    if limit is not None and sum(used or 0 for used in rows.values()) > limit:
        return "the processes that NVML lists hold more than there is"
    return ""

"""NVML process lists of a pool's devices, merged and checked for plausibility."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from edgeagent import quantity
from edgeagent.facts import PID_MAX
from edgeagent.facts.codes import FUNCTION_NOT_FOUND, NOT_SUPPORTED, SUCCESS
from edgeagent.memory.devices import apart

if TYPE_CHECKING:
    from edgeagent.facts import MigInstance, Nvml, NvmlDevice, NvmlProcess, NvmlProcesses
    from edgeagent.memory.types import Device

_NO_LIST = (SUCCESS, NOT_SUPPORTED, FUNCTION_NOT_FOUND)
"""Success, not supported and function not found: after any other code a list is not empty but unread."""


class Row(NamedTuple):
    """GPU bytes of one process; None where the driver does not know."""

    pid: int
    bytes: int | None


def listed(nvml: Nvml, devices: Sequence[Device], memory_limit: int | None) -> tuple[tuple[Row, ...] | None, str]:
    """The processes on ``devices`` and why not, if not: (rows or None, reason).

    A process may stand in the compute, the graphics and the MPS list at once, so the largest
    figure per (device, pid, instance) counts; twice in one list are two contexts and add up.
    A card that is powered down has no process: one that holds memory on it, even a stopped
    one, keeps it powered up (beclab/Olares#3803). One impossible pid or size means that the
    driver filled another struct than we read, and makes the whole answer untrusted.
    """
    rows: dict[int, int | None] = {}
    asked = [device for device in devices if device.health not in ("lost", "asleep")]
    for device, parts in zip(asked, _find(nvml, asked), strict=True):
        if not parts or any(part.compute is None or part.compute.code != SUCCESS for part in parts):
            return None, f"NVML lists no processes of {device.name}"
        lists = [one for part in parts for one in _lists(part) if one is not None]
        if any(one.code not in _NO_LIST for one in lists):
            return None, f"NVML lists only a part of the processes of {device.name}"
        merged = _merged(one for one in lists if one.code == SUCCESS)
        limit = device.total_bytes or memory_limit
        reason = _implausible(merged, limit)
        if reason:
            return None, f"{device.name}: {reason}"
        for pid, used in merged.items():
            before = rows.get(pid, 0)
            rows[pid] = None if used is None or before is None else before + used
    return tuple(Row(pid, used) for pid, used in sorted(rows.items())), ""


def tells(nvml: Nvml, devices: Sequence[Device]) -> bool:
    """Whether any list of these devices holds a value, to be trusted or not."""
    lists = [one for parts in _find(nvml, devices) for part in parts for one in _lists(part) if one is not None]
    return any(process.used for one in lists for process in one.processes)


def in_use(nvml: Nvml, devices: Sequence[Device]) -> int | None:
    """Bytes in use on ``devices``, by the devices' own figures; None where one does not tell.

    The second memory query leaves out what the driver keeps; the first one counts it as used.
    """
    asked = [device for device in apart(devices) if device.health not in ("lost", "asleep")]
    return quantity.total(_used(part) for parts in _find(nvml, asked) for part in parts)


def _used(device: NvmlDevice | MigInstance) -> int | None:
    answers = [memory for memory in (device.memory_v2, device.memory) if memory is not None and memory.code == SUCCESS]
    if not answers:
        return None
    total, used, free, reserved = answers[0].total, answers[0].used, answers[0].free, answers[0].reserved
    if used is None or total is None or used > total:
        return None
    # Some drivers count what they keep as used in the second query, too: then used and free are all there is.
    kept = reserved if reserved is not None and free is not None and used + free == total else 0
    return max(0, used - kept)


_Parts = tuple["NvmlDevice | MigInstance", ...]
"""Whose lists are those of one device: its own or, of a GPU in parts that is counted as a whole, those of the parts."""


def _find(nvml: Nvml, devices: Sequence[Device]) -> list[_Parts]:
    """What NVML lists for each of ``devices``; () where it lists nothing.

    Those without a uuid go by their order: which is which does not matter, unless one is missing.
    """
    found: dict[str | None, list[_Parts]] = defaultdict(list)
    for candidate in nvml.devices:
        for instance in candidate.mig:
            found[instance.uuid].append((instance,))
        if candidate.handle == 0:
            found[candidate.uuid].append(candidate.mig or (candidate,))
    wanted = Counter(device.uuid for device in devices)
    unsure = {uuid for uuid, count in wanted.items() if len(found[uuid]) != count}
    return [() if device.uuid in unsure else found[device.uuid].pop(0) for device in devices]


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

"""What the kernel says beside memory: cgroup version, swap, CPU time of containers, uptime."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgeagent.facts.diagnosis import CgroupVersion, Swap
from edgeagent.host.files import there

if TYPE_CHECKING:
    from edgeagent.facts import PodCgroup
    from edgeagent.host.files import Files

_MOUNT = "sys/fs/cgroup"
_MEMORY = f"{_MOUNT}/memory/"
_ACCOUNTS = (f"{_MOUNT}/cpuacct/", f"{_MOUNT}/cpu,cpuacct/")
_USAGE = re.compile(rb"^usage_usec (\d{1,19})$", re.MULTILINE)
_NANO = 1e-9
_MICRO = 1e-6
_KIB = 1024
_SWAP_ROW = 5


def cgroups(files: Files) -> CgroupVersion | None:
    """The version that memory is counted with (cgroups(7)); None where no hierarchy is seen."""
    if there(files, f"{_MOUNT}/cgroup.controllers"):
        return "v2"
    if not there(files, _MEMORY):
        return None
    return "hybrid" if there(files, f"{_MOUNT}/unified") else "v1"


def swaps(files: Files) -> tuple[Swap, ...] | None:
    """The rows of ``/proc/swaps`` (proc_swaps(5)); None where it is not readable."""
    try:
        rows = files.read("proc/swaps").decode(errors="replace").splitlines()[1:]
    except OSError:
        return None
    fields = [row.split() for row in rows]
    return tuple(
        Swap(path=row[0], bytes=int(row[2]) * _KIB, used=int(row[3]) * _KIB)
        for row in fields
        if len(row) == _SWAP_ROW and row[2].isdecimal() and row[3].isdecimal()
    )


def uptime(files: Files) -> float | None:
    """Seconds since boot (proc_uptime(5))."""
    try:
        return float(files.read("proc/uptime").split()[0])
    except (OSError, ValueError, IndexError):
        return None


def cpu_seconds(files: Files, pods: Mapping[str, PodCgroup]) -> dict[str, float]:
    """CPU time of the containers whose cgroups are known, by id."""
    paths = {name: path for pod in pods.values() for name, path in pod.container_paths.items()}
    found = {name: _cpu(files, path) for name, path in paths.items()}
    return {name: seconds for name, seconds in found.items() if seconds is not None}


def _cpu(files: Files, path: str) -> float | None:
    """CPU time of the cgroup whose memory is counted at ``path``."""
    try:
        if not path.startswith(_MEMORY):
            match = _USAGE.search(files.read(f"{path}/cpu.stat"))
            return int(match[1]) * _MICRO if match else None
    except OSError:
        return None
    for mount in _ACCOUNTS:
        try:
            return int(files.read(f"{mount}{path.removeprefix(_MEMORY)}/cpuacct.usage")) * _NANO
        except (OSError, ValueError):
            continue
    return None

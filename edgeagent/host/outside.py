"""Processes outside pods, for the question which of them is the largest. To answer it the whole of ``/proc`` is read.

Formats: proc_pid_status(5), proc_pid_statm(5).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from edgeagent.facts import HostProcess
from edgeagent.host import cgroup_path, processes

if TYPE_CHECKING:
    from edgeagent.facts import Process
    from edgeagent.host.files import Files

_ROW = re.compile(rb"^(VmSize|RssAnon|RssShmem):\s*(\d{1,15}) kB$", re.MULTILINE)
_RESIDENT = re.compile(rb"\d+ (\d{1,15}) ")
_KIB = 1024


def candidates(
    files: Files, known: Mapping[int, Process], page_size: int, among: Collection[int] | None = None
) -> tuple[HostProcess, ...]:
    """Those processes outside pods of which one is the largest: each of ``known``, and the largest of all others.

    ``known`` may hold GPU memory, by pid; how much, another says. Where the largest stands in a container, which may
    be a pod's, the next one is there too. ``among``: pids to look at, in place of all. One that ends meanwhile or
    cannot be read is left out.
    """
    sizes = _sizes(files, _pids(files) if among is None else among, page_size)
    found = [_outside(files, process, sizes.get(pid)) for pid, process in sorted(known.items())]
    others = {pid: size for pid, size in sizes.items() if pid not in known}
    return (*(one for one in found if one), *_largest(files, others))


def _largest(files: Files, sizes: Mapping[int, int]) -> Iterator[HostProcess]:
    """The largest, looked up one after the other, down to the first that is surely no pod's."""
    for pid in sorted(sizes, key=lambda pid: (-sizes[pid], pid)):
        process = processes.process(files, pid)
        found = _outside(files, process, sizes[pid]) if process else None
        if found:
            yield found
            if found.container_id is None:
                return


def _outside(files: Files, process: Process, size: int | None) -> HostProcess | None:
    """The process, unless it is a pod's, the kernel's, or one that nobody can tell whose it is."""
    if process.kernel or process.owner or not process.cgroup_readable:
        return None
    try:
        cgroup = files.read(f"proc/{process.pid}/cgroup")
    except OSError:
        return None
    if cgroup_path.among_pods(cgroup):
        return None
    return HostProcess(
        pid=process.pid,
        name=process.name,
        bytes=size,
        unit=cgroup_path.unit(cgroup),
        container_id=process.container_id,
    )


def _pids(files: Files) -> list[int]:
    try:
        return [int(name) for name in files.folders("proc") if name.isdecimal()]
    except OSError:
        return []


def _sizes(files: Files, pids: Collection[int], page_size: int) -> dict[int, int]:
    """Bytes by pid, of those that can be read and have any memory."""
    sizes = {pid: _size(files, pid, page_size) for pid in pids}
    return {pid: size for pid, size in sizes.items() if size is not None}


def _size(files: Files, pid: int, page_size: int) -> int | None:
    """Bytes that a process has to itself or shares without a file; None when it has no memory, or is not readable."""
    try:
        rows = {key: int(kib) * _KIB for key, kib in _ROW.findall(files.read(f"proc/{pid}/status"))}
        if b"VmSize" not in rows:  # a kernel thread, or a process that has ended
            return None
        if b"RssAnon" in rows and b"RssShmem" in rows:
            return rows[b"RssAnon"] + rows[b"RssShmem"]
        # Kernels before 4.5 do not tell what stands behind the resident pages.
        resident = _RESIDENT.match(files.read(f"proc/{pid}/statm"))
    except OSError:
        return None
    return int(resident[1]) * page_size if resident else None

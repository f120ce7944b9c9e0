"""Processes as ``/proc`` shows them: what they are, whose they are, who holds a GPU device node.

Formats: proc_pid_stat(5), proc_pid_status(5), cgroups(7).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from edgeagent.facts import Process, Reading
from edgeagent.host.cgroup_path import container, owner, readable
from edgeagent.host.files import Files
from edgeagent.host.paths import why

_PF_KTHREAD = 0x00200000
_PF_EXITING = 0x00000004
"""include/linux/sched.h; two of the flags in field 9 of stat."""
# Places in stat after the name: field 3, the state, is the first of them.
_FLAGS = 9 - 3
_START = 22 - 3
_NUMBER = re.compile(rb"\d{1,20}")
_STATUS = re.compile(r"^(Name|State|VmSize):\t(.*)$", re.MULTILINE)
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""include/linux/proc_ns.h, PROC_PID_INIT_INO."""

# nvidia0, nvidiactl, nvidia-uvm, nvidia-caps/…; nvmap, nvgpu/igpu0/… and nvhost-as-gpu on a
# Tegra. Not nvme0, nvram, nor the Tegra's other engines (nvhost-vic, nvhost-nvdec).
_GPU_NODE = re.compile(r"(?:.*/)?dev/(?:nvidia.*|nvmap|nvgpu/.+|nvhost-(?:.*-)?gpu)(?: \(deleted\))?")


class _Stat(NamedTuple):
    name: str
    state: str
    kernel: bool
    ending: bool
    """It has given up its memory, or is about to: then status shows no VmSize either."""
    start_ticks: int


def process(files: Files, pid: int) -> Process | None:
    """The process ``pid``; None when it is gone, or none of its files can be read."""
    stat = _stat(files, pid)
    try:
        cgroup = files.read(f"proc/{pid}/cgroup")
    except OSError:
        cgroup = b""
        if stat and not _stat(files, pid):
            return None  # it ended between the two readings
    status = _status(files, pid)
    if stat:
        name, start = stat.name, stat.start_ticks
        kernel = stat.kernel or (not stat.ending and _without_memory(status))
    else:
        if not status and not cgroup:
            return None
        name, start = status.get("Name") or _comm(files, pid), None
        kernel = _without_memory(status) and not status.get("State", "Z").startswith("Z")
    pod = owner(cgroup)
    return Process(
        pid=pid,
        start_ticks=start,
        name=name,
        kernel=kernel,
        owner=pod,
        container_id=None if pod else container(cgroup),
        cgroup_readable=readable(cgroup),
    )


def holders(files: Files, at: float) -> Reading[int]:
    """How many processes hold a GPU device node open.

    One that cannot be looked into may hold one, so that the number is unknown then, unless
    others do: the question is whether there is any. The reader itself, which may have NVML
    open, does not count.
    """
    try:
        pids = [int(name) for name in files.folders("proc") if name.isdecimal()]
    except OSError as error:
        return Reading(at, None, why(error, "proc"))
    if not pids:
        return Reading(at, None, "proc: no processes in it")
    own = _own_pid(files)
    count, closed = 0, 0
    for pid in pids:
        try:
            nodes = gpu_nodes(files, pid)
        except OSError:
            closed += _may_hold(files, pid)
            continue
        count += pid != own and bool(nodes)
    if closed and not count:
        return Reading(at, None, f"the open files of {closed} processes cannot be read")
    return Reading(at, count)


def gpu_nodes(files: Files, pid: int) -> tuple[str, ...]:
    """The GPU device nodes that a process holds open.

    Raises:
        OSError: its open files cannot be read.
    """
    targets = files.links(f"proc/{pid}/fd").values()
    return tuple(sorted({target for target in targets if _GPU_NODE.fullmatch(target)}))


def host_view(files: Files) -> bool:
    """Whether the process table is that of the host, and not of the agent's own container.

    In a recording without the kernel's own processes there is nothing to be checked.
    """
    second = _stat(files, 2)
    if second and second.name == "kthreadd":
        return True
    if second is None and _own_pid(files) is None:
        return True
    try:
        return files.link("proc/self/ns/pid") == _INITIAL_PID_NAMESPACE
    except OSError:
        return False


def _own_pid(files: Files) -> int | None:
    """The reader's pid in a live procfs; None in a recording."""
    try:
        text = files.link("proc/self")
    except OSError:
        return None
    return int(text) if text and text.isdecimal() else None


def _may_hold(files: Files, pid: int) -> bool:
    """Whether a process whose open files cannot be read may have any.

    Not if it is gone, and neither a kernel thread nor a zombie has.
    """
    stat = _stat(files, pid)
    if stat:
        return not stat.kernel and stat.state not in ("Z", "X")
    found = process(files, pid)
    return found is not None and not found.kernel


def _stat(files: Files, pid: int) -> _Stat | None:
    """The fields that are used of stat; None when it is not there or is not as proc_pid_stat(5) says.

    The name stands in brackets and may hold any character, brackets and blanks included.
    """
    try:
        content = files.read(f"proc/{pid}/stat")
    except OSError:
        return None
    head, _, rest = content.rpartition(b")")
    _, opened, name = head.partition(b"(")
    fields = rest.split()
    if not opened or len(fields) <= _START or not all(_NUMBER.fullmatch(fields[at]) for at in (_FLAGS, _START)):
        return None
    return _Stat(
        name=name.decode(errors="replace"),
        state=fields[0].decode(errors="replace"),
        kernel=bool(int(fields[_FLAGS]) & _PF_KTHREAD),
        ending=bool(int(fields[_FLAGS]) & _PF_EXITING) or fields[0] in (b"Z", b"X"),
        start_ticks=int(fields[_START]),
    )


def _status(files: Files, pid: int) -> dict[str, str]:
    try:
        content = files.read(f"proc/{pid}/status").decode(errors="replace")
    except OSError:
        return {}
    return {key: value.strip() for key, value in _STATUS.findall(content)}


def _without_memory(status: dict[str, str]) -> bool:
    """Status was read and shows no memory: a kernel thread never had any, a process that ends has none left."""
    return bool(status) and "VmSize" not in status


def _comm(files: Files, pid: int) -> str:
    try:
        return files.read(f"proc/{pid}/comm").removesuffix(b"\n").decode(errors="replace")
    except OSError:
        return ""

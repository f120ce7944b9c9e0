"""Who holds GPU device nodes open. The walk through all open files costs more than all else, so it is made seldom."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from edgeagent.facts.diagnosis import Holder, Holders
from edgeagent.host import cgroup_path, processes
from edgeagent.host.paths import why

if TYPE_CHECKING:
    from edgeagent.host.files import Files


def holders(files: Files, among: Collection[int] | None = None) -> Holders:
    """Every process that holds one; of containers also whether that can be told. ``among``: pids to look at."""
    try:
        pids = [int(name) for name in files.folders("proc") if name.isdecimal()]
    except OSError as error:
        return Holders(problem=why(error, "proc"))
    pids = [pid for pid in pids if among is None or pid in among]
    if not pids or not processes.host_view(files):
        return Holders(problem="proc: the processes of the host are not seen")
    found: list[Holder] = []
    closed: set[str] = set()
    seen: set[str] = set()
    inside: set[int] = set()
    for pid in pids:
        try:
            cgroup = files.read(f"proc/{pid}/cgroup")
        except OSError:  # it has ended, or nobody may know whose it is
            continue
        owner = cgroup_path.owner(cgroup)
        container = owner.container_id if owner else cgroup_path.container(cgroup)
        if container:
            seen.add(container)
            inside.add(pid)
        try:
            nodes = processes.gpu_nodes(files, pid)
        except OSError:
            closed |= {container} if container else set()
            continue
        process = processes.process(files, pid) if nodes else None
        if process:
            uid = owner.pod_uid if owner else None
            found.append(Holder(pid=pid, name=process.name, nodes=nodes, pod_uid=uid, container_id=container))
    return Holders(processes=tuple(found), closed=frozenset(closed), seen=frozenset(seen), inside=frozenset(inside))

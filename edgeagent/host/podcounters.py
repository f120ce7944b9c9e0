"""What the kernel counts for pods beside their memory. Where their cgroups lie is known from reading that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgeagent.facts.neighbours import PodCounters, Throttling
from edgeagent.host import pressure, throttling

if TYPE_CHECKING:
    from edgeagent.facts import PodCgroup
    from edgeagent.host.files import Files

_MEMORY = "sys/fs/cgroup/memory/"
"""Where version 1 counts memory; a pod's way on from there is the same in the other hierarchies."""
_CPU = ("sys/fs/cgroup/cpu/", "sys/fs/cgroup/cpu,cpuacct/")


def counters(files: Files, pods: Mapping[str, PodCgroup]) -> dict[str, PodCounters]:
    """The counters of each pod whose cgroup is known, by the uid in its path."""
    return {uid: _counters(files, pod) for uid, pod in pods.items() if pod.path}


def _counters(files: Files, pod: PodCgroup) -> PodCounters:
    found: dict[str, Throttling] = {}
    for name, path in (("", pod.path), *pod.container_paths.items()):
        counted = next(filter(None, (throttling.throttling(files, way) for way in _ways(path))), None)
        if counted:
            found[name] = counted
    version_1 = pod.path.startswith(_MEMORY)
    return PodCounters(throttling=found, stalled={} if version_1 else pressure.stalled(files, pod.path))


def _ways(path: str) -> tuple[str, ...]:
    """Where CPU time is counted for the cgroup whose memory is counted at ``path``."""
    if not path.startswith(_MEMORY):
        return (path,)
    return tuple(mount + path.removeprefix(_MEMORY) for mount in _CPU)

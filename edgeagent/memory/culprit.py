"""The largest process outside pods: its own memory and the GPU memory that it holds in the same pool, together.

A model that was started by hand holds nearly all of its memory through the driver, where no row of ``/proc`` shows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeagent.facts import HostProcess, PodFacts
    from edgeagent.memory.types import Usage


@dataclass(frozen=True, slots=True)
class Culprit:
    """A process outside pods, with the bytes that it holds of the memory that host and GPU share."""

    process: HostProcess
    gpu: int

    @property
    def bytes(self) -> int:
        """What it holds at least: its own memory may be unknown."""
        return (self.process.bytes or 0) + self.gpu


def largest(processes: Iterable[HostProcess], used: Usage, pods: Iterable[PodFacts]) -> Culprit | None:
    """The largest of ``processes``, of two alike the one with the smaller pid; None when of none any memory is known.

    The container of a live pod is the pod's, also where its cgroup does not say so.
    """
    of_pods = {item.container_id for pod in pods if pod.live for item in pod.containers} - {None}
    outside = (
        Culprit(one, used.system_processes.get(one.pid, 0)) for one in processes if one.container_id not in of_pods
    )
    known = [one for one in outside if one.bytes > 0]
    return max(known, key=lambda one: (one.bytes, -one.process.pid), default=None)

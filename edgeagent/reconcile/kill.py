"""Kills the processes of one pod, each only if it is still the one that was decided on.

A pid is used again once its process has ended. A pidfd is not: it is opened first, then the start time and the cgroup
are read again, and the signal goes to what was opened. Nothing here is right to call in the event loop.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
from collections.abc import Callable

from edgeagent.host import procfs
from edgeagent.host.disk import RootFiles
from edgeagent.host.processes import process
from edgeagent.plan.kills import FRESH
from edgeagent.plan.types import Kill, KillOutcome, KillResult

log = logging.getLogger(__name__)

NO_PIDFD = "this kernel or this Python has no pidfd, so a signal could hit another process; Linux has it from 5.3 on"

_End = tuple[KillOutcome, str]


class Killer:
    """Kills under one root.

    Args:
        files: the host's files.
        clock: monotonic seconds, the same clock that readings carry.
    """

    def __init__(self, files: RootFiles, *, clock: Callable[[], float]) -> None:
        self._files = files
        self._clock = clock

    def kill(self, kill: Kill) -> KillResult:
        """Send SIGKILL to the processes of ``kill`` that are still what they were. Never raises for what it meets."""
        foreign = procfs.foreign(self._files)
        ends: list[_End] = [("not-procfs", foreign) if foreign else self._end(kill, *one) for one in kill.processes]
        for (pid, _), (outcome, why) in zip(kill.processes, ends, strict=True):
            log.warning("process %d of %s: %s", pid, kill.key, f"{outcome}, {why}" if why else outcome)
        return KillResult(
            uid=kill.uid,
            outcomes=tuple((one, outcome) for one, (outcome, _) in zip(kill.processes, ends, strict=True)),
            message=next((why for _, why in ends if why), ""),
        )

    def _end(self, kill: Kill, pid: int, start_ticks: int) -> _End:
        if not hasattr(os, "pidfd_open") or not hasattr(signal, "pidfd_send_signal"):
            return "no-pidfd", NO_PIDFD
        try:
            descriptor = os.pidfd_open(pid)
        except OSError as error:
            return _failed(error)
        try:
            unlike = self._unlike(kill, pid, start_ticks)
            if unlike:
                return unlike
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except OSError as error:
            return _failed(error)
        finally:
            os.close(descriptor)
        return "killed", ""

    def _unlike(self, kill: Kill, pid: int, start_ticks: int) -> _End | None:
        """What speaks against the signal, now that ``pid`` cannot become another process; None when nothing does."""
        found = process(self._files, pid)
        if found is None:
            return "gone", ""
        if found.start_ticks is None or not found.cgroup_readable:
            return "refused", "its start time or its cgroup cannot be read"
        if found.start_ticks != start_ticks:
            return "changed", f"it began at tick {found.start_ticks}, not at {start_ticks}"
        owner = found.owner
        if owner is None or owner.pod_uid != kill.cgroup_uid or owner.container_id not in kill.containers:
            return "changed", "its cgroup names no current container of the pod"
        age = self._clock() - kill.read_at
        return ("stale", f"what it holds was read {age:.1f} s ago") if age > FRESH else None


def _failed(error: OSError) -> _End:
    if error.errno == errno.ESRCH:
        return "gone", ""
    return ("no-pidfd", NO_PIDFD) if error.errno == errno.ENOSYS else ("refused", error.strerror or str(error))

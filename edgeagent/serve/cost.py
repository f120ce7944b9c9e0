"""What the agent itself takes of the board."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.serve.shown import Cost

if TYPE_CHECKING:
    import psutil


_START_TIME = 22
"""Field of /proc/PID/stat, from 1 on: clock ticks since boot, of the clock that goes on in suspend (proc(5))."""


def started(now: float) -> float:
    """When this process was started, on the clock that says ``now``: a wall clock may be set only later."""
    # The second field, in brackets, may hold blanks and brackets itself.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[_START_TIME - 3])
    return now - (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))


def measure(process: psutil.Process, began: float) -> Cost:
    """The cost of ``process``, the agent's own, up to now; a quarter of a millisecond of reading /proc.

    ``began`` is the monotonic second at which it was started.
    """
    with process.oneshot():
        times = process.cpu_times()
        return Cost(
            resident_bytes=process.memory_info().rss,
            cpu_seconds=times.user + times.system,
            open_files=process.num_fds(),
            threads=process.num_threads(),
            started=began,
        )

"""What the agent itself takes of the board."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgeagent.serve.shown import Cost

if TYPE_CHECKING:
    import psutil


def measure(process: psutil.Process) -> Cost:
    """The cost of ``process``, the agent's own, up to now; a quarter of a millisecond of reading /proc."""
    with process.oneshot():
        times = process.cpu_times()
        return Cost(
            resident_bytes=process.memory_info().rss,
            cpu_seconds=times.user + times.system,
            open_files=process.num_fds(),
            threads=process.num_threads(),
            started=process.create_time(),
        )

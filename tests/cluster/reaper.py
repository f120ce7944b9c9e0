"""Command: wait until stdin ends, then kill every process below the cgroups given as arguments and remove these.

It runs with no more than the standard library, and ends with 1 and a message if something is left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

SECONDS = 20.0


def processes(cgroups: list[Path]) -> set[int]:
    found: set[int] = set()
    for cgroup in cgroups:
        for file in cgroup.glob("**/cgroup.procs"):
            with contextlib.suppress(OSError):  # the cgroup was removed meanwhile
                found.update(map(int, file.read_text().split()))
    return found


def remove(cgroups: list[Path]) -> list[Path]:
    """Remove the cgroups and all below them, the deepest first; returns what is left."""
    for cgroup in cgroups:
        for folder in sorted(cgroup.glob("**/"), key=lambda path: len(path.parts), reverse=True):
            with contextlib.suppress(OSError):  # still busy, or gone already
                folder.rmdir()
    return [cgroup for cgroup in cgroups if cgroup.exists()]


def reap(cgroups: list[Path]) -> list[Path]:
    end = time.monotonic() + SECONDS
    while True:
        for pid in processes(cgroups):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        left = remove(cgroups)
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.05)


if __name__ == "__main__":
    sys.stdin.read()
    remaining = reap([Path(argument) for argument in sys.argv[1:]])
    if remaining:
        sys.exit(f"not removed: {', '.join(map(str, remaining))}; processes: {processes(remaining)}")

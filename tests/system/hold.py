"""Stops single threads of a process, as a read that never comes back does: ``hold.py TID...``; until they are gone.

Signals stop whole processes; ptrace stops a thread (ptrace(2), PTRACE_INTERRUPT). Prints a line when all are held.
"""

from __future__ import annotations

import ctypes
import os
import sys

_SEIZE, _INTERRUPT = 0x4206, 0x4207
_WALL = 0x40000000


def ptrace(request: int, tid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(request, tid, None, None) == -1:
        raise OSError(ctypes.get_errno(), f"ptrace of {tid}")


if __name__ == "__main__":
    for tid in map(int, sys.argv[1:]):
        ptrace(_SEIZE, tid)
        ptrace(_INTERRUPT, tid)
        os.waitpid(tid, _WALL)
    print("held", flush=True)  # noqa: T201 (who started it waits for this)
    try:
        while True:
            # A process is gone only when whoever traces one of its threads has seen the thread's end.
            os.waitpid(-1, _WALL)
    except ChildProcessError:
        sys.exit(0)

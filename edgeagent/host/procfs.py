"""Is the process table under a root the kernel's own, and are its pids those that this process can signal?"""

from __future__ import annotations

import ctypes
import os

from edgeagent.host.disk import RootFiles
from edgeagent.host.paths import why

_MAGIC = 0x9FA0
"""PROC_SUPER_MAGIC, include/uapi/linux/magic.h."""
_STATFS_BYTES = 512
"""More than ``struct statfs`` has on any machine; its first field, a long, is the type (statfs(2))."""


def foreign(files: RootFiles) -> str:
    """Why a pid under ``proc`` of the root is not to be signalled; empty when it is this process's view of the host.

    A tree of files is no procfs. In a pid namespace below the one that is shown, the same number is another process:
    the row ``NSpid`` of ``self`` then has one number for each namespace on the way down (proc_pid_status(5)).
    """
    try:
        with files.directory("proc") as descriptor:
            if _filesystem(descriptor) != _MAGIC:
                return "the process table is no procfs: the board is driven from files"
        rows = files.read("proc/self/status").decode(errors="replace").splitlines()
    except OSError as error:
        return why(error, "proc/self/status")
    seen = next((row.split()[1:] for row in rows if row.startswith("NSpid:")), [])
    return "" if seen == [str(os.getpid())] else "the process table is that of another pid namespace"


def _filesystem(descriptor: int) -> int:
    """The type of the file system of an open file; ``os.statvfs`` does not tell it.

    Raises:
        OSError: as fstatfs(2).
    """
    library = ctypes.CDLL(None, use_errno=True)
    answer = ctypes.create_string_buffer(_STATFS_BYTES)
    if library.fstatfs(descriptor, answer) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return ctypes.c_long.from_buffer(answer).value

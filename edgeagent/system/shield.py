"""Keeps the agent answering while the board runs out of memory."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import resource
from pathlib import Path

_MCL_CURRENT = 1
_MCL_FUTURE = 2
_MCL_ONFAULT = 4
_M_ARENA_MAX = -8  # malloc.h, mallopt(3)
_CAP_IPC_LOCK = 14  # linux/capability.h


def lock_memory(status: Path = Path("/proc/self/status")) -> str:
    """Keep every page of the process in memory, now and later; why that cannot be, or an empty text.

    Under reclaim a process whose code was dropped reads it back from a slow disk, just when it
    has to act. ``MCL_ONFAULT`` locks pages when they are first touched: without it everything
    mapped, a third more than is used, would be made resident.

    ``status`` tells the capabilities of this process.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if limit != resource.RLIM_INFINITY and not _may_lock(status):
        # A finite limit could be large enough now and make an allocation fail later.
        return f"no CAP_IPC_LOCK, and RLIMIT_MEMLOCK is {limit // 1024} KiB"
    library = ctypes.CDLL(None, use_errno=True)
    if library.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) == 0:
        return ""
    code = ctypes.get_errno()
    name = errno.errorcode.get(code, str(code))
    return f"mlockall answered {name}: {os.strerror(code)}"


def _may_lock(status: Path) -> bool:
    try:
        text = status.read_text()
    except OSError:
        return False
    row = next((line for line in text.splitlines() if line.startswith("CapEff:")), "CapEff: 0")
    return bool(int(row.split()[1], 16) >> _CAP_IPC_LOCK & 1)


def one_heap() -> None:
    """Call before the first thread: all of them allocate from one heap, where glibc would give each its own.

    Little is allocated outside of Python's own lock, so that nobody waits for it.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # musl has one heap
        library.mallopt(_M_ARENA_MAX, 1)


def settle() -> None:
    """Call once after the start: what exists then lives for ever, and no later collection walks through it again.

    What the start has left over goes back to the board.
    """
    gc.collect()
    gc.freeze()
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):  # malloc_trim(3) is glibc's
        library.malloc_trim(0)

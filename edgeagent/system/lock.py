"""One instance per runtime directory: two would fight over the node's capacity and evict for the same breach twice."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from edgeagent.errors import AlreadyRunningError, InputError

NAME = "lock"


@contextlib.contextmanager
def only_instance(runtime: Path) -> Iterator[None]:
    """Hold ``<runtime>/lock`` while the context is open; the kernel lets go of it if the process dies.

    The descriptor is closed on exec, so no child keeps the lock. The file stays: deleting it
    would let a third instance lock a new one while the second waits on the old.

    Raises:
        AlreadyRunningError: another process holds it.
        InputError: the file cannot be opened.
    """
    path = runtime / NAME
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise InputError(f"{path}: cannot be opened: {error.strerror}") from error
    try:
        _take(descriptor, runtime)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, runtime: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        which = f" (pid {holder})" if holder.isdigit() else ""
        raise AlreadyRunningError(f"another instance{which} runs with the runtime directory {runtime}") from error
    # The pid is for that message only: a full disk must not keep the agent from starting.
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)

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
    would let a second instance lock a new one while the first holds the old.

    Raises:
        AlreadyRunningError: another process holds it.
        InputError: the file cannot be opened.
    """
    path = runtime / NAME
    try:
        descriptor = _opened(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be opened: {error.strerror}") from error
    try:
        _take(descriptor, runtime)
        try:
            yield
        finally:
            _note(descriptor, b"")
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    """A descriptor of the lock file, which is made if it is not there.

    Root of a pod without CAP_DAC_OVERRIDE may not write the file of the service's user. To lock it, reading is enough.
    """
    flags = os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_RDWR | os.O_CREAT, 0o644)
    except PermissionError:
        if not path.exists():
            raise
        return os.open(path, flags | os.O_RDONLY)


def _take(descriptor: int, runtime: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        # One who could not write its pid leaves that of a process before it, which may have been killed.
        which = f" (pid {holder})" if holder.isdigit() and Path("/proc", holder).exists() else ""
        raise AlreadyRunningError(f"another instance{which} runs with the runtime directory {runtime}") from error
    _note(descriptor, f"{os.getpid()}\n".encode())


def _note(descriptor: int, content: bytes) -> None:
    """Who holds it. For a message only: neither a full disk nor a file of another user keeps the agent from running."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, content, 0)

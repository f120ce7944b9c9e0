"""The two directories of the agent, and files in them that are whole or not there."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from edgeagent.errors import InputError

STATE = Path("/var/lib/edgeagent")
RUNTIME = Path("/run/edgeagent")
ADDRESS = "address"


def state(flag: Path | None, environ: Mapping[str, str]) -> Path:
    """Where what outlives the process is kept: ``--state-dir``, $STATE_DIRECTORY of systemd, or the default."""
    return flag or _first(environ.get("STATE_DIRECTORY", "")) or STATE


def runtime(flag: Path | None, environ: Mapping[str, str]) -> Path:
    """Where what ends with the process is kept: ``--runtime-dir``, $RUNTIME_DIRECTORY of systemd, or the default."""
    return flag or _first(environ.get("RUNTIME_DIRECTORY", "")) or RUNTIME


def _first(text: str) -> Path | None:
    """The first of the directories that systemd separates by colons."""
    name = text.partition(":")[0]
    return Path(name) if name else None


def prepare(path: Path, *, private: bool = False) -> Path:
    """Make the directory, with those above it, if it is not there. ``private``: for its owner alone.

    Raises:
        InputError: not there and not to be made, or no directory.
    """
    try:
        path.mkdir(mode=0o700 if private else 0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be made: {error.strerror}; another place can be given as an option"
        ) from error
    return path


def opened(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A descriptor of the regular file at ``path``. Never waits, and never follows a link that somebody put there.

    Raises:
        OSError: it is not there, may not be opened, or is something else.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no regular file", str(path))
    return descriptor


def tidy(path: Path) -> None:
    """Remove what processes that were killed in :func:`write` have left beside ``path``; nobody may be writing it."""
    for left in path.parent.glob(f".{path.name}.*"):
        with contextlib.suppress(OSError):
            left.unlink()


def write(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Replace the file as a whole: who reads it, or a power cut, finds the old content or the new one.

    Raises:
        OSError: no space, no permission; the old file is as it was.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def forget_address(runtime: Path) -> None:
    """Nobody listens there any more."""
    with contextlib.suppress(OSError):
        (runtime / ADDRESS).unlink()


def write_address(runtime: Path, address: str) -> str:
    """Say in ``<runtime>/address`` where the endpoint listens; why that cannot be, or an empty text.

    ``address`` is ``HOST:PORT`` with the real port. The file is a convenience: no file is needed to run.
    """
    try:
        write(runtime / ADDRESS, f"{address}\n".encode())
    except OSError as error:
        return f"{runtime / ADDRESS}: {error.strerror}"
    return ""

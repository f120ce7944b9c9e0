"""The bearer token of the endpoint, read again when its file changes."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import stat
from pathlib import Path

from edgeagent.errors import ConfigError

POLL = 2.0
"""Seconds between looks at the file."""
_LONGEST = 4096
_SCHEME = "bearer"
_log = logging.getLogger(__name__)


def exposed(path: str | Path) -> str:
    """What is wrong with who may read the token's file; empty: nothing, or it is not there to be looked at."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 (text or path)
    except OSError:
        return ""
    return _exposed(path, mode)


def _exposed(path: str | Path, mode: int) -> str:
    if not mode & stat.S_IROTH:
        return ""
    return f"{path}: everybody on this machine can read the token (mode {stat.S_IMODE(mode):04o}): chmod o= {path}"


class Token:
    """What a request has to bring. While the file cannot be read, or is empty, nothing is accepted.

    Args:
        path: of the file; white space around its content does not count.
        poll: seconds between looks at the file.
    """

    def __init__(self, path: Path, *, poll: float = POLL) -> None:
        self._path = path
        self._poll = poll
        self._expected = b""
        self._seen: object = None
        self._exposed = ""
        self._watcher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the file, and keep looking at it.

        Raises:
            ConfigError: it cannot be read or is empty.
        """
        problem = await asyncio.to_thread(self._read)
        if problem:
            raise ConfigError(f"serve.token_file: {problem}")
        self._watcher = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Stop looking at the file."""
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
            self._watcher = None

    def accepts(self, header: str) -> bool:
        """Whether an ``Authorization`` header brings the token. How long that takes tells nothing."""
        scheme, _, given = header.partition(" ")
        if scheme.lower() != _SCHEME or not self._expected:
            return False
        return hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), self._expected)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._poll)
            problem = await asyncio.to_thread(self._read)
            if problem:
                _log.warning("nothing is served but health: serve.token_file: %s", problem)

    def _read(self) -> str:
        """Take the token from the file if it changed; what is wrong with it, or an empty text."""
        try:
            with self._path.open("rb") as file:
                told = os.fstat(file.fileno())
                self._look(told.st_mode)
                seen = (told.st_ino, told.st_size, told.st_mtime_ns)
                if seen != self._seen:
                    self._expected = file.read(_LONGEST).strip()
                    self._seen = seen
        except OSError as error:
            self._expected, self._seen = b"", None
            return f"{self._path}: cannot be read: {error.strerror}"
        return "" if self._expected else f"{self._path}: is empty"

    def _look(self, mode: int) -> None:
        """Say once, and again after it was right, that others can read the file. It is used all the same."""
        exposed = _exposed(self._path, mode)
        if exposed and not self._exposed:
            _log.warning("serve.token_file: %s", exposed)
        self._exposed = exposed

"""Files with some of them replaced or hidden, to ask what would be read if they were so."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgeagent.host.paths import LIMIT

if TYPE_CHECKING:
    from edgeagent.host.files import Files


class OverlayFiles:
    """``files``, but for ``changed``: content by path relative to the root, None for a file that is not there.

    Regular files alone, and no link leads to them. Their folders need not exist.
    """

    def __init__(self, files: Files, changed: Mapping[str, bytes | None]) -> None:
        self._files = files
        self._changed = changed

    def read(self, path: str, *, keep: bool = False, limit: int = LIMIT) -> bytes:
        """See ``Files.read``."""
        if path.strip("/") not in self._changed:
            return self._files.read(path, keep=keep, limit=limit)
        content = self._changed[path.strip("/")]
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return content

    def names(self, path: str) -> tuple[str, ...]:
        """See ``Files.names``."""
        folder = path.strip("/")
        inside = {name.rpartition("/")[2]: name for name in self._changed if name.rpartition("/")[0] == folder}
        added = {name for name, whole in inside.items() if self._changed[whole] is not None}
        try:
            there = set(self._files.names(path))
        except FileNotFoundError:
            if not added:
                raise
            there = set()
        return tuple(sorted(there - inside.keys() | added))

    def folders(self, path: str) -> tuple[str, ...]:
        """See ``Files.folders``."""
        return self._files.folders(path)

    def links(self, path: str) -> dict[str, str]:
        """See ``Files.links``."""
        return self._files.links(path)

    def link(self, path: str) -> str | None:
        """See ``Files.link``."""
        return self._files.link(path)

    def device(self, path: str) -> str:
        """See ``Files.device``."""
        return self._files.device(path)

    def exists(self, path: str) -> bool:
        """See ``Files.exists``."""
        if path.strip("/") in self._changed:
            return self._changed[path.strip("/")] is not None
        return self._files.exists(path)

    def stamp(self, path: str) -> object:
        """See ``Files.stamp``; of a replaced file its content."""
        if path.strip("/") in self._changed:
            return self._changed[path.strip("/")]
        return self._files.stamp(path)

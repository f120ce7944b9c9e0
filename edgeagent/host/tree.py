"""Files in memory: a recorded board."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import TypeAlias

from edgeagent.host.paths import LIMIT, parts, resolve, too_long

Entry: TypeAlias = "bytes | str | None"
"""A file's content, a link's text, or None for a directory."""

_Node: TypeAlias = "bytes | str | dict[str, _Node]"


class TreeFiles:
    """Files in memory, from a recording. Parent directories need no entry of their own."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        """Takes paths relative to the root.

        Raises:
            ValueError: an entry lies below something that is not a directory.
        """
        self._top: dict[str, _Node] = {}
        for path, entry in entries.items():
            self._add(path, entry)

    def read(self, path: str, *, keep: bool = False, limit: int = LIMIT) -> bytes:  # noqa: ARG002 (nothing to keep)
        """See ``Files.read``."""
        node = resolve(self, path)
        if not isinstance(node, bytes):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if len(node) > limit:
            raise too_long(path, limit)
        return node

    def names(self, path: str) -> tuple[str, ...]:
        """See ``Files.names``."""
        return tuple(sorted(self._directory(path)))

    def folders(self, path: str) -> tuple[str, ...]:
        """See ``Files.folders``."""
        return tuple(sorted(name for name, node in self._directory(path).items() if isinstance(node, dict)))

    def links(self, path: str) -> dict[str, str]:
        """See ``Files.links``."""
        return {name: node for name, node in sorted(self._directory(path).items()) if isinstance(node, str)}

    def link(self, path: str) -> str | None:
        """See ``Files.link``."""
        return self.target(resolve(self, path, follow=False))

    def device(self, path: str) -> str:
        """See ``Files.device``."""
        return self.read(path).decode(errors="replace").strip()

    def exists(self, path: str) -> bool:
        """See ``Files.exists``."""
        return self.stamp(path) is not None

    def stamp(self, path: str) -> object:
        """See ``Files.stamp``."""
        try:
            node = resolve(self, path)
        except OSError:
            return None
        return tuple(sorted(node)) if isinstance(node, dict) else node

    def top(self) -> _Node:
        """See ``Tree.top``."""
        return self._top

    def child(self, parent: _Node, name: str) -> _Node:
        """See ``Tree.child``."""
        if not isinstance(parent, dict):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
        if name not in parent:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return parent[name]

    def target(self, node: _Node) -> str | None:
        """See ``Tree.target``."""
        return node if isinstance(node, str) else None

    def release(self, node: _Node) -> None:
        """See ``Tree.release``."""

    def _directory(self, path: str) -> dict[str, _Node]:
        node = resolve(self, path)
        if not isinstance(node, dict):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _add(self, path: str, entry: Entry) -> None:
        *above, name = parts(path)
        folder = self._top
        for step in above:
            below = folder.setdefault(step, {})
            if not isinstance(below, dict):
                raise ValueError(f"{path} lies below a file or a link")  # noqa: TRY004 (wrong content, not a wrong type of argument)
            folder = below
        if entry is None:
            folder.setdefault(name, {})
        elif isinstance(folder.get(name), dict):
            raise ValueError(f"{path} is both a directory and a file or a link")
        else:
            folder[name] = entry

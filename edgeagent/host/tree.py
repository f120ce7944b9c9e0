"""Files in memory: a recorded board."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Mapping
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
        self._entries = {"/".join(parts(path)): entry for path, entry in entries.items()}
        self._top: dict[str, _Node] = {}
        for path, entry in self._entries.items():
            self._add(path, entry)

    def overlay(self, changes: Mapping[str, Entry], removed: Collection[str] = ()) -> TreeFiles:
        """A new tree without the paths in ``removed`` (and all below them) and with ``changes``.

        A change takes the place of whatever stands at its path or in its way.
        """
        gone = {"/".join(parts(path)) for path in removed}
        new = {"/".join(parts(path)): entry for path, entry in changes.items()}
        in_the_way = gone | {path for path, entry in new.items() if entry is not None}
        parents = {parent for path in new for parent in _ancestors(path)}
        kept = {
            path: entry
            for path, entry in self._entries.items()
            if path not in in_the_way
            and not in_the_way.intersection(_ancestors(path))
            and not (path in parents and entry is not None)
        }
        return TreeFiles({**kept, **new})

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
                message = f"{path} lies below a file or a link"
                raise ValueError(message)  # noqa: TRY004 (wrong content, not a wrong type of argument)
            folder = below
        if entry is None:
            folder.setdefault(name, {})
        elif isinstance(folder.get(name), dict):
            message = f"{path} is both a directory and a file or a link"
            raise ValueError(message)
        else:
            folder[name] = entry


def _ancestors(path: str) -> list[str]:
    steps = path.split("/")
    return ["/".join(steps[:count]) for count in range(1, len(steps))]

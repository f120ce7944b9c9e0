"""Trees of files for the tests of readers: faults on demand, and a count of what was asked."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Mapping

from edgeagent.host.files import Entry, TreeFiles
from edgeagent.host.paths import LIMIT


class FaultyFiles:
    """A tree in memory in which some paths answer with an error number; ``calls`` counts by (what, path)."""

    def __init__(self, entries: Mapping[str, Entry], faults: Mapping[str, int] | None = None) -> None:
        self._entries = dict(entries)
        self.tree = TreeFiles(entries)
        self.faults = dict(faults or {})
        self.calls: Counter[tuple[str, str]] = Counter()

    def change(self, changes: Mapping[str, Entry], removed: str | None = None) -> None:
        """Replace or add entries, after all below the folder ``removed`` is gone."""
        kept = {
            path: entry
            for path, entry in self._entries.items()
            if removed is None or not f"{path}/".startswith(f"{removed}/")
        }
        self._entries = {**kept, **changes}
        self.tree = TreeFiles(self._entries)

    def read(self, path: str, *, keep: bool = False, limit: int = LIMIT) -> bytes:
        self._note("read", path)
        return self.tree.read(path, keep=keep, limit=limit)

    def names(self, path: str) -> tuple[str, ...]:
        self._note("names", path)
        return self.tree.names(path)

    def folders(self, path: str) -> tuple[str, ...]:
        self._note("folders", path)
        return self.tree.folders(path)

    def links(self, path: str) -> dict[str, str]:
        self._note("links", path)
        return self.tree.links(path)

    def link(self, path: str) -> str | None:
        self._note("link", path)
        return self.tree.link(path)

    def device(self, path: str) -> str:
        self._note("device", path)
        return self.tree.device(path)

    def exists(self, path: str) -> bool:
        self._note("exists", path)
        return self.tree.exists(path)

    def stamp(self, path: str) -> object:
        self._note("stamp", path)
        return self.tree.stamp(path)

    def _note(self, what: str, path: str) -> None:
        self.calls[what, path] += 1
        if path in self.faults:
            raise OSError(self.faults[path], os.strerror(self.faults[path]), path)


EACCES = errno.EACCES
EIO = errno.EIO

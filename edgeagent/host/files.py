"""Files under a configurable root: ``/``, ``/host``, a test tree on disk, a recording in memory.

Every path is relative to the root (``proc/meminfo``). Links are resolved inside the root
and never lead out of it. Failures are OSError, as the functions of ``os`` raise them.
"""

from __future__ import annotations

from typing import Protocol

from edgeagent.host.disk import RootFiles
from edgeagent.host.paths import LIMIT
from edgeagent.host.tree import Entry, TreeFiles

__all__ = ["Entry", "Files", "RootFiles", "TreeFiles", "names", "there"]


class Files(Protocol):
    """Read access to a tree of files."""

    def read(self, path: str, *, keep: bool = False, limit: int = LIMIT) -> bytes:
        """The whole content of a regular file.

        ``keep`` holds the file open for the next call where the kernel makes its content
        (procfs, sysfs): such a file is never replaced by another one.

        Raises:
            OSError: not there, not readable, not a regular file, or longer than ``limit`` bytes.
        """
        ...

    def names(self, path: str) -> tuple[str, ...]:
        """The sorted names in a directory.

        Raises:
            OSError: not there, not readable, not a directory.
        """
        ...

    def folders(self, path: str) -> tuple[str, ...]:
        """The sorted names of the directories in a directory, links to directories left out.

        Raises:
            OSError: as ``names``.
        """
        ...

    def links(self, path: str) -> dict[str, str]:
        """The texts of all symbolic links in a directory, by name.

        Raises:
            OSError: as ``names``.
        """
        ...

    def link(self, path: str) -> str | None:
        """The text of a symbolic link; None where something else stands.

        Raises:
            OSError: nothing there, or not readable.
        """
        ...

    def device(self, path: str) -> str:
        """Owner and mode of a device node, ``uid=0 gid=44 mode=660``: in a recording the content of its file.

        Raises:
            OSError: not there, not a device node, or in a recording nobody has noted them.
        """
        ...

    def exists(self, path: str) -> bool:
        """Whether there is anything, at the end of all links.

        Raises:
            OSError: it cannot be told (no permission).
        """
        ...

    def stamp(self, path: str) -> object:
        """A value that changes when a file or the list of a directory changes; None where nothing is."""
        ...


def there(files: Files, path: str) -> bool:
    """Whether there is anything; where that cannot be told, nothing is."""
    try:
        return files.exists(path)
    except OSError:
        return False


def names(files: Files, path: str) -> tuple[str, ...]:
    """The sorted names in a directory; none where it cannot be listed."""
    try:
        return files.names(path)
    except OSError:
        return ()

"""Notes what the readers of a board ask its files for, and what they were told: the raw material of a snapshot.

No list of paths is kept here that a reader could outgrow: what is not asked for is not
recorded, and what is asked for is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgeagent.host.paths import LIMIT, MAX_LINKS, parts
from edgeagent.snapshot.archive import above

if TYPE_CHECKING:
    from edgeagent.host.files import Entry, Files


class NotingFiles:
    """Files that pass every question on and note the answer. Safe for use from one thread at a time."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._read: dict[str, bytes] = {}
        self._links: dict[str, str] = {}
        self._there: dict[str, Entry] = {}
        self._listed: dict[str, tuple[str, ...]] = {}
        self._asked: set[str] = set()
        self.refused: dict[str, str] = {}
        """Why a path could not be read, for each that is there and was refused."""

    def read(self, path: str, *, keep: bool = False, limit: int = LIMIT) -> bytes:
        """See ``Files.read``."""
        with self._asking(path) as name:
            content = self._read[name] = self._files.read(path, keep=keep, limit=limit)
        return content

    def names(self, path: str) -> tuple[str, ...]:
        """See ``Files.names``."""
        with self._asking(path) as name:
            found = self._listed[name] = self._files.names(path)
            self._there[name] = None
        return found

    def folders(self, path: str) -> tuple[str, ...]:
        """See ``Files.folders``."""
        with self._asking(path) as name:
            found = self._files.folders(path)
            self._there[name] = None
        return found

    def links(self, path: str) -> dict[str, str]:
        """See ``Files.links``."""
        with self._asking(path) as name:
            found = self._files.links(path)
            self._there[name] = None
            self._links.update({f"{name}/{link}": text for link, text in found.items()})
        return found

    def link(self, path: str) -> str | None:
        """See ``Files.link``."""
        with self._asking(path) as name:
            text = self._files.link(path)
            if text is None:
                self._exists(name)
            else:
                self._links[name] = text
        return text

    def device(self, path: str) -> str:
        """See ``Files.device``."""
        with self._asking(path) as name:
            told = self._files.device(path)
            self._read[name] = f"{told}\n".encode()
        return told

    def exists(self, path: str) -> bool:
        """See ``Files.exists``."""
        return self.stamp(path) is not None

    def stamp(self, path: str) -> object:
        """See ``Files.stamp``."""
        with self._asking(path) as name:
            stamp = self._files.stamp(path)
            if stamp is not None:
                self._exists(name)
        return stamp

    def entries(self, listed: Callable[[str], bool]) -> dict[str, Entry]:
        """What stands where, by path: content, the text of a link, None for a directory.

        A file that was only asked whether it is there is empty. Of the names in a directory
        those are kept that were asked for, and those of whose path ``listed`` says so.
        """
        there = dict(self._there)
        for folder, names in self._listed.items():
            for path in (f"{folder}/{name}" for name in names):
                if path in self._asked or listed(path):
                    there.setdefault(path, None)
        links = dict(self._links)
        for _ in range(MAX_LINKS):  # one link may have been asked for through another
            placed = {_folder_of(path, links): text for path, text in links.items()}
            if placed == links:
                break
            links = placed
        found: dict[str, Entry] = {_end_of(path, links): entry for path, entry in there.items()}
        found |= {_end_of(path, links): content for path, content in self._read.items()}
        found |= links
        full = {folder for path in found for folder in above(path)}
        return {path: entry for path, entry in sorted(found.items()) if entry is None or path not in full}

    @contextmanager
    def _asking(self, path: str) -> Iterator[str]:
        name = "/".join(parts(path))
        self._asked.add(name)
        try:
            yield name
        except IsADirectoryError:
            self._there[name] = None
            raise
        except NotADirectoryError:
            raise
        except (FileNotFoundError, ProcessLookupError):
            # What an earlier question was told is over: a process may have ended in between.
            self._read.pop(name, None)
            self._there.pop(name, None)
            raise
        except OSError as error:
            self.refused[name] = error.strerror or str(error)
            raise

    def _exists(self, name: str) -> None:
        try:
            self._files.names(name)
        except NotADirectoryError:
            self._there.setdefault(name, b"")
        except OSError:  # a directory that may not be listed
            self._there[name] = None
        else:
            self._there[name] = None


def _end_of(path: str, links: Mapping[str, str]) -> str:
    """Where ``path`` leads through ``links``: nothing can lie below a link in a snapshot."""
    for _ in range(MAX_LINKS):
        link = next((step for step in (*above(path), path) if step in links), None)
        if link is None:
            break
        target = links[link]
        base = "" if target.startswith("/") else link.rpartition("/")[0]
        path = "/".join(_normal(f"{base}/{target}/{path[len(link) :]}"))
    return path


def _folder_of(path: str, links: Mapping[str, str]) -> str:
    """As ``_end_of``, for the link itself at the end of ``path``."""
    folder, slash, name = path.rpartition("/")
    return f"{_end_of(folder, links)}{slash}{name}"


def _normal(path: str) -> list[str]:
    found: list[str] = []
    for step in parts(path):
        if step == "..":
            del found[-1:]
        else:
            found.append(step)
    return found

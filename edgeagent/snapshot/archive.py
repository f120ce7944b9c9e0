"""Reads a snapshot, a directory or a ``.tar.gz`` of one, into memory. Nothing is ever unpacked to disk."""

from __future__ import annotations

import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from edgeagent.errors import InputError

if TYPE_CHECKING:
    from edgeagent.host.files import Entry

_CHUNK = 1024**2
LIMIT = 512 * 1024**2
"""Bytes that all files of one snapshot may have together."""


def load(path: Path) -> dict[str, Entry]:
    """Every entry by its path relative to the snapshot.

    Raises:
        InputError: not there, not readable, no snapshot.
    """
    try:
        # A folder that is none may hold anything: what is not there is said before anything is read.
        entries = {} if path.is_dir() and not (path / "snapshot.yaml").exists() else _entries(path)
    except (OSError, tarfile.TarError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read as a snapshot: {_why(error)}") from error
    if "snapshot.yaml" not in entries:
        raise InputError(f"{path}: is no snapshot: it has no snapshot.yaml")
    return entries


def above(name: str) -> list[str]:
    """The folders that an entry is in, the outermost first."""
    steps = name.split("/")
    return ["/".join(steps[:count]) for count in range(1, len(steps))]


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or " ".join(str(error).split())


def _entries(path: Path) -> dict[str, Entry]:
    return _directory(path) if path.is_dir() else _archive(path)


def _directory(top: Path) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    size = 0
    folders = [top]
    while folders:
        for item in sorted(folders.pop().iterdir()):
            name = item.relative_to(top).as_posix()
            if item.is_symlink():
                entries[name] = str(item.readlink())
            elif item.is_dir():
                entries[name] = None
                folders.append(item)
            elif item.is_file():
                size = _checked(size + item.stat().st_size)
                entries[name] = item.read_bytes()
    return entries


def _archive(path: Path) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    size = 0
    with tarfile.open(path, "r:*") as archive:
        for member in archive:
            name = _name(member.name)
            if not name:
                continue
            if member.issym():
                entries[name] = member.linkname
            elif member.isdir():
                entries[name] = None
            elif member.islnk():
                # A second name of a file that came before: tar stores its content once.
                entries[name] = _linked(entries, member)
            elif member.isfile() and (content := archive.extractfile(member)):
                size = _checked(size + member.size)
                entries[name] = content.read()
        # The checksum stands at the end, which tar itself does not read up to.
        while archive.fileobj.read(_CHUNK):
            pass
    return _without_top(entries)


def _linked(entries: dict[str, Entry], member: tarfile.TarInfo) -> Entry:
    first = _name(member.linkname)
    if first not in entries:
        raise OSError(f"{member.name} is a link to {member.linkname}, which is not in it")
    return entries[first]


def _checked(size: int) -> int:
    if size > LIMIT:
        raise OSError(f"larger than {LIMIT} bytes")
    return size


def _name(name: str) -> str:
    parts = [part for part in PurePosixPath(name).parts if part not in ("/", ".")]
    return "" if ".." in parts or "\0" in name else "/".join(parts)


def _without_top(entries: dict[str, Entry]) -> dict[str, Entry]:
    """Archives of a directory carry its name in front of every path."""
    if "snapshot.yaml" in entries:
        return entries
    tops = {name.partition("/")[0] for name in entries}
    if len(tops) != 1:
        return entries
    return {name.partition("/")[2]: entry for name, entry in entries.items() if "/" in name}

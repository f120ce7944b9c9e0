"""Writes a snapshot as a folder or as a ``.tar.gz`` of one: whole, or not at all."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.errors import InputError

if TYPE_CHECKING:
    from edgeagent.host.files import Entry

ARCHIVE = ".tar.gz"
_TOP = "snapshot"
"""The folder in an archive. Its own name may be the machine's."""


def check(target: Path) -> None:
    """Whether ``target`` can be written: it does not exist, and its folder does.

    Raises:
        InputError: it cannot.
    """
    if os.path.lexists(target):
        raise InputError(f"{target}: exists already; nothing is written over")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent}: is no directory")


def write(target: Path, entries: Mapping[str, Entry], taken: float) -> None:
    """Writes ``entries`` to ``target``, which stands there when all of it is written. ``taken``: Unix time.

    Raises:
        InputError: it cannot be written; nothing is left behind.
    """
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if target.name.endswith(ARCHIVE):
            beside.write_bytes(archive(entries, taken))
        else:
            _folder(beside, entries)
        check(target)
        beside.rename(target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        _remove(beside)


def _remove(beside: Path) -> None:
    # In a folder that may not be looked into nothing was written either.
    with contextlib.suppress(OSError):
        if beside.is_dir():
            shutil.rmtree(beside, ignore_errors=True)
        else:
            beside.unlink(missing_ok=True)


def _folder(top: Path, entries: Mapping[str, Entry]) -> None:
    top.mkdir()
    for name, entry in entries.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry is None:
            path.mkdir(exist_ok=True)
        elif isinstance(entry, str):
            path.symlink_to(entry)
        else:
            path.write_bytes(entry)


def archive(entries: Mapping[str, Entry], taken: float) -> bytes:
    """A ``.tar.gz`` of ``entries``; owners and times of the files are nobody's. ``taken``: Unix time."""
    content = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=content, mtime=int(taken)) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for name, entry in entries.items():
            member = tarfile.TarInfo(f"{_TOP}/{name}")
            member.mtime = int(taken)
            if entry is None:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
            elif isinstance(entry, str):
                member.type, member.linkname = tarfile.SYMTYPE, entry
            else:
                member.size = len(entry)
            archive.addfile(member, io.BytesIO(entry) if isinstance(entry, bytes) else None)
    return content.getvalue()

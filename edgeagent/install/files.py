"""Writes files below a root, and takes them away, without harm to what others wrote.

What is to be done is known before anything is: :func:`compare` and :func:`removable` only look.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edgeagent.errors import InputError
from edgeagent.install import marks
from edgeagent.system import dirs

NEW = ".new"
"""Beside a file that someone has edited: what install would have written. Nothing reads a file of such a name."""
BACKUP = ".bak"


@dataclass(frozen=True, slots=True)
class File:
    """One file as it should be. ``path`` is absolute on the machine that it is for."""

    path: str
    content: bytes
    personal: bool = False
    """A configuration: made to be edited, so whatever is there stays, and nothing has to be said about it."""


@dataclass(frozen=True, slots=True)
class Write:
    """One write that is due."""

    file: File
    target: str
    """Where it goes: the file's own path, or beside it."""
    backup: bool = False
    """What is there is kept under another name."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What has to be written, what stays although it is not as it should be, and what must not be written over."""

    writes: tuple[Write, ...]
    kept: tuple[str, ...]
    problems: tuple[str, ...]


def compare(root: Path, files: Iterable[File], *, force: bool) -> Comparison:
    """Compare what is below ``root`` with ``files``; ``force`` replaces what others wrote, and keeps a backup.

    Raises:
        InputError: a file cannot be looked at.
    """
    writes: list[Write] = []
    kept: list[str] = []
    problems: list[str] = []
    for file in files:
        found = content(root, file.path)
        if found == file.content or (found is not None and file.personal):
            continue
        if found is None or marks.author(found) == "ours":
            writes.append(Write(file, file.path))
        elif force:
            writes.append(Write(file, file.path, backup=True))
        elif marks.author(found) == "edited":
            beside = file.path + NEW
            kept.append(f"{file.path} was edited and is kept; the new one is beside it as {beside} (--force replaces)")
            if content(root, beside) != file.content:
                writes.append(Write(file, beside))
        else:
            problems.append(
                f"{file.path}: was not written by edgeagent install; move it away, or --force keeps it as {BACKUP}"
            )
    return Comparison(tuple(writes), tuple(kept), tuple(problems))


def write(root: Path, due: Write) -> str | None:
    """Carry out one write; the name of the backup, if there is one.

    Raises:
        InputError: it cannot be written; what was there still is.
    """
    target = place(root, due.target)
    try:
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        kept = _keep(target) if due.backup else None
        try:
            dirs.write(target, due.file.content)
        except OSError:
            if kept:
                kept.unlink()
            raise
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}") from error
    return str(kept) if kept else None


def removable(root: Path, paths: Iterable[str], *, force: bool) -> tuple[list[str], list[str]]:
    """(paths to remove, sentences about those that stay). Only what install wrote goes, or all of it with ``force``.

    Raises:
        InputError: a file cannot be looked at.
    """
    gone: list[str] = []
    kept: list[str] = []
    for path in paths:
        found = content(root, path)
        if found is None:
            continue
        by = marks.author(found)
        if by == "ours" or force:
            gone.append(path)
        else:
            why = "was edited" if by == "edited" else "was not written by edgeagent install"
            kept.append(f"{path} {why} and is kept (--force removes it)")
    return gone, kept


def backups(root: Path, path: str) -> list[str]:
    """What a write over ``path`` has put aside.

    Raises:
        InputError: a link leads out of ``root``.
    """
    beside = place(root, path)
    name = re.compile(re.escape(beside.name + BACKUP) + r"\d*", re.ASCII)
    found = sorted(entry.name for entry in beside.parent.glob(f"*{BACKUP}*") if name.fullmatch(entry.name))
    return [f"{path.rpartition('/')[0]}/{entry}" for entry in found]


def remove(root: Path, path: str) -> None:
    """Remove one file; it may be gone already.

    Raises:
        InputError: it cannot be removed.
    """
    try:
        place(root, path).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be removed: {error.strerror}") from error


def remove_folder(root: Path, path: str) -> None:
    """Remove a folder with all that is in it; of a link to one the link alone.

    Raises:
        InputError: not all of it can be removed.
    """
    found = place(root, path)
    try:
        if found.is_symlink():
            found.unlink()
        else:
            shutil.rmtree(found)
    except OSError as error:
        raise InputError(f"{path}: cannot be removed: {error.strerror}") from error


def content(root: Path, path: str) -> bytes | None:
    """What is at ``path``; None where nothing is. A link, as of a masked unit, is never a file of ours: its text.

    Raises:
        InputError: it cannot be read, or is neither file nor link.
    """
    found = place(root, path)
    try:
        return os.fsencode(found.readlink()) if found.is_symlink() else found.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{found}: cannot be read: {error.strerror}") from error


def place(root: Path, path: str) -> Path:
    """Where ``path`` of the machine below ``root`` is.

    Raises:
        InputError: a link leads out of ``root``.
    """
    found = root / path.lstrip("/")
    if not found.parent.resolve().is_relative_to(root.resolve()):
        raise InputError(f"{found.parent}: leads out of {root}")
    return found


def _keep(target: Path) -> Path:
    """Give the file a second name that nothing has yet. The first one stays until something else takes it over."""
    number = 0
    while True:
        free = target.with_name(f"{target.name}{BACKUP}{number or ''}")
        try:
            os.link(target, free, follow_symlinks=False)
        except FileExistsError:
            number += 1
        else:
            return free

"""A bounded file of JSON lines that outlives a power cut: whole lines, the oldest ones go first.

``incidents.jsonl`` is appended to. When it is full it becomes ``incidents.1.jsonl``, in the place of the one before.
A line counts once it is on the disk. What a power cut leaves of the last one, and whatever else is no line of ours, is
passed over by readers, and the next line begins on a line of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from edgeagent.system import dirs

NAME = "incidents.jsonl"
BEFORE = "incidents.1.jsonl"
LIMIT = 1024**2
"""Bytes of one of the two files, at most."""
LONGEST = 16 * 1024
"""Bytes of one line with its end, at most; a longer one is none of ours."""


class Line(NamedTuple):
    """One line that was read. ``value`` is None where it is not whole, or no JSON object."""

    value: dict[str, Any] | None


class Appended(NamedTuple):
    """What became of lines: how many of them, from the first on, are on the disk, and why the others are not."""

    lines: int
    problem: str = ""


def encoded(record: Any) -> bytes:
    """The record as a line; control characters and line ends in it are escaped."""
    return json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"


def append(folder: Path, lines: Sequence[bytes]) -> Appended:
    """Write the lines and wait until they are on the disk. Never raises for what a disk does.

    Each line is one of :func:`encoded`, no longer than ``LONGEST``.
    """
    done = 0
    try:
        while done < len(lines):
            with _opened(folder) as descriptor:
                size, torn = _end(descriptor)
                taken = _taken(lines[done:], LIMIT - size - torn)
                if taken:
                    _write(descriptor, b"\n" * torn + b"".join(lines[done : done + taken]), size)
            done += taken
            if done < len(lines):
                (folder / NAME).replace(folder / BEFORE)
                _flush(folder)
    except OSError as error:
        return Appended(done, f"{folder / NAME}: {error.strerror}")
    return Appended(done)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    path = folder / NAME
    new = not path.exists()
    descriptor = dirs.opened(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        if new:
            _flush(folder)
        yield descriptor
    finally:
        os.close(descriptor)


def _end(descriptor: int) -> tuple[int, bool]:
    """The size of the file, and whether its last line has no end."""
    size = os.fstat(descriptor).st_size
    return size, size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def _taken(lines: Sequence[bytes], room: int) -> int:
    """How many of the lines there is room for."""
    for count, line in enumerate(lines):
        room -= len(line)
        if room < 0:
            return count
    return len(lines)


def _write(descriptor: int, content: bytes, size: int) -> None:
    try:
        left = content
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except OSError:
        # Half of it is worse than nothing: it would come again with the next attempt.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def _flush(folder: Path) -> None:
    """Let the names in the folder be on the disk too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(folder: Path) -> Iterator[Line]:
    """The lines of both files, earliest first, while an agent may be writing.

    Raises:
        OSError: a file is there and cannot be read.
    """
    with contextlib.ExitStack() as stack:
        for file in _both(folder, stack):
            yield from _lines(file)


def _both(folder: Path, stack: contextlib.ExitStack) -> list[BinaryIO]:
    """The two files, the earlier one first, as far as they are there."""
    while True:
        # The later one first: what is in it then is in it, or in the earlier one, when that is opened.
        files = [file for name in (NAME, BEFORE) if (file := _file(folder / name, stack)) is not None]
        places = {os.fstat(file.fileno()).st_ino for file in files}
        if len(places) == len(files):
            return files[::-1]


def _file(path: Path, stack: contextlib.ExitStack) -> BinaryIO | None:
    try:
        return stack.enter_context(os.fdopen(dirs.opened(path), "rb"))
    except FileNotFoundError:
        return None


def _lines(file: BinaryIO) -> Iterator[Line]:
    left = LIMIT + LONGEST
    passed = os.fstat(file.fileno()).st_size - left
    if passed > 0:
        # It is not as we left it. What was written last is at its end; all before that counts as one line.
        file.seek(passed - 1)
        file.readline(LONGEST + 1)
        yield Line(None)
    while left > 0:
        line = file.readline(min(LONGEST + 1, left))
        left -= len(line)
        if not line:
            return
        if line.strip():
            yield Line(_value(line))


def _value(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None

"""The bounded file of incidents: whole lines only, whatever a disk, a power cut or a signal does to it."""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from edgeagent.system import dirs, journal


def record(number: int, size: int = 0) -> dict[str, Any]:
    return {"number": number, "filling": "x" * size}


def write(folder: Path, *numbers: int, size: int = 0) -> None:
    lines = [journal.encoded(record(number, size)) for number in numbers]
    assert journal.append(folder, lines) == (len(lines), "")


def numbers(folder: Path) -> list[int]:
    return [line.value["number"] for line in journal.read(folder) if line.value is not None]


def unreadable(folder: Path) -> int:
    return sum(line.value is None for line in journal.read(folder))


def test_what_was_written_is_read_in_that_order(tmp_path: Path) -> None:
    assert list(journal.read(tmp_path)) == []
    write(tmp_path, 1, 2)
    write(tmp_path, 3)
    assert numbers(tmp_path) == [1, 2, 3]
    assert (tmp_path / journal.NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("cut", [1, 2, 10, 25])
def test_a_torn_last_line_is_passed_over_and_the_next_one_begins_on_a_line_of_its_own(tmp_path: Path, cut: int) -> None:
    write(tmp_path, 1, 2)
    path = tmp_path / journal.NAME
    path.write_bytes(path.read_bytes()[:-cut])
    assert (numbers(tmp_path), unreadable(tmp_path)) == ([1], 1)
    write(tmp_path, 3, 4)
    # A line that lost its end alone is whole again once there is an end; it is a line that was written.
    assert numbers(tmp_path) == ([1, 2, 3, 4] if cut == 1 else [1, 3, 4])


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00" * 4096 + b"\n",
        b"no JSON\n",
        b'"a text"\n',
        b"[1]\n",
        b"\xff\xfe\n",
        b"[" * 10_000 + b"\n",
        b'{"number": 9, "filling": "' + b"x" * journal.LONGEST + b'"}\n',
    ],
    ids=["zeros", "text", "JSON text", "list", "no UTF-8", "deep", "too long"],
)
def test_garbage_in_the_middle_costs_no_line_beside_it(tmp_path: Path, garbage: bytes) -> None:
    write(tmp_path, 1)
    with (tmp_path / journal.NAME).open("ab") as file:
        file.write(garbage)
    write(tmp_path, 2)
    assert numbers(tmp_path) == [1, 2]
    assert unreadable(tmp_path) >= 1


def test_names_cannot_break_a_line() -> None:
    line = journal.encoded({"name": "a\nb\r\u2028\x00\ud800\x1b[2J"})
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert json.loads(line) == {"name": "a\nb\r\u2028\x00\ud800\x1b[2J"}


def test_the_two_files_are_never_longer_than_twice_the_limit_and_the_oldest_lines_go_first(tmp_path: Path) -> None:
    size = 10_000
    # 400 lines of a little over 10 kB are 4 MB; the two files have room for 2 MiB, 104 such lines each.
    for number in range(400):
        write(tmp_path, number, size=size)
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2 * journal.LIMIT
    kept = numbers(tmp_path)
    assert kept == list(range(400 - len(kept), 400))
    assert 104 <= len(kept) <= 208
    assert sorted(path.name for path in tmp_path.iterdir()) == [journal.BEFORE, journal.NAME]


def test_many_lines_at_once_are_turned_over_in_between(tmp_path: Path) -> None:
    write(tmp_path, *range(150), size=10_000)
    # 104 lines of 10033 bytes at most fit into 1 MiB: 104 * 10033 = 1043432 <= 1048576 < 105 * 10033.
    assert numbers(tmp_path) == list(range(150))
    assert all(path.stat().st_size <= journal.LIMIT for path in tmp_path.iterdir())


def test_a_file_that_is_too_long_is_turned_over_at_once(tmp_path: Path) -> None:
    (tmp_path / journal.NAME).write_bytes(b"x" * (2 * journal.LIMIT))
    write(tmp_path, 1)
    assert numbers(tmp_path) == [1]
    assert (tmp_path / journal.NAME).stat().st_size < 100


def test_of_a_file_that_is_too_long_the_end_is_read_and_the_rest_is_said_to_be_passed_over(tmp_path: Path) -> None:
    lines = [journal.encoded(record(number, 1000)) for number in range(2000)]
    assert sum(map(len, lines)) > journal.LIMIT + journal.LONGEST + 100_000
    (tmp_path / journal.NAME).write_bytes(b"".join(lines))
    kept = numbers(tmp_path)
    assert kept == list(range(2000 - len(kept), 2000))
    assert len(kept) >= journal.LIMIT // len(lines[-1])
    assert unreadable(tmp_path) == 1


@pytest.mark.parametrize("name", [journal.NAME, journal.BEFORE])
def test_a_pipe_or_a_link_in_its_place_is_an_error_at_once(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(OSError, match="no regular file"):
        list(journal.read(tmp_path))
    (tmp_path / name).unlink()
    other = tmp_path / "other"
    other.write_text("somebody else's")
    (tmp_path / name).symlink_to(other)
    with pytest.raises(OSError, match="symbolic link"):
        list(journal.read(tmp_path))


def test_nothing_is_written_through_a_link_or_into_a_pipe(tmp_path: Path) -> None:
    other = tmp_path / "other"
    (tmp_path / journal.NAME).symlink_to(other)
    done, problem = journal.append(tmp_path, [b"{}\n"])
    assert (done, "symbolic link" in problem, other.exists()) == (0, True, False)
    (tmp_path / journal.NAME).unlink()
    os.mkfifo(tmp_path / journal.NAME)
    assert journal.append(tmp_path, [b"{}\n"]) == (0, f"{tmp_path / journal.NAME}: no regular file")


class Disk:
    """Writes ``room`` bytes, and then says ``error``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int, error: int = errno.ENOSPC) -> None:
        self.room = room
        self._write = os.write
        self._error = error
        monkeypatch.setattr("edgeagent.system.journal.os.write", self)

    def __call__(self, descriptor: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(self._error, os.strerror(self._error))
        written = self._write(descriptor, data[: self.room])
        self.room -= written
        return written


@pytest.mark.parametrize("room", [0, 1, 20, 40])
def test_a_full_disk_leaves_no_half_line_and_the_line_can_be_written_later(
    tmp_path: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 1)
    before = (tmp_path / journal.NAME).read_bytes()
    line = journal.encoded(record(2, size=50))
    disk = Disk(monkeypatch, room)
    done, problem = journal.append(tmp_path, [line])
    assert done == 0
    assert problem == f"{tmp_path / journal.NAME}: No space left on device"
    assert (tmp_path / journal.NAME).read_bytes() == before
    disk.room = 10_000
    assert journal.append(tmp_path, [line]) == (1, "")
    assert numbers(tmp_path) == [1, 2]


def test_lines_that_came_to_the_disk_before_it_was_full_are_said_to_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [journal.encoded(record(number, 10_000)) for number in range(150)]
    Disk(monkeypatch, journal.LIMIT + 100)
    done, problem = journal.append(tmp_path, lines)
    # The first file is full with 104 of them; of the second one nothing is left.
    assert (done, problem != "") == (104, True)
    assert numbers(tmp_path) == list(range(104))


def test_a_folder_that_is_not_there_is_a_problem_and_no_exception(tmp_path: Path) -> None:
    done, problem = journal.append(tmp_path / "none", [b"{}\n"])
    assert (done, problem) == (0, f"{tmp_path / 'none' / journal.NAME}: No such file or directory")


def test_a_line_counts_once_it_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is flushed after each append; the folder when a name in it is new."""
    flushed: list[bool] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        flushed.append(os.path.isdir(f"/proc/self/fd/{descriptor}"))  # noqa: PTH112 (a link of /proc)
        fsync(descriptor)

    monkeypatch.setattr("edgeagent.system.journal.os.fsync", noted)
    write(tmp_path, 1)
    assert sorted(flushed) == [False, True]
    flushed.clear()
    write(tmp_path, 2)
    assert flushed == [False]
    flushed.clear()
    write(tmp_path, *range(3, 110), size=10_000)
    # The first part; the name of before; the new name; the rest.
    assert flushed == [False, True, True, False]


def test_a_file_that_is_turned_over_while_it_is_read_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2)
    opened = dirs.opened
    turned = itertools.count()

    def turning(path: Path, *arguments: Any) -> int:
        descriptor = opened(path, *arguments)
        if path.name == journal.NAME and next(turned) == 0:
            path.rename(tmp_path / journal.BEFORE)
        return descriptor

    monkeypatch.setattr(dirs, "opened", turning)
    assert numbers(tmp_path) == [1, 2]


WRITER = """
import sys
from pathlib import Path
from edgeagent.system import dirs, journal
number = int(sys.argv[2])
while True:
    lines = [journal.encoded({"number": number + more, "filling": "x" * 3000}) for more in range(3)]
    assert journal.append(Path(sys.argv[1]), lines) == (3, "")
    number += 3
    print(number, flush=True)
"""


def test_a_writer_that_is_killed_at_any_moment_leaves_whole_lines_and_all_that_it_has_acknowledged(
    tmp_path: Path,
) -> None:
    dice = random.Random(7)
    acknowledged = 0
    for _ in range(12):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(acknowledged)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()  # it has begun
            time.sleep(dice.uniform(0.0, 0.05))
            writer.send_signal(signal.SIGKILL)
            said = writer.stdout.read().split()
        acknowledged = int(said[-1]) if said else acknowledged + 3
        kept = numbers(tmp_path)
        # In order, from some point on all of them; what was written and not acknowledged may be there too, again.
        assert acknowledged - 1 in kept
        assert set(range(min(kept), acknowledged)) <= set(kept)
        assert unreadable(tmp_path) <= 12
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2 * journal.LIMIT

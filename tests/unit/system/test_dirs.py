"""Which directories the agent uses, and files that are replaced as a whole."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from edgeagent.errors import InputError
from edgeagent.system import dirs

FLAG = Path("/flag")


@pytest.mark.parametrize(
    ("flag", "environ", "state", "runtime"),
    [
        (None, {}, "/var/lib/edgeagent", "/run/edgeagent"),
        (None, {"STATE_DIRECTORY": "/var/lib/a", "RUNTIME_DIRECTORY": "/run/a"}, "/var/lib/a", "/run/a"),
        (None, {"STATE_DIRECTORY": "/var/lib/a:/var/lib/b", "RUNTIME_DIRECTORY": ""}, "/var/lib/a", "/run/edgeagent"),
        (FLAG, {"STATE_DIRECTORY": "/var/lib/a", "RUNTIME_DIRECTORY": "/run/a"}, "/flag", "/flag"),
    ],
    ids=["default", "systemd", "several", "flag"],
)
def test_flag_then_systemd_then_default(flag: Path | None, environ: dict[str, str], state: str, runtime: str) -> None:
    assert dirs.state(flag, environ) == Path(state)
    assert dirs.runtime(flag, environ) == Path(runtime)


def test_directories_are_made_with_their_parents(tmp_path: Path) -> None:
    assert dirs.prepare(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert dirs.prepare(tmp_path / "p", private=True).stat().st_mode & 0o777 == 0o700
    assert dirs.prepare(tmp_path / "p").stat().st_mode & 0o777 == 0o700, "one that is there stays as it is"


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(InputError, match="file/below: cannot be made: Not a directory"):
        dirs.prepare(tmp_path / "file" / "below")


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "address"
    path.write_text("old")
    with path.open() as reader:
        dirs.write(path, b"new")

        assert reader.read() == "old", "who has it open keeps the old content"
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        dirs.write(path, b"new")

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_address_file(tmp_path: Path) -> None:
    assert dirs.write_address(tmp_path, "127.0.0.1:9843") == ""
    assert (tmp_path / "address").read_text() == "127.0.0.1:9843\n"

    assert (
        dirs.write_address(tmp_path / "gone", "127.0.0.1:9843") == f"{tmp_path}/gone/address: No such file or directory"
    )


@pytest.mark.parametrize("kind", ["link", "dangling", "fifo", "folder"])
def test_what_is_no_file_of_ours_is_not_opened_and_keeps_nobody_waiting(kind: str, tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    if kind == "link":
        other.write_text("somebody else's")
    if kind in ("link", "dangling"):
        path.symlink_to(other)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    for flags in (os.O_RDONLY, os.O_RDWR | os.O_CREAT | os.O_APPEND):
        with pytest.raises(OSError, match=r"symbolic links|no regular file|directory"):
            dirs.opened(path, flags)
    assert other.exists() == (kind == "link")


def test_what_a_killed_write_has_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in (".state.json.a1b2c3d4", ".state.json.zz", "state.json", ".state.jsonl", ".other.a1b2c3d4"):
        (tmp_path / name).touch()
    (tmp_path / ".state.json.folder").mkdir()
    dirs.tidy(tmp_path / "state.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".other.a1b2c3d4",
        ".state.json.folder",
        ".state.jsonl",
        "state.json",
    ]

"""One instance per runtime directory."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgeagent.errors import AlreadyRunningError, InputError
from edgeagent.system.lock import only_instance

HOLD = """
import sys
from pathlib import Path
from edgeagent.system.lock import only_instance
with only_instance(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_instance_is_told_who_is_first(tmp_path: Path) -> None:
    with (
        only_instance(tmp_path),
        pytest.raises(AlreadyRunningError, match=rf"another instance \(pid {os.getpid()}\) runs .* {tmp_path}$"),
        only_instance(tmp_path),
    ):
        pytest.fail("two instances")


def test_another_directory_is_another_node(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    with only_instance(tmp_path / "a"), only_instance(tmp_path / "b"):
        assert (tmp_path / "a" / "lock").exists()


def test_it_is_released_at_the_end_and_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), only_instance(tmp_path):
        raise ZeroDivisionError
    with only_instance(tmp_path):
        pass
    with only_instance(tmp_path):
        pass


def test_children_do_not_keep_it(tmp_path: Path) -> None:
    with only_instance(tmp_path):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with only_instance(tmp_path):
            assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_a_process_that_is_killed_keeps_nothing(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(AlreadyRunningError, match=f"pid {holder.pid}"), only_instance(tmp_path):
            pytest.fail("two instances")

        holder.kill()
        holder.wait()

        with only_instance(tmp_path):
            assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_the_pid_of_one_that_is_gone_is_not_told(tmp_path: Path) -> None:
    """As after a kill, when the next one may lock the file and not write it."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    (tmp_path / "lock").write_text(f"{gone.pid}\n")
    with (tmp_path / "lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(AlreadyRunningError, match="another instance runs"), only_instance(tmp_path):
            pytest.fail("two instances")


def test_who_has_ended_leaves_no_pid(tmp_path: Path) -> None:
    with only_instance(tmp_path):
        pass

    assert (tmp_path / "lock").read_bytes() == b""


def test_a_file_that_may_only_be_read_is_locked_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refusing(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(InputError, match="lock: cannot be opened: Permission denied"), only_instance(tmp_path):
        pytest.fail("locked nothing")

    (tmp_path / "lock").touch()
    with (
        only_instance(tmp_path),
        pytest.raises(AlreadyRunningError, match="another instance runs"),
        only_instance(tmp_path),
    ):
        pytest.fail("two instances")


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("content")
    (tmp_path / "lock").symlink_to(target)

    with pytest.raises(InputError, match="lock: cannot be opened"), only_instance(tmp_path):
        pytest.fail("followed")

    assert target.read_text() == "content"


def test_without_the_directory_there_is_no_lock(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"), only_instance(tmp_path / "gone"):
        pytest.fail("locked nothing")

"""Whose process table it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeagent.host.disk import RootFiles
from edgeagent.host.paths import LIMIT
from edgeagent.host.procfs import foreign


@pytest.fixture
def machine() -> Iterator[RootFiles]:
    files = RootFiles(Path("/"))
    yield files
    files.close()


def foreign_below(root: Path) -> str:
    files = RootFiles(root)
    try:
        return foreign(files)
    finally:
        files.close()


def test_the_table_of_this_machine(machine: RootFiles) -> None:
    assert foreign(machine) == ""


def test_a_tree_of_files(tmp_path: Path) -> None:
    """Even one that says all the right things."""
    folder = tmp_path / "proc" / "self"
    folder.mkdir(parents=True)
    (folder / "status").write_text(f"NSpid:\t{os.getpid()}\n")
    assert "driven from files" in foreign_below(tmp_path)


def test_a_link_to_the_real_one_does_not_lead_there(tmp_path: Path) -> None:
    (tmp_path / "proc").symlink_to("/proc")
    assert foreign_below(tmp_path) != ""


def test_no_table_at_all(tmp_path: Path) -> None:
    assert foreign_below(tmp_path) != ""


class Nested(RootFiles):
    """As the host's table looks from a pid namespace below: ``self`` is there, under its number up here."""

    rows = ""

    def read(self, path: str, *, keep: bool = False, limit: int = LIMIT) -> bytes:
        return self.rows.encode() if path == "proc/self/status" else super().read(path, keep=keep, limit=limit)


@pytest.mark.parametrize(
    "rows",
    [
        "NSpid:\t4242\t{pid}\n",  # two namespaces, and the number in ours is right
        "NSpid:\t{other}\n",
        "Pid:\t{pid}\n",  # a kernel below 4.1 does not tell
        "",
    ],
)
def test_the_table_of_another_pid_namespace(rows: str) -> None:
    files = Nested(Path("/"))
    files.rows = rows.format(pid=os.getpid(), other=os.getpid() + 1)
    assert foreign(files) == "the process table is that of another pid namespace"
    files.close()


def test_a_process_in_a_pid_namespace_of_its_own_knows_it() -> None:
    """The same procfs as here, seen from a namespace below: this is a container without hostPID."""
    confined = [shutil.which("unshare") or "unshare", "--user", "--map-root-user", "--pid", "--fork"]
    try:
        subprocess.run([*confined, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine makes no pid namespaces")
    code = (
        "from pathlib import Path; from edgeagent.host.disk import RootFiles; "
        "from edgeagent.host.procfs import foreign; print(foreign(RootFiles(Path('/'))))"
    )
    done = subprocess.run([*confined, sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "the process table is that of another pid namespace"

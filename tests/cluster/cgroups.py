"""A cgroup of our own in every hierarchy of this machine, emptied by force when its owner is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_REAPER = Path(__file__).with_name("reaper.py")


def is_v2() -> bool:
    """Whether the machine has the unified hierarchy alone; hybrid counts as v1, as for the kubelet."""
    return (_ROOT / "cgroup.controllers").exists()


def memory_root() -> Path:
    """The folder that /proc/<pid>/cgroup's memory (v1) or only (v2) path starts from."""
    return _ROOT if is_v2() else _ROOT / "memory"


class CgroupTree:
    """The cgroup ``/name`` in every hierarchy, v1 or v2.

    A reaper process waits for the end of this object or of the whole test run, kills all that lives below the cgroup
    and removes it: containers and their shims outlive the daemons that started them.
    """

    def __init__(self, name: str) -> None:
        hierarchies = [_ROOT] if is_v2() else list(_ROOT.iterdir())
        self._folders = [folder / name for folder in hierarchies]
        self.path = f"/{name}"
        self.memory = memory_root() / name
        self._daemons = (self.memory if is_v2() else _ROOT / "pids" / name) / "daemons"

    def create(self) -> None:
        # Its own session: Ctrl-C at the terminal must end the tests, not the one who cleans up after them.
        self._reaper = subprocess.Popen(
            [sys.executable, "-I", _REAPER, *self._folders],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        if is_v2():
            # The kubelet takes a root only with every controller that the machine has.
            controllers = (_ROOT / "cgroup.controllers").read_text().split()
            (_ROOT / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))
        for folder in self._folders:
            folder.mkdir()
        self._daemons.mkdir()

    def adopt(self, pid: int) -> None:
        """Move a process in, so that it and what it will start end with the tree."""
        (self._daemons / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """Kill and remove all.

        Raises:
            RuntimeError: something could not be removed; what, stands on stderr.
        """
        self._reaper.communicate()
        if self._reaper.returncode:
            raise RuntimeError("processes or cgroups of the live node are left, see stderr")

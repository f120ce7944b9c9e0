"""A Debian of a test's own; see ``machine.sh``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.controlplane.waiting import wait_for

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

SYSTEMD = "/lib/systemd/systemd --system --unit=multi-user.target"
NOTHING = "/bin/sleep infinity"
"""The first process of a container, or of an image that is being built."""
_SCRIPT = Path(__file__).with_name("machine.sh")
_NAMESPACES = ("mount", "pid", "net", "ipc", "uts", "cgroup")
_USUAL = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DPKG_COLORS=never")


class Machine:
    """A running machine, between enter and exit; what lies in ``shared`` is in its /media."""

    def __init__(self, folder: Path, root: Path, init: str = SYSTEMD) -> None:
        self._folder = folder
        self._root = root
        self._init = init
        self.shared = folder / "shared"
        self.shared.mkdir()

    def __enter__(self) -> Self:
        keep: list[str | Path] = ["unshare", "--mount", "--propagation", "private", "--", "sh", _SCRIPT, "keep"]
        reaper = [sys.executable, "-m", "tests.cluster.reaper"]
        # Its own session: Ctrl-C at the terminal must end the tests, not the one who cleans up after them.
        self._keeper = subprocess.Popen(
            [*keep, self._folder, self._root, self._init, *reaper],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            assert self._keeper.stdout is not None
            self.pid = self._keeper.stdout.readline().strip()
            wait_for("the machine", self._is_up, seconds=60)
        except BaseException:
            self._end()
            sys.stdout.write((self._folder / "boot.log").read_text())
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def _is_up(self) -> bool:
        assert Path(f"/proc/{self.pid}").exists(), "the machine ended at once"
        if self._init == SYSTEMD:
            return self.run("systemctl is-system-running", check=False) == "running\n"
        return Path(f"/proc/{self.pid}/comm").read_text() == "sleep\n"

    def _end(self) -> None:
        self._keeper.communicate()
        assert self._keeper.returncode == 0, "processes or the cgroup of the machine are left, see stderr"

    def path(self, name: str) -> Path:
        """A file of the machine, as this process can open it. A link there may lead astray."""
        return Path(f"/proc/{self.pid}/root", name.lstrip("/"))

    def write(self, name: str, text: str) -> None:
        """A file of root's, with the folders above it."""
        place = self.path(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def run(self, script: str, *, user: str = "root", check: bool = True) -> str:
        """What a script prints, both streams together, that ``user`` runs in the machine.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        inside = [f"--{name}" for name in _NAMESPACES]
        become = [] if user == "root" else ["runuser", "--user", user, "--"]
        done = subprocess.run(
            ["nsenter", f"--target={self.pid}", *inside, "--", "env", "-i", *_USUAL, *become, "bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=100,
        )
        if check and done.returncode:
            sys.stdout.write(done.stdout)
            done.check_returncode()
        return done.stdout

    def fails(self, script: str) -> str:
        """What a script prints that root runs in the machine and that must not succeed."""
        said = self.run(f"if ( {script} ); then exit 7; fi")
        sys.stdout.write(said)
        return said

    # --- the agent as a service

    def state(self) -> tuple[str, str]:
        """(is-active, is-enabled) of the service."""
        active = self.run("systemctl is-active edgeagent", check=False).strip()
        return active, self.run("systemctl is-enabled edgeagent 2>/dev/null", check=False).strip()

    def main_pid(self) -> int:
        """The agent's process as the machine counts; 0: none."""
        return int(self.run("systemctl show --property=MainPID --value edgeagent"))

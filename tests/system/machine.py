"""A machine of the tests' own, with a real systemd as its first process and the agent installed as the how-to says.

It is made of namespaces (pid, mount, cgroup, ipc, uts, network) and a root in memory. Nothing of it is visible outside
but its processes; it ends with the test run, however that ends.
"""

from __future__ import annotations

import ctypes
import http.client
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tests.controlplane.waiting import wait_for
from tests.system import boot

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

T = TypeVar("T")

UNIT = "edgeagent.service"
_CLONE_NEWNET = 0x40000000
_DROP_INS = f"etc/systemd/system/{UNIT}.d"


class Machine:
    """A running machine, between enter and exit; ``folder`` is empty and its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.begin_log()

    def __enter__(self) -> Self:
        keep = ["unshare", "--mount", "--propagation", "private", "--"]
        # Its own session: Ctrl-C at the terminal must end the tests, not the one who cleans up after them.
        self._keeper = subprocess.Popen(
            [*keep, sys.executable, "-m", boot.MODULE, "keep", str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            assert self._keeper.stdout is not None
            self.pid = int(self._keeper.stdout.readline())
            wait_for("systemd", lambda: self._alive() and self.path("run/systemd/private").exists(), seconds=30)
            self.run("systemctl", "is-system-running", "--wait", check=False)
            self.run("systemd-sysusers")
            self.run("systemd-tmpfiles", "--create", "edgeagent.conf")
            self.run("systemctl", "daemon-reload")
            # Also keeps the unit loaded when it is stopped, so that its last result can be asked for.
            self.run("systemctl", "enable", UNIT)
        except BaseException:
            self._keeper.communicate()
            for log in self._folder.glob("boot.log"):
                sys.stdout.write(log.read_text())
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._keeper.communicate()
        assert self._keeper.returncode == 0, "processes or the cgroup of the machine are left, see stderr"

    def _alive(self) -> bool:
        assert self._keeper.poll() is None
        assert Path(f"/proc/{self.pid}").exists(), "the machine ended at once"
        return True

    # --- its files and commands

    def path(self, name: str) -> Path:
        """A file of the machine, as this process can open it."""
        return Path(f"/proc/{self.pid}/root", name)

    def write(self, name: str, text: str, *, mode: int = 0o644) -> None:
        """A file of root's, with the folders above it."""
        place = self.path(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(mode)

    def run(self, *argv: str, check: bool = True) -> str:
        """What a command prints that root runs in the machine.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        done = self.tried(*argv)
        if check and done.returncode:
            sys.stdout.write(done.stdout + done.stderr)
            done.check_returncode()
        return done.stdout

    def tried(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """A command that root has run in the machine, however it ended."""
        every = [f"--{name}" for name in ("mount", "pid", "net", "ipc", "uts", "cgroup")]
        enter = ["nsenter", f"--target={self.pid}", *every, "--", *argv]
        return subprocess.run(enter, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60)

    def inside(self, work: Callable[[], T]) -> T:
        """What ``work`` returns, done by a thread in the machine's network. A socket stays in it for good."""
        done: list[T] = []

        def run() -> None:
            libc = ctypes.CDLL(None, use_errno=True)
            descriptor = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)
            if libc.setns(descriptor, _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            os.close(descriptor)
            done.append(work())

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return done[0]

    # --- the agent

    def drop_in(self, text: str) -> None:
        """What the unit says beyond its own file; an empty text: nothing."""
        folder = self.path(_DROP_INS)
        folder.mkdir(exist_ok=True)
        (folder / "test.conf").write_text(f"[Service]\n{text}")
        self.run("systemctl", "daemon-reload")

    def show(self, *names: str) -> list[str]:
        """Properties of the unit, in the order asked for."""
        lines = self.run("systemctl", "show", UNIT, *(f"--property={name}" for name in names)).splitlines()
        found = dict(line.split("=", 1) for line in lines)
        return [found[name] for name in names]

    @property
    def main_pid(self) -> int:
        """The agent's pid as the machine counts; 0: none."""
        return int(self.show("MainPID")[0])

    def signal(self, name: str) -> None:
        """To the agent's process."""
        self.run("systemctl", "kill", f"--signal={name}", UNIT)

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a GET to the agent's endpoint, at the address that it wrote."""
        host, _, port = self.path("run/edgeagent/address").read_text().strip().rpartition(":")

        def ask() -> tuple[int, str]:
            connection = http.client.HTTPConnection(host, int(port), timeout=5)
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            finally:
                connection.close()

        return self.inside(ask)

    def begin_log(self) -> None:
        """Let ``log`` begin here."""
        self._log_since = time.time()

    def log(self) -> str:
        """What unit and agent said so far."""
        self.run("journalctl", "--sync")
        return self.run("journalctl", "--output=cat", f"--since=@{self._log_since:f}", f"--unit={UNIT}", check=False)

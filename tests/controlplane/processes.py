"""Child processes that end with the test run, and free ports for them."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.controlplane.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")
"""Prefix for a command line (util-linux): the kernel kills the process when the thread that started it is gone."""

_given: set[int] = set()


class Daemon:
    """One long-running program with its own log file, which can be stopped and started again.

    Start it from a thread that lives as long as it should: its end kills the program.
    """

    def __init__(self, name: str, argv: Sequence[str | Path], log: Path, *, inside: Sequence[str] = ()) -> None:
        """``inside`` is a command prefix that enters another namespace and execs the rest."""
        self.name = name
        self.log = log
        self._argv = [*inside, *DIE_WITH_PARENT, *map(str, argv)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process, f"{self.name} was not started"
        return self._process.pid

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self, sig: signal.Signals = signal.SIGTERM, *, seconds: float = 20.0) -> None:
        """Send one signal, wait for the end, and kill what is left after ``seconds``. Does nothing if it has ended."""
        if not self._process or self._process.poll() is not None:
            return
        self._process.send_signal(sig)
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait_ready(self, ready: Callable[[], bool], *, seconds: float = 60.0) -> None:
        """Wait until ``ready`` holds.

        Raises:
            RuntimeError: the program ended first, or it was not ready in time; the message holds the end of its log.
        """
        process = self._process
        assert process, f"{self.name} was not started"
        try:
            wait_for(f"{self.name} ready", lambda: process.poll() is not None or ready(), seconds=seconds)
        except TimeoutError as error:
            raise RuntimeError(f"{error}\n{self.tail()}") from None
        if process.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {process.returncode}\n{self.tail()}")

    def tail(self, lines: int = 40) -> str:
        """The end of the log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody uses, another at each call.

    It is below the range that the kernel gives to outgoing connections: from that range, a client that retries while
    the server is down could be given the server's own port.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(lowest // 2, lowest)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _given:
            _given.add(port)
            return port

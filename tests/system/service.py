"""``edgeagent run`` as a service, with the test in the place of systemd."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.recorded import Board, recorded_board

QUICK = "sampling: {interval: 200ms, fast: 100ms, max_age: 5s}\n"


class Manager:
    """The socket that systemd listens on."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.path))
        self._socket.settimeout(30)
        self.path.chmod(0o777)

    def close(self) -> None:
        self._socket.close()

    def next(self) -> dict[str, str]:
        """The next message, by key."""
        lines = self._socket.recv(4096).decode().splitlines()
        return {key: value for key, _, value in (line.partition("=") for line in lines)}

    def until(self, key: str) -> dict[str, str]:
        """The next message that has ``key``; those before it are dropped."""
        while key not in (message := self.next()):
            pass
        return message


@dataclass
class Service:
    """One running agent on a recorded board, standalone."""

    folder: Path
    manager: Manager
    process: subprocess.Popen[str]

    @property
    def address(self) -> str:
        return (self.folder / "run" / "address").read_text().strip()

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a GET."""
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()

    def metric(self, name: str) -> float:
        """The value of a series without labels."""
        match = re.search(rf"^edgeagent_{name} (\S+)$", self.get("/metrics")[1], re.MULTILINE)
        assert match is not None
        return float(match[1])

    def configure(self, text: str) -> None:
        (self.folder / "config.yaml").write_text(text)

    def reload(self) -> tuple[dict[str, str], dict[str, str]]:
        """SIGHUP; how the reload began and how it ended."""
        self.process.send_signal(signal.SIGHUP)
        return self.manager.until("RELOADING"), self.manager.until("READY")

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        self.manager.until("STOPPING")
        return self.process.wait(timeout=20)


def command(folder: Path, *, bind: str = "127.0.0.1:0") -> list[str]:
    """The command line of an agent that lives in ``folder``."""
    return [
        *(sys.executable, "-m", "edgeagent", "run", "--config", str(folder / "config.yaml"), "--bind", bind),
        *("--host-root", str(folder / "host"), "--nvml-replay", str(recorded_board() / "nvml.json")),
        *("--state-dir", str(folder / "state"), "--runtime-dir", str(folder / "run")),
    ]


def environment(manager: Manager) -> dict[str, str]:
    return {**os.environ, "NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "15000000"}


def furnish(folder: Path) -> None:
    """Board, configuration and directories, for whichever user comes."""
    Board.copy(folder / "host")
    (folder / "config.yaml").write_text(QUICK)
    for name in ("state", "run"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)


@contextlib.contextmanager
def running(folder: Path, *, before: list[str] | None = None, stderr: int | None = None) -> Iterator[Service]:
    """A service that has said READY. ``before`` goes before its command line."""
    manager = Manager(folder)
    argv = [*(before or []), *command(folder)]
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(
            argv, env=environment(manager), stdout=log, stderr=log if stderr is None else stderr, text=True
        )
    try:
        manager.until("READY")
        yield Service(folder, manager, process)
    finally:
        process.kill()
        process.wait()
        manager.close()
        manager.path.unlink()
        sys.stdout.write((folder / "log").read_text())  # what a failing test shows

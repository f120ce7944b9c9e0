"""Real processes of the test's own, and a board whose files say that they are in a pod."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from edgeagent.host.disk import RootFiles
from edgeagent.host.files import TreeFiles
from edgeagent.host.paths import LIMIT

UID = "11111111-2222-3333-4444-000000000001"
CONTAINER = "a" * 64
CGROUP = f"0::/kubepods/burstable/pod{UID}/{CONTAINER}\n".encode()


@contextlib.contextmanager
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that sleeps, in a session of its own; ended and reaped in any case."""
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as started:
        try:
            yield started
        finally:
            started.kill()


def start_ticks(pid: int) -> int:
    """Field 22 of stat; ``sleep`` has no blank or bracket in its name (proc_pid_stat(5))."""
    return int(Path(f"/proc/{pid}/stat").read_text().split()[21])


class Board(RootFiles):
    """This machine's own processes, on a board that is otherwise made of ``entries``."""

    def __init__(self, entries: Mapping[str, bytes]) -> None:
        super().__init__(Path("/"))
        self.entries = dict(entries)

    def read(self, path: str, *, keep: bool = False, limit: int = LIMIT) -> bytes:
        if path in self.entries or not path.startswith("proc/"):
            return TreeFiles(self.entries).read(path)
        return super().read(path, keep=keep, limit=limit)

    def names(self, path: str) -> tuple[str, ...]:
        return TreeFiles(self.entries).names(path)

    def folders(self, path: str) -> tuple[str, ...]:
        return TreeFiles(self.entries).folders(path)

    def exists(self, path: str) -> bool:
        return TreeFiles(self.entries).exists(path)

    def stamp(self, path: str) -> object:
        return TreeFiles(self.entries).stamp(path)


def in_pod(*pids: int) -> Board:
    """These processes, each in the container of the pod."""
    return Board({f"proc/{pid}/cgroup": CGROUP for pid in pids})

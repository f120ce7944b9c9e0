"""A private mount namespace: mounts made in it are invisible to the machine and vanish with its last process."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.controlplane.processes import DIE_WITH_PARENT
from tests.controlplane.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from typing_extensions import Self


class MountNamespace:
    """Held open by a sleeping process of its own; needs root."""

    def __enter__(self) -> Self:
        hold = ["unshare", "--mount", "--propagation", "private", *DIE_WITH_PARENT, "sleep", "infinity"]
        self._holder = subprocess.Popen(hold, stdin=subprocess.DEVNULL)
        comm = Path(f"/proc/{self._holder.pid}/comm")
        wait_for("a private mount namespace", lambda: comm.read_text() == "sleep\n")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._holder.kill()
        self._holder.wait()

    @property
    def entry(self) -> list[str]:
        """Prefix for a command line: run it in this namespace, as the same process, with / as its folder."""
        return ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", "--"]

    def run(self, *argv: str | Path) -> None:
        """Run a command in the namespace to its end.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        subprocess.run([*self.entry, *map(str, argv)], check=True, stdin=subprocess.DEVNULL)

    def popen(self, argv: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:
        """Start a command in the namespace; options as for ``subprocess.Popen``, ``cwd`` too.

        The pid is the command's own, so signals reach it. It is killed when the calling thread ends.
        """
        folder = ["env", f"--chdir={options.pop('cwd', Path.cwd())}"]
        return subprocess.Popen([*self.entry, *folder, *DIE_WITH_PARENT, *map(str, argv)], **options)

    def bind(self, source: Path, target: Path) -> None:
        """Mount the file or folder ``source`` on ``target``, which exists and is of the same kind."""
        self.run("mount", "--bind", source, target)

    def unbind(self, target: Path) -> None:
        self.run("umount", target)

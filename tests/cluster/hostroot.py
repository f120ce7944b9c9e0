"""A host root for an agent beside live pods: a recorded board whose pod processes and memory cgroups are real."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster.cgroups import is_v2, memory_root
from tests.cluster.mountspace import MountNamespace

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from typing_extensions import Self

_MEMINFO = "proc/meminfo"
_LIVE_FILES = ("proc/uptime",)
"""Real files too: a start time in /proc/<pid>/stat means something only beside the uptime of the same kernel."""


class HostRoot:
    """The folder ``path`` as seen by processes that ``popen`` starts; outside their mount namespace it has no mounts.

    Recorded processes and cgroups are left out of the copy. Everything else in it is a plain file for the test to
    rewrite with ``write``.
    """

    def __init__(self, recorded: Path, path: Path, *, procfs: bool = False) -> None:
        """``recorded`` is copied to ``path``, which must not exist.

        With ``procfs`` all of ``proc`` is the machine's own but for the recorded meminfo, which is mounted over the
        real one: every process can be seen without ``show``, and signalled. Other recorded files of ``proc`` are
        hidden then.
        """
        self.path = path
        self.namespace = MountNamespace()
        self._stack = ExitStack()
        self._shown: set[int] = set()
        self._procfs = procfs
        self._covers = path.with_name(f"{path.name}-covers")
        shutil.copytree(recorded, path, symlinks=True)
        for process in (path / "proc").glob("[0-9]*"):
            shutil.rmtree(process)
        shutil.rmtree(path / "sys/fs/cgroup", ignore_errors=True)

    def __enter__(self) -> Self:
        self._stack.enter_context(self.namespace)
        cgroups = self.path / ("sys/fs/cgroup" if is_v2() else "sys/fs/cgroup/memory")
        cgroups.mkdir(parents=True)
        self.namespace.bind(memory_root(), cgroups)
        if self._procfs:
            meminfo = (self.path / _MEMINFO).read_text()
            self._covers.mkdir()
            self.namespace.bind(Path("/proc"), self.path / "proc")
            self.write(_MEMINFO, meminfo)
            return self
        for name in _LIVE_FILES:
            (self.path / name).parent.mkdir(exist_ok=True)
            (self.path / name).touch()
            self.namespace.bind(Path("/", name), self.path / name)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def show(self, pids: Iterable[int]) -> None:
        """Make exactly these processes visible, as the real ``/proc/<pid>``.

        One that ends stays visible until the next call, as a folder in which nothing can be read.
        """
        wanted = set(pids)
        for pid in self._shown - wanted:
            self.namespace.unbind(self.path / f"proc/{pid}")
            (self.path / f"proc/{pid}").rmdir()
        for pid in wanted - self._shown:
            (self.path / f"proc/{pid}").mkdir()
            self.namespace.bind(Path(f"/proc/{pid}"), self.path / f"proc/{pid}")
        self._shown = wanted

    def write(self, name: str, text: str) -> None:
        """Replace one plain file whole: a reader sees the old or the new content.

        In a real procfs nothing can be renamed, so the new content is mounted on top of the old.
        """
        if self._procfs and name.startswith("proc/"):
            cover = self._covers / str(len(list(self._covers.iterdir())))
            cover.write_text(text)
            self.namespace.bind(cover, self.path / name)
            return
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.fresh")
        fresh.write_text(text)
        fresh.replace(target)

    def popen(self, argv: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:
        """Start a program that sees the mounts, see ``MountNamespace.popen``; it is killed when this root goes."""
        process = self.namespace.popen(argv, **options)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

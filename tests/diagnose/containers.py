"""Containers at work, as parts of a snapshot: CPU time, processes and what they hold open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cases.holders import Link, in_pod, task
from tests.cases.making import UID
from tests.diagnose.making import Capture, Files, found

CONTAINER = "a" * 64
FIRST = f"{UID[:-4]}0001"
"""The uid of the only pod of a list."""


def cpu(seconds: float, *, uid: str = FIRST, container: str = CONTAINER) -> Files:
    """CPU time of a container since it started, and a little host memory (cgroup v2)."""
    folder = f"host/sys/fs/cgroup/kubepods/burstable/pod{uid}"
    return {
        f"{folder}/memory.current": "10485760\n",
        f"{folder}/{container}/memory.current": "10485760\n",
        f"{folder}/{container}/cpu.stat": f"usage_usec {int(seconds * 1e6)}\nuser_usec 0\nsystem_usec 0\n",
    }


def process(*nodes: str, pid: int = 4242, uid: str = FIRST, container: str = CONTAINER, name: str = "python3") -> Files:
    """A process of a container that can be looked into, with these device nodes open."""
    return task(pid, in_pod(uid, container), name=name, fds=("/dev/null", *nodes))


def closed(*, pid: int = 4242, uid: str = FIRST, container: str = CONTAINER) -> Files:
    """A process whose open files cannot be read."""
    return task(pid, in_pod(uid, container), fds=None)


def seen(capsys: Capture, folder: Path, files: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The findings of one rule, of files that may be links."""
    for path, content in files.items():
        if isinstance(content, Link):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).symlink_to(content)
    return found(capsys, folder, {path: one for path, one in files.items() if not isinstance(one, Link)}, name)

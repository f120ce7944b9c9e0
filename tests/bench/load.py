"""A busy board: many pods, some of them with GPU processes, on a node of the real control plane."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tests.cluster.cgroups import memory_root
from tests.cluster.objects import GPU_MEMORY, create_pod, play_start, pod

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

    from tests.cluster.recorded import Board
    from tests.controlplane.plane import ControlPlane

FIRST_PID = 10_000
LIMITS = {GPU_MEMORY: "64Mi", "memory": "400Mi"}


class PodCgroups:
    """Real memory cgroups of pods without processes, in a folder of this run; removed at the end."""

    def __init__(self) -> None:
        self._top = memory_root() / f"edgeagent-bench-{os.getpid()}"
        self._made: list[Path] = []

    def __enter__(self) -> Self:
        for folder in (self._top, self._top / "kubepods", self._top / "kubepods/burstable"):
            self._make(folder)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for folder in reversed(self._made):
            folder.rmdir()

    def add(self, uid: str, container: str) -> None:
        """The cgroups of a pod and its container."""
        for folder in (f"pod{uid}", f"pod{uid}/{container}"):
            self._make(self._top / "kubepods/burstable" / folder)

    def _make(self, folder: Path) -> None:
        folder.mkdir()
        self._made.append(folder)


def fill(
    plane: ControlPlane, board: Board, node: str, *, pods: int, gpu_processes: int, cgroups: PodCgroups
) -> list[Any]:
    """Bind and start ``pods`` pods, the first ``gpu_processes`` of them with a GPU process within its budget."""
    made = []
    for number in range(pods):
        uses = number < gpu_processes
        manifest = pod(f"load-{number}", node=node, limits=LIMITS if uses else {"memory": "10Mi"})
        container = f"{FIRST_PID + number:064x}"
        created = play_start(plane.api, create_pod(plane.api, manifest), container_id=container)
        cgroups.add(created.metadata.uid, container)
        if uses:
            board.process(FIRST_PID + number, "infer", created.metadata.uid, container)
            board.hold(FIRST_PID + number, "infer", 40)
        made.append(created)
    return made


def cgroup(board: Board, uid: str, container: str) -> None:
    """The memory cgroups of a pod and its container as recorded files, 8 MiB each."""
    for folder in (f"pod{uid}", f"pod{uid}/{container}"):
        place = f"sys/fs/cgroup/kubepods/burstable/{folder}"
        board.write(f"{place}/memory.current", f"{8 << 20}\n")
        board.write(f"{place}/memory.stat", "anon 8388608\nactive_file 0\ninactive_file 0\nslab_reclaimable 0\n")

"""An agent near its floor, as a process of its own beside a scripted API server, and what takes its CPU and memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from edgeagent.facts import GPU_MEMORY
from tests.cluster.cgroups import CgroupTree, is_v2
from tests.cluster.recorded import recorded_board
from tests.faults.conftest import until, write_kubeconfig
from tests.faults.server import ScriptedServer, serving
from tests.faults.test_killed import Killing
from tests.faults.virtual import NODE, Load, Outpost

MIB = 1024 * 1024
SETTINGS = "pressure: {floor: 128Mi}\n"
NEAR, BELOW = 160, 100
"""MiB that are available on the board before and after a breach."""
CALM, GREEDY, BUDGET = 480, 540, 512
"""MiB that the greedy pod holds before and after, and its budget; 16 MiB above it are tolerated."""
BOX = 160 * MIB
"""What agent and hogs have together, when they are in a box."""

_SPIN = "while True: pass"
# Memory of its own, always in use; then a file larger than the box is read over and over, which takes what is left.
_THRASH = """
import sys
held = bytearray(int(sys.argv[2]))
with open(sys.argv[1], "rb", buffering=0) as file:
    while True:
        file.seek(0)
        while file.read(1 << 20):
            held[::4096] = b"x" * len(held[::4096])
"""
_GROW = """
import pathlib
pathlib.Path("/proc/self/oom_score_adj").write_text("1000")
held = []
while True:
    held.append(bytearray(b"x" * (1 << 20)))
"""
"""Its own score is raised, which everybody may, as the unit lowers the agent's, which takes CAP_SYS_RESOURCE."""


@dataclass
class Near(Outpost):
    """An outpost whose available memory is what a test says."""

    left: int = NEAR

    @property
    def usable(self) -> int:
        return self.left


class Station(Killing):
    """A board near its floor, its API server, and an agent."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "never")
        self.folder = folder
        board = folder / "near"
        board.mkdir()
        self.outpost = self.near = Near(board)
        self.outpost.api.deletes = lambda _pod: None

    async def run(self, server: ScriptedServer, before: list[str]) -> None:
        """Start the agent; ``before`` goes before its command line. Returns when the node has capacity."""
        folder = self.folder
        (folder / "config.yaml").write_text(SETTINGS)
        kubeconfig = write_kubeconfig(folder / "kubeconfig", server.url)
        arguments = [
            *("--config", folder / "config.yaml", "--kubeconfig", kubeconfig, "--node", NODE, "--bind", "127.0.0.1:0"),
            *("--host-root", self.outpost.board.root, "--nvml-replay", recorded_board() / "nvml.json"),
            *("--state-dir", folder / "state", "--runtime-dir", folder / "run"),
        ]
        with (folder / "log").open("a") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(*plainly(), *before, sys.executable, "-m", "edgeagent", "run", *map(str, arguments)),
                stdout=log,
                stderr=log,
            )
        await until(lambda: GPU_MEMORY in self.outpost.api.node["status"]["capacity"])

    def greedy(self) -> Load:
        """One more pod that will outgrow its budget; not yet."""
        return self.outpost.pod(f"greedy-{self.outpost.made}", BUDGET, CALM)

    async def breach(self, load: Load) -> float:
        """Let it; seconds until its eviction is received."""
        api, begun = self.outpost.api, asyncio.get_running_loop().time()
        self.near.left = BELOW
        self.outpost.hold(load, GREEDY)
        await until(lambda: any(uid == load.uid for _, uid in api.accepted))
        return next(at for at, uid in api.accepted if uid == load.uid) - begun

    def relieve(self, load: Load) -> None:
        """The evicted pod is gone."""
        self.near.left = NEAR
        self.outpost.end(load)

    @property
    def address(self) -> str:
        return (self.folder / "run/address").read_text().strip()


@contextlib.asynccontextmanager
async def station(folder: Path, before: list[str] | None = None) -> AsyncIterator[Station]:
    """A station whose agent sees a pod that keeps within its budget and none that does not."""
    scene = await asyncio.to_thread(Station, folder)
    scene.outpost.pod("quiet", 1024, 1000)
    async with serving(scene) as server:
        try:
            await scene.run(server, before or [])
            yield scene
        except BaseException:
            sys.stdout.write((folder / "log").read_text())
            raise
        finally:
            await scene.kill()


def plainly() -> list[str]:
    """Put before a command line: without the priority that this process may have given itself."""
    return ["nice", "-n", str(max(0, -os.getpriority(os.PRIO_PROCESS, 0)))]


@contextlib.contextmanager
def busy_cores(each: int = 3) -> Iterator[None]:
    """So many processes for each core that do nothing but compute: six on two cores."""
    command = [*plainly(), sys.executable, "-c", _SPIN]
    started = [subprocess.Popen(command) for _ in range(each * (psutil.cpu_count() or 1))]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


class Box:
    """A memory cgroup of ``BOX`` bytes, with no swap."""

    def __init__(self) -> None:
        self._tree = CgroupTree(f"edgeagent-box-{os.getpid()}")

    @property
    def entry(self) -> list[str]:
        """Put before a command line: it runs in the box."""
        return ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self._tree.memory / "cgroup.procs")]

    @property
    def ended(self) -> int:
        """Processes of the box that the kernel has ended for its memory."""
        name = "memory.events" if is_v2() else "memory.oom_control"
        rows = dict(line.split() for line in (self._tree.memory / name).read_text().splitlines())
        return int(rows["oom_kill"])

    def __enter__(self) -> Box:
        self._tree.create()
        limit = "memory.max" if is_v2() else "memory.limit_in_bytes"
        (self._tree.memory / limit).write_text(str(BOX))
        return self

    def __exit__(self, *_: object) -> None:
        self._tree.remove()

    def grow(self) -> int:
        """The exit code of a process that takes memory until the kernel ends it."""
        return subprocess.run([*self.entry, sys.executable, "-c", _GROW], check=False).returncode

    @contextlib.asynccontextmanager
    async def grown(self) -> AsyncIterator[list[int]]:
        """One such process after the other; their exit codes, complete at the end."""
        codes: list[int] = []
        stop = threading.Event()

        def repeat() -> None:
            while not stop.is_set():
                codes.append(self.grow())

        work = asyncio.create_task(asyncio.to_thread(repeat))
        try:
            yield codes
        finally:
            stop.set()
            await work

    @contextlib.contextmanager
    def thrashed(self, folder: Path, hogs: int = 2) -> Iterator[None]:
        """The kernel has to take pages back all the time, from whomever it can."""
        file = folder / "large"
        with file.open("wb") as large:
            large.truncate(2 * BOX)  # what is read of it takes pages although nothing was written
        command = [*plainly(), sys.executable, "-c", _THRASH, str(file), str(BOX // 5)]
        started = [subprocess.Popen([*self.entry, *command]) for _ in range(hogs)]
        try:
            yield
            assert [process.poll() for process in started] == [None] * hogs, "a hog has ended"
        finally:
            for process in started:
                process.send_signal(signal.SIGKILL)
                process.wait()
            file.unlink()

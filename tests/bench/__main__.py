"""Runs the agent as a process beside the real control plane and prints its figures.

Needs what the cluster tests need: ``python -m tests.controlplane.build`` once.
"""

from __future__ import annotations

import re
import socket
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tests.bench.figures import Figure
from tests.bench.load import PodCgroups, cgroup, fill
from tests.cluster.agentprocess import AgentProcess
from tests.cluster.hostroot import HostRoot
from tests.cluster.objects import GPU_MEMORY, create_node, create_pod, get_pod, play_end, play_start, pod
from tests.cluster.recorded import Board, recorded_board
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

PODS, GPU_PROCESSES = 110, 30
SETTLE, WATCH = 30.0, 60.0
STARTS, BREACHES = 5, 20
SCRAPES = 200
MIB = 1024 * 1024


def main() -> None:
    """Every figure, in one run."""
    with tempfile.TemporaryDirectory() as scratch, ControlPlane(Path(scratch) / "plane") as plane:
        figures = [*starts(plane, Path(scratch)), *footprint(plane, Path(scratch)), *reaction(plane, Path(scratch))]
    print(f"Python {sys.version.split()[0]}, {psutil.cpu_count()} CPUs, {PODS} pods, {GPU_PROCESSES} GPU processes")
    for figure in figures:
        print(figure.line())


def node(plane: ControlPlane) -> str:
    """A fresh node without a kubelet."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    create_node(plane.api, name)
    return name


def starts(plane: ControlPlane, scratch: Path) -> Iterator[Figure]:
    """From the start of the process to its endpoint, and to capacity on the node."""
    ready, published = [], []
    for number in range(STARTS):
        name, folder = node(plane), scratch / f"start-{number}"
        board = Board.copy(scratch / f"root-{number}")
        begun, since = time.monotonic(), datetime.now(timezone.utc)
        with AgentProcess(plane, name, board.root, folder, config=""):
            ready.append(time.monotonic() - begun)
            wait_for("capacity", partial(is_published, plane, name), every=0.01)
        (patch, *_) = plane.audit(credential=plane.credential_id(name), resource="nodes/status", since=since)
        published.append((patch.received - since).total_seconds())
    yield Figure("start -> endpoint answers", "s", ready, "<= 1.5 s")
    yield Figure("start -> capacity patch received", "s", published, "<= 3 s")


def is_published(plane: ControlPlane, name: str) -> bool:
    """The node has capacity."""
    return GPU_MEMORY in plane.api.read_node(name).status.capacity


def footprint(plane: ControlPlane, scratch: Path) -> Iterator[Figure]:
    """Memory and CPU time at the default cadence on a busy board, with real memory cgroups."""
    name = node(plane)
    with ExitStack() as stack:
        root = stack.enter_context(HostRoot(recorded_board() / "host", scratch / "busy"))
        cgroups = stack.enter_context(PodCgroups())
        fill(plane, Board(root.path), name, pods=PODS, gpu_processes=GPU_PROCESSES, cgroups=cgroups)
        agent = AgentProcess(plane, name, root.path, scratch / "busy-agent", config="", popen=root.popen)
        stack.enter_context(agent).wait_ready()
        time.sleep(SETTLE)
        process = psutil.Process(agent.pid)
        unscraped = process.cpu_times()
        scrapes = [scrape(agent) for _ in range(SCRAPES)]
        scraped = process.cpu_times()
        before, cycles = process.cpu_times(), counted(agent)
        time.sleep(WATCH)
        after, turned = process.cpu_times(), counted(agent) - cycles
        memory = process.memory_full_info()
        text = agent.text("/metrics")
        with watching(agent):
            before_watch = process.cpu_times()
            time.sleep(WATCH)
            after_watch, watched = process.cpu_times(), process.memory_full_info()
    spent = (after.user + after.system) - (before.user + before.system)
    yield Figure("RSS", "MiB", [memory.rss / MIB], "<= 45 MiB")
    yield Figure("private memory (USS)", "MiB", [memory.uss / MIB], "-")
    yield Figure("CPU at default cadence", "%", [100 * spent / WATCH], "<= 0.5 % of a core")
    yield Figure("CPU per cycle", "ms", [1000 * spent / turned], "-")
    yield Figure("/metrics", "ms", [1000 * seconds for seconds in scrapes], "p95 <= 5 ms")
    spent = (scraped.user + scraped.system) - (unscraped.user + unscraped.system)
    yield Figure("/metrics, CPU of the agent", "ms", [1000 * spent / SCRAPES], "-")
    yield Figure("/metrics, series", "", [sum(not line.startswith("#") for line in text.splitlines())], "-")
    yield Figure("/metrics, size", "KiB", [len(text) / 1024], "-")
    spent = (after_watch.user + after_watch.system) - (before_watch.user + before_watch.system)
    yield Figure("RSS with a live view open", "MiB", [watched.rss / MIB], "<= 45 MiB")
    yield Figure("CPU with a live view open", "%", [100 * spent / WATCH], "-")


@contextmanager
def watching(agent: AgentProcess) -> Iterator[None]:
    """A dashboard looks on: it reads the stream as fast as it comes."""
    url = f"http://{(agent.runtime / 'address').read_text().strip()}/api/v1/stream"
    stream = urllib.request.urlopen(url, timeout=30)

    def read() -> None:
        with suppress(OSError, ValueError):
            while stream.readline():
                pass

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        # Closing alone would wait for the reader's next line.
        stream.fp.raw._sock.shutdown(socket.SHUT_RDWR)  # noqa: SLF001 (urllib has no other way)
        reader.join()
        stream.close()


def reaction(plane: ControlPlane, scratch: Path) -> Iterator[Figure]:
    """Near the floor: from a breach in the files to the eviction received by the API server."""
    name, board = node(plane), Board.copy(scratch / "near")
    meminfo = (board.root / "proc/meminfo").read_text()
    board.write("proc/meminfo", with_available(meminfo, 160 * 1024))
    delays: list[float] = []
    with AgentProcess(plane, name, board.root, scratch / "near-agent", config="pressure: {floor: 128Mi}\n") as agent:
        agent.wait_ready()
        delays.extend(breach(plane, board, name, meminfo, number) for number in range(BREACHES))
    yield Figure("near the floor: breach -> eviction received", "ms", delays, "p95 <= 300, max <= 500 ms")


def breach(plane: ControlPlane, board: Board, name: str, meminfo: str, number: int) -> float:
    """Milliseconds until the eviction of a pod that outgrows its budget arrives."""
    pid, container = 20_000 + number, f"{20_000 + number:064x}"
    manifest = pod(f"greedy-{number}", node=name, limits={GPU_MEMORY: "1Gi", "memory": "2Gi"})
    live: Any = play_start(plane.api, create_pod(plane.api, manifest), container_id=container)
    cgroup(board, live.metadata.uid, container)
    board.process(pid, "greedy", live.metadata.uid, container, start=90_000 + number)
    board.hold(pid, "greedy", 900)
    time.sleep(3)
    since = datetime.now(timezone.utc)
    board.hold(pid, "greedy", 1500)
    board.write("proc/meminfo", with_available(meminfo, 100 * 1024))
    wait_for("eviction", lambda: (found := get_pod(plane.api, live)) and found.metadata.deletion_timestamp, every=0.02)
    (call,) = plane.audit(credential=plane.credential_id(name), resource="pods/eviction", since=since)
    board.end(pid)
    play_end(plane.api, live)
    board.write("proc/meminfo", with_available(meminfo, 160 * 1024))
    time.sleep(2)
    return (call.received - since).total_seconds() * 1000


def with_available(meminfo: str, kib: int) -> str:
    """The recording with another MemAvailable; the free CMA pages of it are 0."""
    return re.sub(r"(?m)^MemAvailable: .*$", f"MemAvailable: {kib:>10} kB", meminfo)


def counted(agent: AgentProcess) -> float:
    """Cycles completed."""
    match = re.search(r"(?m)^edgeagent_cycles_total (\S+)$", agent.text("/metrics"))
    return float(match[1]) if match else 0.0


def scrape(agent: AgentProcess) -> float:
    """Seconds that one scrape takes."""
    begun = time.monotonic()
    agent.text("/metrics")
    return time.monotonic() - begun


if __name__ == "__main__":
    main()

"""Real processes in real cgroups: what the kernel counts is what is told."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgeagent.facts import PodCgroup
from edgeagent.facts.neighbours import Resource
from edgeagent.host.disk import RootFiles
from edgeagent.host.podcounters import counters
from edgeagent.host.pressure import stalled as pressure
from edgeagent.watch.rates import HeldBack, stalled, throttled

CGROUPS = Path("/sys/fs/cgroup")
UID = "11111111-2222-3333-4444-000000000001"
BURN = "while True: pass"


def version_2() -> bool:
    return (CGROUPS / "cgroup.controllers").exists()


def cpu_folder() -> Path:
    """Where CPU time is counted."""
    return CGROUPS if version_2() else CGROUPS / "cpu"


def made(folder: Path) -> Path:
    """A new cgroup with a quota of 5 ms in each 50 ms.

    Raises:
        OSError: there is no such controller here, or it is not ours to use.
    """
    if version_2():
        (folder.parent / "cgroup.subtree_control").write_text("+cpu")
    folder.mkdir()
    try:
        if version_2():
            (folder / "cpu.max").write_text("5000 50000")
        else:
            (folder / "cpu.cfs_period_us").write_text("50000")
            (folder / "cpu.cfs_quota_us").write_text("5000")
    except OSError:
        folder.rmdir()
        raise
    return folder


@pytest.fixture
def limited() -> Iterator[Path]:
    """A cgroup with a quota, and a process in it that wants more; both are gone afterwards."""
    if os.geteuid():
        pytest.skip("needs root, for a cgroup of its own")
    try:
        folder = made(cpu_folder() / f"edgeagent-test-{os.getpid()}")
    except OSError as error:
        pytest.skip(f"needs a CPU controller with quotas: {error}")
    with burning(folder, 1):
        yield folder


@contextmanager
def burning(folder: Path, number: int) -> Iterator[None]:
    """So many processes in ``folder`` that want all they can get; it is removed with them."""
    processes = [subprocess.Popen([sys.executable, "-I", "-c", BURN]) for _ in range(number)]
    try:
        for process in processes:
            (folder / "cgroup.procs").write_text(str(process.pid))
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
        remove(folder)


def remove(folder: Path) -> None:
    """The kernel may take a moment until a cgroup whose process has ended is empty."""
    until = time.monotonic() + 10
    while True:
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def test_a_process_that_wants_more_than_its_quota_is_held_back(limited: Path) -> None:
    files = RootFiles(Path("/"))
    # Memory is where a pod is looked for; what is counted of CPU time lies on the same way in another hierarchy.
    path = str(limited).removeprefix("/").replace("/cgroup/cpu/", "/cgroup/memory/")
    pod = PodCgroup(host_bytes=0, exact=True, path=path)

    def held() -> HeldBack | None:
        return throttled(before, counters(files, {UID: pod})[UID].throttling)

    before = counters(files, {UID: pod})[UID].throttling
    until = time.monotonic() + 30
    while not ((found := held()) and found.since.periods >= 10) and time.monotonic() < until:
        time.sleep(0.05)
    assert found is not None
    # It always wants the whole of a core and may have a tenth of one: in every period it is stopped, but perhaps the
    # one that is under way at either end; where the machine is busy, it may not get even its tenth in some.
    assert found.since.periods >= 10
    assert found.ratio > 0.3
    assert found.since.seconds > 0
    files.close()


@pytest.fixture
def crowded() -> Iterator[Path]:
    """A cgroup with more busy processes than there are cores, and nothing that holds them back."""
    root = CGROUPS if version_2() else CGROUPS / "unified"
    if os.geteuid() or not (root / "cpu.pressure").exists():
        pytest.skip("needs root and cgroup v2 with pressure files, for a cgroup of its own")
    folder = root / f"edgeagent-test-{os.getpid()}"
    folder.mkdir()
    with burning(folder, len(os.sched_getaffinity(0)) + 1):
        yield folder


def test_processes_that_wait_for_each_other_show_as_pressure(crowded: Path) -> None:
    files, path = RootFiles(Path("/")), str(crowded).removeprefix("/")
    begun, before = time.monotonic(), pressure(files, path)
    assert before.keys() == {"cpu", "memory", "io"}
    waited: dict[Resource, float] = {}
    while waited.get("cpu", 0.0) < 0.2 and time.monotonic() < begun + 30:
        time.sleep(0.1)
        waited = stalled(before, pressure(files, path), time.monotonic() - begun)
    # One of them waits nearly always; memory and disk are nobody's trouble here.
    assert waited["cpu"] >= 0.2
    assert waited["cpu"] <= 1.0
    files.close()

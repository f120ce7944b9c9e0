"""What it costs to watch 110 pods and the sensors of an Orin: CPU time of a look, and what its series add to a scrape.

python -m tests.bench.neighbours       # as root: real cgroups of version 2, in a folder of this run
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from edgeagent.facts import PodCgroup, PodFacts
from edgeagent.host.disk import RootFiles
from edgeagent.host.podcounters import counters
from edgeagent.host.thermal import readings
from edgeagent.serve import metrics
from edgeagent.watch.watching import ROUND, View, Watch
from tests.bench.figures import Figure
from tests.unit import factories
from tests.unit.host.test_thermal import ORIN, cooling, zone
from tests.unit.serve.states import NEIGHBOUR, NOW, WALL, shown
from tests.unit.snapshot.making import write
from tests.unit.watch.making import Clock, host
from tests.unit.watch.test_watching import Driver

PODS = 110
LOOKS = 50
CGROUPS = Path("/sys/fs/cgroup")


def main() -> None:
    """Every figure."""
    with tempfile.TemporaryDirectory() as scratch, pods() as found:
        for figure in (*looks(found, Path(scratch)), *scrapes(found)):
            print(figure.line())


@contextmanager
def pods() -> Iterator[dict[str, PodCgroup]]:
    """Cgroups of pods with a container each, by uid."""
    root = CGROUPS if (CGROUPS / "cgroup.controllers").exists() else CGROUPS / "unified"
    top = root / f"edgeagent-bench-{os.getpid()}"
    folders = [top]
    found = {}
    for number in range(PODS):
        uid = f"11111111-2222-3333-4444-{number:012d}"
        pod, container = top / f"pod{uid}", f"{number:064x}"
        folders += [pod, pod / container]
        path = str(pod).removeprefix("/")
        found[uid] = PodCgroup(host_bytes=0, exact=True, path=path, container_paths={container: f"{path}/{container}"})
    for folder in folders:
        folder.mkdir()
    try:
        yield found
    finally:
        for folder in reversed(folders):
            folder.rmdir()


def facts(found: dict[str, PodCgroup]) -> tuple[PodFacts, ...]:
    """The pods as the API server has them."""
    return tuple(factories.pod(f"p{number}", uid=uid) for number, uid in enumerate(found))


def looks(found: dict[str, PodCgroup], scratch: Path) -> Iterator[Figure]:
    """CPU time of one look, of all threads."""
    zones = {key: entry for number in range(12) for key, entry in zone(number, f"zone-{number}", "45000").items()}
    slowing = {key: one for number in range(16) for key, one in cooling(number, f"cpufreq-cpu{number}", 0).items()}
    entries = {**ORIN, **zones, **slowing}
    board = RootFiles(write(scratch / "host", {path: entry for path, entry in entries.items() if entry is not None}))
    live = RootFiles(Path("/"))
    spent = [timed(lambda: counters(live, found)) for _ in range(LOOKS)]
    yield Figure(f"counters of {PODS} pods with a container each", "ms", spent, "-")
    spent = [timed(lambda: readings(board)) for _ in range(LOOKS)]
    yield Figure("sensors of a board", "ms", spent, "-")
    whole = asyncio.run(watched(found, live))
    yield Figure("a look at all of it", "ms", whole, "-")
    share = 100 * (sum(whole) / len(whole) + sum(spent) / len(spent)) / 1000 / ROUND
    yield Figure("CPU of watching", "%", [share], "well below 0.5 % of a core")


async def watched(found: dict[str, PodCgroup], files: RootFiles) -> list[float]:
    """Milliseconds of CPU time of single looks."""
    clock, view = Clock(), View(host(pods=found), facts(found))
    watch = Watch(files, Driver(), lambda: view, clock=clock)
    spent = []
    for _ in range(LOOKS):
        begun = time.process_time()
        await watch.look()
        spent.append(1000 * (time.process_time() - begun))
        clock.now += ROUND
    return spent


def scrapes(found: dict[str, PodCgroup]) -> Iterator[Figure]:
    """What the series of pods that are watched add to a scrape."""
    neighbours = {uid: replace(NEIGHBOUR, uid=uid, name=uid) for uid in found}
    with_them, without = shown(neighbours=neighbours), shown(neighbours={})
    yield Figure("a scrape without", "ms", [timed(lambda: metrics.text(without, NOW, WALL)) for _ in range(LOOKS)], "-")
    more = [timed(lambda: metrics.text(with_them, NOW, WALL)) for _ in range(LOOKS)]
    yield Figure(f"a scrape with {PODS} of them, all figures told", "ms", more, "p95 <= 5 ms")


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of CPU time."""
    begun = time.process_time()
    work()
    return 1000 * (time.process_time() - begun)


if __name__ == "__main__":
    main()

"""Hours of faults in virtual time: ``python -m tests.bench.soak [HOURS] [SEED]``, 24 unless told, some minutes long.

A whole agent (see ``tests/faults/virtual.py``) on a board whose pods come, grow, shrink and go, while the API server
refuses, hangs, throttles and forgets, the driver hangs, files cannot be read, the clock jumps and the agent restarts.
Every eviction is judged by what was true when it was carried out. The same seed makes the same hours.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.faults.virtual import (
    Api,
    Call,
    Driver,
    Fault,
    Load,
    Outpost,
    Response,
    black_hole,
    cut_after,
    play,
    refused,
    says,
)

HOURS = 24.0
SEED = 1
GRACE = 15.0
FLOOR, HORIZON = 128, 3.0
"""MiB and seconds, the defaults."""
PER_HOUR = 6
STEP = 20
"""MiB."""
NAMES = tuple("abcdef")
CLIENTS = "sys/kernel/debug/nvmap/iovmm/clients"
MEMINFO = "proc/meminfo"


@dataclass
class Found:
    """What some hours came to."""

    wrong: list[str] = field(default_factory=list)
    evictions: int = 0
    pressed: int = 0
    """Of them under pressure."""
    faults: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    cycles: int = 0
    tasks: list[int] = field(default_factory=list)
    """Each ten minutes, as the three below."""
    descriptors: list[int] = field(default_factory=list)
    objects: list[int] = field(default_factory=list)
    """Python objects that the collector knows of."""
    rss: list[int] = field(default_factory=list)
    """KiB."""


class Soak:
    """One run on ``outpost``; ``found`` fills."""

    def __init__(self, outpost: Outpost, seed: int) -> None:
        self.found = Found()
        self._outpost = outpost
        self._rng = random.Random(seed)
        self._usable: list[tuple[float, int]] = []
        """(second, MiB) at each change of the last two minutes."""
        self._trouble: list[Fault] = []
        outpost.api.judge = self._judged
        outpost.api.fault = self._faulty
        self._moves: tuple[tuple[int, Callable[[], Awaitable[None]]], ...] = (
            (8, self._comes),
            (16, self._grows),
            (10, self._shrinks),
            (4, self._goes),
            (2, self._fills),
            (5, self._api),
            (3, self._streams),
            (2, self._file),
            (2, self._driver),
            (1, self._clock),
            (1, self._restarts),
            (1, self._anew),
        )

    async def run(self, seconds: float) -> Found:
        """Live so long."""
        outpost = self._outpost
        outpost.pod("system", 256, 900, namespace="kube-system").spared = "policy.protect"
        owner = [{"kind": "DaemonSet", "name": "ds", "controller": True, "apiVersion": "apps/v1", "uid": "x"}]
        outpost.pod("daemon", 256, 500, ownerReferences=owner).spared = "DaemonSet"
        outpost.pod("free", None, 100).spared = "no budget"
        outpost.start()
        end, look = outpost.now + seconds, outpost.now + 300.0
        weights, moves = zip(*self._moves, strict=True)
        while outpost.now < end:
            await outpost.settle(self._rng.expovariate(1 / 8.0))
            await self._rng.choices(moves, weights)[0]()
            self._note()
            if outpost.now >= look:
                self._look()
                look += 600.0
        self.found.cycles = len(outpost.cycles)
        return self.found

    # --- what happens

    def _mine(self) -> list[Load]:
        return [load for load in self._outpost.loads.values() if load.name in NAMES]

    async def _comes(self) -> None:
        taken = {load.name for load in self._outpost.loads.values()} | set(self._outpost.api.pods)
        free = [name for name in NAMES if name not in taken]
        if free and self._outpost.usable > 800:
            self._outpost.pod(self._rng.choice(free), self._rng.choice((256, 512, 1024)), STEP)

    async def _grows(self) -> None:
        """Within its budget, or now and then beyond, in steps too small to look like a board that is being filled."""
        if mine := self._mine():
            load = self._rng.choice(mine)
            wanted = int(self._rng.uniform(0.3, 1.0) * (load.budget or 0) * (1.6 if self._rng.random() < 0.3 else 1.0))
            while load.holds < wanted and load.uid in self._outpost.loads and self._outpost.usable > 2 * STEP:
                self._outpost.hold(load, load.holds + STEP)
                self._note()
                await self._outpost.settle(0.25)

    async def _shrinks(self) -> None:
        if mine := self._mine():
            load = self._rng.choice(mine)
            self._outpost.hold(load, self._rng.randrange(1, max(2, load.holds)))

    async def _goes(self) -> None:
        if mine := self._mine():
            self._outpost.end(self._rng.choice(mine))

    async def _fills(self) -> None:
        """One pod takes nearly all that is left, over some seconds."""
        if mine := self._mine():
            load = self._rng.choice(mine)
            for _ in range(40):
                if load.uid not in self._outpost.loads or self._outpost.usable < 100:
                    break
                self._outpost.hold(load, load.holds + min(150, self._outpost.usable - 60))
                self._note()
                await self._outpost.settle(0.5)

    async def _for(self, fault: Fault, name: str) -> None:
        """A fault of the API server, for some seconds or minutes."""
        self.found.faults[name] += 1
        self._trouble.append(fault)
        seconds = self._rng.choice((2.0, 15.0, 60.0, 200.0))
        asyncio.get_running_loop().call_later(seconds, self._trouble.remove, fault)

    async def _api(self) -> None:
        kinds: dict[str, Fault] = {
            "refused": refused,
            "hangs": black_hole,
            "429": says(429, retry="3"),
            "429 budget": self._some(says(429, retry="1", causes=("DisruptionBudget",)), evictions=True),
            "403": self._some(says(403, "Forbidden"), evictions=True),
            "401": says(401, "Unauthorized"),
            "500": says(500),
            "503": says(503),
            "410": self._some(says(410, "Expired")),
            "lost answers": self._some(cut_after),
            "no object": self._some(_rubbish),
        }
        name = self._rng.choice(sorted(kinds))
        await self._for(kinds[name], name)

    def _some(self, fault: Fault, *, evictions: bool = False) -> Fault:
        """The half of the calls, or of the evictions alone."""

        async def step(api: Api, call: Call) -> Response | None:
            if (evictions and not call.eviction) or self._rng.random() < 0.5:
                return None
            return await fault(api, call)

        return step

    async def _faulty(self, api: Api, call: Call) -> Response | None:
        return await self._trouble[-1](api, call) if self._trouble else None

    async def _streams(self) -> None:
        ends: tuple[Any, ...] = (
            b"",
            b'{"type": "MOD',
            b"<html>\n",
            ConnectionResetError(104, "Connection reset by peer"),
            {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}},
            {"type": "ADDED", "object": {"metadata": {"name": "odd"}}},
        )
        self.found.faults["stream"] += 1
        self._outpost.api.break_watches(self._rng.choice(ends))
        self._outpost.api.bookmarks = self._rng.random() < 0.8

    async def _file(self) -> None:
        """A file of the board cannot be read, or is half there, for a while; then it is as it should be."""
        name = self._rng.choice((CLIENTS, MEMINFO))
        place = self._outpost.board.root / name
        text = place.read_bytes()
        self.found.faults["file"] += 1
        if self._rng.random() < 0.5:
            place.unlink()
        else:
            place.write_bytes(text[: self._rng.randrange(len(text))])
        await self._outpost.settle(self._rng.choice((1.0, 5.0, 20.0)))
        self._outpost.show()
        _rewrite(self._outpost)

    async def _driver(self) -> None:
        self.found.faults["driver"] += 1
        Driver.hangs = True
        await self._outpost.settle(self._rng.choice((1.0, 5.0, 40.0)))
        Driver.hangs = False

    async def _clock(self) -> None:
        self._outpost.wall_offset += self._rng.choice((-1, 1)) * self._rng.choice((3600.0, 86400.0 * 365))

    async def _restarts(self) -> None:
        self.found.restarts += 1
        await self._outpost.stop(killed=self._rng.random() < 0.5)
        self._outpost.start()

    async def _anew(self) -> None:
        """The kubelet takes our capacity away."""
        node = self._outpost.api.node["status"]
        node["capacity"], node["allocatable"] = {"cpu": "6"}, {"cpu": "6"}
        self._outpost.api.patch_node({})

    # --- what is true

    def _note(self) -> None:
        now = self._outpost.now
        self._usable = [one for one in self._usable if now - one[0] <= 120] + [(now, self._outpost.usable)]

    def _danger(self) -> bool:
        """Whether the board was in danger within the last two minutes, by a rule that is wider than the agent's."""
        values = [usable for _, usable in self._usable] + [self._outpost.usable]
        drops = [max(0, before - after) for before, after in itertools.pairwise(values)]
        # A step between two readings that are 0.1 s apart falls ten times as fast.
        return min(values) - HORIZON * 10 * max(drops, default=0) < FLOOR + 256

    def _judged(self, pod: dict[str, Any]) -> None:
        """An eviction is carried out."""
        load = self._outpost.loads.get(pod["metadata"]["uid"])
        now = self._outpost.now
        self.found.evictions += 1
        name = pod["metadata"]["name"]
        if load is None:
            self._wrong(f"{name}: it has no process")
        elif load.spared:
            self._wrong(f"{name} is spared: {load.spared}")
        elif load.over_since is None:
            self._wrong(f"{name} holds {load.holds} of {load.budget} MiB")
        elif "deletionTimestamp" in pod["metadata"]:
            self._wrong(f"{name} is terminating already")
        elif self._danger():
            self.found.pressed += 1
        else:
            self._calm(load, now)

    def _calm(self, load: Load, now: float) -> None:
        """The rules of a board with room."""
        if load.over_since is not None and now - load.over_since < GRACE:
            self._wrong(f"{load.name} was over for {now - load.over_since:.1f} s")
        going = [uid for at, uid in self._outpost.api.accepted if uid in self._outpost.loads and uid != load.uid]
        if going:
            self._wrong(f"{load.name} while {going} still has its memory")
        last_hour = [at for at, _ in self._outpost.api.accepted if now - at < 3600]
        if len(last_hour) >= PER_HOUR:
            self._wrong(f"{load.name} is number {len(last_hour) + 1} in an hour")

    def _wrong(self, what: str) -> None:
        self.found.wrong.append(f"at {self._outpost.now:.1f} s: {what}")

    def _look(self) -> None:
        gc.collect()
        self.found.tasks.append(len(asyncio.all_tasks()))
        self.found.descriptors.append(len(os.listdir("/proc/self/fd")))  # noqa: PTH208 (as short as it gets)
        self.found.objects.append(len(gc.get_objects()))
        self.found.rss.append(psutil.Process().memory_info().rss // 1024)
        # What the test itself has kept.
        del self._outpost.api.accepted[:-50]


def _rewrite(outpost: Outpost) -> None:
    """The table as it should be."""
    some = next(iter(outpost.loads.values()))
    outpost.hold(some, some.holds)


async def _rubbish(_api: Api, _call: Call) -> Response | None:
    return Response(200, b"<html>sign in</html>")


def soak(folder: Path, seconds: float, seed: int, settings: str = "") -> Found:
    """So many virtual seconds. The judge knows the defaults alone: other ``settings`` have to look wrong to it."""

    async def story(outpost: Outpost) -> Found:
        return await Soak(outpost, seed).run(seconds)

    return play(folder, story, settings)


def main() -> int:
    """Print what was found; 1 if an eviction was wrong."""
    hours = float(sys.argv[1]) if len(sys.argv) > 1 else HOURS
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else SEED
    logging.getLogger("edgeagent").setLevel(logging.CRITICAL)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = soak(Path(folder), hours * 3600, seed)
    print(f"{hours:g} virtual hours, seed {seed}: {found.cycles} cycles in {time.monotonic() - begun:.0f} s")
    print(f"evictions {found.evictions}, under pressure {found.pressed}; restarts {found.restarts}")
    print("faults " + ", ".join(f"{name} {count}" for name, count in sorted(found.faults.items())))
    named = {"tasks": found.tasks, "descriptors": found.descriptors, "objects": found.objects, "RSS KiB": found.rss}
    for name, values in named.items():
        print(f"{name:<12} first {values[0]}, median {sorted(values)[len(values) // 2]}, last {values[-1]}")
    print(f"wrong evictions: {len(found.wrong)}", *found.wrong[:10], sep="\n  ")
    return int(bool(found.wrong))


if __name__ == "__main__":
    sys.exit(main())

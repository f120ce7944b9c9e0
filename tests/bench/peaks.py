"""What the peaks of workloads cost on a board with 110 pods: ``python -m tests.bench.peaks``."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from collections.abc import Callable

from edgeagent.plan import peakfile, peaks
from edgeagent.plan.advice import advice, documents
from edgeagent.plan.keeping import Origin
from edgeagent.plan.peaks import Peaks
from edgeagent.plan.types import Plan
from tests.bench.figures import Figure
from tests.unit.plan.workloads import GIB, MIB, WALL, plan, view

PODS, WITH_GPU = 110, 30
INTERVAL, MAX_AGE = 2.0, 10.0
ORIGIN = Origin("boot", "/", "0d5f6c1e8b7a4f2e9c3d1a2b3c4d5e6f")


def board(rng: random.Random) -> Plan:
    """110 pods whose memory is never the same twice; 30 of them hold GPU memory."""
    views = [
        view(
            f"service-{number}-7f9c-x",
            (GIB + rng.randrange(256) * MIB) if number < WITH_GPU else 0,
            200 * MIB + rng.randrange(64 * MIB),
            owner=("ReplicaSet", f"service-{number}-7f9c"),
        )
        for number in range(PODS)
    ]
    return plan(*views)


def timed(what: Callable[[], object]) -> float:
    """Milliseconds."""
    begun = time.perf_counter()
    what()
    return 1000 * (time.perf_counter() - begun)


def main() -> None:
    """Prints the figures."""
    rng = random.Random(7)
    boards = [board(rng) for _ in range(50)]
    tracemalloc.start()
    found, at = Peaks(), 0.0
    for hour in range(9 * 24):  # a week and two days, a few samples in each hour
        for step in range(4):
            at = hour * 3600.0 + step * INTERVAL
            found = peaks.fold(found, boards[(hour + step) % len(boards)], at, WALL + at, MAX_AGE)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    folds = []
    for step in range(500):
        at += INTERVAL
        one, now = boards[step % len(boards)], at
        begun = time.perf_counter()
        found = peaks.fold(found, one, now, WALL + now, MAX_AGE)
        folds.append(1000 * (time.perf_counter() - begun))
    document = peakfile.kept(found, ORIGIN)
    size = len(json.dumps(document, separators=(",", ":"))) / 1024
    figures = [
        Figure("fold of one sample", "ms", folds, f"0.1 % of a core is {INTERVAL} ms"),
        Figure("advice for all", "ms", [timed(lambda: advice(found, boards[0])) for _ in range(100)], "-"),
        Figure(
            "the same as documents", "ms", [timed(lambda: documents(advice(found, boards[0]))) for _ in range(100)], "-"
        ),
        Figure("to JSON values", "ms", [timed(lambda: peakfile.kept(found, ORIGIN)) for _ in range(100)], "-"),
        Figure("peaks.json", "KiB", [size], "a few tens"),
        Figure("memory held", "KiB", [held / 1024], "-"),
    ]
    print(f"{PODS} pods, {WITH_GPU} with GPU memory, after nine days")
    for figure in figures:
        print(figure.line())


if __name__ == "__main__":
    main()

"""A long search for wrong evictions: ``python -m tests.bench.decisions [STEPS]``, a million steps unless told.

One step is one decision of the agent with everything that is judged of it, see ``tests/properties/living.py``.
All cores work; every run has its own number, so that any of them can be played again.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections import Counter
from typing import NamedTuple

from tests.properties.life import Move
from tests.properties.living import TWICE, WRONG, Life, Wrong
from tests.properties.moves import goes_wrong, made, shortest

STEPS = 1_000_000
SEED = 1_000_000
"""Number of the first run, beyond those of the suite."""
MOVES = 400
RUNS = 8
"""Runs in one task of one process."""
SHOWN = 3


class Part(NamedTuple):
    """What some runs came to."""

    steps: int
    evicted: Counter[str]
    wrong: tuple[tuple[int, Wrong], ...]
    """With the number of the run; one at most of each."""


def search(first: int) -> Part:
    """The runs from number ``first`` on."""
    steps, evicted, wrong = 0, Counter[str](), []
    for seed in range(first, first + RUNS):
        cards, run = made(seed, MOVES)
        life = Life.begin(cards=cards).play(run)
        steps += life.decisions
        evicted += life.evicted
        wrong += [(seed, one) for one in life.wrong[:1]]
    return Part(steps, evicted, tuple(wrong))


def show(seed: int, one: Wrong) -> None:
    """The shortest part of a run that still goes wrong in this way."""
    cards, run = made(seed, MOVES)
    print(f"\nrun {seed}, {one.kind}: {one.what}")
    print(f"Life.begin(cards={cards}).play([")
    moves: list[Move] = shortest(run, lambda less: goes_wrong(less, one.kind, cards=cards))
    for move in moves:
        print(f"    {move!r},")
    print("])")


def main() -> int:
    """Searches and prints; 1 if anything was wrong."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    steps, evicted = 0, Counter[str]()
    wrong: list[tuple[int, Wrong]] = []
    begun = time.monotonic()
    with multiprocessing.Pool() as pool:
        for part in pool.imap(search, range(SEED, SEED + wanted, RUNS)):  # the last ones are never needed
            steps += part.steps
            evicted += part.evicted
            wrong += part.wrong
            if steps >= wanted:
                break
    spent = time.monotonic() - begun
    bad = sum(one.kind in (WRONG, TWICE) for _, one in wrong)
    print(f"steps             {steps}  (runs of {MOVES} moves from number {SEED} on)")
    named = ", ".join(f"{count} {name}" for name, count in evicted.most_common())
    print(f"evictions         {evicted.total()}: {named}")
    print(f"wrong evictions   {bad}")
    print(f"else wrong        {len(wrong) - bad}: {dict(Counter(one.kind for _, one in wrong))}")
    print(f"steps per second  {steps / spent:.0f} on {multiprocessing.cpu_count()} cores, {spent:.0f} s")
    for seed, one in wrong[:SHOWN]:
        show(seed, one)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

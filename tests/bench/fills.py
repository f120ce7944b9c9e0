"""Which boards live when one pod fills them: ``python -m tests.bench.fills``, some minutes, the same each time.

The real :func:`edgeagent.plan.decide.decide` is fed by a board whose usable memory falls at a constant rate, read when
the real :mod:`edgeagent.plan.cadence` says so, and its evictions and kills take as long as they take. Of the moments
between two readings at which the pod may begin, the worst counts. Needs no board, no cluster and no root.
"""

from __future__ import annotations

import itertools
import multiprocessing
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from edgeagent.facts import Facts
from edgeagent.plan import breaches, cadence, outcomes, survival
from edgeagent.plan.decide import decide
from edgeagent.plan.state import State
from edgeagent.plan.types import EvictionResult, KillResult
from edgeagent.quantity import GIB, MIB, human
from tests.unit.factories import Held, Scene, config, meminfo, pod

if TYPE_CHECKING:
    from edgeagent.config import Config
    from edgeagent.plan.types import Eviction, Kill, Plan

CALL = 0.1
"""Seconds from the decision until the API server has the eviction: what ``python -m tests.bench`` measures at p95."""
SIGNAL = 0.02
"""Seconds from the decision until a kill has reached the process."""
TEARDOWN = 1.0
"""Seconds from the end of a process until the driver has given its memory back."""
AFTER = 2.0
"""Seconds that a board is looked at after the memory is back."""
_ROUNDING = 1e-9
"""A reading is due just after its time: the difference of two sums is not exact."""

BOARDS = {"4 GB": 4_059_504, "8 GB": 7_802_736, "16 GB": 16_031_744, "64 GB": 64_308_224}
"""MemTotal in KiB: Jetson Nano, Orin Nano, Orin NX, AGX Orin."""
RATES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""GiB per second."""
SLOW = (0.5, 0.95, 1.1, 1.25)
"""Parts of the rate that is said to be survived without the last resort, tried too."""
SLOW_PHASES = 5
"""Moments tried of fills slower than ``RATES``: they last long, and a sample more or less matters little."""
PHASES = 17
"""Moments tried; no divisor of ``sampling.interval`` over ``sampling.fast``, so that the quick readings vary too."""
NEAR = 0.05
"""Of the rate that is said to be survived: what a simulation in steps and a bisection may differ by."""
CULPRIT, NEIGHBOUR = "culprit", "neighbour"


@dataclass(frozen=True, kw_only=True)
class Fill:
    """One pod that takes ``rate`` bytes per second from a board with ``usable`` bytes left, forever."""

    total: int
    usable: int
    rate: float
    phase: float = 0.0
    """Part of ``sampling.interval`` that has passed since the last sample when the pod begins."""
    settings: str = ""
    """The agent's configuration as YAML."""

    @cached_property
    def config(self) -> Config:
        return config(self.settings)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How it ended. Seconds count from the moment at which the pod began."""

    lives: bool
    lowest: float
    """Bytes that were usable at the worst moment."""
    evicted_at: float | None
    """When the eviction was decided on."""
    evicted_with: int | None
    """Bytes that were usable then."""
    grace: int | None
    """Seconds that the eviction gave the pod."""
    killed_at: float | None
    """When the signal was sent, if it was."""
    harmed: tuple[str, ...]
    """Everybody else who was to be evicted or killed."""

    @property
    def by(self) -> str:
        """What ended the pod; ``-`` where the board died first and nothing did."""
        if self.killed_at is not None:
            return "kill"
        return "-" if self.evicted_at is None else "eviction"


@dataclass
class Board:
    """The truth about the memory: what is usable and what the culprit holds, at any second."""

    usable: int
    rate: float
    holds: int
    """Bytes of the culprit before it begins."""
    begins: float
    stops: float = float("inf")
    """The pod takes no more from here on."""
    freed: float = float("inf")

    def taken(self, now: float) -> int:
        return int(self.rate * max(0.0, min(now, self.stops) - self.begins))

    def left(self, now: float) -> int:
        back = self.holds + self.taken(now) if now >= self.freed else 0
        return max(0, self.usable - self.taken(now) + back)

    @property
    def died(self) -> float:
        """When the last byte is gone, unless the pod stops before."""
        at = self.begins + self.usable / self.rate
        return at if at < self.stops else float("inf")


@dataclass
class Agent:
    """What the loop of :class:`edgeagent.agent.Agent` does, on a board and a clock of its own."""

    config: Config
    board: Board
    total: int
    budget: int
    now: float = 0.0
    state: State = field(default_factory=State)
    plan: Plan | None = None
    memory_at: float = float("-inf")
    sampled_at: float = float("-inf")
    calling: Plan | None = None
    answered_at: float = float("inf")
    evicted: tuple[float, int, int] | None = None
    """(second, usable bytes, seconds of grace) of the first eviction."""
    terminating: bool = False
    killed_at: float | None = None
    harmed: list[str] = field(default_factory=list)

    def run(self, until: float) -> None:
        """Cycles until the second ``until``; the board may have died long before."""
        while self.now < min(until, self.board.died):
            self._read()
            self._decide()
            self.now = max(self.now, min(self._due(), self.answered_at))
            if self.now >= self.answered_at:
                self._accepted()

    def _due(self) -> float:
        sampling = self.config.sampling
        sample = self.sampled_at + cadence.attribution(self.plan, sampling)
        return min(sample, self.memory_at + cadence.meminfo(self.plan, sampling)) + _ROUNDING

    def _read(self) -> None:
        sampling = self.config.sampling
        if self.now - self.sampled_at >= cadence.attribution(self.plan, sampling):
            self.sampled_at = self.memory_at = self.now
        elif self.now - self.memory_at >= cadence.meminfo(self.plan, sampling):
            self.memory_at = self.now

    def _facts(self) -> Facts:
        gone = self.sampled_at >= self.board.freed
        own = Held(gpu=0 if gone else self.board.holds + self.board.taken(self.sampled_at))
        pods = (pod(CULPRIT, self.budget, terminating=self.terminating), pod(NEIGHBOUR, self.budget))
        return Scene(
            pods=pods,
            # The neighbour holds all that it may.
            held={CULPRIT: own, NEIGHBOUR: Held(gpu=self.budget)},
            at=self.memory_at,
            attributed_at=self.sampled_at,
            fresh_at=self.now,
            config=self.config,
            meminfo=meminfo(self.total, available=self.board.left(self.memory_at)),
            system=64 * MIB,
        ).facts()

    def _decide(self) -> None:
        self.state, self.plan = decide(self.state, self._facts(), self.now)
        meant = [eviction.uid for eviction in self.plan.evictions] + [kill.uid for kill in self.plan.kills]
        self.harmed += [uid for uid in meant if uid != f"uid-{CULPRIT}"]
        for kill in self.plan.kills:
            self._kill(self.plan, kill)
        if self.plan.evictions and self.calling is None:
            self._call(self.plan, self.plan.evictions[0])

    def _kill(self, plan: Plan, kill: Kill) -> None:
        self.now += SIGNAL
        if self.board.died > self.now:
            self.killed_at = self.now
            self.board.stops = self.now
            self.board.freed = min(self.board.freed, self.now + TEARDOWN)
        result = KillResult(uid=kill.uid, outcomes=tuple((one, "killed") for one in kill.processes))
        self.state = outcomes.killed(self.state, plan, result, self.now)

    def _call(self, plan: Plan, eviction: Eviction) -> None:
        """The sample just before the call is this one: the board does not change in no time."""
        self.calling, self.answered_at = plan, self.now + CALL
        if self.evicted is None:
            self.evicted = (self.now, self.board.left(self.now), eviction.grace_seconds)

    def _accepted(self) -> None:
        assert self.calling is not None
        (eviction,) = self.calling.evictions
        result = EvictionResult(uid=eviction.uid, outcome="accepted")
        self.state, _ = outcomes.learn(self.state, self.calling, result, self.now)
        self.calling, self.answered_at = None, float("inf")
        self.terminating = True
        # The pod ignores SIGTERM. Until its memory is back it goes on to fill, as plan/survival has it.
        back = self.now + eviction.grace_seconds + TEARDOWN
        self.board.freed = min(self.board.freed, back)
        self.board.stops = min(self.board.stops, back)


def play(fill: Fill) -> Ending:
    """The whole story of one fill."""
    settings = fill.config
    # What both hold, with half of the board filled, stays below its memory: a table with more is not believed.
    budget = fill.total // 5
    # Two calm samples, and the pod begins some time after the third.
    begins = (2 + fill.phase) * settings.sampling.interval
    # It holds what is just not over, so that every byte more is a breach.
    holds = budget + breaches.tolerance(budget, settings.policy.tolerance)
    board = Board(fill.usable, fill.rate, holds, begins)
    agent = Agent(settings, board, fill.total, budget)
    limit = begins + fill.usable / fill.rate + 60.0
    while agent.now < min(board.died, board.freed + AFTER, limit):
        agent.run(min(agent.now + AFTER, limit))
    lives = board.died == float("inf")
    lowest = min(board.left(board.begins), board.usable - board.taken(board.stops)) if lives else 0
    at, left, grace = agent.evicted or (None, None, None)
    return Ending(
        lives=lives,
        lowest=lowest,
        evicted_at=None if at is None else at - begins,
        evicted_with=left,
        grace=grace,
        killed_at=None if agent.killed_at is None else agent.killed_at - begins,
        harmed=tuple(agent.harmed),
    )


@dataclass(frozen=True, kw_only=True)
class Worst:
    """The ending with the least memory left, of all moments at which the pod may begin, and how many were deadly."""

    ending: Ending
    died: int
    of: int
    harmed: tuple[str, ...]
    """Everybody but the culprit who was to be evicted or killed in any of them."""

    @property
    def lives(self) -> bool:
        return self.ending.lives

    def __str__(self) -> str:
        one = self.ending
        also = f", evicted at {_size(one.evicted_with)}" if one.evicted_with is not None else ""
        if not one.lives:
            return f"DIES{f' in {self.died} of {self.of}' if self.of > 1 else ''}{also}"
        return f"lives by {one.by}, {_size(one.lowest)} left{also}"


def worst(fill: Fill, phases: int = PHASES, *, to_the_first: bool = False) -> Worst:
    """Of all moments at which the pod may begin; ``to_the_first``: up to the first that is deadly."""
    endings: list[Ending] = []
    for step in range(phases):
        endings.append(play(replace(fill, phase=step / phases)))
        if to_the_first and not endings[-1].lives:
            break
    return Worst(
        ending=min(endings, key=lambda ending: (ending.lives, ending.lowest)),
        died=sum(not ending.lives for ending in endings),
        of=len(endings),
        harmed=tuple(one for ending in endings for one in ending.harmed),
    )


# --- a list of readings --------------------------------------------------------------


def replay(readings: Sequence[tuple[float, int]], settings: str, *, total: int, budget: int) -> tuple[float, int]:
    """(second, usable bytes) of the eviction, where every reading is a sample and the culprit has what is missing.

    Raises:
        LookupError: nobody was evicted.
    """
    state, first = State(), readings[0][1]
    for second, usable in readings:
        scene = Scene(
            pods=(pod(CULPRIT, budget), pod(NEIGHBOUR, budget)),
            held={CULPRIT: Held(gpu=budget + GIB + first - usable), NEIGHBOUR: Held(gpu=budget)},
            at=second,
            config=config(settings),
            meminfo=meminfo(total, available=usable),
        )
        state, plan = decide(state, scene.facts(), second)
        if plan.evictions:
            assert [one.uid for one in plan.evictions] == [f"uid-{CULPRIT}"]
            return second, usable
    raise LookupError("nobody was evicted")


SIX_PER_SECOND = tuple((float(second), amount * GIB) for second, amount in enumerate((40, 34, 28, 22, 16, 10)))
"""Readings of a board on which a loader outran a slow poll (NVIDIA/open-gpu-kernel-modules#1358 and others)."""
FLOOR_8 = "pressure: {floor: 8Gi}\nsampling: {interval: 1s}"


# --- the table -----------------------------------------------------------------------

HALF, HEADROOM = "half of it is free", "all but the headroom is in use"
STARTS = (HALF, HEADROOM)
NEVER = "policy: {kill: never}"
PRESSURE_ALONE = "policy: {kill: never, grace: 24h}"
LADDER = (1 - NEAR, 1 + NEAR, 1.15, 1.25, 1.4)
"""Parts of the rate that is said to be survived, tried one after the other until a board dies."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One board filled at one rate, once with the last resort and once without."""

    board: str
    rate: float
    pressure: Worst
    never: Worst
    said: float
    """Bytes per second that plan/survival says an eviction comes in time for."""

    @property
    def agrees(self) -> str:
        """Whether plan/survival foretold what became of the board without the last resort."""
        ratio = self.rate * GIB / self.said
        if abs(ratio - 1) <= NEAR:
            return "at its limit"
        if self.never.lives == (ratio < 1):
            return "as said"
        # Some fills that are quicker than the slowest deadly one are survived.
        return "better than said" if self.never.lives else "WORSE THAN SAID"

    def line(self) -> str:
        """One line of the table."""
        return f"{self.board:<6}{self.rate:6.4f} | {self.pressure!s:<46} | {self.never!s:<46} | {self.agrees}"

    @property
    def innocent(self) -> bool:
        """Nobody but the culprit was touched."""
        return not self.pressure.harmed and not self.never.harmed


def _size(amount: float) -> str:
    return f"{amount / GIB:.1f} GiB" if amount >= GIB else f"{amount / MIB:.0f} MiB"


def usable(total: int, start: str) -> int:
    """Bytes that are usable when the pod begins. The headroom is max(256 MiB, 2 %)."""
    return total // 2 if start == HALF else max(256 * MIB, -(-total // 50))


def fill_of(board: str, start: str, rate: float = GIB, settings: str = "") -> Fill:
    """One fill of one of the ``BOARDS``."""
    total = BOARDS[board] * 1024
    return Fill(total=total, usable=usable(total, start), rate=rate, settings=settings)


def said(fill: Fill) -> float:
    """Bytes per second that an eviction comes in time for, as the report on this board, still calm, has it."""
    agent = Agent(fill.config, Board(fill.usable, fill.rate, fill.total // 4, 1e9), fill.total, fill.total // 4)
    agent.run(fill.config.sampling.interval)
    assert agent.plan is not None
    (pool,) = agent.plan.pools
    found = survival.outlook(fill.config, agent.plan.danger, pool).now
    assert found is not None
    return found.rate


def board_rows(job: tuple[str, str]) -> list[Row]:
    """One board from one start at all rates."""
    start, board = job
    told = said(fill_of(board, start))
    found = []
    for rate in sorted({*RATES, *(part * told / GIB for part in SLOW)}):
        fill, phases = fill_of(board, start, rate * GIB), PHASES if rate >= RATES[0] else SLOW_PHASES
        never = worst(replace(fill, settings=NEVER), phases, to_the_first=True)
        found.append(Row(board=board, rate=rate, pressure=worst(fill, phases), never=never, said=told))
    return found


def limit(job: tuple[str, str]) -> str:
    """Where a board dies, against the rate that is said to be survived, if nothing but pressure evicts."""
    start, board = job
    fill = fill_of(board, start, settings=PRESSURE_ALONE)
    told = said(fill)
    dies = next((part for part in LADDER if not worst(replace(fill, rate=part * told), to_the_first=True).lives), None)
    found = "lives at all rates tried" if dies is None else f"dies at {dies:.0%} of it"
    verdict = "agrees" if dies == LADDER[1] else "NOT SURVIVED" if dies == LADDER[0] else "cautious"
    return f"{board:<6}{told / GIB:6.3f} GiB/s are said: {found}, {verdict}"


def summary(board: str, start: str, found: Sequence[Row]) -> str:
    """A row of the table in docs/explanation/decisions.md."""
    told = found[0].said
    kept = all(one.never.lives for one in found if one.rate * GIB <= told)
    alone = f"{human(survival.tidy(told))}/s" if kept else "NOT AS SAID"
    survived = [one.rate for one in itertools.takewhile(lambda one: one.pressure.lives, found) if one.rate in RATES]
    last = f"{survived[-1]:g} GiB/s" if survived else f"below {RATES[0]:g} GiB/s"
    return f"| {board} | {_size(usable(BOARDS[board] * 1024, start))} | {alone} | {last} |"


def main() -> int:
    """Print all of it; 1 if somebody innocent was touched."""
    begun = time.monotonic()
    second, left = replay(SIX_PER_SECOND, FLOOR_8, total=122 * GIB, budget=20 * GIB)
    print(f"40, 34, 28, 22, 16, 10 GiB at 1 s, floor 8 GiB: evicted at {second:.0f} s with {_size(left)} usable")
    harmed, table = False, []
    with multiprocessing.Pool() as pool:
        for start in STARTS:
            print(f"\nA board of which {start}\n{'':<6}GiB/s | {'kill: pressure':<46} | {'kill: never':<46} | survival")
            jobs = [(start, board) for board in BOARDS]
            for board, found in zip(BOARDS, pool.map(board_rows, jobs, chunksize=1), strict=True):
                print(*(one.line() for one in found), sep="\n")
                table.append(summary(board, start, found))
                harmed = harmed or not all(one.innocent for one in found)
            print("By eviction under pressure alone:", *pool.map(limit, jobs, chunksize=1), sep="\n")
    print("\n| board | usable | by eviction alone | with the last resort |\n|---|---|---|---|", *table, sep="\n")
    print(f"\nneighbour untouched in every run: {'NO' if harmed else 'yes'}; {time.monotonic() - begun:.0f} s")
    return int(harmed)


if __name__ == "__main__":
    sys.exit(main())

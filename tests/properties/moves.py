"""Runs made by chance, and the shortest part of a run that still goes wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.properties.life import GIB, MIB, PODS, RULES, Move
from tests.properties.living import Life

CYCLE: Move = ("cycle", 2.0, "sample")
NAMES = ("a", "b", "c", "d", "e")
SECONDS = (2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 0.5, 0.25, 0.125, 4.0, 8.0)
LONG = (16.0, 64.0, 256.0, 1024.0, 4096.0)
"""Gaps, among them an hour of suspend that the monotonic clock has counted."""
AMOUNTS = tuple(
    amount * MIB for amount in (0, 15, 100, 512, 528, 529, 1024, 1040, 1041, 1500, 2048, 3072, 4096, 4116, 4117, 6000)
)
FREE = tuple(amount * MIB for amount in (8192, 8192, 2048, 1400, 1000, 600, 420, 260, 230, 220, 200, 150, 64))
REFUSALS = ("blocked", "throttled", "misconfigured", "forbidden", "unauthorized")
OUTCOMES = ("accepted", "gone", *REFUSALS, "unknown", "recovered")
YEAR = 365.0 * 86400.0


def moves(chance: random.Random, count: int) -> list[Move]:
    """About ``count`` moves, most of them cycles of the agent: what is changed has to last for a while."""
    found: list[Move] = [("configure", chance.choice((0, 0, 1, 1, chance.randrange(len(RULES)))))]
    for name in NAMES[: chance.randint(1, len(NAMES))]:
        found += _pod(chance, name)
    while len(found) < count:
        found += chance.choices(_KINDS, _WEIGHTS)[0](chance)
        found += _cycles(chance)
        if chance.random() < 0.3:  # or most of a run would wait for the first victim
            found += [("reap",), *_pod(chance)]
        if chance.random() < 0.2:
            found.append(("free", FREE[0]))
    return found


def _meanwhile(chance: random.Random) -> list[Move]:
    """Something else that happens in between, now and then."""
    happens = chance.choices(_KINDS, _WEIGHTS)[0](chance) if chance.random() < 0.4 else []
    return [*happens, *_cycles(chance)]


def _cycles(chance: random.Random) -> list[Move]:
    """Some cycles in a row; more often than not at the same pace."""
    seconds = chance.choice(SECONDS)
    times = chance.choice((1, 1, 2, 3, 5, 8))
    return [("cycle", seconds, chance.choice(("sample",) * 5 + ("memory", "memory", "again"))) for _ in range(times)]


def _pod(chance: random.Random, name: str | None = None) -> list[Move]:
    name = name or chance.choice(NAMES)
    # Half of them are of the plain kinds, or most runs would be about those that are never evicted.
    kind = chance.randrange(8 if chance.random() < 0.6 else len(PODS))
    found: list[Move] = [("create", name, kind)]
    if chance.random() < 0.6:
        found.append(("age", name))
    return [*found, *_usage(chance, name)]


def _usage(chance: random.Random, name: str | None = None) -> list[Move]:
    name = name or chance.choice(NAMES)
    found: list[Move] = []
    if chance.random() < 0.8:
        found.append(("gpu", name, None if chance.random() < 0.05 else chance.choice(AMOUNTS)))
    if chance.random() < 0.5:
        amount = None if chance.random() < 0.1 else chance.choice(AMOUNTS)
        found.append(("host", name, amount, chance.random() < 0.8))
    return found


def _ends(chance: random.Random) -> list[Move]:
    name = chance.choice(NAMES)
    return [chance.choice((("exit", name), ("reap",), ("reap",), ("reap",), ("delete", name), ("terminate", name)))]


def _successor(chance: random.Random) -> list[Move]:
    """What was evicted is gone, and its owner makes it anew, as greedy as before."""
    name = chance.choice(NAMES)
    kind = chance.choice((0, 5, 6, 7))
    greedy: list[Move] = [("reap",), ("create", name, kind), ("age", name), ("gpu", name, 2 * GIB)]
    return greedy + [("cycle", 2.0, "sample")] * chance.choice((0, 4, 4, 10))


def _memory(chance: random.Random) -> list[Move]:
    return [("free", chance.choice(FREE))]


def _falling(chance: random.Random) -> list[Move]:
    """Memory runs out step by step."""
    seconds = chance.choice((0.125, 0.25, 0.5, 2.0))
    found: list[Move] = []
    for amount in sorted(chance.sample(FREE, 4), reverse=True):
        found += [("free", amount), ("cycle", seconds, chance.choice(("sample", "memory")))]
    return found


def _step(chance: random.Random) -> list[Move]:
    """Far above the floor some memory goes at once, between two readings that may be close, and no more after it."""
    found: list[Move] = [("meminfos", "good"), ("free", FREE[0]), ("cycle", 8.0, "sample")]
    for amount in chance.choice(((7168,), (6656,), (6144, 8192), (7680, 7168), (4096,))):
        found += [("free", amount * MIB), *[("cycle", chance.choice((0.125, 0.25, 0.5)), "memory")] * 2]
    return [*found, *[("cycle", chance.choice((0.125, 0.25)), "memory")] * chance.randint(2, 5)]


def _going(chance: random.Random) -> list[Move]:
    """An agent starts while one pod is going and another is over; whether the first was evicted, nobody knows."""
    one, other = chance.sample(NAMES, 2)
    found: list[Move] = [("configure", 0), ("reap",), ("free", FREE[0]), ("tables", "good"), ("watch", True)]
    found += [*_greedy(chance, one), *_greedy(chance, other)]
    end: Move = chance.choice((("exit", one), ("reap",), ("delete", one)))
    if chance.random() < 0.3:  # nothing is held any more, or it begins to go later
        found += [("agent", "lost", True), CYCLE, ("terminate", one)] if chance.random() < 0.5 else [("exit", one)]
    found += [
        ("terminate", one),
        ("agent", chance.choice(("lost", "lost", "torn")), True),
        *[CYCLE] * 4,
        *_cycles(chance),
    ]
    lasts: list[Move] = [("cycle", 256.0, "sample"), ("cycle", 64.0, "sample"), *[CYCLE] * 5, ("cycle", 16.0, "sample")]
    return [*found, *(lasts if chance.random() < 0.4 else [end]), *[CYCLE] * 8]


def _rare(chance: random.Random) -> list[Move]:
    """What a rule speaks of and chance alone seldom brings about."""
    one, other = chance.sample(NAMES, 2)
    calm: list[Move] = [("reap",), ("free", FREE[0]), ("tables", "good"), ("meminfos", "good"), ("watch", True)]
    return [*calm, ("answers", "accepted", None, True), ("configure", 0), *chance.choice(_rarely(one, other))]


def _rarely(one: str, other: str) -> tuple[list[Move], ...]:
    greedy: list[Move] = [("create", one, 5), ("age", one), ("gpu", one, 2 * GIB), *[CYCLE] * 4]
    slow: Move = ("cycle", 64.0, "sample")
    again: Move = ("cycle", 2.0, "again")
    returns = [[*greedy, ("reap",), ("cycle", 64.0 * minutes, "sample")] for minutes in (1, 2, 4, 4)]
    little: list[Move] = [("create", one, 0), ("age", one), ("gpu", one, GIB + 8 * MIB), *[CYCLE] * 4]
    lower: list[Move] = [("create", other, 0), ("age", other), ("gpu", other, GIB + 32 * MIB), ("free", 64 * MIB)]
    side: list[Move] = [("create", one, 15), ("age", one), ("gpu", one, 256 * MIB), ("host", one, 3 * GIB, True)]
    blind: list[Move] = [*[CYCLE] * 4, ("meminfos", "failed"), ("tables", "failed"), slow, slow, slow, CYCLE]
    return (
        # a few MiB too much, with and without a tolerance
        [*little, ("configure", 4), *[CYCLE] * 4],
        # one container without a limit: no budget for both kinds of memory together
        [*side, *[CYCLE] * 6],
        # of two in breach the one of the lower priority does not bring back enough
        [("create", one, 4), ("age", one), ("gpu", one, 2 * GIB), *lower, *[("cycle", 0.5, "sample")] * 3],
        # a pod with a grace of 0
        [("create", one, 17), *greedy[1:]],
        # it comes back after each back-off, and at last too soon
        [*(move for turn in returns for move in turn), *greedy],
        # between the decision and the call it falls below its budget
        [("answers", "accepted", None, False), *greedy, ("gpu", one, 0), ("call",), ("answer",), *[CYCLE] * 2],
        # nobody knows for some minutes how much memory there is
        [*blind, ("meminfos", "good"), ("tables", "good"), CYCLE],
        # a reading of another MemTotal is seen more than once
        [CYCLE, ("meminfos", "other"), CYCLE, again, again, CYCLE, ("meminfos", "good"), CYCLE, CYCLE],
    )


def _squeeze(chance: random.Random) -> list[Move]:
    """Memory is nearly gone, and nobody is over a budget: whoever has none, or not enough booked, may have to go."""
    rules = chance.choice((1, 1, 5, 6))
    found: list[Move] = [("configure", rules), ("outside", 0, 0), ("tables", "good")]
    for name in NAMES:
        found += [("gpu", name, chance.choice((0, 0, 100 * MIB, 512 * MIB))), ("host", name, 0, True)]
    greedy: list[Move] = []
    for name in chance.sample(NAMES, 2):
        greedy += [("create", name, chance.choice((0, 5) if rules == 6 else (8, 9, 11, 13, 0, 0, 5, 5))), ("age", name)]
        greedy += [("gpu", name, chance.choice((300 * MIB, 900 * MIB)))]
        hosted = chance.choice((GIB, 2 * GIB)) if rules == 6 else chance.choice((0, 512 * MIB, 2 * GIB))
        greedy.append(("host", name, hosted, chance.random() < 0.7))
    low: Move = ("free", chance.choice(FREE[5:]))
    # The cgroup of somebody cannot be read, so nobody knows what is the host's.
    greedy += [("host", chance.choice(NAMES), None, False)] if chance.random() < 0.2 else []
    lasts: list[Move] = [("cycle", chance.choice(SECONDS), "sample")] * chance.randint(2, 5)
    found += [*greedy, low, *lasts]
    if chance.random() < 0.3:  # what the host uses is not known for a while
        found += [*greedy, ("meminfos", "failed"), CYCLE, CYCLE, ("meminfos", "good"), CYCLE]
    return [*found, ("reap",), *greedy, *lasts] if chance.random() < 0.5 else found


def _outside(chance: random.Random) -> list[Move]:
    return [
        ("outside", chance.choice((0, 0, 100 * MIB, GIB)), chance.choice((0, 512 * MIB, GIB, 3 * GIB))),
        ("registered", chance.choice((0, 0, 100 * MIB, GIB))),
    ]


def _failing(chance: random.Random) -> list[Move]:
    """Readings that fail for a while, and are good again."""
    if chance.random() < 0.6:
        bad: Move = ("tables", chance.choice(("failed", "denied", "huge", "pid")))
        good: Move = ("tables", "good")
    else:
        bad, good = ("meminfos", chance.choice(("failed", "other", "bare"))), ("meminfos", "good")
    long: list[Move] = [("cycle", chance.choice((512.0, 1024.0)), "sample")] * 2
    lasts = _meanwhile(chance) if chance.random() < 0.7 else [*long, CYCLE]
    return [bad, *lasts, good] if chance.random() < 0.9 else [bad]


def _gap(chance: random.Random) -> list[Move]:
    return [("cycle", chance.choice(LONG), chance.choice(("sample", "memory", "again")))]


def _clock(chance: random.Random) -> list[Move]:
    return [("clock", chance.choice((YEAR, -YEAR, 3600.0, -3600.0, -60 * YEAR, 60 * YEAR)))]


def _watch(chance: random.Random) -> list[Move]:
    return [("watch", False), *_usage(chance), *_meanwhile(chance), *_ends(chance), *_cycles(chance), ("watch", True)]


def _calm(chance: random.Random) -> list[Move]:
    what = chance.choice(("annotate", "other_owner"))
    return [(what, True), *_meanwhile(chance), (what, False)]


def _configure(chance: random.Random) -> list[Move]:
    return [("configure", chance.randrange(len(RULES)))]


def _api(chance: random.Random) -> list[Move]:
    outcome = "accepted" if chance.random() < 0.5 else chance.choice(OUTCOMES)
    return [("answers", outcome, chance.choice((None, None, 7.0, 64.0)), chance.random() < 0.6)]


def _refused(chance: random.Random) -> list[Move]:
    """An eviction that is due is answered in this way."""
    found: list[Move] = []
    for outcome in chance.sample(OUTCOMES, 3):
        found.append(("answers", outcome, chance.choice((None, 7.0, 64.0)), chance.random() < 0.7))
        found += [*_successor(chance), *_cycles(chance)]
    later: list[Move] = chance.choice(([], [("cycle", 64.0, "sample"), *[CYCLE] * 4], [("cycle", 512.0, "sample")]))
    return [*found, ("answers", "accepted", None, True), *later, *_cycles(chance)]


def _greedy(chance: random.Random, name: str) -> list[Move]:
    """A pod that is over its budget for GPU memory, or a little more often, for both together."""
    if chance.random() < 0.5:
        return [("create", name, chance.choice((0, 5, 6, 18, 23))), ("age", name), ("gpu", name, 2 * GIB)]
    found: list[Move] = [("create", name, chance.choice((1, 2, 4, 16, 16))), ("age", name)]
    return [*found, ("gpu", name, 512 * MIB), ("host", name, 3 * GIB, True)]


def _flapping(chance: random.Random) -> list[Move]:
    """A breach with interruptions: below for once, not readable for once, too long ago."""
    name = chance.choice(NAMES)
    over = _greedy(chance, name)
    found: list[Move] = [("configure", chance.choice((0, 0, 2))), ("free", FREE[0]), *over, CYCLE]
    for _ in range(chance.randint(1, 5)):
        what = chance.randrange(5)
        if what == 0:
            found += [("gpu", name, 0), ("host", name, 0, True), CYCLE, *over[2:]]
        elif what == 1:
            found += [("tables", "failed"), CYCLE, ("tables", "good")]
        elif what == 2:
            found += [("meminfos", "failed"), CYCLE, ("meminfos", "good")]
        elif what == 3:
            found.append(("cycle", 16.0, "sample"))
        found += [CYCLE] * chance.choice((1, 1, 2, 4))
    return found


def _starting(chance: random.Random) -> list[Move]:
    """A pod that is over for its host memory from its start on, whatever the wall clock does."""
    name = chance.choice(NAMES)
    found: list[Move] = [("configure", chance.choice((0, 0, 2))), ("reap",)]
    before = chance.choice((0.0, 0.0, -YEAR, YEAR, -60 * YEAR))
    after = chance.choice((0.0, 0.0, -YEAR, YEAR, -60 * YEAR))
    found += [("clock", before), ("create", name, chance.choice((1, 2, 4, 16, 16))), ("clock", after)]
    found += [("age", name)] if chance.random() < 0.3 else []
    found += [("restart", name)] if chance.random() < 0.5 else []
    found += [("gpu", name, 512 * MIB), ("host", name, 3 * GIB, True), ("free", chance.choice((FREE[0], FREE[9])))]
    return [*found, *[CYCLE] * chance.choice((6, 12, 14)), ("clock", -before - after)]


def _after(chance: random.Random) -> list[Move]:
    """An eviction is accepted; the victim ends in some way and at some time, while another pod is over as well."""
    one, other = chance.sample(NAMES, 2)
    found: list[Move] = [("configure", 0), ("reap",), ("free", FREE[0]), ("tables", "good")]
    if chance.random() < 0.3:  # the board has settled, and the agent starts anew
        found += [*_greedy(chance, one), *[CYCLE] * 4, ("exit", one), *[CYCLE] * 8]
        return [*found, ("agent", "kept", True), *_greedy(chance, other), *[CYCLE] * 5]
    found += [*_greedy(chance, one), *_greedy(chance, other), *[CYCLE] * 4]
    for _ in range(chance.randint(1, 3)):
        end = chance.choice((("exit", one), ("delete", one), ("delete", other), ("reap",), ("agent", "kept", True)))
        bad = chance.choice(("failed", "denied", "pid"))
        found += chance.choice(([end], [("tables", bad), CYCLE, ("tables", "good")], [end, end]))
        found += chance.choice(([CYCLE] * 2, [CYCLE] * 6, [("cycle", 64.0, "sample"), *[CYCLE] * 4]))
    if chance.random() < 0.5:
        found += [("cycle", 256.0, "sample"), *[CYCLE] * 5, ("cycle", 32.0, "sample"), *[CYCLE] * 12]
    return found


def _again(chance: random.Random) -> list[Move]:
    """An owner makes its greedy pod anew each time, sooner or later."""
    name = chance.choice(NAMES)
    found: list[Move] = [("configure", 0), ("free", FREE[0]), ("tables", "good"), ("answers", "accepted", None, True)]
    for turn in range(chance.randint(2, 6)):
        found += [("create", name, chance.choice((5, 6))), ("age", name), ("gpu", name, 2 * GIB), *[CYCLE] * 4]
        found.append(("reap",))
        gaps = (32.0 * 2**turn, 64.0 * 2**turn, 64.0 * 2**turn, 512.0, 1024.0, 2048.0)
        found.append(("cycle", chance.choice(gaps), "sample"))
        if chance.random() < 0.2:
            found += [("create", name, 5), ("age", name), ("gpu", name, 2 * GIB), CYCLE, ("gpu", name, 0), CYCLE]
            found += [("cycle", chance.choice((512.0, 1024.0)), "sample")]
        if chance.random() < 0.2:
            found.append(("agent", chance.choice(("kept", "kept", "reboot")), True))
        if chance.random() < 0.1:
            found.append(("free", FREE[9]))
    return found


def _remembered(chance: random.Random) -> list[Move]:
    """A breach seen half an hour after an eviction, and not for long: the owner is remembered from then on."""
    name = chance.choice(NAMES)
    greedy: list[Move] = [("reap",), ("create", name, 5), ("age", name), ("gpu", name, 2 * GIB)]
    found: list[Move] = [("configure", 0), ("free", FREE[0]), ("tables", "good"), ("answers", "accepted", None, True)]
    found += [*greedy, *[CYCLE] * 4, *greedy[:3], ("cycle", 1024.0, "sample"), *greedy, CYCLE, ("gpu", name, 0)]
    found += [("cycle", 1024.0, "sample"), *greedy, *[CYCLE] * 4, *greedy, ("cycle", 64.0, "sample")]
    return [*found, *[CYCLE] * 4]


def _blind_start(chance: random.Random) -> list[Move]:
    """The agent starts while the board cannot be read, on a node that may be new."""
    found: list[Move] = [("watch", True), CYCLE, ("tables", "failed"), ("meminfos", "failed"), CYCLE]
    found += [("new_object",)] if chance.random() < 0.5 else []
    found.append(("agent", chance.choice(("kept", "kept", "lost", "reboot")), True))
    return [*found, *_cycles(chance), ("tables", "good"), ("meminfos", "good")]


def _full(chance: random.Random) -> list[Move]:
    """More is admitted than there is, while nobody can tell how much there is."""
    found: list[Move] = [CYCLE, ("tables", "failed"), ("meminfos", "failed"), CYCLE]
    found += [("create", name, 3) for name in NAMES]
    return [*found, *_cycles(chance), ("tables", "good"), ("meminfos", "good"), CYCLE, ("delete", chance.choice(NAMES))]


def _calls(chance: random.Random) -> list[Move]:
    found: list[Move] = [("call",), *_meanwhile(chance), ("answer",)]
    return found if chance.random() < 0.7 else found[: chance.randint(1, len(found))]


_RESETS: tuple[Move, ...] = (("kubelet", ("capacity", "allocatable")), ("kubelet", ("allocatable",)))


def _writing(chance: random.Random) -> list[Move]:
    return [chance.choice((("writing", "all"), ("writing", "first"), ("writing", "none"), ("new_object",), *_RESETS))]


def _agent(chance: random.Random) -> list[Move]:
    listed = chance.random() < 0.8
    start: Move = ("agent", chance.choice(("kept", "kept", "stale", "lost", "torn", "reboot")), listed)
    return [start] if listed else [start, *_cycles(chance), ("list",)]


def _odd(chance: random.Random) -> list[Move]:
    name = chance.choice(NAMES)
    return [
        chance.choice(
            (
                ("stray", name),
                ("restart", name),
                ("fork", name, chance.choice(AMOUNTS)),
                ("fork", name, chance.choice(AMOUNTS)),
                ("drop", name),
                ("drop", name),
                ("phase", name, chance.choice(("Pending", "Running", "Succeeded", "Failed"))),
                ("age", name),
            )
        )
    ]


_MADE: tuple[tuple[Callable[[random.Random], list[Move]], int], ...] = (
    (_usage, 12),
    (_pod, 8),
    (_ends, 8),
    (_successor, 6),
    (_memory, 8),
    (_falling, 5),
    (_step, 5),
    (_going, 4),
    (_rare, 12),
    (_squeeze, 8),
    (_outside, 3),
    (_failing, 8),
    (_gap, 4),
    (_clock, 2),
    (_watch, 3),
    (_calm, 3),
    (_configure, 5),
    (_api, 4),
    (_refused, 8),
    (_flapping, 8),
    (_starting, 6),
    (_after, 8),
    (_again, 7),
    (_remembered, 3),
    (_blind_start, 4),
    (_full, 2),
    (_calls, 5),
    (_writing, 3),
    (_agent, 4),
    (_odd, 6),
)
_KINDS = [made for made, _ in _MADE]
_WEIGHTS = [weight for _, weight in _MADE]


def shortest(run: Sequence[Move], goes_wrong: Callable[[Sequence[Move]], bool]) -> list[Move]:
    """A part of ``run`` that still goes wrong, from which nothing can be left out: halves first, single moves last."""
    found = list(run)
    size = len(found) // 2
    while size:
        place = 0
        while place < len(found):
            less = found[:place] + found[place + size :]
            if goes_wrong(less):
                found = less
            else:
                place += size
        size = min(size // 2, len(found) // 2) if size > 1 else 0
    return found


def made(seed: int, count: int) -> tuple[bool, list[Move]]:
    """The run of this number: whether it is on a machine with cards, as one in five is, and its moves."""
    return seed % 5 == 4, moves(random.Random(seed), count)


def goes_wrong(run: Sequence[Move], kind: str, *, cards: bool) -> bool:
    """Whether the run shows something wrong of this kind."""
    return any(one.kind == kind for one in Life.begin(cards=cards).play(run).wrong)

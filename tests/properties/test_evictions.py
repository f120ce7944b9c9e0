"""Evictions can be trusted: whole lives of an agent, every decision of which is judged by what the rules say.

The moves, the truth and the judge are in ``life``, ``moves`` and ``judge``; the judge shares no code with the
product. What is found wrong is told with the shortest run that shows it, which ``Life.begin().play(…)`` plays again.
``python -m tests.bench.decisions`` searches on, and ``python -m tests.bench.faults`` proves that the search finds.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from tests.properties import living
from tests.properties.life import GIB, MIB, Move
from tests.properties.living import Life, Wrong
from tests.properties.moves import NAMES, REFUSALS, goes_wrong, made, shortest

MOVES = 180
"""In one run."""
Holds = Callable[[str], None]
pytestmark = pytest.mark.timeout(600)  # the first test makes the search, 15 s of one core


class Searched(NamedTuple):
    """What a search came by; it ends with the first run that goes wrong."""

    seen: frozenset[str]
    decisions: int
    wrong: tuple[Wrong, ...] = ()
    run: Sequence[Move] = ()
    cards: bool = False


@lru_cache(maxsize=1)
def searched() -> Searched:
    """As many runs as the profile has examples."""
    profile = settings.default
    assert profile is not None
    start = 0 if profile.derandomize else random.getrandbits(32)
    seen: set[str] = set()
    decisions = 0
    for seed in range(start, start + profile.max_examples):
        cards, run = made(seed, MOVES)
        life = Life.begin(cards=cards).play(run)
        decisions += life.decisions
        seen |= life.seen | {breach for breach, count in life.evicted.items() if count}
        if life.wrong:
            return Searched(frozenset(seen), decisions, tuple(life.wrong), run, cards)
    return Searched(frozenset(seen), decisions)


@pytest.fixture
def holds(request: pytest.FixtureRequest) -> Holds:
    """Asks that nothing of one kind went wrong; else tells the shortest run in which it does."""

    def check(kind: str) -> None:
        found = searched()
        for one in [one for one in found.wrong if one.kind == kind]:
            if request.config.option.tbstyle == "no":  # nobody looks at it
                pytest.fail(one.what)
            short = shortest(found.run, lambda less: goes_wrong(less, kind, cards=found.cards))
            steps = "\n    ".join(f"{move!r}," for move in short)
            pytest.fail(f"{one.what}\nLife.begin(cards={found.cards}).play([\n    {steps}\n])", pytrace=False)

    return check


def test_nobody_is_evicted_whom_a_rule_spares(holds: Holds) -> None:
    holds(living.WRONG)


def test_whoever_has_to_go_goes(holds: Holds) -> None:
    holds(living.SPARED)


def test_victims_go_in_the_order_of_the_rules(holds: Holds) -> None:
    holds(living.ORDER)


def test_an_eviction_names_its_pod_its_breach_and_a_grace_that_the_rules_allow(holds: Holds) -> None:
    holds(living.CALL)


def test_nobody_is_evicted_twice(holds: Holds) -> None:
    holds(living.TWICE)


def test_who_is_held_is_told_a_reason_that_holds(holds: Holds) -> None:
    holds(living.REASON)


def test_usage_is_what_trusted_readings_say_and_never_a_guess(holds: Holds) -> None:
    holds(living.USAGE)


def test_pressure_begins_lasts_and_ends_as_the_rules_say(holds: Holds) -> None:
    holds(living.PRESSURE)


def test_capacity_is_what_hardware_configuration_and_pods_make_it(holds: Holds) -> None:
    holds(living.CAPACITY)


def test_capacity_is_never_below_what_admitted_pods_hold(holds: Holds) -> None:
    holds(living.COMMITTED)


def test_what_differs_is_sent_and_nothing_else(holds: Holds) -> None:
    holds(living.WRITES)


def test_the_order_of_pods_devices_and_rows_changes_nothing(holds: Holds) -> None:
    holds(living.MIXED)


def test_the_same_sample_seen_twice_counts_once(holds: Holds) -> None:
    holds(living.AGAIN)


def test_the_search_comes_by_all_that_the_rules_speak_of() -> None:
    """Else the tests above would prove nothing."""
    reasons = {
        *("protected", "daemonset", "stale", "start-grace", "grace", "observe", "one-at-a-time", "releasing"),
        *("hold-down", "backoff", "hourly-cap", "blocked"),
    }
    breaches = {"gpu", "shared", "unbudgeted", "above-request"}
    outcomes = {"accepted", "gone", "unknown", "recovered", *REFUSALS}
    starts = {"kept", "stale", "lost", "torn", "reboot"}
    assert searched().seen >= reasons | breaches | outcomes | starts | {"danger"}
    assert searched().decisions > 3000


# --- found once ----------------------------------------------------------------------

SAMPLE: Move = ("cycle", 2.0, "sample")
FOUND: dict[str, tuple[Move, ...]] = {
    # 1 PiB in a table can be seen to be no figure of this board without reading /proc/meminfo at that moment
    "more bytes than there are, while the memory cannot be read": (
        *(("create", "a", 0), ("age", "a"), ("gpu", "a", 512 * MIB), SAMPLE),
        *(("meminfos", "failed"), ("tables", "huge"), SAMPLE, SAMPLE, SAMPLE, SAMPLE),
    ),
    # the victim still holds memory, by a process that it began after the decision
    "a victim's second process outlives its first": (
        *(("create", "a", 0), ("age", "a"), ("gpu", "a", 2 * GIB)),
        *(("create", "b", 0), ("age", "b"), ("gpu", "b", 1536 * MIB)),
        *(SAMPLE, SAMPLE, SAMPLE, ("fork", "a", GIB), SAMPLE, ("drop", "a"), *[SAMPLE] * 8),
    ),
}


@pytest.mark.parametrize("run", FOUND.values(), ids=FOUND)
def test_what_went_wrong_once_is_right(run: Sequence[Move]) -> None:
    assert Life.begin().play(run).wrong == []


# --- interrupted runs ----------------------------------------------------------------

SETTLED: tuple[Move, ...] = (
    *(("tables", "good"), ("meminfos", "good"), ("watch", True), ("list",), ("writing", "all"), ("configure", 0)),
    *(("annotate", False), ("other_owner", False), ("free", 8 * GIB), ("outside", 0, 0), ("registered", 0)),
    *(("delete", name) for name in NAMES),
    *(("reap",), ("create", "a", 1), ("create", "b", 5), ("create", "c", 10), ("gpu", "a", GIB)),
    *[("cycle", 8.0, "sample")] * 12,  # a minute of calm ends the pressure
)
"""The same good end for every run."""


def settled(life: Life, restart: str | None) -> dict[str, Any]:
    """What the node carries and should carry when all is well again after a restart."""
    interrupted = copy.deepcopy(life)
    begin: Sequence[Move] = [] if restart is None else [("agent", restart, True)]
    interrupted.play([*begin, *SETTLED])
    plan = interrupted.plan
    assert plan is not None
    assert interrupted.wrong == []
    assert plan.node.requests == ()
    conditions = {(one.type, one.status, one.reason) for one in plan.node.conditions}
    node = interrupted.world.node
    return {
        "wish": (dict(plan.node.capacity), dict(plan.node.labels), conditions),
        **{part: node[part] for part in ("capacity", "allocatable", "labels", "annotations")},
    }


@pytest.mark.parametrize("seed", [2, 5])
def test_a_run_that_is_interrupted_anywhere_ends_at_the_same_node(seed: int) -> None:
    cards, run = made(seed, 60)
    life = Life.begin(cards=cards)
    wanted = settled(life, None)
    for move in run:
        life.play([move])
        if move[0] == "cycle":
            for restart in (None, "kept", "lost"):
                assert settled(life, restart) == wanted

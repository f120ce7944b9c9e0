"""What holds for every kill, on every board and in every sequence of samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given, seed, settings
from hypothesis import strategies as st

from edgeagent.config import Config
from edgeagent.facts import PodFacts
from edgeagent.plan import outcomes
from edgeagent.plan.kills import CRITICAL
from edgeagent.plan.types import Kill, KillOutcome, KillResult, Plan
from tests.properties.worlds import (
    BOARD,
    DEFAULT,
    DRASTIC,
    Step,
    over,
    pods,
    reborn,
    scene,
    sequences,
    spared,
)
from tests.unit.factories import MIB, Run, Scene, pid_of

NEVER = replace(DEFAULT, policy=replace(DEFAULT.policy, kill="never"))
TRIED: tuple[KillOutcome | None, ...] = (None, "killed", "refused", "not-procfs")
"""How a kill can end that leaves its process where it is; None: nobody says."""
ENDS: tuple[KillOutcome | None, ...] = (*TRIED, "gone", "changed", "stale")


@dataclass(frozen=True)
class Turn:
    """One sample of a board near its end."""

    step: Step
    view_age: float
    """Seconds since the cluster was last heard of."""
    reading_age: float
    """Seconds since it was read who holds what."""
    answered: bool
    """The API server answers an eviction before the next sample."""
    end: KillOutcome | None


@st.composite
def turns(draw: st.DrawFn, ends: tuple[KillOutcome | None, ...] = ENDS) -> list[Turn]:
    """Samples in a row, most of them a tenth of a second apart and with little memory left."""
    found = []
    for step in draw(sequences()):
        hurried = replace(
            step,
            seconds=draw(st.sampled_from([0.1, 0.1, 0.1, 0.5, 1.0, 2.0])),
            available=draw(st.sampled_from([0, 0, 100 * MIB, 100 * MIB, 150 * MIB, step.available])),
        )
        found.append(
            Turn(
                step=hurried,
                view_age=draw(st.sampled_from([0.0, 0.0, 60.0])),
                reading_age=draw(st.sampled_from([0.0, 0.0, 0.0, 0.5, 1.5])),
                answered=draw(st.sampled_from([True, True, False])),
                end=draw(st.sampled_from(ends)),
            )
        )
    return found


def run(given_pods: tuple[PodFacts, ...], sequence: list[Turn], configured: Config) -> list[tuple[Scene, Turn, Plan]]:
    """All samples of a sequence with their plans, evictions and kills ending as the turns say."""
    agent = Run()
    now = 100.0
    found = []
    for generation, turn in enumerate(sequence):
        now += turn.step.seconds
        given_pods = reborn(given_pods, turn.step, generation)
        sample = replace(
            scene(given_pods, turn.step, now, configured),
            fresh_at=now - turn.view_age,
            attributed_at=now - turn.reading_age,
        )
        agent.outcome = turn.step.outcome if turn.answered else None
        plan = agent.step(sample)
        for kill in plan.kills:
            if turn.end is not None:
                result = KillResult(uid=kill.uid, outcomes=tuple((one, turn.end) for one in kill.processes))
                agent.state = outcomes.killed(agent.state, plan, result, now)
        found.append((sample, turn, plan))
    return found


def check(sample: Scene, turn: Turn, plan: Plan, kill: Kill, *, daemonsets: bool) -> None:
    """What the design promises of one kill, in so many words."""
    victim = next(one for one in sample.pods if one.uid == kill.uid)
    assert over(victim, turn.step.held[victim.name])
    assert not spared(victim, daemonsets=daemonsets)
    assert turn.reading_age <= 1.0
    assert kill.read_at >= sample.at - 1.0
    assert turn.step.readable
    assert not turn.step.annotated
    assert kill.processes == ((pid_of(victim.name), 7),)
    assert (kill.cgroup_uid, kill.containers) == (victim.uid, frozenset({"main-id"}))
    assert plan.danger.usable is not None
    assert plan.danger.usable - 0.5 * plan.danger.drop < plan.danger.critical
    assert plan.danger.active


@settings(max_examples=60)
@given(pods(), turns())
def test_every_kill_names_a_pod_that_is_over_its_budget_in_a_fresh_reading_and_may_go(
    given_pods: tuple[PodFacts, ...], sequence: list[Turn]
) -> None:
    for sample, turn, plan in run(given_pods, sequence, DEFAULT):
        assert len(plan.kills) <= 1
        for kill in plan.kills:
            check(sample, turn, plan, kill, daemonsets=False)


@settings(max_examples=60)
@given(pods(), turns())
def test_no_policy_kills_a_pod_within_its_budget_or_without_one(
    given_pods: tuple[PodFacts, ...], sequence: list[Turn]
) -> None:
    for sample, turn, plan in run(given_pods, sequence, DRASTIC):
        for kill in plan.kills:
            check(sample, turn, plan, kill, daemonsets=True)


@settings(max_examples=100)
@given(pods(), turns(TRIED))
def test_no_second_kill_while_the_first_is_under_way(given_pods: tuple[PodFacts, ...], sequence: list[Turn]) -> None:
    """Until its process is gone, in a sample that could be read, or two seconds have passed."""
    at, process = 0.0, None
    for sample, turn, plan in run(given_pods, sequence, DEFAULT):
        there = sample.facts().host.processes
        if turn.step.readable and process is not None and process[0] not in there:
            process = None
        for kill in plan.kills:
            assert process is None or sample.at - at >= 2.0 - 1e-9
            at, process = sample.at, kill.processes[0]


@settings(max_examples=60)
@given(pods(), turns())
def test_never_means_never(given_pods: tuple[PodFacts, ...], sequence: list[Turn]) -> None:
    for _, _, plan in run(given_pods, sequence, NEVER):
        assert plan.kills == ()


@settings(max_examples=60)
@given(pods(), turns())
def test_a_board_with_room_kills_nobody(given_pods: tuple[PodFacts, ...], sequence: list[Turn]) -> None:
    """Nor does one that says why nobody is killed kill somebody at the same time."""
    for _, _, plan in run(given_pods, sequence, DEFAULT):
        assert not (plan.kills and any(finding.id == CRITICAL for finding in plan.findings))
    roomy = [replace(turn, step=replace(turn.step, available=BOARD)) for turn in sequence]
    for _, _, plan in run(given_pods, roomy, DEFAULT):
        assert plan.kills == ()
        assert not any(finding.id == CRITICAL for finding in plan.findings)


def test_the_worlds_are_worth_a_search() -> None:
    """The sequences lead to kills for most reasons, and to boards on which nobody may be killed."""
    reasons = {
        "accepted": ("was accepted",),
        "api down": ("the view of the cluster",),
        "refused": ("forbidden", "blocked", "throttled", "misconfigured", "unknown"),
        "nobody": ("no pod is killed",),
    }
    missing = set(reasons)

    @settings(max_examples=100)
    @given(pods(), turns())
    def search(given_pods: tuple[PodFacts, ...], sequence: list[Turn]) -> None:
        for _, _, plan in run(given_pods, sequence, DEFAULT):
            said = " ".join((*(kill.message for kill in plan.kills), *(one.summary for one in plan.findings)))
            missing.difference_update(name for name, words in reasons.items() if any(word in said for word in words))

    # Which examples come depends on the version of Python.
    for attempt in range(10):
        seed(attempt)(search)()
        if not missing:
            break
    assert not missing

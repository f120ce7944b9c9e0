"""What keeps the agent from evicting too often: back-off by owner, the hourly cap, refusals."""

from __future__ import annotations

import itertools

import pytest

from edgeagent.plan.outcomes import learn
from edgeagent.plan.state import Backoff
from edgeagent.plan.types import EvictionResult, Outcome, Plan
from edgeagent.plan.victims import next_backoff, owner
from tests.unit.factories import (
    GIB,
    MIB,
    Held,
    Run,
    at,
    evicted,
    held_codes,
    pod,
)
from tests.unit.plan.overuse import SAMPLES, a_pod, left, pressed, scene, settled

# --- back-off, cap, refusals ---------------------------------------------------------


def test_owner() -> None:
    assert owner(a_pod("a")) == ("apps", "Pod", "a")
    assert owner(a_pod("a", owner=("StatefulSet", "db"))) == ("apps", "StatefulSet", "db")
    assert owner(a_pod("a", owner=("ReplicaSet", "web-7d4b9c"))) == ("apps", "Deployment", "web")


def test_the_backoff_doubles_up_to_half_an_hour() -> None:
    found = []
    before: Backoff | None = None
    now = 0.0
    for _ in range(8):
        before = next_backoff(before, now)
        found.append(before.minutes)
        now += 60.0
    assert found == [1, 2, 4, 8, 16, 30, 30, 30]


def breaching(run: Run, name: str, start: float) -> tuple[Plan, float]:
    """A new pod of the same Deployment breaches from ``start`` on; the plan and the time of its eviction."""
    given = scene(a_pod(name, owner=("ReplicaSet", "web-7d4b9c")), text="policy: {evictions_per_hour: 100}")
    second = start
    while True:
        plan = run.step(at(given, second))
        if plan.evictions:
            run.step(at(scene(), second + 1))
            return plan, second
        second += 5


def test_an_owner_that_breaches_again_waits_longer_each_time() -> None:
    run = Run()
    times = []
    now = 0.0
    for number in range(8):
        _, now = breaching(run, f"web-{number}", now)
        times.append(now)
        now += 5
    gaps = [(after - before) / 60 for before, after in itertools.pairwise(times)]
    # never sooner than the back-off, and not much later; half an hour of back-off is no half an hour without a breach
    assert [round(gap) for gap in gaps] == [1, 2, 4, 8, 16, 30, 30]


def test_an_owner_without_a_breach_for_half_an_hour_is_forgotten() -> None:
    run = Run()
    _, first = breaching(run, "web-0", 0.0)
    _, second = breaching(run, "web-1", first + 5)
    run.step(at(scene(), second + 1799))
    assert list(run.state.backoff) == [("apps", "Deployment", "web")]
    run.step(at(scene(), second + 1800))
    assert run.state.backoff == {}


def test_backoff_holds_and_tells_how_long() -> None:
    run = Run()
    _, first = breaching(run, "web-0", 0.0)
    given = scene(a_pod("web-1", owner=("ReplicaSet", "web-7d4b9c")))
    run.steps(given, first + 5, first + 12)
    plan = run.step(at(given, first + 20))
    assert left(plan) == {"uid-web-1": ("backoff", 40.0)}
    # another owner is not concerned
    other = scene(a_pod("x"))
    assert evicted(run.steps(other, first + 22, first + 30, first + 37)) == ["uid-x"]


def test_the_hourly_cap() -> None:
    run = Run()
    now = 0.0
    for number in range(2):
        given = scene(a_pod(f"p{number}"), text="policy: {evictions_per_hour: 2}")
        assert evicted(run.steps(given, now, now + 8, now + 15)) == [f"uid-p{number}"]
        run.step(at(scene(), now + 16))
        now += 30
    given = scene(a_pod("q"), text="policy: {evictions_per_hour: 2}")
    plan = run.steps(given, now, now + 8, now + 15)
    # the first eviction was at 15 s; now + 15 = 75 s
    assert left(plan) == {"uid-q": ("hourly-cap", 3540.0)}
    assert held_codes(settled(scene(a_pod("a"), text="policy: {evictions_per_hour: 0}"))) == {"uid-a": "hourly-cap"}


def test_neither_bars_a_breach_under_pressure() -> None:
    run = Run()
    _, first = breaching(run, "web-0", 0.0)
    given = scene(
        a_pod("web-1", owner=("ReplicaSet", "web-7d4b9c")), text="policy: {evictions_per_hour: 0}", free=10 * MIB
    )
    run.step(at(given, first + 12))
    assert evicted(run.step(at(given, first + 13))) == ["uid-web-1"]


@pytest.mark.parametrize("text", ["policy: {unbudgeted: evict, evictions_per_hour: 0}"])
def test_they_bar_pods_that_are_not_in_breach_even_then(text: str) -> None:
    given = scene(pod("a"), text=text)
    assert held_codes(pressed(given)) == {"uid-a": "hourly-cap"}


def test_an_unbudgeted_pod_is_told_what_it_certainly_holds() -> None:
    """Its host memory is known as an upper bound only, and counts for nothing."""
    given = scene(pod("a"), text="policy: {unbudgeted: evict}", a=Held(gpu=2 * GIB, host=GIB, exact=False))
    (eviction,) = pressed(given).evictions
    assert "it holds 2.00 GiB of GPU memory and has no budget" in eviction.message


@pytest.mark.parametrize("outcome", ["blocked", "throttled", "misconfigured", "forbidden", "unknown"])
def test_a_refused_eviction_waits_and_the_next_candidate_goes(outcome: Outcome) -> None:
    run = Run(outcome)
    given = scene(a_pod("a"), a_pod("b"), b=Held(gpu=3 * GIB))
    assert evicted(run.steps(given, *SAMPLES)) == ["uid-b"]
    run.outcome = "accepted"
    plan = run.step(at(given, 17.0))
    assert evicted(plan) == ["uid-a"]


@pytest.mark.parametrize(("outcome", "seconds"), [("blocked", 5.0), ("forbidden", 600.0), ("unauthorized", 600.0)])
def test_how_long_a_refusal_holds(outcome: Outcome, seconds: float) -> None:
    run = Run(outcome)
    given = scene(a_pod("a"))
    run.steps(given, *SAMPLES)
    assert left(run.step(at(given, 16.0))) == {"uid-a": ("blocked", seconds - 1)}
    for second in range(20, int(15 + seconds), 5):
        assert held_codes(run.step(at(given, float(second)))) == {"uid-a": "blocked"}
    assert evicted(run.step(at(given, 15 + seconds))) == ["uid-a"]


def test_an_agent_that_may_not_evict_asks_once_in_a_namespace_and_not_for_each_pod() -> None:
    run = Run("unauthorized")
    other = a_pod("c", namespace="shop")
    given = scene(a_pod("a"), a_pod("b"), other, b=Held(gpu=3 * GIB), c=Held(gpu=2 * GIB))
    assert evicted(run.steps(given, *SAMPLES)) == ["uid-b"]
    assert evicted(run.step(at(given, 16.0))) == ["uid-c"]
    for second in range(17, 300, 5):
        assert held_codes(run.step(at(given, float(second)))) == {f"uid-{name}": "blocked" for name in "abc"}


def test_the_servers_own_delay_is_kept() -> None:
    run = Run(None)
    given = scene(a_pod("a"))
    plan = run.steps(given, *SAMPLES)
    run.state, events = learn(
        run.state, plan, EvictionResult(uid="uid-a", outcome="blocked", message="budget x", retry_after=12.0), 15.0
    )
    assert [(event.reason, event.regarding) for event in events] == [("EvictionBlocked", "pod apps/a")]
    (held,) = run.step(at(given, 16.0)).held
    assert (held.code, held.seconds_left, held.why) == ("blocked", 11.0, "budget x")


@pytest.mark.parametrize("outcome", ["gone", "recovered"])
def test_a_dropped_decision_starts_a_new_window(outcome: Outcome) -> None:
    run = Run(outcome)
    given = scene(a_pod("a"))
    run.steps(given, *SAMPLES)
    assert left(run.step(at(given, 17.0))) == {"uid-a": ("grace", 15.0)}
    assert not run.state.backoff
    assert run.state.evicted_at == ()


def test_another_that_goes_first_is_told_before_the_backoff() -> None:
    run = Run()
    _, now = breaching(run, "web-0", 0.0)
    web = a_pod("web-1", owner=("ReplicaSet", "web-7d4b9c"))
    behind = scene(a_pod("z"), web, z=Held(gpu=3 * GIB))
    plan = run.steps(behind, now + 20, now + 28, now + 35)
    assert (evicted(plan), held_codes(plan)) == (["uid-z"], {"uid-web-1": "one-at-a-time"})
    # where it is first in line its own back-off is what holds it
    run = Run()
    breaching(run, "web-0", 0.0)
    plan = run.steps(scene(a_pod("z"), web), now + 20, now + 28, now + 35)
    assert (evicted(plan), held_codes(plan)) == (["uid-z"], {"uid-web-1": "backoff"})

"""Who is evicted, in which order, and what holds an eviction back."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from edgeagent.facts import PodFacts, Process
from edgeagent.plan.outcomes import learn
from edgeagent.plan.state import Backoff
from edgeagent.plan.types import EvictionResult, Outcome, Plan
from edgeagent.plan.victims import next_backoff, owner
from tests.unit.factories import (
    GIB,
    MIB,
    Held,
    Run,
    Scene,
    at,
    config,
    evicted,
    held_codes,
    meminfo,
    node,
    pid_of,
    pod,
)

SAMPLES = (0.0, 8.0, 15.0)
"""Over in all three, a breach has lasted for the grace of 15 s at the last."""


def scene(*pods: PodFacts, text: str = "", free: int = 8 * GIB, excess: int = GIB, **held: Held) -> Scene:
    """Pods of which each holds ``excess`` above its budget, unless ``held`` says what it holds."""
    found = {
        given.name: held.get(
            given.name, Held(gpu=(given.containers[0].limits.get("edgeagent.dev/gpu-memory", 0)) + excess)
        )
        for given in pods
    }
    return Scene(
        pods=pods,
        held=found,
        config=config(text),
        meminfo=meminfo(64 * GIB, available=free),
    )


def a_pod(name: str, **fields: Any) -> PodFacts:
    return pod(name, GIB, **fields)


def settled(given: Scene) -> Plan:
    """The plan once every breach has lasted for its grace."""
    return Run().steps(given, *SAMPLES)


def pressed(given: Scene, free: int = 10 * MIB) -> Plan:
    """The plan under pressure by the floor."""
    return Run().steps(replace(given, meminfo=meminfo(64 * GIB, available=free)), 0.0, 1.0)


def left(plan: Plan) -> dict[str, tuple[str, float | None]]:
    return {held.uid: (held.code, held.seconds_left) for held in plan.held}


# --- the eviction --------------------------------------------------------------------


def test_an_eviction_names_the_pod_its_breach_and_the_grace() -> None:
    plan = settled(scene(a_pod("a")))
    (eviction,) = plan.evictions
    assert (eviction.namespace, eviction.name, eviction.uid, eviction.breach) == ("apps", "a", "uid-a", "gpu")
    assert eviction.grace_seconds == 30
    assert "2.00 GiB" in eviction.message
    assert "1.00 GiB" in eviction.message


@pytest.mark.parametrize(
    ("own", "normal", "hurried"),
    [(600, 30, 2), (30, 30, 2), (5, 5, 2), (1, 1, 1), (0, 1, 1)],  # min(own, 30) and min(own, 2), never 0
)
def test_the_grace_of_an_eviction(own: int, normal: int, hurried: int) -> None:
    given = scene(a_pod("a", grace_seconds=own))
    assert [eviction.grace_seconds for eviction in settled(given).evictions] == [normal]
    assert [eviction.grace_seconds for eviction in pressed(given).evictions] == [hurried]


def test_a_fraction_of_a_second_is_never_zero() -> None:
    given = scene(a_pod("a"), text="policy: {max_grace: 250ms}")
    assert [eviction.grace_seconds for eviction in settled(given).evictions] == [1]


# --- never ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"mirror": True},
        {"priority": 2_000_000_000},
        {"priority": 2_000_001_000},
        {"namespace": "kube-system"},
    ],
)
@pytest.mark.parametrize("under_pressure", [False, True])
def test_protected_pods(fields: dict[str, Any], *, under_pressure: bool) -> None:
    given = scene(a_pod("a", **fields))
    plan = pressed(given) if under_pressure else settled(given)
    assert (evicted(plan), held_codes(plan)) == ([], {"uid-a": "protected"})


def test_the_largest_priority_below_system_critical_is_not_protected() -> None:
    assert evicted(settled(scene(a_pod("a", priority=1_999_999_999)))) == ["uid-a"]


def test_policy_protect_names_namespaces_or_pods() -> None:
    both = (a_pod("a"), a_pod("b"))
    assert held_codes(settled(scene(*both, text="policy: {protect: [apps]}"))) == {
        "uid-a": "protected",
        "uid-b": "protected",
    }
    plan = settled(scene(*both, text="policy: {protect: [apps/a]}"))
    assert (evicted(plan), held_codes(plan)) == (["uid-b"], {"uid-a": "protected"})
    # it replaces the default
    assert evicted(settled(scene(a_pod("a", namespace="kube-system"), text="policy: {protect: []}"))) == ["uid-a"]


def test_the_agent_itself() -> None:
    plan = Run().steps(replace(scene(a_pod("a")), own_pod="uid-a"), *SAMPLES)
    assert held_codes(plan) == {"uid-a": "protected"}


def test_an_mps_daemon() -> None:
    given = scene(a_pod("a"))
    facts = given.facts().host.processes[pid_of("a")]
    server = replace(facts, name="nvidia-cuda-mps-server")
    with_server = replace(given, held={"a": Held(gpu=0)}, extra=((server, 2 * GIB),))
    assert held_codes(Run().steps(with_server, *SAMPLES)) == {"uid-a": "protected"}


def test_terminating_pods_are_on_their_way() -> None:
    plan = settled(scene(a_pod("a", terminating=True)))
    assert (evicted(plan), held_codes(plan)) == ([], {})


def test_daemonset_pods_come_straight_back() -> None:
    daemon = a_pod("a", owner=("DaemonSet", "ds"))
    assert held_codes(settled(scene(daemon))) == {"uid-a": "daemonset"}
    assert evicted(settled(scene(daemon, text="policy: {daemonsets: evict}"))) == ["uid-a"]


def test_the_next_candidate_after_those_that_cannot_go() -> None:
    pods = (
        a_pod("static", mirror=True),
        a_pod("own"),
        a_pod("critical", priority=2_000_001_000),
        a_pod("daemon", owner=("DaemonSet", "ds")),
        a_pod("a"),
    )
    given = scene(*pods, static=Held(gpu=20 * GIB))
    plan = Run().steps(replace(given, own_pod="uid-own"), *SAMPLES)
    assert evicted(plan) == ["uid-a"]
    assert held_codes(plan) == {
        "uid-static": "protected",
        "uid-own": "protected",
        "uid-critical": "protected",
        "uid-daemon": "daemonset",
    }


# --- held codes, the first that applies ----------------------------------------------


def test_stale_readings_evict_nobody() -> None:
    run = Run()
    given = scene(a_pod("a"))
    run.steps(given, 0.0, 8.0)
    old = replace(at(given, 25.1), attributed_at=15.0)
    assert held_codes(run.step(old)) == {"uid-a": "stale"}
    fresh = replace(at(given, 25.0), attributed_at=15.0)
    run = Run()
    run.steps(given, 0.0, 8.0)
    assert evicted(run.step(fresh)) == ["uid-a"]


def test_a_stale_view_of_the_cluster_evicts_nobody() -> None:
    run = Run()
    given = scene(a_pod("a"))
    run.steps(given, 0.0, 8.0)
    assert held_codes(run.step(replace(at(given, 16.0), fresh_at=5.9))) == {"uid-a": "stale"}
    assert evicted(run.step(at(given, 18.0))) == ["uid-a"]


def test_grace_tells_how_long() -> None:
    run = Run()
    given = scene(a_pod("a"))
    assert left(run.step(given)) == {"uid-a": ("grace", 15.0)}
    assert left(run.step(at(given, 8.0))) == {"uid-a": ("grace", 7.0)}


@pytest.mark.parametrize("how", ["config", "annotation", "owner"])
def test_observe(how: str) -> None:
    marks: dict[str, Any] = {
        "config": {},
        "annotation": {"annotations": {"edgeagent.dev/mode": "observe"}},
        "owner": {"labels": {"gpushare": "true"}},
    }
    given = replace(scene(a_pod("a"), text="mode: observe" if how == "config" else ""), node=node(**marks[how]))
    plan = Run().steps(given, *SAMPLES)
    assert (evicted(plan), left(plan)) == ([], {"uid-a": ("observe", None)})
    assert plan.observe
    # grace comes first
    assert held_codes(Run().step(given)) == {"uid-a": "grace"}
    assert held_codes(pressed(given)) == {"uid-a": "observe"}


def test_the_annotation_never_arms() -> None:
    armed = node(annotations={"edgeagent.dev/mode": "enforce"})
    given = replace(scene(a_pod("a"), text="mode: observe"), node=armed)
    assert held_codes(Run().steps(given, *SAMPLES)) == {"uid-a": "observe"}


def test_one_at_a_time() -> None:
    given = scene(a_pod("a"), a_pod("b"), a_pod("c"), b=Held(gpu=3 * GIB))
    plan = settled(given)
    assert evicted(plan) == ["uid-b"]  # the larger excess
    assert held_codes(plan) == {"uid-a": "one-at-a-time", "uid-c": "one-at-a-time"}


def test_no_second_victim_until_the_processes_of_the_first_are_gone() -> None:
    run = Run()
    given = scene(a_pod("a"), a_pod("b"), b=Held(gpu=3 * GIB))
    run.steps(given, *SAMPLES)
    # its object is gone, its process is not: 30 s + 5 min from 15 s on
    process = given.facts().host.processes[pid_of("b")]
    still = replace(given, pods=given.pods[:1], extra=((process, 3 * GIB),))
    plan = run.step(at(still, 20.0))
    assert left(plan) == {"uid-a": ("releasing", 325.0)}
    # the process is gone at 25 s: ten more seconds
    freed = replace(given, pods=given.pods[:1])
    assert left(run.step(at(freed, 25.0))) == {"uid-a": ("hold-down", 10.0)}
    assert left(run.step(at(freed, 34.0))) == {"uid-a": ("hold-down", 1.0)}
    assert evicted(run.step(at(freed, 35.0))) == ["uid-a"]


def test_a_victim_that_is_still_listed_is_terminating_and_never_evicted_again() -> None:
    run = Run()
    given = scene(a_pod("a"))
    run.steps(given, *SAMPLES)
    for second in range(17, 60, 2):
        plan = run.step(at(given, float(second)))
        assert (evicted(plan), plan.pods[0].state) == ([], "terminating")


def test_an_untrusted_sample_does_not_prove_a_release() -> None:
    run = Run()
    given = scene(a_pod("a"), a_pod("b"), b=Held(gpu=3 * GIB))
    run.steps(given, *SAMPLES)
    run.step(replace(at(given, 17.0), readable=False))
    assert held_codes(run.step(at(given, 19.0))) == {"uid-a": "releasing"}


def test_a_stuck_victim_does_not_wait_for_ever() -> None:
    run = Run()
    given = scene(a_pod("a"), a_pod("b"), b=Held(gpu=3 * GIB))
    run.steps(given, *SAMPLES)
    found: dict[float, str] = {}
    for second in range(20, 380, 5):
        plan = run.step(at(given, float(second)))
        found[second] = held_codes(plan).get("uid-a", "evicted")
        if plan.evictions:
            break
    # accepted at 15 s; 30 s + 300 s later, then ten seconds
    assert (found[340], found[345], found[350], found[355]) == ("releasing", "hold-down", "hold-down", "evicted")


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


@pytest.mark.parametrize("outcome", ["blocked", "throttled", "misconfigured", "forbidden", "unknown"])
def test_a_refused_eviction_waits_and_the_next_candidate_goes(outcome: Outcome) -> None:
    run = Run(outcome)
    given = scene(a_pod("a"), a_pod("b"), b=Held(gpu=3 * GIB))
    assert evicted(run.steps(given, *SAMPLES)) == ["uid-b"]
    run.outcome = "accepted"
    plan = run.step(at(given, 17.0))
    assert evicted(plan) == ["uid-a"]


@pytest.mark.parametrize(("outcome", "seconds"), [("blocked", 5.0), ("forbidden", 600.0), ("misconfigured", 600.0)])
def test_how_long_a_refusal_holds(outcome: Outcome, seconds: float) -> None:
    run = Run(outcome)
    given = scene(a_pod("a"))
    run.steps(given, *SAMPLES)
    assert left(run.step(at(given, 16.0))) == {"uid-a": ("blocked", seconds - 1)}
    for second in range(20, int(15 + seconds), 5):
        assert held_codes(run.step(at(given, float(second)))) == {"uid-a": "blocked"}
    assert evicted(run.step(at(given, 15 + seconds))) == ["uid-a"]


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


# --- order ---------------------------------------------------------------------------


def order(*pods: PodFacts, **held: Any) -> list[str]:
    """All pods in victim order: the first, then the first of the rest, and so on."""
    given = scene(*pods, **held)
    found = []
    rest = list(pods)
    while rest:
        plan = settled(replace(given, pods=tuple(rest), held={one.name: given.held[one.name] for one in rest}))
        (victim,) = plan.evictions
        found.append(victim.name)
        rest = [one for one in rest if one.uid != victim.uid]
    return found


def test_lower_priority_then_larger_excess_then_younger_then_uid() -> None:
    found = order(
        a_pod("high", priority=10),
        a_pod("large"),
        a_pod("old", start_time=100.0),
        a_pod("young", start_time=200.0),
        a_pod("twin-b", start_time=50.0),
        a_pod("twin-a", start_time=50.0),
        high=Held(gpu=9 * GIB),
        large=Held(gpu=3 * GIB),
    )
    assert found == ["large", "young", "old", "twin-a", "twin-b", "high"]


def test_under_pressure_first_those_whose_excess_is_enough() -> None:
    # need = 128 MiB... on 64 GiB the floor is half of 2 %: 1 374 389 535 / 2; with 1 GiB floor configured:
    # need = 1024 + 128 − 100 = 1052 MiB: the excess of a (1 GiB) does not cover it, that of b (2 GiB) does
    given = scene(
        a_pod("a", priority=-5),
        a_pod("b", priority=5),
        text="pressure: {floor: 1Gi}",
        free=100 * MIB,
        b=Held(gpu=3 * GIB),
    )
    plan = Run().steps(given, 0.0, 1.0)
    assert evicted(plan)[0] == "uid-b"
    # a quiet board goes by priority
    assert evicted(settled(replace(given, meminfo=meminfo(64 * GIB)))) == ["uid-a"]


def test_under_pressure_as_many_as_the_shortfall_needs() -> None:
    # need = 4096 + 128 − 24 = 4200 MiB. Each pod gives back 2 GiB: three cover it
    pods = [a_pod(name) for name in "abcd"]
    plan = Run().steps(scene(*pods, text="pressure: {floor: 4Gi}", free=24 * MIB), 0.0, 1.0)
    assert evicted(plan) == ["uid-a", "uid-b", "uid-c"]
    assert held_codes(plan) == {"uid-d": "releasing"}


def test_what_is_leaving_counts() -> None:
    # need = 128… with floor 1 GiB: 1052 MiB; a terminating pod gives back 2 GiB
    leaving = a_pod("x", terminating=True)
    given = scene(a_pod("a"), leaving, text="pressure: {floor: 1Gi}", free=100 * MIB)
    plan = Run().steps(given, 0.0, 1.0)
    assert (evicted(plan), held_codes(plan)) == ([], {"uid-a": "releasing"})
    # unless it is too little: 512 MiB
    given = replace(given, held={**given.held, "x": Held(gpu=512 * MIB)})
    assert evicted(Run().steps(given, 0.0, 1.0)) == ["uid-a"]


def test_pressure_needs_no_grace_but_two_readings() -> None:
    run = Run()
    given = scene(a_pod("a"), free=10 * MIB)
    assert evicted(run.step(given)) == []
    assert evicted(run.step(at(given, 0.2))) == ["uid-a"]


# --- pods that are not over a budget -------------------------------------------------

INNOCENT = (pod("free"), a_pod("fine"))
HELD = {"free": Held(gpu=4 * GIB), "fine": Held(gpu=900 * MIB, host=GIB)}


def innocents(text: str, free: int = 10 * MIB, **fields: Any) -> Plan:
    info = meminfo(64 * GIB, available=free, anon_pages=fields.pop("anon", GIB))
    given = Scene(
        pods=fields.pop("pods", INNOCENT), held={**HELD, **fields.pop("held", {})}, config=config(text), meminfo=info
    )
    return Run().steps(given, 0.0, 1.0)


def test_a_board_that_is_full_of_pods_within_their_budgets_evicts_nobody() -> None:
    plan = innocents("", free=0)
    assert plan.danger.active
    assert (plan.evictions, plan.held) == ((), ())


def test_unbudgeted_pods_go_only_where_the_policy_says_so_and_if_it_helps() -> None:
    plan = innocents("policy: {unbudgeted: evict}")
    assert [(eviction.uid, eviction.breach) for eviction in plan.evictions] == [("uid-free", "unbudgeted")]
    # need = 8192 + 128 − 10 MiB: 4 GiB would not be enough
    assert innocents("{policy: {unbudgeted: evict}, pressure: {floor: 8Gi}}").evictions == ()


def test_not_without_pressure() -> None:
    assert (
        innocents("{policy: {unbudgeted: evict}, pressure: {within_budget: above-request}}", free=32 * GIB).evictions
        == ()
    )


def test_pods_above_their_request_go_only_where_the_setting_says_so() -> None:
    # it booked 1 GiB and uses 900 MiB + 1 GiB
    plan = innocents("pressure: {within_budget: above-request}")
    assert [(eviction.uid, eviction.breach) for eviction in plan.evictions] == [("uid-fine", "above-request")]


def test_an_upper_bound_of_host_memory_puts_nobody_above_its_request() -> None:
    vague = {"fine": Held(gpu=900 * MIB, host=GIB, exact=False)}
    assert innocents("pressure: {within_budget: above-request}", held=vague).evictions == ()


def test_unbudgeted_pods_come_before_those_within_their_budget() -> None:
    both = "{policy: {unbudgeted: evict}, pressure: {within_budget: above-request}}"
    lower = (pod("free", priority=100), a_pod("fine", priority=-100))
    plan = innocents(both, pods=lower)
    assert [(eviction.uid, eviction.breach) for eviction in plan.evictions] == [("uid-free", "unbudgeted")]
    assert held_codes(plan) == {"uid-fine": "releasing"}


@pytest.mark.parametrize("fields", [{"mirror": True}, {"owner": ("DaemonSet", "ds")}])
def test_a_breach_that_cannot_be_evicted_blocks_them(fields: dict[str, Any]) -> None:
    pods = (*INNOCENT, a_pod("bad", **fields))
    text = "{policy: {unbudgeted: evict}, pressure: {within_budget: above-request}}"
    assert innocents(text, pods=pods, held={"bad": Held(gpu=2 * GIB)}).evictions == ()


@pytest.mark.parametrize("anon", [40 * GIB, None])
def test_a_host_over_its_reserve_blocks_them_but_no_breach(anon: int | None) -> None:
    text = "{policy: {unbudgeted: evict}, pressure: {within_budget: above-request}}"
    assert innocents(text, anon=anon).evictions == ()
    plan = innocents(text, anon=anon, pods=(*INNOCENT, a_pod("bad")), held={"bad": Held(gpu=2 * GIB)})
    assert evicted(plan) == ["uid-bad"]


def test_protected_pods_are_no_candidates() -> None:
    pods = (pod("free", mirror=True), a_pod("fine", priority=2_000_000_000))
    text = "{policy: {unbudgeted: evict}, pressure: {within_budget: above-request}}"
    plan = innocents(text, pods=pods)
    assert plan.evictions == ()


def test_a_bystander_of_a_slow_release_stays() -> None:
    # a's termination takes long; b is within its budget and the board has no room left
    run = Run()
    slow = scene(a_pod("a", terminating=True, grace_seconds=600), a_pod("b"), a=Held(gpu=20 * GIB), b=Held(gpu=GIB))
    for second in range(0, 200, 5):
        plan = run.step(at(replace(slow, meminfo=meminfo(64 * GIB, available=50 * MIB)), float(second)))
        assert (plan.evictions, plan.held) == ((), ())


def test_pid_reuse() -> None:
    """The pid of a breaching process comes back in another pod: the windows of both begin anew."""
    run = Run()
    given = scene(a_pod("a"), a_pod("b"), b=Held(gpu=0))
    run.steps(given, 0.0, 8.0)
    taken = replace(given.facts().host.processes[pid_of("a")], start_ticks=99)
    assert taken.owner is not None
    moved = Process(pid=taken.pid, start_ticks=99, name="x", owner=replace(taken.owner, pod_uid="uid-b"))
    after = replace(given, held={"a": Held(gpu=0), "b": Held(gpu=0)}, extra=((moved, 2 * GIB),))
    plan = run.step(at(after, 16.0))
    assert (evicted(plan), left(plan)) == ([], {"uid-b": ("grace", 15.0)})

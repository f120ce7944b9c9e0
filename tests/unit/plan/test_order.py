"""In which order pods are evicted, and which within their rights go last."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgeagent.facts import PodFacts, Process
from edgeagent.plan.types import Plan
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
    pid_of,
    pod,
)
from tests.unit.plan.overuse import a_pod, left, scene, settled

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

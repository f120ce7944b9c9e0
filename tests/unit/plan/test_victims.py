"""Who may be evicted, and what holds an eviction back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgeagent.facts import IGPU_MEMORY, CgroupOwner, Process
from edgeagent.plan.types import Plan
from tests.unit.factories import (
    GIB,
    MIB,
    Held,
    Run,
    Scene,
    at,
    card,
    container,
    evicted,
    held_codes,
    igpu,
    meminfo,
    node,
    nvml,
    pid_of,
    pod,
    processes,
    resources,
)
from tests.unit.plan.overuse import SAMPLES, a_pod, left, pressed, scene, settled

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
    process = given.facts().host.processes[pid_of("b")]
    # its object is gone; a sample that names no processes proves nothing of the one that it had
    still = replace(given, pods=given.pods[:1], extra=((process, 3 * GIB),))
    run.step(replace(at(still, 17.0), readable=False))
    assert held_codes(run.step(at(still, 19.0))) == {"uid-a": "releasing"}
    assert held_codes(run.step(at(replace(still, extra=()), 21.0))) == {"uid-a": "hold-down"}


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


def test_a_pod_that_was_going_at_the_start_is_waited_for_like_a_victim() -> None:
    """The agent before may have evicted it, and its state file is lost. The grace is 600 s, by policy at most 30."""
    run = Run()
    given = scene(a_pod("a"), a_pod("b", terminating=True, grace_seconds=600))
    plan = run.steps(given, *SAMPLES)
    # seen at 0 s: 30 s + 5 min from then on
    assert left(plan) == {"uid-a": ("releasing", 315.0)}
    # it is somebody else's victim, perhaps: neither evicted nor counted
    assert run.state.victims == {}
    assert run.state.evicted_at == ()
    gone = replace(given, pods=given.pods[:1], held={"a": given.held["a"]})
    assert left(run.step(at(gone, 20.0))) == {"uid-a": ("hold-down", 10.0)}
    assert evicted(run.step(at(gone, 30.0))) == ["uid-a"]


def test_a_pod_that_was_going_at_the_start_is_not_waited_for_for_ever() -> None:
    run = Run()
    given = scene(a_pod("a"), a_pod("b", terminating=True))
    found = {}
    for second in range(0, 350, 5):
        plan = run.step(at(given, float(second)))
        found[second] = held_codes(plan).get("uid-a", "evicted")
    # 30 s + 300 s, then ten seconds
    assert (found[325], found[330], found[335], found[340]) == ("releasing", "hold-down", "hold-down", "evicted")


def test_a_pod_that_is_deleted_later_is_nobodys_victim() -> None:
    run = Run()
    given = scene(a_pod("a"), a_pod("b"), b=Held(gpu=GIB))
    run.step(given)
    deleted = replace(given, pods=(given.pods[0], replace(given.pods[1], terminating=True)))
    assert evicted(run.steps(deleted, 8.0, 15.0)) == ["uid-a"]


def test_an_annotation_takes_no_other_pods_cgroup() -> None:
    """A mirror names its static pod by a hash; one that names a pod by its uid is somebody's trick."""
    trick = pod(
        "zz",
        phase="Pending",
        start_time=None,
        mirror=True,
        config_hash="uid-a",
        containers=(container(container_id=None, started_at=None),),
    )
    given = scene(a_pod("a"), a=Held(gpu=3 * GIB))
    plan = Run().steps(replace(given, pods=(*given.pods, trick)), *SAMPLES)
    assert evicted(plan) == ["uid-a"]
    assert {view.pod.name: sum(one or 0 for one in view.use.gpu.values()) for view in plan.pods} == {
        "a": 3 * GIB,
        "zz": 0,
    }


# --- pressure that outlasts the need -------------------------------------------------
# 64 GiB: headroom 2 % = 1311 MiB, floor 656 MiB; it ends above 656 + 256 MiB. At 800 MiB nothing is needed any more.


def hovering(first: Scene, *later: tuple[float, Scene]) -> list[Plan]:
    """Below the floor at 0 and 1 s, then 800 MiB are usable."""
    low, near = (meminfo(64 * GIB, available=amount * MIB) for amount in (100, 800))
    run = Run()
    run.steps(replace(first, meminfo=low), 0.0, 1.0)
    return [run.step(at(replace(given, meminfo=near), second)) for second, given in later]


def test_a_breach_has_its_grace_while_nothing_is_needed() -> None:
    calm, over = scene(a_pod("a"), excess=0), scene(a_pod("a"))
    plans = hovering(calm, (2.0, over), (9.0, over), (16.0, over), (17.0, over))
    assert {plan.danger.active for plan in plans} == {True}
    assert {plan.danger.need for plan in plans} == {0}
    assert [left(plan) for plan in plans[:3]] == [
        {"uid-a": ("grace", 15.0)},
        {"uid-a": ("grace", 8.0)},
        {"uid-a": ("grace", 1.0)},
    ]
    assert evicted(plans[3]) == ["uid-a"]


def test_nobody_follows_a_victim_of_the_same_pressure_while_nothing_is_needed() -> None:
    # At 1 s the need is 656 + 128 − 100 = 684 MiB, which the excess of a, 2 GiB, covers.
    both = scene(a_pod("a"), a_pod("b"), a=Held(gpu=3 * GIB))
    alone = scene(a_pod("b"))
    plans = hovering(both, *((float(second), alone) for second in range(2, 40, 2)))
    assert [evicted(plan) for plan in plans] == [[]] * 19
    assert {held_codes(plan)["uid-b"] for plan in plans} == {"releasing"}


def test_a_victim_of_long_ago_spares_nobody() -> None:
    """Memory may stay near the floor for hours; after five minutes a breach has its usual grace, and no more."""
    both = scene(a_pod("a"), a_pod("b"), a=Held(gpu=3 * GIB))
    alone = scene(a_pod("b"))
    plans = hovering(both, *((float(second), alone) for second in range(2, 320, 2)))
    gone = [second for second, plan in zip(range(2, 320, 2), plans, strict=True) if plan.evictions]
    # a was accepted at 1 s; b has been over all the time
    assert gone == [302]


def test_nobody_counts_for_ever_on_memory_that_does_not_come() -> None:
    """Evicted at 1 s with a grace of 2 s, it still holds what would do: five minutes later the next one goes."""
    run = Run()
    low = replace(scene(a_pod("a"), a_pod("b"), a=Held(gpu=3 * GIB)), meminfo=meminfo(64 * GIB, available=100 * MIB))
    assert evicted(run.steps(low, 0.0, 1.0)) == ["uid-a"]
    found = {second: evicted(run.step(at(low, float(second)))) for second in range(2, 310, 2)}
    assert [second for second, gone in found.items() if gone] == [304]
    assert found[304] == ["uid-b"]


def test_what_a_card_gives_back_does_not_help_the_board() -> None:
    """A terminating pod with 20 GiB of a card: the breach of the shared memory goes all the same."""
    igpu_limit = resources(GIB, key=IGPU_MEMORY)
    over = pod("b", containers=(container(requests=igpu_limit, limits=igpu_limit),))
    ada = card(minor=1, compute=processes((4242, 20 * GIB)))
    thor = igpu("NVIDIA Thor", compute=processes((4243, 2 * GIB)))
    given = Scene(
        pods=(a_pod("a", terminating=True), over),
        nvml=nvml(ada, thor),
        meminfo=meminfo(64 * GIB, available=10 * MIB),
        extra=tuple(
            (Process(pid=pid, start_ticks=7, name="infer", owner=CgroupOwner(uid, "main-id")), 1)
            for pid, uid in ((4242, "uid-a"), (4243, "uid-b"))
        ),
    )
    assert evicted(Run().steps(given, 0.0, 1.0)) == ["uid-b"]

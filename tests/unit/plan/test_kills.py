"""The last resort: whose GPU processes are killed, whose never, and what is said when nobody's are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY, CgroupOwner, PodFacts, Process
from edgeagent.plan import cadence, outcomes
from edgeagent.plan.decide import decide
from edgeagent.plan.kills import CRITICAL
from edgeagent.plan.types import KillOutcome, KillResult, Outcome, Plan
from tests.unit.factories import (
    GIB,
    MIB,
    WALL,
    Held,
    Run,
    Scene,
    at,
    card,
    config,
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
from tests.unit.plan.overuse import a_pod, scene

LIMITS = "pressure: {floor: 128Mi, critical: 64Mi}"
TEN = 10 * MIB
"""Usable bytes that are critical whatever the fall."""


def low(*pods: PodFacts, policy: str = "", free: int = TEN, **fields: Any) -> Scene:
    """Pods with a budget of 1 GiB that hold 2 GiB each, on a board whose memory is nearly gone."""
    given = scene(*pods, text=f"{LIMITS}\npolicy: {{{policy}}}")
    return replace(given, meminfo=meminfo(64 * GIB, available=free), **fields)


def api_down(*pods: PodFacts, **fields: Any) -> Scene:
    """The same while the cluster was last seen an hour ago, so that nobody can be evicted."""
    return low(*pods, **{"fresh_at": -3600.0, **fields})


def killed(plan: Plan) -> list[str]:
    return [kill.uid for kill in plan.kills]


def nobody(plan: Plan) -> str:
    """What is said of a board whose memory ends while nobody is killed."""
    return "".join(finding.summary for finding in plan.findings if finding.id == CRITICAL)


# --- when ----------------------------------------------------------------------------


def test_a_victim_whose_bytes_are_not_back_is_killed() -> None:
    run = Run()
    assert evicted(run.steps(low(a_pod("a")), 0.0, 0.1)) == ["uid-a"]
    plan = run.steps(low(a_pod("a")), 0.2)
    (kill,) = plan.kills
    assert (kill.uid, kill.processes) == ("uid-a", ((pid_of("a"), 7),))
    assert (kill.key, kill.cgroup_uid, kill.containers) == ("apps/a", "uid-a", frozenset({"main-id"}))
    assert kill.read_at == 0.2
    assert "Its eviction was accepted 0.1 s ago, and its memory is not back." in kill.message


def test_the_message_says_who_how_much_why_and_what_next() -> None:
    (kill,) = Run().steps(api_down(a_pod("a")), 0.0, 0.5).kills
    assert "10 MiB usable left" in kill.message
    assert f"GPU memory 2.00 GiB exceeds the budget of 1.00 GiB ({GPU_MEMORY})" in kill.message
    assert " for 0.5 s." in kill.message
    assert "It cannot be evicted: the view of the cluster is 3600 s old." in kill.message
    assert "Its containers start again as its restart policy says" in kill.message
    # a tenth above the 2048 MiB that it holds: 2252.8
    assert f"raise {GPU_MEMORY} to 2253Mi or more" in kill.message
    # an event's note has room for 1024 bytes
    assert len(kill.message.encode()) < 1024


def test_the_eviction_comes_first() -> None:
    """In the decision that asks for it, and as long as nothing was read since, its bytes cannot be back."""
    run = Run()
    plan = run.steps(low(a_pod("a")), 0.0, 0.1)
    assert (killed(plan), evicted(plan)) == ([], ["uid-a"])
    assert killed(run.step(at(low(a_pod("a")), 0.15, attributed_at=0.1))) == []
    assert killed(run.step(at(low(a_pod("a")), 0.2, attributed_at=0.2))) == ["uid-a"]


@pytest.mark.parametrize("outcome", ["blocked", "throttled", "misconfigured", "forbidden", "unauthorized", "unknown"])
def test_a_victim_that_the_api_server_does_not_let_go_is_killed(outcome: Outcome) -> None:
    run = Run(outcome)
    assert killed(run.steps(low(a_pod("a")), 0.0, 0.1)) == []
    plan = run.steps(low(a_pod("a")), 0.2)
    assert (killed(plan), held_codes(plan)) == (["uid-a"], {"uid-a": "blocked"})
    assert f"It cannot be evicted: {outcome}." in plan.kills[0].message


def test_no_answer_yet_is_no_eviction() -> None:
    run = Run(outcome=None)
    assert killed(run.steps(low(a_pod("a")), 0.0, 0.1)) == []
    (kill,) = run.steps(low(a_pod("a")), 0.2).kills
    assert "Its eviction was asked for 0.1 s ago, and the API server has not answered." in kill.message


@pytest.mark.parametrize("outcome", ["recovered", "gone"])
def test_an_answer_that_decides_nothing_is_waited_for_anew(outcome: Outcome) -> None:
    run = Run(outcome)
    assert killed(run.steps(low(a_pod("a")), 0.0, 0.1)) == []
    plan = run.steps(low(a_pod("a")), 0.2)
    assert (killed(plan), evicted(plan)) == ([], ["uid-a"])


def test_a_stale_view_of_the_cluster_forbids_no_kill() -> None:
    plan = Run().steps(api_down(a_pod("a")), 0.0, 0.1)
    assert (killed(plan), evicted(plan), held_codes(plan)) == (["uid-a"], [], {"uid-a": "stale"})


def test_one_reading_is_not_enough() -> None:
    run = Run()
    assert killed(run.steps(api_down(a_pod("a")), 0.0)) == []
    # the same reading once more
    assert killed(run.steps(api_down(a_pod("a")), 0.0)) == []
    assert killed(run.steps(api_down(a_pod("a")), 0.1)) == ["uid-a"]


def test_a_reading_that_failed_kills_nobody() -> None:
    """Whatever the two before it said; the next one goes on from there."""
    run = Run("blocked")
    run.steps(low(a_pod("a")), 0.0, 0.1)
    plan = run.step(at(replace(low(a_pod("a")), meminfo=None), 0.2))
    assert (killed(plan), nobody(plan)) == ([], "")
    assert killed(run.steps(low(a_pod("a")), 0.3)) == ["uid-a"]


def test_a_reading_above_starts_the_count_anew() -> None:
    run = Run()
    run.steps(api_down(a_pod("a")), 0.0)
    run.steps(api_down(a_pod("a"), free=GIB), 0.1)
    # a fall by 1014 MiB in 0.1 s is behind both readings
    assert killed(run.steps(api_down(a_pod("a")), 0.2)) == []
    assert killed(run.steps(api_down(a_pod("a")), 0.3)) == ["uid-a"]


@pytest.mark.parametrize(("free", "expected"), [(64 * MIB, []), (64 * MIB - 1, ["uid-a"])])
def test_critical_is_what_the_configuration_says(free: int, expected: list[str]) -> None:
    plan = Run().steps(api_down(a_pod("a"), free=free), 0.0, 0.1)
    assert (killed(plan), nobody(plan)) == (expected, "")


def test_the_default_is_half_the_floor() -> None:
    # The floor is half the headroom, which is 2 % of 64 GiB: 655 MiB, so critical is 327 MiB.
    for free, expected in ((328 * MIB, []), (327 * MIB, ["uid-a"])):
        given = replace(api_down(a_pod("a"), free=free), config=config())
        assert killed(Run().steps(given, 0.0, 0.1)) == expected


def test_half_a_second_of_the_fastest_fall_is_counted_ahead() -> None:
    """At 80 MiB/s: 108 − 40 is not below 64, 100 − 40 and 92 − 40 are."""
    run = Run()
    found = [
        killed(run.step(at(api_down(a_pod("a"), free=free * MIB), second)))
        for second, free in ((0.0, 116), (0.1, 108), (0.2, 100), (0.3, 92))
    ]
    assert found == [[], [], [], ["uid-a"]]


@pytest.mark.parametrize(("read", "expected"), [(-0.9, ["uid-a"]), (-0.95, [])])
def test_only_a_reading_of_at_most_a_second_counts(read: float, expected: list[str]) -> None:
    """At second 0.1 it is 1.0 or 1.05 s old."""
    plan = Run().steps(replace(api_down(a_pod("a")), attributed_at=read), 0.0, 0.1)
    assert killed(plan) == expected
    assert ("who holds the memory was last read more than 1 s ago" in nobody(plan)) == (not expected)


def test_an_answer_of_the_driver_that_came_late_is_old() -> None:
    """Its question was asked 1.5 s before; the table of the same sample is fresh and knows nothing of a Thor."""
    facts = Process(pid=4243, start_ticks=7, name="infer", owner=CgroupOwner("uid-a", "main-id"))
    thor = nvml(igpu("NVIDIA Thor", compute=processes((4243, 2 * GIB))))
    given = api_down(a_pod("a"), nvml=thor, held={}, extra=((facts, 1),))
    for late, expected in ((0.0, ["uid-a"]), (1.5, [])):
        run = Run()
        run.step(given)
        sample = at(given, 0.1).facts()
        host = replace(sample.host, nvml=replace(sample.host.nvml, at=0.1 - late))
        _, plan = decide(run.state, replace(sample, host=host), 0.1)
        assert killed(plan) == expected


def test_a_board_with_room_kills_nobody() -> None:
    plan = Run().steps(replace(api_down(a_pod("a")), meminfo=meminfo(64 * GIB, available=8 * GIB)), 0.0, 8.0, 16.0)
    assert (killed(plan), nobody(plan)) == ([], "")


def test_without_pressure_a_breach_has_its_grace() -> None:
    """A critical above the floor does not do away with the rules of pressure."""
    text = "pressure: {floor: 128Mi, horizon: 100ms, critical: 128Mi}"
    given = replace(api_down(a_pod("a"), free=128 * MIB), config=config(text))
    run = Run()
    # falls by 80 MiB/s: 152 − 40 and 144 − 40 are below 128, 152 − 8 and 144 − 8 are not
    for second, free in ((0.0, 160), (0.1, 152)):
        run.step(at(replace(given, meminfo=meminfo(64 * GIB, available=free * MIB)), second))
    plan = run.step(at(replace(given, meminfo=meminfo(64 * GIB, available=144 * MIB)), 0.2))
    assert killed(plan) == []
    assert "not under pressure" in nobody(plan)


# --- when not ------------------------------------------------------------------------


def test_policy_never() -> None:
    plan = Run().steps(api_down(a_pod("a"), policy="kill: never"), 0.0, 0.1, 0.2)
    assert (killed(plan), "policy.kill is never" in nobody(plan)) == ([], True)


def test_observing_kills_nobody() -> None:
    configured = replace(api_down(a_pod("a")), config=config(f"mode: observe\n{LIMITS}"))
    annotated = api_down(a_pod("a"), node=node(annotations={"edgeagent.dev/mode": "observe"}))
    owned = api_down(a_pod("a"), node=node(labels={"gpu": "on"}))
    for given, why in ((configured, "mode: observe"), (annotated, "annotated"), (owned, "HAMi")):
        plan = Run().steps(given, 0.0, 0.1, 0.2)
        assert (killed(plan), why in nobody(plan)) == ([], True)


def test_without_a_cluster_nobody_has_a_budget() -> None:
    plan = Run().steps(api_down(a_pod("a"), cluster=False), 0.0, 0.1, 0.2)
    assert (killed(plan), "which pods run here is not known" in nobody(plan)) == ([], True)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"mirror": True}, "static pod"),
        ({"priority": 2_000_000_000}, "system-critical"),
        ({"namespace": "kube-system"}, "policy.protect"),
        ({"owner": ("DaemonSet", "ds")}, "DaemonSet"),
        ({"terminating": True}, "terminating already"),
    ],
)
def test_pods_that_are_never_killed(fields: dict[str, Any], why: str) -> None:
    plan = Run().steps(api_down(a_pod("a", **fields)), 0.0, 0.1, 0.2)
    assert killed(plan) == []
    assert why in nobody(plan)


def test_the_next_in_breach_after_those_that_are_never_killed() -> None:
    spared = a_pod("a", mirror=True, priority=-1)
    assert killed(Run().steps(api_down(spared, a_pod("b")), 0.0, 0.1)) == ["uid-b"]


def test_what_may_be_evicted_may_be_killed() -> None:
    assert killed(Run().steps(api_down(a_pod("a", priority=1_999_999_999)), 0.0, 0.1)) == ["uid-a"]
    daemon = a_pod("a", owner=("DaemonSet", "ds"))
    assert killed(Run().steps(api_down(daemon, policy="daemonsets: evict"), 0.0, 0.1)) == ["uid-a"]


def test_the_agent_itself_and_what_policy_protects() -> None:
    assert killed(Run().steps(api_down(a_pod("a"), own_pod="uid-a"), 0.0, 0.1)) == []
    assert killed(Run().steps(api_down(a_pod("a"), policy="protect: [apps/a]"), 0.0, 0.1)) == []
    assert killed(Run().steps(api_down(a_pod("a"), policy="protect: [apps/b]"), 0.0, 0.1)) == ["uid-a"]


def test_a_victim_is_not_killed_once_it_is_protected() -> None:
    """The configuration may change between the eviction and the kill."""
    run = Run()
    assert evicted(run.steps(low(a_pod("a")), 0.0, 0.1)) == ["uid-a"]
    assert killed(run.steps(low(a_pod("a"), policy="protect: [apps]"), 0.2)) == []


def test_pods_within_their_budget_and_without_one_are_never_killed() -> None:
    """Not even where they may be evicted: their eviction was accepted, and their bytes are not back."""
    drastic = "unbudgeted: evict"
    given = low(pod("a"), policy=drastic, held={"a": Held(gpu=4 * GIB)})
    run = Run()
    assert evicted(run.steps(given, 0.0, 0.1)) == ["uid-a"]
    plan = run.steps(given, 0.2)
    assert (killed(plan), "no pod is known to be over its budget" in nobody(plan)) == ([], True)

    above = low(pod("a", 4 * GIB), held={"a": Held(gpu=4 * GIB, host=GIB)})
    text = "pressure: {floor: 128Mi, critical: 64Mi, within_budget: above-request}"
    run = Run()
    assert evicted(run.steps(replace(above, config=config(text)), 0.0, 0.1)) == ["uid-a"]
    assert killed(run.steps(replace(above, config=config(text)), 0.2)) == []


def test_a_victim_that_is_within_its_budget_by_now_is_not_killed() -> None:
    run = Run()
    assert evicted(run.steps(low(a_pod("a")), 0.0, 0.1)) == ["uid-a"]
    assert killed(run.steps(low(a_pod("a"), held={"a": Held(gpu=GIB)}), 0.2)) == []


def test_an_unknown_use_accuses_nobody() -> None:
    plan = Run().steps(api_down(a_pod("a"), readable=False), 0.0, 0.1, 0.2)
    assert killed(plan) == []
    assert "not known is the use of apps/a" in nobody(plan)


@pytest.mark.parametrize(("started", "expected"), [(-10.0, []), (-3600.0, ["uid-a"])])
def test_a_model_that_is_loading_is_not_killed_for_its_host_memory(started: float, expected: list[str]) -> None:
    """Its memory limit is read as the whole-board figure: 2 GiB in all, and it holds 1 + 2 GiB."""
    asked = resources(GIB, 2 * GIB)
    main = container(requests=asked, limits=asked, started_at=WALL + started)
    given = api_down(pod("a", containers=(main,)), held={"a": Held(gpu=GIB, host=2 * GIB)})
    info = meminfo(64 * GIB, available=TEN, free=61 * GIB, anon_pages=2 * GIB)
    plan = Run().steps(replace(given, meminfo=info), 0.0, 0.1)
    assert killed(plan) == expected


def test_what_a_card_holds_is_not_the_boards() -> None:
    """On a board with both, a pod that is over its budget of a card gives nothing back to the board."""
    limit = resources(GIB, key=IGPU_MEMORY)
    shared = pod("b", containers=(container(requests=limit, limits=limit),), priority=5)
    for on_igpu, expected in ((0, []), (2 * GIB, ["uid-b"])):
        ada = card(minor=1, compute=processes((4242, 20 * GIB)))
        thor = igpu("NVIDIA Thor", compute=processes((4243, on_igpu)))
        given = api_down(
            a_pod("a"),
            shared,
            held={},
            nvml=nvml(ada, thor),
            extra=tuple(
                (Process(pid=pid, start_ticks=7, name="infer", owner=CgroupOwner(uid, "main-id")), 1)
                for pid, uid in ((4242, "uid-a"), (4243, "uid-b"))
            ),
        )
        plan = Run().steps(given, 0.0, 0.1)
        assert killed(plan) == expected
        assert ("memory of a card" in nobody(plan)) == (not expected)


def test_a_pod_of_which_a_part_is_not_known_is_not_killed() -> None:
    """It is over its budget of the shared memory; what it holds of the card cannot be read, and nothing evicts it."""
    limit = resources(GIB, key=IGPU_MEMORY)
    over = pod("a", containers=(container(requests=limit, limits=limit),))
    thor = igpu("NVIDIA Thor", compute=processes((4242, 2 * GIB)))
    for lists, expected in ((processes(), ["uid-a"]), (processes(code=999), [])):
        given = api_down(over, held={}, nvml=nvml(card(minor=1, compute=lists), thor), extra=((gpu_process(4242), 1),))
        plan = Run().steps(given, 0.0, 0.1)
        assert (plan.pods[0].breach, killed(plan)) == ("gpu", expected)
        assert ("apps/a: NVML lists" in nobody(plan)) == (not expected)


# --- which processes -----------------------------------------------------------------


def gpu_process(pid: int, start: int | None = 7, container_id: str | None = "main-id", name: str = "infer") -> Process:
    return Process(pid=pid, start_ticks=start, name=name, owner=CgroupOwner("uid-a", container_id))


def test_every_gpu_process_of_the_pod_and_none_of_another() -> None:
    given = api_down(
        a_pod("a"),
        pod("b", 4 * GIB),
        held={"a": Held(gpu=0), "b": Held(gpu=GIB)},
        extra=((gpu_process(4243), GIB), (gpu_process(4242, 9), GIB)),
        system=GIB,
    )
    (kill,) = Run().steps(given, 0.0, 0.1).kills
    assert kill.processes == ((4242, 9), (4243, 7))


def test_a_process_without_a_start_time_is_left_alone() -> None:
    both = ((gpu_process(4242), GIB), (gpu_process(4243, None), GIB))
    given = api_down(a_pod("a"), held={"a": Held(gpu=0)}, extra=both)
    assert Run().steps(given, 0.0, 0.1).kills[0].processes == ((4242, 7),)
    alone = replace(given, extra=((gpu_process(4243, None), 2 * GIB),))
    plan = Run().steps(alone, 0.0, 0.1)
    assert (killed(plan), "none of its GPU processes has a start time" in nobody(plan)) == ([], True)


@pytest.mark.parametrize("container_id", ["new-id", None])
def test_a_process_that_is_in_no_current_container_is_left_alone(container_id: str | None) -> None:
    """The API has not told every id yet, so the process counts to the pod; but it proves nothing."""
    asked = resources(GIB)
    starting = pod("a", containers=(container(requests=asked, limits=asked, container_id=None),))
    given = api_down(starting, held={"a": Held(gpu=2 * GIB, container_id=container_id)})
    plan = Run().steps(given, 0.0, 0.1)
    assert [view.state for view in plan.pods] == ["breach"]
    assert (killed(plan), "stands in a current container" in nobody(plan)) == ([], True)


def test_a_process_whose_path_names_no_pod_is_left_alone() -> None:
    """Known by its container alone, as from inside a cgroup namespace; what is checked before a signal is the pod."""
    process = Process(pid=4242, start_ticks=7, name="infer", container_id="main-id")
    plan = Run().steps(api_down(a_pod("a"), held={}, extra=((process, 2 * GIB),)), 0.0, 0.1)
    assert ([view.state for view in plan.pods], killed(plan)) == (["breach"], [])


def test_a_container_that_was_replaced_is_no_current_one() -> None:
    asked = resources(GIB)
    restarted = pod("a", containers=(container(requests=asked, limits=asked, former_id="old-id"),))
    given = api_down(restarted, held={"a": Held(gpu=2 * GIB, container_id="old-id")})
    assert killed(Run().steps(given, 0.0, 0.1)) == []


# --- MPS -----------------------------------------------------------------------------


def test_a_pod_that_runs_an_mps_server_is_not_killed() -> None:
    server = gpu_process(4242, name="nvidia-cuda-mps")
    plan = Run().steps(api_down(a_pod("a"), held={"a": Held(gpu=0)}, extra=((server, 2 * GIB),)), 0.0, 0.1)
    assert (killed(plan), "MPS daemon" in nobody(plan)) == ([], True)


def mps_board(*clients: tuple[int, int | None], code: int = 0) -> Scene:
    """A Thor on which the host runs an MPS server; the pod's process is 4242."""
    thor = igpu("NVIDIA Thor", compute=processes((700, GIB), (4242, 2 * GIB)), mps=processes(*clients, code=code))
    server = Process(pid=700, start_ticks=3, name="nvidia-cuda-mps-server")
    return api_down(a_pod("a"), held={}, nvml=nvml(thor), extra=((server, 1), (gpu_process(4242), 1)))


def test_a_client_of_an_mps_server_is_not_killed() -> None:
    plan = Run().steps(mps_board((4242, 2 * GIB)), 0.0, 0.1)
    assert (killed(plan), "client of an MPS server" in nobody(plan)) == ([], True)


def test_where_the_clients_are_not_told_nobody_beside_an_mps_server_is_killed() -> None:
    plan = Run().steps(mps_board(code=3), 0.0, 0.1)
    assert (killed(plan), "does not tell who its clients are" in nobody(plan)) == ([], True)


def test_a_process_beside_an_mps_server_that_is_no_client_is_killed() -> None:
    assert killed(Run().steps(mps_board((5151, GIB)), 0.0, 0.1)) == ["uid-a"]


# --- who first -----------------------------------------------------------------------


def test_the_victim_that_was_chosen_already_comes_first() -> None:
    """The other one would be first in the order of victims: it has a lower priority."""
    run = Run()
    assert evicted(run.steps(low(a_pod("a")), 0.0, 0.1)) == ["uid-a"]
    assert killed(run.steps(low(a_pod("a"), a_pod("b", priority=-1)), 0.2)) == ["uid-a"]


def test_else_the_order_of_victims() -> None:
    """Those whose excess covers the shortfall, then the lower priority. 128 + 128 − 10 MiB must come free."""
    small = api_down(a_pod("a", priority=-1), a_pod("b"), a_pod("c", priority=5), held={"a": Held(gpu=GIB + 200 * MIB)})
    both = replace(small, held={**small.held, "b": Held(gpu=2 * GIB), "c": Held(gpu=3 * GIB)})
    assert killed(Run().steps(both, 0.0, 0.1)) == ["uid-b"]


def test_one_pod_at_a_time_for_two_seconds() -> None:
    run = Run()
    given = api_down(a_pod("a"), a_pod("b", priority=5))
    assert killed(run.steps(given, 0.0, 0.1)) == ["uid-a"]
    plans = [run.steps(given, second) for second in (0.2, 1.0, 2.0)]
    assert [(killed(plan), nobody(plan)) for plan in plans] == [([], "")] * 3
    # the processes of the first are still there, and a second signal would do nothing to them
    assert killed(run.steps(given, 2.1)) == ["uid-b"]
    plan = run.steps(given, 4.2)
    assert killed(plan) == []
    assert "are still there" in nobody(plan)


def test_the_next_once_the_processes_of_the_first_are_gone() -> None:
    """And not by the readings that were taken before: two more have to be critical."""
    run = Run()
    given = api_down(a_pod("a"), a_pod("b", priority=5))
    assert killed(run.steps(given, 0.0, 0.1)) == ["uid-a"]
    gone = replace(given, held={**given.held, "a": Held(gpu=0)})
    assert killed(run.steps(gone, 0.2)) == []
    assert killed(run.steps(gone, 0.3)) == ["uid-b"]


def test_a_fall_that_ended_with_its_cause_kills_nobody_else() -> None:
    """The first took 4 GiB/s. When it is gone 1 GiB is usable, and half a second of that fall would be 2 GiB."""
    run = Run()
    given = api_down(a_pod("a"), a_pod("b", priority=5))
    found = [
        killed(run.step(at(replace(given, meminfo=meminfo(64 * GIB, available=free * MIB)), second)))
        for second, free in ((0.0, 1029), (0.1, 620), (0.2, 210))
    ]
    assert found == [[], [], ["uid-a"]]
    calm = replace(given, held={**given.held, "a": Held(gpu=0)}, meminfo=meminfo(64 * GIB, available=GIB))
    assert [killed(run.steps(calm, second)) for second in (0.3, 0.4, 0.5)] == [[], [], []]


def test_a_victim_that_is_stuck_does_not_keep_the_next_one_alive() -> None:
    """What it holds counts as on its way back, so the next one is not evicted; but it does not come."""
    run = Run()
    given = low(a_pod("a"), a_pod("b", priority=5))
    assert evicted(run.steps(given, 0.0, 0.1)) == ["uid-a"]
    plan = run.steps(given, 0.2)
    assert (killed(plan), held_codes(plan)) == (["uid-a"], {"uid-b": "releasing"})
    plan = run.steps(given, 1.0, 2.2)
    assert (killed(plan), held_codes(plan)) == (["uid-b"], {"uid-b": "releasing"})


def test_a_victim_of_somebody_else_keeps_its_time() -> None:
    """A pod that was deleted by hand covers the shortfall: nobody is evicted, and nobody is killed."""
    run = Run()
    given = low(a_pod("a", terminating=True), a_pod("b"))
    plans = [run.steps(given, second) for second in (0.0, 0.1, 0.2)]
    assert [killed(plan) for plan in plans] == [[], [], []]
    assert held_codes(plans[-1]) == {"uid-b": "releasing"}


def test_memory_that_is_only_promised_does_not_hold_off_a_kill_for_long() -> None:
    """A pod that somebody deleted hangs with enough for everybody, and the board is at its end: 1 s."""
    run = Run()
    given = low(a_pod("a", terminating=True), a_pod("b"))
    run.steps(given, 0.0)
    found = {second: killed(run.steps(given, second)) for second in (0.1, 0.5, 1.0)}
    assert found == {0.1: [], 0.5: [], 1.0: []}
    plan = run.steps(given, 1.2)
    assert killed(plan) == ["uid-b"]
    assert "What was on its way back 1.1 s ago has not come" in plan.kills[0].message


def test_a_promise_counts_anew_once_the_memory_is_not_at_its_end() -> None:
    run = Run()
    given = low(a_pod("a", terminating=True), a_pod("b"))
    run.steps(given, 0.0, 0.1, 0.9)
    run.steps(replace(given, held={**given.held, "b": Held(gpu=GIB)}), 1.0)
    assert [killed(run.steps(given, second)) for second in (1.1, 1.2, 2.0)] == [[], [], []]
    assert killed(run.steps(given, 2.2)) == ["uid-b"]


def test_an_unreadable_sample_does_not_end_the_wait() -> None:
    run = Run()
    given = api_down(a_pod("a"), a_pod("b", priority=5))
    assert killed(run.steps(given, 0.0, 0.1)) == ["uid-a"]
    run.step(at(replace(given, readable=False), 0.2))
    assert killed(run.steps(given, 0.3)) == []


# --- what came of it -----------------------------------------------------------------


def carried_out(run: Run, plan: Plan, outcome: KillOutcome, message: str = "") -> KillResult:
    """The answer to the plan's one kill, 10 ms after it."""
    (kill,) = plan.kills
    result = KillResult(uid=kill.uid, outcomes=tuple((one, outcome) for one in kill.processes), message=message)
    run.state = outcomes.killed(run.state, plan, result, 0.11)
    return result


def test_a_kill_is_told_with_why_it_was() -> None:
    run = Run()
    plan = run.steps(api_down(a_pod("a")), 0.0, 0.1)
    (event,) = outcomes.told(plan, carried_out(run, plan, "killed"))
    assert (event.reason, event.regarding) == ("MemoryBudgetKilled", "pod apps/a")
    assert (event.note, event.uid, event.warning) == (plan.kills[0].message, "uid-a", True)


@pytest.mark.parametrize("outcome", ["gone", "changed", "stale", "refused", "not-procfs", "no-pidfd"])
def test_what_was_not_killed_is_not_told(outcome: KillOutcome) -> None:
    run = Run()
    plan = run.steps(api_down(a_pod("a")), 0.0, 0.1)
    assert outcomes.told(plan, carried_out(run, plan, outcome)) == ()


@pytest.mark.parametrize("outcome", ["refused", "not-procfs"])
def test_a_signal_that_could_not_be_sent_is_tried_again_after_a_while(outcome: KillOutcome) -> None:
    run = Run()
    given = api_down(a_pod("a"))
    carried_out(run, run.steps(given, 0.0, 0.1), outcome)
    assert killed(run.steps(given, 0.2, 2.0)) == []
    assert killed(run.steps(given, 2.1)) == ["uid-a"]


@pytest.mark.parametrize("outcome", ["gone", "changed"])
def test_a_process_that_is_another_by_now_keeps_nobody_waiting(outcome: KillOutcome) -> None:
    """But its memory is on its way: two readings after it was seen have to be critical."""
    run = Run()
    given = api_down(a_pod("a"))
    carried_out(run, run.steps(given, 0.0, 0.1), outcome)
    assert killed(run.steps(given, 0.2)) == []
    assert killed(run.steps(given, 0.3)) == ["uid-a"]


def test_a_decision_that_came_too_late_is_made_anew_at_once() -> None:
    run = Run()
    given = api_down(a_pod("a"))
    carried_out(run, run.steps(given, 0.0, 0.1), "stale")
    assert killed(run.steps(given, 0.2)) == ["uid-a"]


def test_a_kernel_that_cannot_is_asked_once() -> None:
    run = Run()
    given = api_down(a_pod("a"))
    carried_out(run, run.steps(given, 0.0, 0.1), "no-pidfd", "this kernel has no pidfd")
    plan = run.steps(given, 0.2, 5.0, 5.1)
    assert killed(plan) == []
    assert "this kernel has no pidfd" in nobody(plan)


def test_a_result_of_another_plan_changes_nothing() -> None:
    run = Run()
    plan = run.steps(api_down(a_pod("a")), 0.0, 0.1)
    other = KillResult(uid="uid-x", outcomes=(((1, 1), "killed"),))
    assert outcomes.killed(run.state, plan, other, 0.2) == run.state


# --- what is said --------------------------------------------------------------------


def test_a_board_that_ends_while_nobody_is_killed_is_an_error() -> None:
    plan = Run().steps(api_down(pod("a", 4 * GIB), held={"a": Held(gpu=GIB)}), 0.0, 0.1)
    (finding,) = (one for one in plan.findings if one.id == CRITICAL)
    assert (finding.severity, finding.certainty, finding.subject) == ("error", "certain", f"pool {GPU_MEMORY}")
    assert "no pod is known to be over its budget" in finding.summary
    assert finding.evidence[0] == f"usable: {TEN}"
    assert finding.evidence[2] == f"pressure.critical: {64 * MIB}"
    assert finding.remedy


def test_everybody_who_was_spared_is_named() -> None:
    plan = Run().steps(api_down(a_pod("a", mirror=True), a_pod("b", namespace="kube-system")), 0.0, 0.1)
    assert "apps/a: it is a static pod" in nobody(plan)
    assert "kube-system/b: policy.protect names it" in nobody(plan)


# --- how fresh -----------------------------------------------------------------------


def test_near_the_end_who_holds_what_is_read_as_often_as_the_memory() -> None:
    """With a culprit, evicted or not: each decision has a reading of its own."""
    for given in (api_down(a_pod("a")), low(a_pod("a"))):
        run = Run()
        plans = [run.steps(given, second) for second in (0.0, 0.1, 0.2, 0.3)]
        found = [cadence.attribution(plan, given.config.sampling) for plan in plans]
        assert found == [0.1] * 4

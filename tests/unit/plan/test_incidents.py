"""Which decisions are incidents, what is kept of each, and that no pod can make many of them."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest

from edgeagent.facts import GPU_MEMORY, PodFacts
from edgeagent.plan import describing, incidents, outcomes, readings
from edgeagent.plan.incidents import Book, Incident, Moment
from edgeagent.plan.readings import Look
from edgeagent.plan.types import EvictionResult, KillOutcome, KillResult, Outcome, Plan
from edgeagent.system import journal
from tests.unit.factories import GIB, MIB, WALL, Held, Run, Scene, at, config, container, meminfo, pod

BOOT = "d3b07384-d113-4ec6-a1b1-0123456789ab"


class Keeping:
    """An agent's decisions one after the other, with what is kept of them."""

    def __init__(self, scene: Scene) -> None:
        self.run = Run(None)
        self.scene = scene
        self.book = Book()
        self.records: list[dict[str, Any]] = []

    def step(self, second: float, scene: Scene | None = None, *kills: KillResult) -> Plan:
        self.scene = scene or self.scene
        plan = self.run.step(at(self.scene, second))
        moment = Moment(second, second, second, WALL + second, BOOT, "edge-1")
        self.book, records = incidents.follow(self.book, self.run.state, plan, moment, kills)
        self.records += records
        return plan

    def steps(self, first: float, last: float, each: float = 1.0, scene: Scene | None = None) -> Plan:
        plan = None
        for number in range(int((last - first) / each) + 1):
            plan = self.step(first + number * each, scene)
        assert plan is not None
        return plan

    def answer(self, plan: Plan, outcome: Outcome, second: float, message: str = "") -> None:
        result = EvictionResult(uid=plan.evictions[0].uid, outcome=outcome, message=message, retry_after=5.0)
        self.run.state, _ = outcomes.learn(self.run.state, plan, result, second)
        self.book = incidents.answered(self.book, result, second)

    def of(self, line: str) -> list[dict[str, Any]]:
        return [record for record in self.records if record["line"] == line]


def over(excess: int = 100 * MIB, text: str = "", **fields: Any) -> Scene:
    """``greedy`` is over its budget of 1 GiB, ``calm`` is not; ``bare`` has none and holds nothing."""
    pods = (pod("greedy", GIB, **fields), pod("calm", GIB), pod("bare"))
    held = {"greedy": Held(gpu=GIB + excess, host=50 * MIB), "calm": Held(gpu=GIB // 2, host=None), "bare": Held()}
    return Scene(pods=pods, held=held, config=config(text), meminfo=meminfo(64 * GIB, available=8 * GIB))


def within() -> Scene:
    return over(excess=-MIB)


# --- a decision ------------------------------------------------------------------------


def test_an_eviction_says_who_how_much_since_when_and_why() -> None:
    keeping = Keeping(over(owner=("ReplicaSet", "greedy-7d9f8b6c5")))
    plan = keeping.steps(0.0, 15.0)
    (record,) = keeping.records
    assert {key: record[key] for key in ("line", "kind", "mode", "node", "boot_id", "seconds", "wall")} == {
        "line": "decision",
        "kind": "eviction",
        "mode": "enforce",
        "node": "edge-1",
        "boot_id": BOOT,
        "seconds": 15.0,
        "wall": "2026-09-21T14:13:35.000Z",  # 1 790 000 015
    }
    assert record["pod"] == {
        "namespace": "apps",
        "name": "greedy",
        "uid": "uid-greedy",
        "owner": {"kind": "ReplicaSet", "name": "greedy-7d9f8b6c5"},
    }
    assert (record["breach"], record["used_bytes"], record["budget_bytes"], record["excess_bytes"]) == (
        "gpu",
        GIB + 100 * MIB,
        GIB,
        100 * MIB,
    )
    assert (record["over_since"], record["grace_seconds"], record["place"], record["places"]) == (-15.0, 30, 1, 1)
    assert record["reason"] == plan.evictions[0].message
    assert record["id"] == f"{BOOT}/15.000/eviction/uid-greedy"
    assert (record["left_out"], record["more_pods"]) == (0, 0)


def test_unknown_is_null_and_nothing_held_is_0() -> None:
    keeping = Keeping(over())
    keeping.steps(0.0, 15.0)
    (record,) = keeping.records
    assert [one["name"] for one in record["pods"]] == ["greedy", "calm", "bare"]
    assert record["before"][-1]["pods"] == [[GIB + 100 * MIB, 50 * MIB], [GIB // 2, None], [0, 0]]
    assert [one["gpu_budget_bytes"] for one in record["pods"]] == [GIB, GIB, None]


def test_a_reading_of_pods_that_is_older_than_its_row_says_so() -> None:
    looks = (
        Look(10.0, 9.0, None, 128 * MIB, 0.0, {"a": ({"r": 5}, None)}),
        Look(12.0, 9.0, 0, 128 * MIB, 1.4, {"a": ({"r": None}, 0)}),
    )
    rows = readings.before(looks, 12.5, (("a", "r"), ("b", "r")))
    assert rows == [
        {"t": -2.5, "pods_t": -3.5, "usable_bytes": None, "floor_bytes": 128 * MIB, "drop_bytes": 0}
        | {"pods": [[5, None], None]},
        {"t": -0.5, "pods_t": -3.5, "usable_bytes": 0, "floor_bytes": 128 * MIB, "drop_bytes": 1}
        | {"pods": [[None, 0], None]},
    ]


def test_a_shared_breach_counts_both_kinds_of_memory() -> None:
    # A limit of 3 GiB with 1 GiB of it for the GPU: 2 GiB of host memory. It uses 0.5 + 3.
    greedy = pod("greedy", GIB, 3 * GIB)
    scene = Scene(
        pods=(greedy,),
        held={"greedy": Held(gpu=GIB // 2, host=3 * GIB)},
        meminfo=meminfo(64 * GIB, available=8 * GIB, free=50 * GIB, anon_pages=3 * GIB),
    )
    keeping = Keeping(scene)
    keeping.steps(0.0, 15.0)
    (record,) = keeping.records
    assert (record["breach"], record["used_bytes"], record["budget_bytes"]) == ("shared", 7 * GIB // 2, 3 * GIB)
    assert record["excess_bytes"] == GIB // 2


def test_a_clock_that_was_never_set_is_said_to_be_so() -> None:
    keeping = Keeping(over())
    plan = keeping.run.steps(over(), *map(float, range(16)))
    moment = Moment(15.0, 15.0, 15.0, 12.0, None, None)
    _, (record,) = incidents.follow(Book(), keeping.run.state, plan, moment)
    assert (record["wall"], record["wall_plausible"]) == ("1970-01-01T00:00:12.000Z", False)
    assert (record["boot_id"], record["node"]) == (None, None)


def test_readings_before_a_decision_are_close_together_near_it_and_reach_half_a_minute_back() -> None:
    looks: tuple[Look, ...] = ()
    for number in range(1000):  # a hundred seconds, ten a second
        looks = readings.remembered(looks, Look(number / 10, 0.0, 1, 1, 0.0, {}))
    assert len(looks) <= 30 + 2 * 27 + 2  # all of the last 3 s, two a second of 27 s before
    times = [row["t"] for row in readings.before(looks, 99.9, ())]
    assert len(times) <= readings.MOST_READINGS
    assert times[-1] == 0.0
    assert -30.0 <= times[0] <= -22.5  # a quarter of 30 s after the farthest one
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    # At least 0.25 s, and not more than that, or a quarter of the distance, and one remembered reading more.
    assert all(gap >= 0.25 - 1e-6 for gap in gaps)
    assert all(gap <= max(0.25, -0.25 * early) + 0.6 for gap, early in zip(gaps, times, strict=False))


# --- what came of it -------------------------------------------------------------------


def test_an_accepted_eviction_ends_when_the_memory_is_back() -> None:
    keeping = Keeping(over())
    plan = keeping.steps(0.0, 15.0)
    keeping.answer(plan, "accepted", 15.2)
    keeping.steps(16.0, 26.0)
    assert keeping.of("outcome") == []
    gone = dataclasses.replace(over(), held={"calm": Held(gpu=GIB // 2)}, meminfo=meminfo(64 * GIB, available=9 * GIB))
    keeping.steps(27.0, 30.0, scene=gone)
    (record,) = keeping.of("outcome")
    assert (record["t"], record["ended"], record["attempts"]) == (12.0, "back", 1)
    assert record["outcomes"] == [{"t": 0.2, "outcome": "accepted", "message": ""}]
    last = record["after"][-1]
    assert (last["t"], last["usable_bytes"]) == (12.0, 9 * GIB)
    assert keeping.book.open == {}


def test_it_is_watched_for_a_minute_at_most() -> None:
    keeping = Keeping(over())
    plan = keeping.steps(0.0, 15.0)
    keeping.answer(plan, "accepted", 15.5)
    keeping.steps(16.0, 200.0)
    (record,) = keeping.of("outcome")
    assert (record["t"], record["ended"]) == (61.0, "time")  # the first reading a minute after 15.5
    # One a second, each at least a quarter of its distance from 15.5 after the one before: 0.5 s after it, 1.5, 2.5,
    # 3.5 (1 >= 0.875), 5.5 (2 >= 1.375), 7.5, 10.5, 14.5, 19.5, 26.5, 35.5, 47.5 (12 >= 11.875), and the last.
    assert [row["t"] for row in record["after"]] == [1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48, 61]


def test_a_refusal_that_repeats_itself_is_one_incident_and_two_records() -> None:
    keeping = Keeping(over())
    calls = 0
    for second in range(400):
        plan = keeping.step(float(second))
        if plan.evictions:
            keeping.answer(plan, "blocked", float(second), "a budget")
            calls += 1
    assert calls > 30
    (decision,), (outcome,) = keeping.of("decision"), keeping.of("outcome")
    assert decision["id"] == outcome["id"]
    assert outcome["outcomes"] == [{"t": 0.0, "outcome": "blocked", "message": "a budget"}]
    assert outcome["ended"] == "time"
    plan = keeping.step(405.0)
    keeping.answer(plan, "accepted", 405.0)
    keeping.steps(406.0, 500.0)
    _, second_outcome = keeping.of("outcome")
    assert [one["outcome"] for one in second_outcome["outcomes"]] == ["accepted"]
    assert second_outcome["attempts"] == calls + 1
    assert len(keeping.of("decision")) == 1


def test_answers_in_turns_do_not_make_a_record_each() -> None:
    keeping = Keeping(over())
    turns = itertools.cycle(("blocked", "unknown", "throttled"))
    for second in range(600):
        plan = keeping.step(float(second))
        if plan.evictions:
            keeping.answer(plan, next(turns), float(second))  # type: ignore[arg-type]
    assert len(keeping.of("decision")) == 1
    assert sum(len(record["outcomes"]) for record in keeping.of("outcome")) == incidents.MOST_OUTCOMES
    plan = next(plan for second in itertools.count(600) if (plan := keeping.step(float(second))).evictions)
    keeping.answer(plan, "accepted", 700.0)
    keeping.steps(700.0, 800.0)
    assert keeping.of("outcome")[-1]["outcomes"][-1]["outcome"] == "accepted"


def test_who_is_within_its_budget_again_after_a_refusal_ends_it_and_the_next_breach_is_another_one() -> None:
    keeping = Keeping(over())
    plan = keeping.steps(0.0, 15.0)
    keeping.answer(plan, "blocked", 15.0)
    keeping.steps(16.0, 20.0, scene=within())
    (record,) = keeping.of("outcome")
    assert (record["t"], record["ended"]) == (1.0, "within")
    keeping.steps(21.0, 120.0, scene=within())
    keeping.steps(121.0, 140.0, scene=over())
    assert [one["seconds"] for one in keeping.of("decision")] == [15.0, 136.0]


def test_a_reading_that_failed_ends_no_breach() -> None:
    keeping = Keeping(over())
    plan = keeping.steps(0.0, 15.0)
    keeping.answer(plan, "blocked", 15.0)
    keeping.steps(16.0, 180.0, scene=dataclasses.replace(over(), readable=False))
    (record,) = keeping.of("outcome")
    assert record["ended"] == "time"
    # It is over still when it can be read again, and has its grace anew: the same breach, so the same incident.
    assert keeping.steps(181.0, 200.0, scene=over()).evictions
    assert len(keeping.of("decision")) == 1


# --- kills and what was not done -------------------------------------------------------


def critical(*, text: str = "") -> Scene:
    """50 MiB are usable and falling no further; who may be evicted was heard of a minute ago."""
    scene = over(3 * GIB, text=f"pressure: {{floor: 128Mi, critical: 64Mi}}\n{text}")
    return dataclasses.replace(scene, meminfo=meminfo(64 * GIB, available=50 * MIB), fresh_at=-60.0)


def killed(plan: Plan, outcome: KillOutcome = "killed") -> KillResult:
    return KillResult(uid=plan.kills[0].uid, outcomes=tuple((one, outcome) for one in plan.kills[0].processes))


def test_a_kill_is_kept_with_what_became_of_each_process_and_ends_when_they_are_gone() -> None:
    keeping = Keeping(critical())
    keeping.run.step(at(critical(), 0.0))
    plan = keeping.run.step(at(critical(), 0.1))
    keeping.run.state = outcomes.killed(keeping.run.state, plan, killed(plan), 0.1)
    moment = Moment(0.1, 0.1, 0.1, WALL, BOOT, "edge-1")
    keeping.book, records = incidents.follow(keeping.book, keeping.run.state, plan, moment, [killed(plan)])
    (record,) = records
    assert (record["kind"], record["pids"], record["more_pids"]) == ("kill", [plan.kills[0].processes[0][0]], 0)
    # The pod holds more than it may, and its process goes.
    keeping.records = list(records)
    gone = dataclasses.replace(critical(), held={"calm": Held(gpu=GIB // 2)})
    keeping.step(0.3, gone)
    outcome = keeping.of("outcome")[0]
    assert (outcome["t"], outcome["ended"], outcome["attempts"]) == (0.2, "back", 1)
    assert outcome["outcomes"] == [
        {"t": 0.0, "outcome": "killed", "message": "", "pids": record["pids"], "more_pids": 0}
    ]


def test_a_kill_that_cannot_be_sent_is_one_incident_however_often_it_is_tried() -> None:
    keeping = Keeping(critical())
    for number in range(300):
        second = 0.3 * number
        plan = keeping.run.step(at(critical(), second))
        results = [killed(plan, "not-procfs")] if plan.kills else []
        for result in results:
            keeping.run.state = outcomes.killed(keeping.run.state, plan, result, second)
        moment = Moment(second, second, second, WALL, BOOT, None)
        keeping.book, records = incidents.follow(keeping.book, keeping.run.state, plan, moment, results)
        keeping.records += records
    kills = [one for one in keeping.of("decision") if one["kind"] == "kill"]
    assert len(kills) == 1
    ends = [one for one in keeping.of("outcome") if one["id"] == kills[0]["id"]]
    assert [[said["outcome"] for said in one["outcomes"]] for one in ends] == [["not-procfs"]]
    assert ends[0]["attempts"] > 10


def test_a_kill_that_nobody_may_make_is_kept_once_with_the_reason_and_the_holders() -> None:
    keeping = Keeping(critical(text="policy: {kill: never}"))
    keeping.steps(0.0, 100.0, each=0.5)
    nobody = [one for one in keeping.of("decision") if one["kind"] == "nobody"]
    (record,) = nobody
    assert (record["pod"], record["breach"], record["used_bytes"]) == (None, None, None)
    assert "policy.kill is never" in record["reason"]
    assert [one["name"] for one in record["pods"]] == ["greedy", "calm", "bare"]
    assert [one["ended"] for one in keeping.of("outcome") if one["id"] == record["id"]] == ["time"]


def test_what_observing_leaves_undone_is_kept_once() -> None:
    keeping = Keeping(over(text="mode: observe"))
    keeping.steps(0.0, 600.0)
    (decision,), (outcome,) = keeping.of("decision"), keeping.of("outcome")
    assert (decision["kind"], decision["mode"], decision["place"]) == ("would-evict", "observe", 1)
    assert (outcome["ended"], outcome["outcomes"]) == ("time", [])


@pytest.mark.parametrize(
    ("text", "gpu", "breach", "budget"),
    [
        ("policy: {unbudgeted: evict}", None, "unbudgeted", None),
        ("pressure: {within_budget: above-request}", 2 * GIB, "above-request", 0),
    ],
)
def test_who_is_over_no_budget_is_not_said_to_be_within_it_again(
    text: str, gpu: int | None, breach: str, budget: int | None
) -> None:
    """Under pressure and observed, it would go for the memory that it holds."""
    limits = {} if gpu is None else {GPU_MEMORY: gpu}
    big = pod("big", containers=(container(limits=limits),))
    scene = Scene(
        pods=(big,),
        held={"big": Held(gpu=GIB, host=0)},
        config=config(f"mode: observe\n{text}"),
        meminfo=meminfo(64 * GIB, available=300 * MIB),
    )
    keeping = Keeping(scene)
    keeping.steps(0.0, 120.0, each=2.0)
    (decision,) = [one for one in keeping.of("decision") if one["kind"] == "would-evict"]
    assert (decision["breach"], decision["used_bytes"], decision["budget_bytes"]) == (breach, GIB, budget)
    assert [one["ended"] for one in keeping.of("outcome") if one["id"] == decision["id"]] == ["time"]


# --- bounds ----------------------------------------------------------------------------


def test_a_flapping_pod_makes_six_incidents_an_hour_and_the_others_are_counted() -> None:
    keeping = Keeping(over(text="mode: observe"))
    observed = over(text="mode: observe")
    calm = dataclasses.replace(observed, held={**observed.held, "greedy": Held(gpu=GIB)})
    for begin in range(0, 2 * 3600, 140):
        keeping.steps(begin, begin + 18, each=3.0, scene=observed)
        keeping.steps(begin + 20, begin + 134, each=6.0, scene=calm)
    breaches = len(range(0, 2 * 3600, 140))
    kept = keeping.of("decision")
    hours: list[int] = [0] * 2
    for one in kept:
        hours[int(one["seconds"] // 3600)] += 1
    assert all(count <= incidents.MOST_PER_POD for count in hours)
    assert len(kept) >= 2 * incidents.MOST_PER_POD
    assert len(kept) + sum(one["left_out"] for one in kept) + keeping.book.left_out == breaches


def test_many_pods_that_flap_make_no_more_than_a_dozen_an_hour_and_leave_evictions_their_own() -> None:
    pods = tuple(pod(f"p{number}", GIB) for number in range(20))
    held = {one.name: Held(gpu=GIB + 100 * MIB) for one in pods}
    scene = Scene(pods=pods, held=held, config=config("mode: observe"), meminfo=meminfo(64 * GIB, available=8 * GIB))
    keeping = Keeping(scene)
    keeping.steps(0.0, 60.0, each=3.0)
    assert len(keeping.of("decision")) == 12
    assert keeping.book.left_out == 20 - 12
    plan = keeping.steps(61.0, 62.0, scene=dataclasses.replace(scene, config=config()))
    assert plan.evictions
    assert [one["kind"] for one in keeping.of("decision")[12:]] == ["eviction"]
    assert keeping.of("decision")[12]["left_out"] == 8


def test_what_an_earlier_run_of_this_boot_has_kept_counts() -> None:
    recent = [(100.0 * number, "would-evict", "uid-greedy") for number in range(6)]
    assert len(incidents.remembering([*recent, (9000.0, "eviction", "x"), (1.0, "odd", "x")], 600.0).recent) == 6
    assert incidents.remembering(recent, 600.0 + 3600.0).recent == ()


LONG = ("ns" + "-a" * 30, "pod" + "-b" * 120)


def a_long_pod(number: int, sign: str) -> PodFacts:
    namespace, name = LONG
    return pod(
        f"{name}{sign}{number:03d}",
        GIB,
        namespace=f"{namespace}{sign}",
        uid=f"{number:08d}-0000-4000-8000-000000000000",
        owner=("ReplicaSet", f"{name}{sign * 100}"),
    )


@pytest.mark.parametrize("sign", ["", "\x00" * 200, "\U0001f600" * 200], ids=["legal", "control", "wide"])
def test_no_record_is_longer_than_a_line_may_be(sign: str) -> None:
    """110 pods with the longest names there are, and with names that no API server would let through."""
    pods = tuple(a_long_pod(number, sign) for number in range(110))
    held = {one.name: Held(gpu=GIB // 8, host=GIB // 16) for one in pods} | {
        one.name: Held(gpu=2 * GIB, host=GIB) for one in pods[:5]
    }
    keeping = Keeping(Scene(pods=pods, held=held, meminfo=meminfo(64 * GIB, available=8 * GIB)))
    plan = keeping.steps(0.0, 16.0, each=4.0)
    keeping.answer(plan, "blocked", 16.0, "why " * 1000 + sign)
    keeping.steps(17.0, 80.0, each=9.0)
    assert {record["line"] for record in keeping.records} == {"decision", "outcome"}
    for record in keeping.records:
        for rows in {"before", "after"}.intersection(record):
            record[rows] = record[rows][-1:] * readings.MOST_READINGS
        line = journal.encoded(record)
        shorter = journal.encoded(describing.lessened(record))
        # Legal names fit as they are; others after the record was cut to what matters most.
        assert len(line if not sign else min(line, shorter, key=len)) <= journal.LONGEST
    decision = keeping.of("decision")[0]
    assert (len(decision["pods"]), decision["more_pods"]) == (6, 104)
    assert [one["breach"] for one in decision["pods"]] == ["gpu"] * 5 + [None]
    less = describing.lessened(decision)
    assert (len(less["pods"]), less["more_pods"], less["pods"][0]) == (1, 109, decision["pods"][0])


# --- figures that rest on what is proven -------------------------------------------------


def pressed(text: str, held: Held, *containers: Any) -> dict[str, Any]:
    """What is kept of the eviction of ``big``, under pressure, over no budget."""
    scene = Scene(
        pods=(pod("big", containers=containers),),
        held={"big": held},
        config=config(text),
        meminfo=meminfo(8 * GIB, available=100 * MIB, free=100 * MIB),
    )
    keeping = Keeping(scene)
    keeping.steps(0.0, 4.0, each=0.5)
    return next(one for one in keeping.of("decision") if one["kind"] == "eviction")


@pytest.mark.parametrize(("host", "exact", "used"), [(None, True, None), (GIB, True, 5 * GIB), (GIB, False, 4 * GIB)])
def test_what_a_pod_without_a_budget_holds_is_not_known_without_its_host_memory(
    host: int | None,
    exact: bool,  # noqa: FBT001 (a table's column)
    used: int | None,
) -> None:
    keeping = Keeping(Scene(pods=(pod("big"),), held={"big": Held(gpu=4 * GIB, host=host, exact=exact)}))
    plan = keeping.step(0.0)
    subject = describing.Subject(plan.pods[0], "", "unbudgeted")
    assert describing.described(subject, plan, keeping.run.state, 0.0)["used_bytes"] == used


def test_a_host_figure_that_is_only_an_upper_bound_is_not_told_as_used() -> None:
    """It asks for 1 GiB and holds 2 of the GPU, which is proven, and 3 of the host at most: 1 too much."""
    one = container(requests={GPU_MEMORY: GIB}, limits={GPU_MEMORY: 3 * GIB})
    text = "pressure: {within_budget: above-request}"
    bound = pressed(text, Held(gpu=2 * GIB, host=3 * GIB, exact=False), one)
    assert (bound["breach"], bound["used_bytes"], bound["budget_bytes"]) == ("above-request", 2 * GIB, GIB)
    assert bound["excess_bytes"] == GIB
    exact = pressed(text, Held(gpu=2 * GIB, host=3 * GIB), one)
    assert (exact["used_bytes"], exact["excess_bytes"]) == (5 * GIB, 4 * GIB)


def test_each_end_of_a_kill_has_its_own_reason_or_none() -> None:
    incident = Incident(id="x", at=0.0, columns=(), over=True, seen_at=0.0, since=0.0)
    ends: tuple[KillOutcome, ...] = ("killed", "gone", "refused", "stale")
    result = KillResult(
        uid="u",
        outcomes=tuple(((11 + number, 1), end) for number, end in enumerate(ends)),
        message="Operation not permitted",
    )
    # As Killer gives it: the reason of the first that was not killed and has one, here the refused one's.
    killed = incidents._killed(Book(open={("kill", "u"): incident}), result, 1.0)  # noqa: SLF001
    said = {str(one["outcome"]): one["message"] for one in killed.open["kill", "u"].outcomes}
    assert said == {"killed": "", "gone": "", "refused": "Operation not permitted", "stale": ""}

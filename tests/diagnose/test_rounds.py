"""The rounds of a running agent: when they are made, and what becomes of what they find."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from edgeagent import rounds
from edgeagent.cluster.client import Client
from edgeagent.cluster.pods import parse
from edgeagent.errors import AnswerError, UnreachableError
from edgeagent.facts import Facts
from edgeagent.host.files import TreeFiles
from edgeagent.plan.decide import decide
from edgeagent.plan.state import State
from edgeagent.plan.types import Plan
from edgeagent.rounds import Rounds
from edgeagent.snapshot import recording, replay
from tests.cases.making import KEY, pod, pods
from tests.diagnose.making import BINARY, CONTAINERD, Files, containerd, creating, healthy, waiting
from tests.unit.snapshot.making import write

pytestmark = pytest.mark.asyncio


class Server:
    """A client that answers every list with what it holds, by the end of the path."""

    def __init__(self, lists: Mapping[str, list[Any]]) -> None:
        self.lists = lists
        self.fails: Exception | None = None
        self.credentials = self
        self.signed: object = object()
        """Another one after credentials were read anew."""
        self.asked: list[str] = []
        self.asks: Callable[[], None] = lambda: None

    async def access(self) -> object:
        return self.signed

    async def request(self, _: str, path: str, **__: object) -> dict[str, Any]:
        self.asked.append(path.rpartition("/")[2])
        self.asks()
        if self.fails:
            raise self.fails
        return {"items": self.lists.get(path.rpartition("/")[2], []), "metadata": {}}


class Round:
    """Rounds of one board, driven by hand."""

    def __init__(self, tmp_path: Any, files: Files, server: Server | None) -> None:
        found = recording.read(write(tmp_path, files))
        self.now = 100.0
        self.changed = asyncio.Event()
        self.facts: Facts = next(iter(replay.looks(found)))[1]
        assert self.facts.cluster is not None
        current = replace(self.facts.cluster, fresh_at=1e9)
        self.facts = replace(self.facts, findings=None, cluster=current)
        self.tree = TreeFiles(found.samples[0].host)
        client = cast("Client | None", server)
        self.rounds = Rounds(self.tree, client=lambda: client, clock=lambda: self.now, changed=self.changed)

    def saw(self, facts: Facts | None = None) -> Plan:
        facts = facts or self.facts
        plan = decide(State(), facts, self.now)[1]
        self.rounds.saw(facts, plan)
        return plan

    async def made(self) -> list[str]:
        """The ids that one more round finds."""
        await self.rounds._round()  # noqa: SLF001 (its pace is another question)
        return self.ids

    @property
    def ids(self) -> list[str]:
        """Of what stands as found."""
        return [one.id for one in self.rounds.findings or ()]


PENDING = "pending-does-not-fit"
NAMED = {"runtimeClassName": "nvidia"}
NVIDIA = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}


async def test_what_is_found_wakes_the_agent_and_stands_in_the_next_plan(tmp_path: Any) -> None:
    board = await asyncio.to_thread(Round, tmp_path, healthy(**{CONTAINERD: containerd("kata")}), None)
    board.saw()
    assert "runtime-default-undefined" in await board.made()
    assert board.changed.is_set()
    plan = decide(State(), replace(board.facts, findings=board.rounds.findings), 100.0)[1]
    assert "runtime-default-undefined" in [one.id for one in plan.findings]
    assert "RuntimeDefaultUndefined" in [one.reason for one in plan.events]
    assert {one.type: one.status for one in plan.node.conditions}["GPURuntimeMisconfigured"] == "True"


async def test_an_event_is_told_once_and_again_when_its_words_change(tmp_path: Any) -> None:
    board = await asyncio.to_thread(Round, tmp_path, healthy(**{CONTAINERD: containerd("kata")}), None)
    board.saw()
    await board.made()
    facts = replace(board.facts, findings=board.rounds.findings)
    state, first = decide(State(), facts, 100.0)
    state, second = decide(state, facts, 102.0)
    other = tuple(replace(one, summary="Other words.") for one in facts.findings or ())
    _, third = decide(state, replace(facts, findings=other), 104.0)
    reasons = [[one.reason for one in plan.events].count("RuntimeDefaultUndefined") for plan in (first, second, third)]
    assert reasons == [1, 0, 1]


async def test_the_same_again_wakes_nobody(tmp_path: Any) -> None:
    board = await asyncio.to_thread(Round, tmp_path, healthy(), Server({"runtimeclasses": [NVIDIA]}))
    board.saw()
    assert await board.made() == []
    assert not board.changed.is_set()


async def test_an_outage_changes_no_finding(tmp_path: Any) -> None:
    server = Server({"runtimeclasses": [NVIDIA], "pods": [waiting("new", {KEY: "9Gi"})]})
    board = await asyncio.to_thread(Round, tmp_path, healthy(), server)
    board.saw()
    assert "pending-does-not-fit" in await board.made()
    server.fails = UnreachableError("gone")
    assert "pending-does-not-fit" in await board.made()
    server.fails = None
    server.lists = {"runtimeclasses": [NVIDIA]}
    assert "pending-does-not-fit" not in await board.made()  # repaired


async def test_a_right_that_is_missing_for_good_is_left_to_doctor(tmp_path: Any) -> None:
    server = Server({})
    server.fails = AnswerError(403, reason="Forbidden")
    board = await asyncio.to_thread(Round, tmp_path, healthy(), server)
    board.saw()
    assert PENDING not in await board.made()
    # What cannot be told for another reason is told: here a pod that waits for a class, and no list of classes.
    server.fails = UnreachableError("gone")
    assert board.facts.cluster is not None
    facts = replace(board.facts, cluster=replace(board.facts.cluster, pods=(parse(creating(spec=NAMED)),)))
    board.saw(facts)
    assert "runtime-class-missing" not in await board.made()  # the last refusal still stands
    other = await asyncio.to_thread(Round, tmp_path / "other", healthy(), server)
    other.saw(facts)
    assert "runtime-class-missing" in await other.made()


async def test_a_list_that_is_refused_is_asked_for_each_hour_or_by_other_credentials(tmp_path: Any) -> None:
    server = Server({})
    server.fails = AnswerError(403, reason="Forbidden")
    board = await asyncio.to_thread(Round, tmp_path, healthy(), server)
    board.saw()
    kinds = ["runtimeclasses", "daemonsets", "events", "pods"]
    expected = []
    # Seconds after the first, and whether the credentials are others by then.
    for after, others, asked in (
        (0, False, True),
        (60, False, False),
        (3599, False, False),
        (3600, False, True),
        (3660, True, True),
        (3720, False, False),
    ):
        board.now = 100.0 + after
        server.signed = object() if others else server.signed
        expected += kinds if asked else []
        await board.made()
        assert server.asked == expected
    server.fails = None
    server.signed = object()
    await board.made()
    server.asked.clear()
    await board.made()
    assert server.asked == ["runtimeclasses", "daemonsets", "events", "events", "pods"]  # an answer for each reason


async def test_no_list_is_asked_for_once_danger_has_begun(tmp_path: Any) -> None:
    server = Server({})
    board = await asyncio.to_thread(Round, tmp_path, healthy(), server)
    plan = board.saw()
    server.asks = lambda: board.rounds.saw(board.facts, replace(plan, danger=replace(plan.danger, active=True)))
    task = asyncio.create_task(board.rounds._round())  # noqa: SLF001
    await asyncio.sleep(0.2)
    assert server.asked == ["runtimeclasses"]
    server.asks = lambda: None
    board.rounds.saw(board.facts, plan)
    await asyncio.wait_for(task, 10)
    assert server.asked[-1] == "pods"


async def test_until_a_diagnosis_is_made_the_node_keeps_what_the_last_one_said(tmp_path: Any) -> None:
    from tests.cases.making import node  # noqa: PLC0415

    said = {
        "type": "GPURuntimeMisconfigured",
        "status": "True",
        "reason": "RuntimeDefaultUndefined",
        "message": "As told.",
    }
    carries = node()
    carries["status"]["conditions"].append(said)
    board = await asyncio.to_thread(Round, tmp_path, healthy(**{"cluster/node.json": carries}), None)
    for findings, status in ((board.rounds.findings, "True"), ((), "False")):
        plan = decide(State(), replace(board.facts, findings=findings), board.now)[1]
        conditions = {one.type: (one.status, one.reason, one.message) for one in plan.node.conditions}
        written = [
            one
            for request in plan.node.requests
            for one in request.body.get("status", {}).get("conditions", [])
            if one["type"] == "GPURuntimeMisconfigured"
        ]
        assert conditions["GPURuntimeMisconfigured"][0] == status
        assert bool(written) == (status == "False")
        if status == "True":
            assert conditions["GPURuntimeMisconfigured"][1:] == ("RuntimeDefaultUndefined", "As told.")


async def test_only_an_error_makes_the_condition_true(tmp_path: Any) -> None:
    board = await asyncio.to_thread(Round, tmp_path, healthy(**{CONTAINERD: containerd("kata", nvidia=BINARY)}), None)
    board.saw()
    await board.made()
    for severity, status in (("error", "True"), ("warning", "False")):
        found = tuple(
            replace(one, severity=cast("Any", severity)) for one in board.rounds.findings or () if one.condition
        )
        assert found
        plan = decide(State(), replace(board.facts, findings=found), 100.0)[1]
        assert {one.type: one.status for one in plan.node.conditions}["GPURuntimeMisconfigured"] == status


@pytest.mark.parametrize(
    ("remedy", "told"),
    [
        ("Restart it.\nsystemctl restart it", "It is so. Restart it."),
        ("Make this one:\nkubectl apply …", "It is so. Make this one: edgeagent doctor has the lines."),
        ("\nkubectl apply …", "It is so. edgeagent doctor has the lines."),
        ("", "It is so."),
    ],
)
async def test_an_event_does_not_end_where_the_lines_would_begin(tmp_path: Any, remedy: str, told: str) -> None:
    board = await asyncio.to_thread(Round, tmp_path, healthy(**{CONTAINERD: containerd("kata")}), None)
    board.saw()
    await board.made()
    found = tuple(replace(one, summary="It is so.", remedy=remedy) for one in board.rounds.findings or ())
    plan = decide(State(), replace(board.facts, findings=found), 100.0)[1]
    assert [one.note for one in plan.events if one.reason == "RuntimeDefaultUndefined"] == [told]


async def test_capacity_that_cannot_be_written_is_missed_after_half_a_minute(tmp_path: Any) -> None:
    from tests.cases.making import node  # noqa: PLC0415

    board = await asyncio.to_thread(
        Round, tmp_path, healthy(**{"cluster/node.json": node()}), Server({"runtimeclasses": [NVIDIA]})
    )
    board.saw()
    board.now += 29
    board.saw()
    assert "capacity-missing" not in await board.made()
    board.now += 1
    board.saw()
    assert "capacity-missing" in await board.made()


async def test_a_round_that_fails_takes_nothing_with_it(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    board = await asyncio.to_thread(Round, tmp_path, healthy(), None)
    made = asyncio.Event()

    def broken(*_: object, **__: object) -> Callable[[], None]:
        made.set()
        raise RuntimeError("a rule is broken")

    monkeypatch.setattr(rounds, "SETTLE", 0.0)
    monkeypatch.setattr(rounds, "diagnose", broken)
    task = asyncio.create_task(board.rounds.run())
    board.saw()
    await asyncio.wait_for(made.wait(), 10)
    made.clear()
    board.rounds._due.set()  # noqa: SLF001 (as a change of the pods does)
    await asyncio.wait_for(made.wait(), 10)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [record.message for record in caplog.records].count(
        "no diagnosis could be made: RuntimeError: a rule is broken"
    ) == 1


async def test_a_change_of_the_pods_makes_a_round_due(tmp_path: Any) -> None:
    board = await asyncio.to_thread(Round, tmp_path, healthy(**{"cluster/pods.json": pods()}), None)
    board.saw()
    assert board.rounds._due.is_set()  # noqa: SLF001
    board.rounds._due.clear()  # noqa: SLF001
    board.saw()
    assert not board.rounds._due.is_set()  # noqa: SLF001


def bound(board: Round, *names: str) -> Facts:
    """The facts after these pods were bound to the node: they run there."""
    assert board.facts.cluster is not None
    parsed = tuple(parse(pod(name, limits={KEY: "9Gi"})) for name in names)
    return replace(board.facts, cluster=replace(board.facts.cluster, pods=parsed))


async def test_a_pod_that_is_bound_is_not_said_to_wait_any_more_and_nobody_is_asked(tmp_path: Any) -> None:
    new = pod("new", limits={KEY: "9Gi"})
    waits = {**new, "spec": {**new["spec"], "nodeName": None}, "status": {"phase": "Pending"}}
    board = await asyncio.to_thread(Round, tmp_path, healthy(), Server({"runtimeclasses": [NVIDIA], "pods": [waits]}))
    board.saw()
    assert PENDING in await board.made()
    task = asyncio.create_task(board.rounds.run())
    board.changed.clear()
    board.saw(bound(board, "new"))
    await asyncio.wait_for(board.changed.wait(), 10)
    assert PENDING not in board.ids
    assert board.rounds.rounds == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_pod_that_is_bound_while_a_round_is_made_does_not_wait(tmp_path: Any) -> None:
    new = pod("new", limits={KEY: "9Gi"})
    waits = {**new, "spec": {**new["spec"], "nodeName": None}, "status": {"phase": "Pending"}}
    board = await asyncio.to_thread(Round, tmp_path, healthy(), Server({"runtimeclasses": [NVIDIA], "pods": [waits]}))
    board.saw(bound(board, "new"))
    assert PENDING not in await board.made()


async def test_pods_that_come_and_go_do_not_bring_about_findings_from_an_old_look(tmp_path: Any) -> None:
    files = healthy(**{CONTAINERD: containerd("kata")})
    board = await asyncio.to_thread(Round, tmp_path, files, Server({"runtimeclasses": [NVIDIA]}))
    board.saw()
    before = await board.made()
    assert "runtime-default-undefined" in before
    assert board.facts.cluster is not None
    # Its class may have been made after the list was.
    late = parse(creating("late", spec={"runtimeClassName": "new"}))
    facts = replace(board.facts, cluster=replace(board.facts.cluster, pods=(late,)))
    board.saw(facts)
    board.rounds._judge_again()  # noqa: SLF001
    assert board.ids == before
    assert "runtime-class-missing" in await board.made()


async def test_a_round_that_is_due_in_danger_is_made_as_soon_as_it_is_over(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "SETTLE", 0.0)
    board = await asyncio.to_thread(Round, tmp_path, healthy(**{CONTAINERD: containerd("kata")}), None)
    plan = decide(State(), board.facts, board.now)[1]
    task = asyncio.create_task(board.rounds.run())
    board.rounds.saw(board.facts, replace(plan, danger=replace(plan.danger, active=True)))
    await asyncio.sleep(0.2)
    assert board.rounds.rounds == 0
    board.rounds.saw(board.facts, plan)
    await asyncio.wait_for(board.changed.wait(), 10)
    assert board.rounds.rounds == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_two_findings_of_one_rule_about_one_pod_stay_two(tmp_path: Any) -> None:
    """Two containers of it, each with an amount below 1 MiB."""
    item = pod("new", limits={KEY: "2048"})
    first = item["spec"]["containers"][0]
    item["spec"]["containers"].append({**first, "name": "second"})
    board = await asyncio.to_thread(Round, tmp_path, healthy(**{"cluster/pods.json": pods(item)}), None)
    board.saw()
    assert (await board.made()).count("request-without-suffix") == 2
    before = board.rounds.findings
    board.rounds._judge_again()  # noqa: SLF001
    assert board.rounds.findings == before


async def test_files_that_do_not_answer_hold_up_a_round_for_so_long_only(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = await asyncio.to_thread(Round, tmp_path, healthy(), None)
    board.saw()
    answer = threading.Event()
    monkeypatch.setattr(rounds, "PATIENCE", 0.05)
    monkeypatch.setattr(rounds, "look", lambda *_: answer.wait())
    try:
        for _ in range(2):
            with pytest.raises(TimeoutError, match="were not read within"):
                await board.made()
        assert board.rounds.findings is None
    finally:
        answer.set()


async def test_what_was_found_too_long_ago_is_not_told_any_more(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    board = await asyncio.to_thread(Round, tmp_path, healthy(**{CONTAINERD: containerd("kata")}), None)
    board.saw()
    assert "runtime-default-undefined" in await board.made()
    board.now += 5 * 60
    board.saw()
    assert board.rounds.findings
    board.changed.clear()
    for _ in range(2):
        board.now += 1
        board.saw()
    assert board.changed.is_set()
    assert board.rounds.__dict__["findings"] is None
    told = "what was found is not told any more: for 300 s no diagnosis could be made"
    assert [record.message for record in caplog.records].count(told) == 1
    assert "runtime-default-undefined" in await board.made()

"""The rounds of a running agent: when they are made, and what becomes of what they find."""

from __future__ import annotations

import asyncio
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
from tests.diagnose.making import CONTAINERD, Files, containerd, creating, healthy, waiting
from tests.unit.snapshot.making import write

pytestmark = pytest.mark.asyncio


class Server:
    """A client that answers every list with what it holds, by the end of the path."""

    def __init__(self, lists: Mapping[str, list[Any]]) -> None:
        self.lists = lists
        self.fails: Exception | None = None

    async def request(self, _: str, path: str, **__: object) -> dict[str, Any]:
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
        self.facts = replace(self.facts, findings=(), cluster=current)
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
        return [one.id for one in self.rounds.findings]


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
    other = tuple(replace(one, summary="Other words.") for one in facts.findings)
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
    found = tuple(replace(one, summary="It is so.", remedy=remedy) for one in board.rounds.findings)
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
    assert PENDING not in [one.id for one in board.rounds.findings]
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
    assert [one.id for one in board.rounds.findings] == before
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

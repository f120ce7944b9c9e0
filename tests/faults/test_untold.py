"""What was decided while the uplink was down is told when it is back, once; a whole agent in virtual time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgeagent.plan import describing, history, incidents
from edgeagent.plan.types import Kill, KillResult
from edgeagent.system import journal, statefile
from tests.faults.virtual import Api, Call, Fault, Load, Outpost, Response, cut_after, only, play, refused, says, stamp
from tests.unit.factories import WALL
from tests.unit.plan.test_history import decision, owed

pytestmark = pytest.mark.may_block("what threads do is done in the loop here, so that time can be virtual")

OVER = 1060
"""MiB, by 36 above the budget."""
SETTINGS = "pressure: {floor: 128Mi, critical: 64Mi}"


def start(outpost: Outpost) -> None:
    """An agent whose signals end the processes of this board."""

    def kill(asked: Kill) -> KillResult:
        load = outpost.loads[asked.uid]
        outpost.board.end(load.pid)
        load.holds = 0
        outpost.show()
        return KillResult(uid=asked.uid, outcomes=tuple((process, "killed") for process in asked.processes))

    outpost.start()._killer.kill = kill  # type: ignore[assignment,method-assign]  # noqa: SLF001


async def killed(outpost: Outpost) -> tuple[Load, float]:
    """The uplink is down, the memory ends, and the pod over its budget is killed: who, and when."""
    greedy = outpost.pod("greedy", 1024, 1000)
    outpost.pod("calm", 1024, 1000)
    start(outpost)
    await outpost.settle(20)
    outpost.api.fault = refused
    outpost.api.break_watches(ConnectionResetError(104, "Connection reset by peer"))
    await outpost.settle(20)
    # 5000 - 1000 - 3950 = 50 MiB are usable, below the critical 64.
    outpost.hold(greedy, 3950)
    while greedy.holds:
        await outpost.settle(0.1)
    return greedy, outpost.now


def told(outpost: Outpost, reason: str) -> list[dict[str, Any]]:
    return [event for event in outpost.api.events.values() if event["reason"] == reason]


def kept(outpost: Outpost) -> list[dict[str, Any]]:
    """The incidents as the history command has them."""
    found = history.joined(line.value for line in journal.read(outpost.folder))
    assert (found.unreadable, found.foreign) == (0, 0)
    return list(found.incidents)


async def back(outpost: Outpost, seconds: float = 60.0) -> None:
    """The uplink is back: 30 s at most to the next attempt, and to a new list."""
    outpost.api.fault = None
    await outpost.settle(seconds)


def attempts(outpost: Outpost, reason: str) -> list[Call]:
    made = [call for call in outpost.api.calls if call.method == "POST" and call.path.endswith("/events")]
    return [call for call in made if call.body["reason"] == reason]


def test_a_kill_without_an_uplink_is_told_when_that_is_back_with_the_time_at_which_it_was(tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        greedy, when = await killed(outpost)
        await outpost.settle(600)
        assert told(outpost, "MemoryBudgetKilled") == []
        await back(outpost)
        (event,) = told(outpost, "MemoryBudgetKilled")
        assert event["regarding"]["uid"] == greedy.uid
        # Told more than ten minutes later, it has the second of the kill, give or take the 0.1 s of the look.
        assert event["eventTime"][:19] in {stamp(when - 0.1)[:19], stamp(when)[:19]}
        tries = len(attempts(outpost, "MemoryBudgetKilled"))
        await outpost.settle(300)
        assert len(attempts(outpost, "MemoryBudgetKilled")) == tries
        (incident,) = kept(outpost)
        assert [one["ending"] for one in incident["events"]] == ["told"]

    play(tmp_path, story, SETTINGS)


@pytest.mark.parametrize("dies", [True, False], ids=["killed", "stopped"])
def test_an_agent_that_is_started_anew_before_the_uplink_is_back_tells_it_once(
    dies: bool,  # noqa: FBT001 (a table's column)
    tmp_path: Path,
) -> None:
    async def story(outpost: Outpost) -> None:
        _, when = await killed(outpost)
        await outpost.settle(120)
        await outpost.stop(killed=dies)
        start(outpost)
        await outpost.settle(600)
        await back(outpost)
        (event,) = told(outpost, "MemoryBudgetKilled")
        assert event["eventTime"][:19] in {stamp(when - 0.1)[:19], stamp(when)[:19]}
        # Told, it is told no more: not by this agent, and not by the next one.
        tries = len(attempts(outpost, "MemoryBudgetKilled"))
        await outpost.stop(killed=dies)
        start(outpost)
        await outpost.settle(120)
        assert len(attempts(outpost, "MemoryBudgetKilled")) == tries

    play(tmp_path, story, SETTINGS)


def test_a_create_whose_answer_was_lost_leaves_one_event(tmp_path: Path) -> None:
    """It is sent again under the same name, and what the server has already is told."""

    async def story(outpost: Outpost) -> None:
        await killed(outpost)
        outpost.api.fault = only(lambda call: call.path.endswith("/events"), cut_after)
        await outpost.settle(120)
        assert len(told(outpost, "MemoryBudgetKilled")) == 1
        assert len(attempts(outpost, "MemoryBudgetKilled")) > 1
        (incident,) = kept(outpost)
        assert [one["ending"] for one in incident["events"]] == [None]  # nobody knows yet
        await back(outpost)
        assert len(told(outpost, "MemoryBudgetKilled")) == 1
        (incident,) = kept(outpost)
        assert [one["ending"] for one in incident["events"]] == ["told"]
        assert attempts(outpost, "MemoryBudgetKilled")[-1].at < outpost.now - 10

    play(tmp_path, story, SETTINGS)


def test_a_create_that_was_cut_and_an_agent_that_dies_leave_one_event(tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        await killed(outpost)
        outpost.api.fault = only(lambda call: call.path.endswith("/events"), cut_after)
        await outpost.settle(60)
        await outpost.stop(killed=True)
        start(outpost)
        await back(outpost)
        assert len(told(outpost, "MemoryBudgetKilled")) == 1
        assert outpost.api.answers["POST", 409] == 1

    play(tmp_path, story, SETTINGS)


REFUSALS: dict[str, tuple[Fault, bool]] = {
    "403": (says(403, "Forbidden"), False),
    "404, no such namespace": (says(404, "NotFound"), False),
    "422": (says(422, "Invalid"), False),
    "429": (says(429, retry="2"), True),
    "500": (says(500), True),
    "503": (says(503), True),
}


@pytest.mark.parametrize(("fault", "again"), REFUSALS.values(), ids=REFUSALS)
def test_what_the_server_refuses_for_good_is_not_asked_again(
    fault: Fault,
    again: bool,  # noqa: FBT001 (a table's column)
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(outpost: Outpost) -> None:
        await killed(outpost)
        outpost.api.fault = only(lambda call: call.path.endswith("/events"), fault)
        await outpost.settle(300)
        tries = len(attempts(outpost, "MemoryBudgetKilled"))
        # Two events take turns; at most 30 s apart, 300 s have room for 5 attempts of each at least.
        assert tries == 1 if not again else 5 <= tries <= 40
        (incident,) = kept(outpost)
        assert [one["ending"] for one in incident["events"]] == [None if again else "refused"]
        said = [line for line in caplog.messages if line.startswith("the event MemoryBudgetKilled for ")]
        assert len(said) == (0 if again else 1)
        await outpost.stop(killed=True)
        start(outpost)
        await back(outpost)
        assert len(told(outpost, "MemoryBudgetKilled")) == (1 if again else 0)

    play(tmp_path, story, SETTINGS)


def test_of_what_is_said_again_and_again_the_last_word_is_told(tmp_path: Path) -> None:
    """A pod goes over its budget five times while events cannot be written."""

    async def story(outpost: Outpost) -> None:
        load = outpost.pod("greedy", 1024, 1000)
        outpost.start()
        await outpost.settle(20)
        outpost.api.fault = only(lambda call: call.path.endswith("/events"), says(503))
        for step in range(5):
            outpost.hold(load, OVER + step)
            await outpost.settle(6)
            outpost.hold(load, 1000)
            await outpost.settle(30)
        await back(outpost)
        (event,) = told(outpost, "MemoryBudgetExceeded")
        assert "1.04 GiB" in event["note"]
        # It went over for the last time 36 s before the end of the fault, and was seen over within 2 s.
        ago = outpost.now - 60 - 36
        assert stamp(ago)[:19] <= event["eventTime"][:19] <= stamp(ago + 2.1)[:19]

    play(tmp_path, story)


def test_the_evictions_of_a_day_without_events_are_all_told_and_what_is_said_meanwhile_displaces_none(
    tmp_path: Path,
) -> None:
    """Evictions go through; events do not, as with a webhook of theirs that is down."""

    async def story(outpost: Outpost) -> None:
        outpost.start()
        outpost.api.fault = only(lambda call: call.path.endswith("/events"), says(500))
        for number in range(4):
            load = outpost.pod(f"greedy-{number}", 1024, 1000)
            await outpost.settle(20)
            outpost.hold(load, OVER)
            await outpost.settle(120)
        # A hundred pods whose budget cannot be read: as many events of another kind.
        for number in range(100):
            outpost.pod(f"odd-{number}", None, 0, annotations={"edgeagent.dev/gpu-memory-limit": "much"})
        await outpost.settle(60)
        await back(outpost, 120)
        assert Counter(event["reason"] for event in outpost.api.events.values())["MemoryBudgetEvicted"] == 4
        assert len(outpost.api.events) <= 64

    play(tmp_path, story)


# --- what is kept ----------------------------------------------------------------------


def test_an_incident_has_what_led_to_it_and_what_came_of_it(tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        greedy, _ = await killed(outpost)
        await outpost.settle(120)
        (incident,) = kept(outpost)
        assert (incident["kind"], incident["mode"], incident["node"]) == ("kill", "enforce", "edge-1")
        assert incident["pod"] == {"namespace": "apps", "name": "greedy", "uid": greedy.uid, "owner": None}
        assert (incident["breach"], incident["used_bytes"], incident["budget_bytes"]) == ("gpu", 3950 << 20, 1024 << 20)
        assert incident["excess_bytes"] == (3950 - 1024) << 20
        assert incident["wall_plausible"] is True
        assert [one["name"] for one in incident["pods"]] == ["greedy", "calm"]
        assert "Killed to keep the board alive" in incident["reason"]
        (outcome,) = incident["outcomes"]
        assert (outcome["outcome"], outcome["pids"]) == ("killed", [greedy.pid])
        assert incident["ended"]["why"] == "back"
        # Before it the pod was within its budget, with 5000 - 2000 MiB usable; at the decision 50 were left.
        first, last = incident["before"][0], incident["before"][-1]
        assert (first["usable_bytes"], first["pods"][0][0]) == (3000 << 20, 1000 << 20)
        assert (last["usable_bytes"], last["pods"][0][0]) == (50 << 20, 3950 << 20)
        assert -30 <= first["t"] < last["t"] <= 0
        # What it held is back: 5000 - 1000.
        assert incident["after"][-1]["usable_bytes"] == 4000 << 20

    play(tmp_path, story, SETTINGS)


def test_a_refused_eviction_that_is_asked_for_again_and_again_is_one_incident(tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        outpost.api.fault = only(lambda call: call.eviction, says(403, "Forbidden"))
        outpost.pod("greedy", 1024, OVER)
        outpost.start()
        await outpost.settle(2400)
        calls = len(outpost.evictions())
        assert calls >= 4  # each ten minutes
        outpost.api.fault = None
        await outpost.settle(900)
        (incident,) = kept(outpost)
        assert [one["outcome"] for one in incident["outcomes"]] == ["forbidden", "accepted"]
        assert incident["attempts"] == calls + 1
        assert incident["ended"]["why"] == "back"
        lines = [line.value for line in journal.read(outpost.folder)]
        # The decision; a refusal and its event, told; what followed it; the eviction and its event, told; its end.
        assert Counter(line["line"] for line in lines if line) == {"decision": 1, "outcome": 2, "owed": 2, "told": 2}

    play(tmp_path, story)


def test_in_observe_mode_a_breach_is_written_once_however_long_it_lasts(tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        load = outpost.pod("greedy", 1024, OVER)
        outpost.start()
        await outpost.settle(900)
        (incident,) = kept(outpost)
        assert (incident["kind"], incident["mode"]) == ("would-evict", "observe")
        assert incident["reason"].endswith("It is not evicted: mode: observe is configured.")
        outpost.hold(load, 1000)
        await outpost.settle(300)
        assert len(kept(outpost)) == 1
        outpost.hold(load, OVER)
        await outpost.settle(300)
        assert len(kept(outpost)) == 2

    play(tmp_path, story, "mode: observe")


def test_an_agent_that_is_started_again_and_again_does_not_write_without_end(tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        outpost.pod("greedy", 1024, OVER)
        for _ in range(10):
            outpost.start()
            await outpost.settle(20)
            await outpost.stop(killed=True)
        assert len(kept(outpost)) == 6

    play(tmp_path, story, "mode: observe")


def test_nobody_to_kill_is_an_incident(tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        outpost.pod("calm", 4990, 4960)
        outpost.start()
        await outpost.settle(70)
        (incident,) = kept(outpost)
        assert (incident["kind"], incident["pod"], incident["breach"]) == ("nobody", None, None)
        assert "no pod is known to be over its budget" in incident["reason"]
        assert [one["name"] for one in incident["pods"]] == ["calm"]
        assert incident["ended"]["why"] == "time"

    play(tmp_path, story, SETTINGS)


def test_an_agent_that_dies_leaves_an_incident_without_an_end_and_one_that_is_stopped_says_so(tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        await _evicted(outpost)
        await outpost.stop(killed=True)
        (incident,) = kept(outpost)
        assert incident["ended"] is None
        start(outpost)
        await outpost.settle(60)
        (again,) = kept(outpost)
        assert again == incident
        await _evicted(outpost)
        await outpost.stop()
        assert [one["ended"] and one["ended"]["why"] for one in kept(outpost)] == [None, "stopped"]

    play(tmp_path, story)


async def _evicted(outpost: Outpost) -> None:
    before = len(outpost.api.accepted)
    outpost.pod(f"greedy-{before}", 1024, OVER)
    if outpost.agent is None:
        outpost.start()
    while len(outpost.api.accepted) == before:
        await outpost.settle(0.5)


Disk = Callable[..., journal.Appended]


def test_a_disk_that_refuses_is_told_of_once_and_costs_no_eviction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> journal.Appended:
        return journal.Appended(0, "incidents.jsonl: No space left on device")

    append: Disk = journal.append
    monkeypatch.setattr(journal, "append", full)

    async def story(outpost: Outpost) -> None:
        await _evicted(outpost)
        await outpost.settle(300)
        assert kept(outpost) == []
        assert caplog.messages.count("incidents are not kept: incidents.jsonl: No space left on device") == 1
        monkeypatch.setattr(journal, "append", append)
        await outpost.settle(11)
        (incident,) = kept(outpost)
        assert incident["ended"]["why"] == "back"
        assert "incidents are kept again; 0 lines were lost meanwhile" in caplog.messages

    play(tmp_path, story)


async def unanswered(_api: Api, _call: Call) -> Response | None:
    """The network is gone in the middle of the exchange."""
    raise ConnectionResetError(104, "Connection reset by peer")


def test_an_eviction_that_nobody_answered_is_told_of_when_somebody_does(tmp_path: Path) -> None:
    """The call goes out and is lost, with the uplink; the event says so, and is told once that is back."""

    async def story(outpost: Outpost) -> None:
        async def lost(api: Api, call: Call) -> Response | None:
            if call.eviction:
                api.fault = unanswered
                api.break_watches(ConnectionResetError(104, "Connection reset by peer"))
                return await unanswered(api, call)
            return None

        outpost.api.fault = lost
        outpost.pod("greedy", 1024, OVER)
        outpost.start()
        await outpost.settle(300)
        assert told(outpost, "EvictionBlocked") == []
        await back(outpost, 90)
        (event,) = told(outpost, "EvictionBlocked")
        assert "was not answered clearly" in event["note"]
        assert len(told(outpost, "MemoryBudgetEvicted")) == 1
        (incident,) = kept(outpost)
        assert [one["outcome"] for one in incident["outcomes"]] == ["unknown", "accepted"]

    play(tmp_path, story)


# --- what says the same for long -----------------------------------------------------------


BUDGET = says(429, "TooManyRequests", message="Cannot evict pod.", causes=("DisruptionBudget",))


def guarded(outpost: Outpost, *beside: Fault) -> None:
    """A disruption budget protects every pod; ``beside``: what else is out of order."""

    async def fault(api: Api, call: Call) -> Response | None:
        if call.eviction:
            return await BUDGET(api, call)
        for one in beside:
            odd = await one(api, call)
            if odd is not None:
                return odd
        return None

    outpost.api.fault = fault


def lines(outpost: Outpost) -> Counter[str]:
    return Counter(str(line.value and line.value["line"]) for line in journal.read(outpost.folder))


def test_pods_that_a_disruption_budget_protects_for_long_are_told_of_once_each(tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        for number in range(5):
            outpost.pod(f"p{number}", 500, 700)
        guarded(outpost)
        outpost.start()
        await outpost.settle(900)
        assert len(outpost.evictions()) > 100
        assert sorted(event["regarding"]["name"] for event in told(outpost, "EvictionBlocked")) == [
            f"p{number}" for number in range(5)
        ]
        # One decision, one answer, and the event, of each.
        found = lines(outpost)
        assert (found["decision"], found["owed"], found["told"]) == (5, 5, 5)
        assert outpost.api.answers["PATCH", 422] == 0

    play(tmp_path, story)


def test_a_later_breach_of_a_pod_that_may_not_go_is_told_too(tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        load = outpost.pod("greedy", 1024, OVER)
        guarded(outpost)
        outpost.start()
        await outpost.settle(120)
        assert len(told(outpost, "EvictionBlocked")) == 1
        outpost.hold(load, 1000)
        await outpost.settle(600)
        outpost.hold(load, OVER + 100)
        await outpost.settle(300)
        assert len(told(outpost, "EvictionBlocked")) == 2
        first, second = kept(outpost)
        assert [len(one["events"]) for one in (first, second)] == [1, 1]

    play(tmp_path, story)


def test_refusals_without_end_displace_no_eviction_that_is_not_told_yet(tmp_path: Path) -> None:
    """Events cannot be written for some minutes; twenty pods go over their budgets again and again, and may not go."""

    async def story(outpost: Outpost) -> None:
        unwritten = only(lambda call: "/events" in call.path, says(503))
        outpost.pod("done", 1024, OVER)
        outpost.start()
        outpost.api.fault = unwritten
        while not outpost.api.accepted:
            await outpost.settle(1)
        await outpost.settle(60)
        pods = [outpost.pod(f"p{number}", 100, 80) for number in range(20)]
        guarded(outpost, unwritten)
        for step in range(4):
            for load in pods:
                outpost.hold(load, 130 + step)
            await outpost.settle(40)
            for load in pods:
                outpost.hold(load, 80)
            await outpost.settle(65)
        assert outpost.agent is not None
        assert len(outpost.agent.outbox) == 64
        await back(outpost, 120)
        (event,) = told(outpost, "MemoryBudgetEvicted")
        assert event["regarding"]["name"] == "done"

    play(tmp_path, story)


def test_a_process_that_starts_as_fast_as_it_is_killed_fills_neither_the_disk_nor_the_outbox(tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        greedy, _ = await killed(outpost)
        kills = 1
        for _ in range(100):
            greedy.pid += 100
            outpost.board.process(greedy.pid, "infer", greedy.uid, f"{1:064x}")
            outpost.hold(greedy, 3950)
            while greedy.holds:
                await outpost.settle(0.1)
            kills += 1
        # All of it within a minute or two is one incident, which has five events to tell.
        assert lines(outpost)["owed"] <= 5 * len(kept(outpost)) <= 5 * incidents.MOST_PER_POD
        assert outpost.agent is not None
        assert len(outpost.agent.outbox) == 64
        await back(outpost, 180)
        # Ten at once about one pod, and one more each five minutes.
        assert 10 <= len(told(outpost, "MemoryBudgetKilled")) <= 11
        assert kills == 101

    play(tmp_path, story, SETTINGS)


# --- what an earlier run has left, and how it is written ------------------------------------


@pytest.mark.parametrize("offset", [0.0, -5 * 3600.0, -WALL], ids=["right", "behind", "not set"])
def test_an_event_of_an_earlier_boot_keeps_its_time_whatever_the_clock_says_at_the_start(
    offset: float, tmp_path: Path
) -> None:
    """A board without a clock of its own has the right time once a server has told it."""

    async def story(outpost: Outpost) -> None:
        before = {**owed(), "boot_id": "earlier", "wall": describing.stamp(WALL - 5 * 3600)}
        journal.append(outpost.folder, [journal.encoded(before)])
        outpost.wall_offset = offset
        outpost.api.fault = refused
        outpost.start()
        await outpost.settle(120)
        outpost.wall_offset = 0.0
        await back(outpost)
        (event,) = told(outpost, "MemoryBudgetEvicted")
        assert event["eventTime"][:19] == stamp(-5 * 3600)[:19]

    play(tmp_path, story)


ABSURD: dict[str, dict[str, Any]] = {
    "seconds of a decision": decision(seconds=10**400),
    "seconds": owed(seconds=10**400),
    "below 0": owed(seconds=-1e14),
    "late": owed(wall="9999-12-31T23:59:59.999-2359"),
    "early": owed(wall="0001-01-01T00:00:00.0+0000"),
    "half a character": owed(event={**owed()["event"], "note": json.loads('"\\ud800"')}),
    "a path": owed(event={**owed()["event"], "namespace": "..", "name": "../../x"}),
}


@pytest.mark.parametrize("line", ABSURD.values(), ids=ABSURD)
@pytest.mark.parametrize("same", [True, False], ids=["this boot", "another"])
def test_no_line_stops_the_agent(
    line: dict[str, Any],
    same: bool,  # noqa: FBT001 (a table's column)
    tmp_path: Path,
) -> None:
    async def story(outpost: Outpost) -> None:
        boot = (outpost.board.root / "proc/sys/kernel/random/boot_id").read_text().strip() if same else "another"
        good = owed(boot_id=boot, event={**owed()["event"], "id": "good", "note": "good"})
        journal.append(outpost.folder, [journal.encoded({**line, "boot_id": boot}), journal.encoded(good)])
        outpost.start()
        await outpost.settle(60)
        assert outpost.cycles
        assert outpost.agent is not None
        assert outpost.agent.link.reconciler is not None
        assert not outpost.agent.link.reconciler.failed
        assert [event["note"] for event in told(outpost, "MemoryBudgetEvicted")] == ["good"]

    play(tmp_path, story)


def test_a_refusal_of_many_words_is_cut_wherever_it_goes(tmp_path: Path) -> None:
    async def story(outpost: Outpost) -> None:
        outpost.api.fault = only(
            lambda call: call.eviction, says(403, "Forbidden", message="denied: \ud800\x1b[31m" + "é" * 200_000)
        )
        outpost.pod("greedy", 1024, OVER)
        agent = outpost.start()
        await outpost.settle(60)
        assert agent.plan is not None
        (held,) = agent.plan.held
        assert agent.eviction_refused is not None
        code, said = agent.eviction_refused
        assert (code, held.why) == (403, said)
        assert (len(said), said[-1]) == (1024, "…")
        (event,) = told(outpost, "EvictionBlocked")
        assert len(event["note"].encode()) <= 1024
        (incident,) = kept(outpost)
        assert [one["ending"] for one in incident["events"]] == ["told"]

    play(tmp_path, story)


def test_a_breach_in_back_off_wears_no_disk_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, writes = statefile.write, Counter[str]()

    def counted(folder: Path, document: Any, name: str = statefile.NAME) -> str:
        writes[name] += 1
        return write(folder, document, name)

    monkeypatch.setattr(statefile, "write", counted)
    owner = [{"kind": "StatefulSet", "name": "llm", "controller": True, "apiVersion": "apps/v1", "uid": "x"}]

    async def story(outpost: Outpost) -> None:
        async def spared(_api: Api, call: Call) -> Response | None:
            return await BUDGET(_api, call) if call.eviction and outpost.api.accepted else None

        outpost.pod("llm-0", 1024, OVER, ownerReferences=owner)
        outpost.api.fault = spared
        outpost.start()
        await outpost.settle(120)
        assert len(outpost.api.accepted) == 1
        outpost.pod("llm-0", 1024, OVER, ownerReferences=owner)
        await outpost.settle(60)
        before = writes.copy()
        await outpost.settle(1200)
        written = writes - before
        # Once each five minutes, and what else changed, which is nothing here.
        assert 3 <= written[statefile.NAME] <= 5
        # 180 s went by before. The peaks are written 300 s after the start, for there were none, and then no figure is
        # higher, so 900 s later.
        assert written[statefile.PEAKS] == 2
        assert set(written) == {statefile.NAME, statefile.PEAKS}
        await outpost.stop()
        # What is kept at the end is exact: the pod was over its budget within the last few seconds.
        (backoff,) = json.loads((outpost.folder / statefile.NAME).read_text())["backoff"]
        assert outpost.now - backoff["breached_at"] < 5

    play(tmp_path, story)

"""Events that wait: bounded, the latest word of what is repeated, and decisions before all else."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest

from edgeagent.plan.types import Event
from edgeagent.reconcile import outbox
from edgeagent.reconcile.outbox import MOST_EVENTS, Ending, Outbox


class Server:
    """Takes events or not. ``answers`` by reason; ``told`` by default."""

    def __init__(self, **answers: Ending) -> None:
        self.answers = answers
        self.asked: list[Event] = []

    async def record(self, event: Event) -> Ending:
        await asyncio.sleep(0)
        self.asked.append(event)
        return self.answers.get(event.reason, "told")


def event(reason: str = "BudgetInvalid", uid: str = "1", note: str = "", **more: str) -> Event:
    return Event(reason=reason, kind="Pod", namespace="shop", name="infer-0", uid=uid, note=note, **more)  # type: ignore[arg-type]


class Longest(random.Random):
    """No jitter: always the longest pause."""

    def uniform(self, a: float, b: float) -> float:
        del a
        return b


def an_outbox(rng: random.Random | None = None) -> Outbox:
    return Outbox(clock=lambda: 100.0, rng=rng or random.Random(1))


async def sent(box: Outbox, server: Server, *, until: int = 0) -> list[tuple[str, str, str]]:
    """(reason, uid, note) of what is sent until no more than ``until`` wait."""
    task = asyncio.create_task(box.run(server.record))
    while len(box) > until:  # noqa: ASYNC110 (what is waited for has no event)
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return [(one.reason, one.uid, one.note) for one in server.asked]


async def test_events_are_told_in_order_with_an_id_and_the_time_at_which_they_happened() -> None:
    box, server = an_outbox(), Server()
    box.tell([event(note="first"), event(note="second"), event("MemoryBudgetKilled", id="mine")])
    assert [note for _, _, note in await sent(box, server)] == ["first", "second", ""]
    assert {one.at for one in server.asked} == {100.0}
    first, second, third = (one.id for one in server.asked)
    assert first != second
    assert "" not in (first, second)
    assert third == "mine"


async def test_of_words_with_live_figures_the_latest_wait() -> None:
    box, server = an_outbox(), Server()
    for number in range(100):
        box.tell([event("MemoryBudgetExceeded", note=str(number)), event("MemoryBudgetExceeded", "2", str(number))])
    assert await sent(box, server) == [("MemoryBudgetExceeded", "1", "99"), ("MemoryBudgetExceeded", "2", "99")]


async def test_two_problems_of_one_pod_are_two_events_and_each_waits_once() -> None:
    box, server = an_outbox(), Server()
    for _ in range(3):
        box.tell([event(note="one"), event(note="other")])
    assert sorted(await sent(box, server)) == [("BudgetInvalid", "1", "one"), ("BudgetInvalid", "1", "other")]


async def test_the_oldest_chatter_gives_way_and_no_decision(caplog: pytest.LogCaptureFixture) -> None:
    box, server = an_outbox(), Server()
    decisions = [event("MemoryBudgetEvicted", str(number)) for number in range(10)]
    box.tell(decisions)
    box.tell([event(uid=str(number)) for number in range(100)])
    assert len(box) == MOST_EVENTS
    told = await sent(box, server)
    assert [one for one in told if one[0] == "MemoryBudgetEvicted"] == [
        ("MemoryBudgetEvicted", str(number), "") for number in range(10)
    ]
    # 64 less 10: the last 54 of a hundred.
    assert [uid for reason, uid, _ in told if reason == "BudgetInvalid"] == [str(number) for number in range(46, 100)]
    assert sum("was not recorded: too many are waiting" in line for line in caplog.messages) == 46


async def test_where_decisions_alone_wait_the_oldest_of_them_gives_way_to_a_decision_and_to_nothing_else() -> None:
    box, server = an_outbox(), Server()
    box.tell([event("MemoryBudgetKilled", str(number)) for number in range(MOST_EVENTS)])
    box.tell([event("Overcommitted"), event("MemoryBudgetEvicted", "new")])
    told = await sent(box, server)
    assert len(told) == MOST_EVENTS
    assert told[0] == ("MemoryBudgetKilled", "1", "")
    assert told[-1] == ("MemoryBudgetEvicted", "new", "")


async def test_an_event_that_the_server_chokes_on_keeps_no_other_one_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "SHORTEST", 0.001)
    box, server = an_outbox(), Server(MemoryBudgetKilled="later")
    box.tell([event("MemoryBudgetKilled"), event(uid="2"), event(uid="3")])
    told = await sent(box, server, until=1)
    assert told[:3] == [("MemoryBudgetKilled", "1", ""), ("BudgetInvalid", "2", ""), ("BudgetInvalid", "3", "")]
    server.answers.clear()
    assert (await sent(box, server))[-1] == ("MemoryBudgetKilled", "1", "")


async def test_who_waits_no_more_is_told_with_how_it_ended() -> None:
    box, server = an_outbox(), Server(EvictionBlocked="refused")
    ends: list[tuple[str, Ending]] = []
    box.ended = lambda one, ending: ends.append((one.reason, ending))
    box.tell([event("EvictionBlocked"), event("MemoryBudgetKilled")])
    await sent(box, server)
    assert ends == [("EvictionBlocked", "refused"), ("MemoryBudgetKilled", "told")]


async def test_newer_words_that_come_while_the_older_ones_are_on_their_way_are_told_too() -> None:
    box, server = an_outbox(), Server()

    async def slow(one: Event) -> Ending:
        if not server.asked:
            box.tell([event("Overcommitted", note="newer")])
        return await server.record(one)

    box.tell([event("Overcommitted", note="older")])
    task = asyncio.create_task(box.run(slow))
    while len(box):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [one.note for one in server.asked] == ["older", "newer"]


@pytest.mark.looptime
async def test_a_server_that_is_away_is_asked_less_and_less_often_and_each_half_minute_in_the_end() -> None:
    box, server = an_outbox(Longest()), Server(MemoryBudgetKilled="later")
    box.tell([event("MemoryBudgetKilled")])
    loop = asyncio.get_running_loop()
    times: list[float] = []

    async def noted(one: Event) -> Ending:
        times.append(loop.time())
        return await server.record(one)

    task = asyncio.create_task(box.run(noted))
    await asyncio.sleep(600)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    # 1 s, doubled at each failure
    assert gaps[:5] == [2, 4, 8, 16, 30]
    assert set(gaps[4:]) == {30}


def test_the_pause_is_spread_by_half_of_it() -> None:
    pauses = [an_outbox(random.Random(seed))._pause(8) for seed in range(50)]  # noqa: SLF001 (waited for, it takes minutes)
    assert 15 <= min(pauses) < 17
    assert 28 < max(pauses) <= 30


async def test_what_could_not_be_done_gives_way_to_what_was_done_and_to_nothing_less() -> None:
    box, server = an_outbox(), Server()
    box.tell([event("MemoryBudgetEvicted", "done")])
    box.tell([event("EvictionBlocked", str(number), id=str(number)) for number in range(200)])
    box.tell([event("MemoryBudgetKilled", "done", id="k"), event(uid="chatter")])
    told = await sent(box, server)
    # 64, two of them of what was done: the last 62 of two hundred.
    assert told[0] == ("MemoryBudgetEvicted", "done", "")
    assert [uid for reason, uid, _ in told if reason == "EvictionBlocked"] == [
        str(number) for number in range(138, 200)
    ]
    assert told[-1] == ("MemoryBudgetKilled", "done", "")


async def test_a_pod_that_is_killed_again_and_again_takes_no_place_of_another_one() -> None:
    box, server = an_outbox(), Server()
    box.tell([event("MemoryBudgetEvicted", "other")])
    box.tell([event("MemoryBudgetKilled", "again", str(number), id=str(number)) for number in range(200)])
    told = await sent(box, server)
    assert told[0] == ("MemoryBudgetEvicted", "other", "")
    assert [note for _, _, note in told[1:]] == [str(number) for number in range(137, 200)]


async def test_who_gives_way_is_told_so() -> None:
    box, server = an_outbox(), Server()
    ends: list[tuple[str, Ending]] = []
    box.ended = lambda one, ending: ends.append((one.id, ending))
    box.tell([event("MemoryBudgetKilled", str(number), id=str(number)) for number in range(MOST_EVENTS + 2)])
    assert ends == [("0", "dropped"), ("1", "dropped")]
    await sent(box, server)
    assert sorted(ends[2:]) == sorted((str(number), "told") for number in range(2, MOST_EVENTS + 2))


async def test_who_is_on_its_way_does_not_give_way() -> None:
    """It would be told, and said to be dropped."""
    box, server = an_outbox(), Server()
    ends: dict[str, Ending] = {}
    box.ended = lambda one, ending: ends.update({one.id: ending})

    async def slow(one: Event) -> Ending:
        if not server.asked:
            box.tell([event("MemoryBudgetKilled", "1", id=f"new-{number}") for number in range(MOST_EVENTS)])
        return await server.record(one)

    box.tell([event("MemoryBudgetKilled", "1", id="first")])
    task = asyncio.create_task(box.run(slow))
    while len(box):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (ends.pop("first"), ends.pop("new-0")) == ("told", "dropped")
    assert set(ends.values()) == {"told"}


async def test_what_was_logged_when_it_happened_is_not_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    box, server = an_outbox(), Server()
    box.hold([event("MemoryBudgetKilled", note="earlier")])
    box.tell([event("MemoryBudgetKilled", note="now", id="2")])
    assert [line.rpartition(" ")[2] for line in caplog.messages] == ["now"]
    assert [note for _, _, note in await sent(box, server)] == ["earlier", "now"]


async def test_the_latest_hundred_are_at_hand_with_the_time_at_which_they_happened() -> None:
    box, server = an_outbox(), Server(BudgetInvalid="refused")
    box.tell([event(note=str(number)) for number in range(103)])
    assert len(await sent(box, server)) == MOST_EVENTS
    assert [one.note for one in box.latest] == [str(number) for number in range(3, 103)]
    assert {one.at for one in box.latest} == {100.0}

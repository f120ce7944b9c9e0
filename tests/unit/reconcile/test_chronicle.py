"""Records go to the disk beside the loop: nothing waits for it, and what waits for it is bounded."""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from edgeagent.plan import describing, history, notices
from edgeagent.plan.types import EvictionResult
from edgeagent.reconcile import chronicle
from edgeagent.reconcile.chronicle import MOST_BYTES, Chronicle
from edgeagent.reconcile.outbox import Outbox
from edgeagent.system import journal
from tests.unit.factories import WALL, Run, at
from tests.unit.plan.test_history import BOOT, decision, owed, told
from tests.unit.plan.test_incidents import over


class Running:
    """A chronicle on a clock that passes when told."""

    def __init__(self, folder: Path | None) -> None:
        self.now = 6000.0
        self.outbox = Outbox(clock=lambda: self.now, rng=random.Random(1))
        self.chronicle = Chronicle(folder, self.outbox, clock=lambda: self.now, wall=lambda: WALL + self.now)
        self.run = Run(None)

    def evicts(self, uid_of: str = "greedy") -> None:
        """A pod goes over its budget, and is to be evicted after its grace."""
        for second in range(16):
            self.now += 1.0
            plan = self.run.step(at(over(), self.now))
            self.chronicle.saw(self.run.state, plan, memory_at=self.now, read_at=self.now, node="edge-1")
            assert bool(plan.evictions) == (second == 15), uid_of


def lines(folder: Path) -> list[dict[str, Any]]:
    return [line.value for line in journal.read(folder) if line.value is not None]


async def written(folder: Path, count: int) -> None:
    while len(lines(folder)) < count:  # noqa: ASYNC110 (what is waited for has no event)
        await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def no_blocking_calls() -> None:
    """The test itself reads the files in the loop."""


async def test_a_disk_that_hangs_keeps_nothing_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()
    append = journal.append

    def hanging(*arguments: Any) -> journal.Appended:
        let_go.wait(30)
        return append(*arguments)

    monkeypatch.setattr(journal, "append", hanging)
    running = Running(tmp_path)
    await running.chronicle.open(BOOT)
    begun = time.monotonic()
    running.evicts()
    events = running.chronicle.answered(EvictionResult(uid="uid-greedy", outcome="accepted"), ())
    await asyncio.sleep(0.05)
    assert time.monotonic() - begun < 5.0  # the disk would take thirty
    assert (events, lines(tmp_path)) == ([], [])
    let_go.set()
    await running.chronicle.close()
    assert [line["line"] for line in lines(tmp_path)] == ["decision", "outcome"]


async def test_without_a_state_directory_nothing_is_kept_and_nothing_fails() -> None:
    running = Running(None)
    await running.chronicle.open(BOOT)
    running.evicts()
    assert running.chronicle.answered(EvictionResult(uid="uid-greedy", outcome="accepted"), ()) == []
    await running.chronicle.close()


async def test_what_waits_for_a_disk_is_bounded_and_the_latest_lines_are_written_once_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(chronicle, "RETRY_SECONDS", 0.01)
    append, attempts = journal.append, 0

    def full(*_: Any) -> journal.Appended:
        nonlocal attempts
        attempts += 1
        return journal.Appended(0, "full")

    monkeypatch.setattr(journal, "append", full)
    writer = chronicle._Writer(tmp_path)  # noqa: SLF001 (what is bounded)
    size = len(journal.encoded(decision()))
    for number in range(1000):
        writer.put(decision(left_out=number))
    while attempts < 3:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    assert caplog.messages == ["incidents are not kept: full"]
    monkeypatch.setattr(journal, "append", append)
    room = MOST_BYTES // (size + 3)
    await written(tmp_path, room)
    await writer.finish()
    kept = [line["left_out"] for line in lines(tmp_path)]
    assert kept == list(range(1000 - len(kept), 1000))
    assert MOST_BYTES // (size + 3) <= len(kept) <= MOST_BYTES // size
    assert caplog.messages[1] == f"incidents are kept again; {1000 - len(kept)} lines were lost meanwhile"


async def test_lines_of_a_batch_that_came_to_the_disk_are_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chronicle, "RETRY_SECONDS", 0.01)
    append, attempts = journal.append, 0

    def half(folder: Path, batch: Any) -> journal.Appended:
        nonlocal attempts
        attempts += 1
        if attempts > 2:
            return append(folder, batch)
        append(folder, batch[:2])
        return journal.Appended(2, "full")

    monkeypatch.setattr(journal, "append", half)
    writer = chronicle._Writer(tmp_path)  # noqa: SLF001
    for number in range(7):
        writer.put(decision(left_out=number))
    await written(tmp_path, 7)
    await writer.finish()
    assert [line["left_out"] for line in lines(tmp_path)] == list(range(7))


async def test_an_agent_that_ends_while_the_disk_refuses_tries_once_more_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 0

    def full(*_: Any) -> journal.Appended:
        nonlocal attempts
        attempts += 1
        return journal.Appended(0, "full")

    monkeypatch.setattr(journal, "append", full)
    writer = chronicle._Writer(tmp_path)  # noqa: SLF001
    writer.put(decision())
    while not attempts:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    await asyncio.wait_for(writer.finish(), 5)  # and not the ten seconds to the next attempt
    assert attempts == 2


async def test_a_record_that_is_too_long_for_a_line_is_lessened(tmp_path: Path) -> None:
    writer = chronicle._Writer(tmp_path)  # noqa: SLF001
    many = decision(
        pods=[{**decision()["pods"][0], "name": "\x01" * 250, "namespace": "\x01" * 250}] * 6,
        before=decision()["before"] * 10,
    )
    assert len(journal.encoded(many)) > journal.LONGEST
    writer.put(many)
    await writer.finish()
    (kept,) = lines(tmp_path)
    assert kept == describing.lessened(many)
    assert history.checked(kept) is not None


# --- what an earlier run has left ------------------------------------------------------


def keep(folder: Path, *records: dict[str, Any]) -> None:
    assert journal.append(folder, [journal.encoded(record) for record in records]).problem == ""


async def test_what_is_owed_is_told_with_its_id_and_time_and_what_was_told_is_not(tmp_path: Path) -> None:
    second = owed(event={**owed()["event"], "id": "e-2", "note": "another"})
    keep(tmp_path, decision(), owed(), told(), second)
    running = Running(tmp_path)
    await running.chronicle.open(BOOT)
    (event,) = running.outbox._waiting.values()  # noqa: SLF001 (what was handed over)
    assert (event.id, event.note, event.at) == ("e-2", "another", 5000.0)
    running.outbox.ended(event, "told")
    await running.chronicle.close()
    assert lines(tmp_path)[-1] == {
        "format": 1,
        "line": "told",
        "event": "e-2",
        "ending": "told",
        "wall": describing.stamp(WALL + 6000.0),
        "seconds": 6000.0,
    }
    again = Running(tmp_path)
    await again.chronicle.open(BOOT)
    assert len(again.outbox) == 0


async def test_more_than_can_wait_is_told_from_the_latest_on(tmp_path: Path) -> None:
    owing = [owed(event={**owed()["event"], "id": f"e-{number}"}) for number in range(100)]
    keep(tmp_path, decision(), *owing)
    running = Running(tmp_path)
    await running.chronicle.open(BOOT)
    assert [one.id for one in running.outbox._waiting.values()] == [  # noqa: SLF001
        f"e-{number}" for number in range(68, 100)
    ]


async def test_a_file_that_cannot_be_read_is_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / journal.NAME).mkdir()
    running = Running(tmp_path)
    await running.chronicle.open(BOOT)
    assert [message.split(":")[0] for message in caplog.messages] == [
        "what an earlier run has kept of incidents is not read"
    ]


async def test_incidents_of_this_boot_count_and_those_of_another_do_not(tmp_path: Path) -> None:
    recent = [
        decision(id=str(number), seconds=5000.0 + number, pod={**decision()["pod"], "uid": "uid-greedy"})
        for number in range(6)
    ]
    keep(tmp_path, *recent)
    full, fresh = Running(tmp_path), Running(tmp_path)
    await full.chronicle.open(BOOT)
    full.evicts()
    await full.chronicle.close()
    assert len(lines(tmp_path)) == 6  # six in an hour about one pod were kept already
    await fresh.chronicle.open("another boot")
    fresh.evicts()
    await fresh.chronicle.close()
    assert len(lines(tmp_path)) == 8


async def test_each_of_two_events_of_the_same_words_has_its_own_end(tmp_path: Path) -> None:
    running = Running(tmp_path)
    await running.chronicle.open(BOOT)
    running.evicts()
    result = EvictionResult(uid="uid-greedy", outcome="blocked", message="a budget")
    (greedy, *_) = over().pods
    blocked = notices.pod_event(greedy, "EvictionBlocked", "the same words")
    events = [*running.chronicle.answered(result, [blocked]), *running.chronicle.answered(result, [blocked])]
    for one in events:
        running.outbox.ended(one, "told")
    await running.chronicle.close()
    kept = lines(tmp_path)
    owing = [line["event"]["id"] for line in kept if line["line"] == "owed"]
    ended = [line["event"] for line in kept if line["line"] == "told"]
    assert owing == ended == [one.id for one in events]
    assert len(set(owing)) == 2


async def test_a_file_that_is_no_file_keeps_nobody_waiting(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(tmp_path / journal.NAME)
    running = Running(tmp_path)
    await asyncio.wait_for(running.chronicle.open(BOOT), 5)
    running.evicts()
    await asyncio.wait_for(running.chronicle.close(), 5)
    assert [message.rpartition(": ")[2] for message in caplog.messages if "EvictionBlocked" not in message] == [
        "no regular file",
        "no regular file",
    ]


async def test_the_latest_incidents_are_at_hand_and_so_are_those_of_an_earlier_run(tmp_path: Path) -> None:
    first = Running(tmp_path)
    await first.chronicle.open(BOOT)
    first.evicts()
    first.chronicle.answered(EvictionResult(uid="uid-greedy", outcome="accepted"), ())
    await first.chronicle.close()

    second = Running(tmp_path)
    await second.chronicle.open(BOOT)

    found = [history.joined(json.loads(line) for line in one.chronicle.latest.lines) for one in (first, second)]
    assert found[0] == found[1] == history.joined(lines(tmp_path))
    assert [one["kind"] for one in found[0].incidents] == ["eviction"]
    await second.chronicle.close()

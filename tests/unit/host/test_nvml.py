"""The real NVML binding over a library that answers what a test says, and the thread that it runs in."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from edgeagent.errors import ReadingError
from edgeagent.facts import Nvml, Reading
from edgeagent.host.nvml import RETRY, NvmlWorker
from edgeagent.host.nvml_replay import parse
from tests.fakes.nvml import FakeNvml
from tests.unit.host.nvml_documents import DOCUMENTS, ORIN, T4, document, without


def replayed(value: dict[str, Any]) -> Any:
    """The fields of the sample in a document, as JSON has them."""
    return json.loads(json.dumps(dataclasses.asdict(parse(json.dumps(value).encode()))))


def test_the_driver_and_a_recording_give_equal_samples(fake_nvml: FakeNvml) -> None:
    # One process for all: two retries apart, a failed start is tried anew and a lost device is looked for again.
    with fake_nvml.samples() as sampler:
        for number, (name, value) in enumerate(DOCUMENTS.items()):
            fake_nvml.say(value)
            assert sampler.at(number * 2 * RETRY) == replayed(value), name


def test_no_library_is_absent(fake_nvml: FakeNvml, tmp_path: Any) -> None:
    elsewhere = dataclasses.replace(fake_nvml, folder=tmp_path)
    with elsewhere.samples() as sampler:
        assert sampler.at(0.0) == replayed({"library": "absent"})
        assert sampler.at(2.0) == replayed({"library": "absent"})


def test_a_failed_start_is_tried_again_at_a_slow_pace(fake_nvml: FakeNvml) -> None:
    with fake_nvml.samples() as sampler:
        fake_nvml.say(document(T4, init=18))
        assert sampler.at(0.0)["init"] == 18
        fake_nvml.say(document(T4))
        assert sampler.at(RETRY - 1)["init"] == 18
        assert sampler.at(RETRY) == replayed(document(T4))


def test_a_driver_that_goes_away_is_started_again(fake_nvml: FakeNvml) -> None:
    gone = document(T4, count={"code": 999})
    with fake_nvml.samples() as sampler:
        fake_nvml.say(document(T4))
        assert sampler.at(0.0)["count"] == 1
        fake_nvml.say(gone)
        assert sampler.at(2.0) == replayed(gone)
        fake_nvml.say(document(T4, driver_version="590.1"))
        assert sampler.at(4.0) == replayed(gone)  # not yet
        assert sampler.at(2.0 + RETRY)["driver_version"] == "590.1"


def test_a_lost_device_leaves_the_others_and_is_looked_for_again(fake_nvml: FakeNvml) -> None:
    with fake_nvml.samples() as sampler:
        fake_nvml.say(document(T4, {"handle": 15}), "starts")
        first = sampler.at(0.0)
        assert ([device["handle"] for device in first["devices"]], first["cuda_version"]) == ([0, 15], 1)
        fake_nvml.say(document(T4, ORIN), "starts")
        # It may answer again by itself; the new start is due all the same, and only one.
        assert [
            (sampler.at(at)["count"], sampler.at(at)["cuda_version"]) for at in (2, RETRY, RETRY + 2, 9 * RETRY)
        ] == [
            (2, 1),
            (2, 2),
            (2, 2),
            (2, 2),
        ]


def test_a_process_list_that_grows_meanwhile_is_asked_for_again(fake_nvml: FakeNvml) -> None:
    with fake_nvml.samples() as sampler:
        fake_nvml.say(document(T4), "grow 2")
        assert sampler.at(0.0) == replayed(document(T4))
        fake_nvml.say(document(T4), "grow 1000")
        assert sampler.at(2.0)["devices"][0]["compute"] == {"code": 7, "processes": []}


def test_records_longer_than_declared_are_read_by_the_older_call(fake_nvml: FakeNvml) -> None:
    # 535 drivers: 32 bytes a record where 24 are declared, so that the second pid would be 4294967295.
    with fake_nvml.samples() as sampler:
        fake_nvml.say(document(T4), "stride 32")
        assert sampler.at(0.0) == replayed(document(T4))


def test_an_older_library_lacks_the_newer_call(fake_nvml: FakeNvml) -> None:
    value = document(T4)
    with fake_nvml.samples() as sampler:
        fake_nvml.say(value, "missing _v3")
        assert sampler.at(0.0) == replayed(value)
        fake_nvml.say(document(without(T4, "compute")), "missing _v3")
        assert sampler.at(2.0) == replayed(document(without(T4, "compute")))


HANGING = """
import asyncio, time
from edgeagent.host.nvml import NvmlWorker, PynvmlSource
worker = NvmlWorker(PynvmlSource(time.monotonic), time.monotonic, timeout=0.01)
reading = asyncio.run(worker.sample())
print(reading.why, reading.waiting_since is not None)
worker.close()
"""


def test_a_driver_that_hangs_stops_neither_the_loop_nor_the_end_of_the_process(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(document(T4), "hang count 3600")
    done = subprocess.run(
        [sys.executable, "-c", HANGING],
        env={**os.environ, **fake_nvml.environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "nvml stalled 0 s True\n"


# --- the thread ---


class Source:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.threads: set[int] = set()
        self.calls = 0
        self.closed = threading.Event()
        self.error: Exception | None = None

    def sample(self) -> Nvml:
        self.calls += 1
        self.threads.add(threading.get_ident())
        self.go.wait()
        if self.error:
            raise self.error
        return Nvml(library="present", count=self.calls)

    def close(self) -> None:
        self.closed.set()


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_sample_is_taken_in_another_thread_that_stays_the_same() -> None:
    source, clock = Source(), Clock()
    worker = NvmlWorker(source, clock, timeout=60)
    assert await worker.sample() == Reading(100.0, Nvml(library="present", count=1))
    clock.now = 102.0
    assert await worker.sample() == Reading(102.0, Nvml(library="present", count=2))
    assert len(source.threads) == 1
    assert threading.get_ident() not in source.threads
    worker.close()
    assert source.closed.wait(60)


async def test_a_driver_that_hangs_is_a_reading_without_value_and_one_call() -> None:
    source, clock = Source(), Clock()
    source.go.clear()
    worker = NvmlWorker(source, clock, timeout=0.01)
    assert (await worker.sample()).value is None
    clock.now = 220.0
    before = threading.active_count()
    assert await worker.sample() == Reading(220.0, None, "nvml stalled 120 s", waiting_since=100.0)
    assert await worker.sample() == Reading(220.0, None, "nvml stalled 120 s", waiting_since=100.0)
    assert (source.calls, threading.active_count()) == (1, before)
    # The late answer is given out once, with the time at which it was asked for.
    source.go.set()
    clock.now = 40.0  # a minute before the call is late: it is waited for
    assert await worker.sample() == Reading(100.0, Nvml(library="present", count=1))
    assert await worker.sample() == Reading(40.0, Nvml(library="present", count=2))


async def test_two_that_ask_at_once_get_one_sample() -> None:
    source, clock = Source(), Clock()
    source.go.clear()
    worker = NvmlWorker(source, clock, timeout=60)
    both = asyncio.gather(worker.sample(), worker.sample())
    await asyncio.sleep(0)
    source.go.set()
    one, other = await both
    assert one == other
    assert source.calls == 1


async def test_a_cancelled_sample_is_taken_over_by_the_next() -> None:
    source, clock = Source(), Clock()
    source.go.clear()
    worker = NvmlWorker(source, clock, timeout=60)
    task = asyncio.create_task(worker.sample())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    source.go.set()
    assert (await worker.sample()).value == Nvml(library="present", count=1)


async def test_an_unreadable_source_is_a_reading_that_says_why_and_a_fault_is_raised() -> None:
    source, clock = Source(), Clock()
    worker = NvmlWorker(source, clock, timeout=60)
    source.error = ReadingError("nvml.json: not JSON")
    assert await worker.sample() == Reading(100.0, None, "nvml.json: not JSON")
    source.error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await worker.sample()
    source.error = None
    assert (await worker.sample()).value


def test_a_worker_that_was_never_asked_closes() -> None:
    NvmlWorker(Source(), Clock()).close()

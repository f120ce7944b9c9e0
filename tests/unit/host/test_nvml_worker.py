"""The thread that NVML runs in: a driver that hangs stops nothing but itself."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

import pytest

from edgeagent.errors import ReadingError
from edgeagent.facts import Nvml, Reading
from edgeagent.facts.neighbours import DeviceActivity
from edgeagent.host.nvml import ALL
from edgeagent.host.nvml_worker import NvmlWorker
from edgeagent.host.power import Power
from tests.controlplane.waiting import wait_for
from tests.fakes.nvml import FakeNvml
from tests.unit.host.nvml_documents import T4, document

BUSY = DeviceActivity(uuid="GPU-1", busy=0.5)


class Source:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.threads: set[int] = set()
        self.calls = 0
        self.powers: list[Power] = []
        self.closed = threading.Event()
        self.error: Exception | None = None

    def sample(self, power: Power = ALL) -> Nvml:
        self.powers.append(power)
        self.calls += 1
        self.threads.add(threading.get_ident())
        self.go.wait()
        if self.error:
            raise self.error
        return Nvml(library="present", count=self.calls)

    def activity(self) -> tuple[DeviceActivity, ...]:
        self.threads.add(threading.get_ident())
        self.go.wait()
        return (BUSY,)

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
    await asyncio.to_thread(wait_for, "its thread, late on a busy machine", lambda: source.calls)
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


# --- the real binding ---


def run(library: FakeNvml, script: str, *arguments: str) -> str:
    """What a Python process that finds the library prints."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, **library.environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


HANGING = """
import asyncio, time
from edgeagent.host.nvml import PynvmlSource
from edgeagent.host.nvml_worker import NvmlWorker
worker = NvmlWorker(PynvmlSource(time.monotonic), time.monotonic, timeout=0.01)
reading = asyncio.run(worker.sample())
print(reading.why, reading.waiting_since is not None)
worker.close()
"""


def test_a_driver_that_hangs_stops_neither_the_loop_nor_the_end_of_the_process(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(document(T4), "hang count 3600")
    assert run(fake_nvml, HANGING) == "nvml stalled 0 s True\n"


COMING_BACK = """
import asyncio, time
from edgeagent.host.nvml import PynvmlSource
from edgeagent.host.nvml_worker import NvmlWorker

async def main():
    worker = NvmlWorker(PynvmlSource(time.monotonic), time.monotonic, timeout=0.05)
    begun = time.monotonic()
    stalled = await worker.sample()
    while (late := await worker.sample()).value is None:
        assert late.waiting_since == stalled.waiting_since
    print(stalled.value, 0 <= late.at - begun < 0.05, time.monotonic() - begun >= 0.5, late.value.devices[0].name)
    fresh = await worker.sample()
    print(fresh.at > late.at + 0.4)
    worker.close()

asyncio.run(main())
"""


def test_a_call_that_comes_back_late_is_as_old_as_when_it_was_made(fake_nvml: FakeNvml) -> None:
    # Half a second in a call that every sample makes once.
    fake_nvml.say(document(T4), "hang count 0.5")
    assert run(fake_nvml, COMING_BACK) == "None True True Tesla T4\nTrue\n"


POLLING = """
import asyncio, os, sys, threading, time
from edgeagent.host.nvml import PynvmlSource
from edgeagent.host.nvml_worker import NvmlWorker

async def main():
    worker = NvmlWorker(PynvmlSource(time.monotonic), time.monotonic, timeout=60)
    seen = []
    for polls in (100, int(sys.argv[1])):
        for _ in range(polls):
            reading = await worker.sample()
            assert reading.value.devices[0].name == "Tesla T4"
        seen.append((sorted(os.listdir("/proc/self/fd")), threading.active_count()))
    print(seen[0] == seen[1], seen[1][1])
    worker.close()

asyncio.run(main())
"""
"""Descriptors and threads after a hundred polls, and after as many as it is told."""


def test_an_hour_of_polls_every_second_opens_nothing_and_starts_no_thread(fake_nvml: FakeNvml) -> None:
    # 36000 take 20 s and are in the bench. Two threads: the main one and NVML's.
    fake_nvml.say(document(T4))
    assert run(fake_nvml, POLLING, "3600") == "True 2\n"


async def test_activity_is_asked_for_in_the_same_thread_after_a_sample() -> None:
    source = Source()
    worker = NvmlWorker(source, Clock(), timeout=60)
    assert await worker.activity() == ()  # nothing is initialised for it
    await worker.sample()
    assert await worker.activity() == (BUSY,)
    assert len(source.threads) == 1
    worker.close()


async def test_activity_is_not_asked_for_while_a_sample_is_due() -> None:
    source, clock = Source(), Clock()
    source.go.clear()
    worker = NvmlWorker(source, clock, timeout=0.01)
    assert (await worker.sample()).value is None
    assert await worker.activity() == ()
    source.go.set()
    clock.now = 40.0
    assert (await worker.sample()).value is not None
    assert await worker.activity() == (BUSY,)
    worker.close()


async def test_activity_that_takes_long_is_never_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("edgeagent.host.nvml_worker.PATIENCE", 0.01)
    source = Source()
    worker = NvmlWorker(source, Clock(), timeout=60)
    await worker.sample()
    source.go.clear()
    assert await worker.activity() == ()
    source.go.set()
    assert await worker.activity() == ()
    assert (await worker.sample()).value is not None  # decisions go on
    assert len(caplog.records) == 1
    worker.close()

"""What the agent says of itself, beside what another reader of /proc says of it."""

from __future__ import annotations

import os
import threading

import psutil
import pytest

from edgeagent.serve.cost import measure


def test_the_cost_is_that_of_this_process() -> None:
    other = psutil.Process()
    cost, times = measure(), other.cpu_times()
    # Pages come and go between the two readings.
    assert cost.resident_bytes == pytest.approx(other.memory_info().rss, rel=0.05)
    assert cost.cpu_seconds == pytest.approx(times.user + times.system, abs=1.0)
    assert cost.started == pytest.approx(other.create_time(), abs=0.02)
    assert cost.open_files == other.num_fds()
    assert cost.threads == other.num_threads()


def test_a_file_and_a_thread_more_are_counted() -> None:
    before, done = measure(), threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    reader, writer = os.pipe()
    after = measure()
    os.close(reader)
    os.close(writer)
    done.set()
    thread.join()
    assert (after.open_files - before.open_files, after.threads - before.threads) == (2, 1)


def test_work_costs_time() -> None:
    before = measure().cpu_seconds
    while measure().cpu_seconds < before + 0.02:  # two ticks of a hundredth of a second
        pass

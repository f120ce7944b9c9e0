"""What the agent says of itself."""

from __future__ import annotations

import os
import threading
import time

import psutil
import pytest

from edgeagent.serve.cost import measure, started


def test_a_file_and_a_thread_more_are_counted() -> None:
    before, done = measure(psutil.Process(), 0.0), threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    reader, writer = os.pipe()
    after = measure(psutil.Process(), 0.0)
    os.close(reader)
    os.close(writer)
    done.set()
    thread.join()
    assert (after.open_files - before.open_files, after.threads - before.threads) == (2, 1)


def test_work_costs_time() -> None:
    before = measure(psutil.Process(), 0.0).cpu_seconds
    while measure(psutil.Process(), 0.0).cpu_seconds < before + 0.02:  # two ticks of a hundredth of a second
        pass


def test_the_start_is_as_long_ago_as_the_process_is_old() -> None:
    # psutil counts from the wall clock, which is right here; ticks are hundredths of a second.
    age = time.time() - psutil.Process().create_time()
    assert started(1000.0) == pytest.approx(1000.0 - age, abs=2.0)

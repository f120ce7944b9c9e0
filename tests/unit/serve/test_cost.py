"""What the agent says of itself."""

from __future__ import annotations

import os
import threading

import psutil

from edgeagent.serve.cost import measure


def test_a_file_and_a_thread_more_are_counted() -> None:
    before, done = measure(psutil.Process()), threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    reader, writer = os.pipe()
    after = measure(psutil.Process())
    os.close(reader)
    os.close(writer)
    done.set()
    thread.join()
    assert (after.open_files - before.open_files, after.threads - before.threads) == (2, 1)


def test_work_costs_time() -> None:
    before = measure(psutil.Process()).cpu_seconds
    while measure(psutil.Process()).cpu_seconds < before + 0.02:  # two ticks of a hundredth of a second
        pass

"""The agent's clock goes on while the machine sleeps."""

from __future__ import annotations

import time

from edgeagent.system.clock import boottime


def test_it_counts_from_boot_and_never_less_than_the_clock_that_stops_in_a_suspend() -> None:
    awake = time.monotonic()
    first = boottime()
    assert awake <= first <= boottime()

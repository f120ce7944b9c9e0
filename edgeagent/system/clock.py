"""The agent's clock: seconds since boot that go on while the machine sleeps.

``time.monotonic`` stands still during a suspend, and readings from before it would pass for fresh ones.
"""

from __future__ import annotations

import time


def boottime() -> float:
    """Seconds since boot, suspend included (clock_gettime(2), CLOCK_BOOTTIME); never set, never back."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)

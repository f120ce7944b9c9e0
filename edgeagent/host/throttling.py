"""How often a quota of CPU time held a cgroup back: ``cpu.stat``.

Documentation/scheduler/sched-bwc.rst of the Linux kernel (version 1: ``throttled_time`` in nanoseconds), and
Documentation/admin-guide/cgroup-v2.rst (``throttled_usec``). A cgroup counts for its own quota alone, not for those
above and below it. Without CONFIG_CFS_BANDWIDTH the rows are not there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from edgeagent.facts.neighbours import Throttling

if TYPE_CHECKING:
    from edgeagent.host.files import Files

_ROW = re.compile(rb"^(nr_periods|nr_throttled|throttled_usec|throttled_time) (\d{1,19})$", re.MULTILINE)
_UNITS = {b"throttled_usec": 1e-6, b"throttled_time": 1e-9}


def throttling(files: Files, cgroup: str) -> Throttling | None:
    """What was counted for ``cgroup``; None where nothing is."""
    try:
        rows = {key: int(value) for key, value in _ROW.findall(files.read(f"{cgroup}/cpu.stat"))}
    except OSError:
        return None
    seconds = next((rows[key] * unit for key, unit in _UNITS.items() if key in rows), None)
    periods, throttled = rows.get(b"nr_periods"), rows.get(b"nr_throttled")
    if periods is None or throttled is None or seconds is None:
        return None
    return Throttling(periods, throttled, seconds)

"""Pressure stall information of a cgroup: ``cpu.pressure``, ``memory.pressure``, ``io.pressure``.

Documentation/accounting/psi.rst of the Linux kernel. Only version 2 has these files, and only a kernel with CONFIG_PSI,
which those of L4T up to 5.15 are built without. Where they were switched off at boot, reading fails.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from edgeagent.facts.neighbours import RESOURCES, Resource

if TYPE_CHECKING:
    from edgeagent.host.files import Files

_SOME = re.compile(rb"^some .*\btotal=(\d{1,19})$", re.MULTILINE)
_MICROSECONDS = 1e6


def stalled(files: Files, cgroup: str) -> dict[Resource, float]:
    """Seconds in which some task of ``cgroup`` waited for each resource; one that is not told is left out."""
    found: dict[Resource, float] = {}
    for resource in RESOURCES:
        try:
            match = _SOME.search(files.read(f"{cgroup}/{resource}.pressure"))
        except OSError:
            continue
        if match:
            found[resource] = int(match[1]) / _MICROSECONDS
    return found

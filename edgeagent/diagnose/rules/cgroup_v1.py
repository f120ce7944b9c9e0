"""The node counts memory with cgroup v1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.diagnose.rule import Rule

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import Finding

REFUSES = (1, 35)
"""The kubelet's first version that does not start on cgroup v1 unless it is told to (failCgroupV1)."""


def look(seen: Collected) -> Iterator[Finding]:
    """A warning from the version on that refuses it."""
    if not seen.has_gpu or seen.host.cgroups not in ("v1", "hybrid"):
        return
    version = seen.node.kubelet_version if seen.node else None
    new = _version(version or "") >= REFUSES
    yield RULE.finding(
        seen.node_subject,
        f"The kubelet {version} starts on cgroup v1 only with failCgroupV1: false."
        if new
        else "The node uses cgroup v1. A kubelet from 1.35 on does not start there unless it is told to.",
        evidence=(
            "/sys/fs/cgroup/memory: is there, /sys/fs/cgroup/cgroup.controllers: is not",
            f"node status.nodeInfo.kubeletVersion: {version or 'unknown'}",
        ),
        severity="warning" if new else "info",
    )


def _version(text: str) -> tuple[int, int]:
    match = re.match(r"v?(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


RULE = Rule(
    id="cgroup-v1",
    title="cgroup v1",
    severity="warning",
    looks_at="`/sys/fs/cgroup` and the kubelet's version in the node's status. `info` below 1.35 and where the version "
    "is not known",
    matters="From 1.35 on the kubelet refuses to start on cgroup v1 by default, so an upgrade of K3s would lose the "
    "node. Memory pressure by cgroup (PSI) is not told there either.",
    remedy="Boot with cgroup v2. Add to the kernel's command line (/boot/extlinux/extlinux.conf on a Jetson), and "
    "restart the board:\nsystemd.unified_cgroup_hierarchy=1",
    look=look,
    event="",
)
RULES = (RULE,)

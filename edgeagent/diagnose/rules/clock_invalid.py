"""The board's clock is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from edgeagent.diagnose.rule import Rule

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import Finding

NEVER_SET = 1_420_070_400.0
"""2015-01-01, before the boards that this runs on were made: a clock that starts at 0 says something earlier."""
BEHIND = 3600.0
"""Seconds by which something may have happened in the future: clocks of two machines never agree."""


def look(seen: Collected) -> Iterator[Finding]:
    """Certain of a time before all boards; suspected where the cluster has seen later times than this board."""
    wall = seen.facts.wall
    if wall < NEVER_SET:
        yield RULE.finding(
            seen.node_subject,
            f"The clock of the board was never set: it says {_day(wall)}.",
            evidence=(f"wall clock: {_moment(wall)}",),
        )
        return
    starts = [(moment, pod.key) for pod in seen.pods for moment in (pod.start_time, pod.created_at) if moment]
    latest, key = max(starts, default=(0.0, ""))
    if latest > wall + BEHIND:
        yield RULE.finding(
            seen.node_subject,
            "The clock of the board is behind the cluster's.",
            evidence=(f"wall clock: {_moment(wall)}", f"pod {key}: {_moment(latest)}"),
            severity="warning",
            certainty="suspected",
        )


def _moment(wall: float) -> str:
    return datetime.fromtimestamp(wall, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _day(wall: float) -> str:
    return _moment(wall).partition("T")[0]


RULE = Rule(
    id="clock-invalid",
    title="The clock is wrong",
    severity="error",
    looks_at="the wall clock, and start times of pods that lie in its future",
    matters="Certificates are not valid yet, so K3s and the agent cannot reach the API server; logs and events carry "
    "wrong times. A board without a battery for its clock starts in 1970 until it has heard the time.",
    remedy="Let the board hear the time before K3s starts, or without an uplink set it, or give its clock a battery:\n"
    "sudo timedatectl set-ntp true\n"
    "timedatectl status",
    look=look,
)
RULES = (RULE,)

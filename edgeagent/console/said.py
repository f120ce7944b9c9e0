"""Words for what an agent tells: its decisions, its reasons, how long ago."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

Json = Mapping[str, Any]

_DONE = {
    "eviction": "evicted",
    "kill": "killed processes of",
    "would-evict": "observed only, would evict",
    "nobody": "killed nobody",
}
_TRIED = {"eviction": "tried to evict", "kill": "tried to kill processes of"}
_WORKED = {"eviction": ("accepted", "gone"), "kill": ("killed", "gone")}
_TOLD_OF = frozenset({"MemoryBudgetEvicted", "MemoryBudgetKilled", "EvictionBlocked"})
"""Reasons of events that tell of an incident, which is shown itself."""


class Happened(NamedTuple):
    """Something that the agent did, or said."""

    at: str
    """RFC 3339, in UTC; empty: not known."""
    what: str
    """Who did what to whom."""
    why: str
    decision: bool
    """It was about a pod that was to go, or about a board that was about to die."""


def happened(incidents: Iterable[Json], events: Iterable[Json]) -> list[Happened]:
    """The incidents, and the events that tell of something else, the latest first."""
    found = [decided(one) for one in incidents]
    found += [
        Happened(one["at"] or "", f"{one['reason']}, {one['regarding']}", one["note"], decision=False)
        for one in events
        if one["reason"] not in _TOLD_OF
    ]
    # The order of those of one time stays, and without a time they come last: the earliest that there is.
    return sorted(found, key=lambda one: one.at, reverse=True)


def decided(one: Json) -> Happened:
    """An incident in a few words."""
    kind, pod, ended = one["kind"], one["pod"], outcome(one)
    tried = kind in _TRIED and ended is not None and ended not in _WORKED[kind]
    what = _TRIED[kind] if tried else _DONE.get(kind, kind)
    about = f" {pod['namespace']}/{pod['name']}" if pod else ""
    result = f" ({ended})" if tried else ""
    at = one["wall"] if one["wall_plausible"] else ""
    return Happened(at, f"{what}{about}{result}", why(one["reason"]), decision=True)


def why(reason: str) -> str:
    """The sentence of a decision, without saying again what was done."""
    return reason.removeprefix("Evicted: ")


def outcome(one: Json) -> str | None:
    """What came of an incident last, as its document has it; None: nothing yet."""
    return one["outcomes"][-1]["outcome"] if one["outcomes"] else None


def reasons(ready: Json) -> Iterator[str]:
    """Why an agent is not ready."""
    for reason in ready["reasons"]:
        yield f"{reason['name']}: {reason['message']}"


def pod(shown: Json) -> str:
    """Namespace and name."""
    return f"{shown['namespace']}/{shown['name']}"


DOCTOR = "sudo edgeagent doctor says what to do"
"""About findings."""
UNDIAGNOSED = "not looked for yet, or not lately"
"""In place of findings."""


def unlisted(state: Json) -> str:
    """Why nobody knows which pods there are."""
    if not state["board"]:
        return "the board was not read lately"
    return "no cluster is asked" if state["cluster"] is None else "own pods were not listed yet"


def counted(number: int, one: str, many: str = "") -> str:
    """``1 pod``, ``2 pods``."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def between(earlier: str, later: str) -> float:
    """Seconds between two times in RFC 3339, not below 0: clocks are set, and nothing happened in the future."""
    first, last = (datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (earlier, later))
    return max(0.0, (last - first).total_seconds())


def lasting(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3 h``, ``2 d``: no more than is worth knowing."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"

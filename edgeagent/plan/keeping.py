"""What of the state outlives the process: evictions and their consequences. Breach windows start anew.

Times are monotonic seconds, which go on over a restart of the agent but not of the machine:
what another boot has written is not used. Losing it is safe; a pod in breach only waits less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from edgeagent.plan.state import Backoff, State, Victim

FORMAT = 1
LONGEST = 3600.0
"""Seconds that nothing kept reaches further ahead."""


class Origin(NamedTuple):
    """Where a state holds: the boot of a board, and the root under which that board was read."""

    boot_id: str | None
    host_root: str


def kept(state: State, origin: Origin) -> dict[str, Any]:
    """The part of ``state`` to keep, as JSON values."""
    return {
        "format": FORMAT,
        "boot_id": origin.boot_id,
        "host_root": origin.host_root,
        "gpu_seen": state.hardware.gpu_seen,
        "hold_down_until": state.hold_down_until,
        "evicted_at": list(state.evicted_at),
        "backoff": [
            {"owner": list(owner), "minutes": one.minutes, "until": one.until, "breached_at": one.breached_at}
            for owner, one in sorted(state.backoff.items())
        ],
        "victims": [
            {
                "uid": victim.uid,
                "key": victim.key,
                "at": victim.at,
                "grace": victim.grace,
                "processes": [list(process) for process in victim.processes],
                "released_at": victim.released_at,
            }
            for _, victim in sorted(state.victims.items())
        ],
    }


def restored(document: Any, origin: Origin, now: float) -> State | None:
    """The state that ``document`` keeps; None if it is of another origin or format, or was not written by us.

    A time that cannot be is the clock of another boot, whatever the document says.
    """
    try:
        written = Origin(document["boot_id"], document["host_root"])
        if document["format"] != FORMAT or origin.boot_id is None or written != origin:
            return None
        state = _state(document)
    except (KeyError, OverflowError, TypeError, ValueError):
        return None
    victims = state.victims.values()
    past = [*state.evicted_at, *(victim.at for victim in victims)]
    ahead = [state.hold_down_until, *(one.until for one in state.backoff.values()), *(v.at + v.grace for v in victims)]
    plausible = all(at <= now for at in past) and all(at <= now + LONGEST for at in ahead)
    return state if plausible else None


def _state(document: Mapping[str, Any]) -> State:
    empty = State()
    return replace(
        empty,
        hardware=replace(empty.hardware, gpu_seen=document["gpu_seen"] is True),
        hold_down_until=float(document["hold_down_until"]),
        evicted_at=tuple(float(at) for at in document["evicted_at"]),
        backoff={_owner(one["owner"]): _backoff(one) for one in document["backoff"]},
        victims={victim.uid: victim for victim in map(_victim, document["victims"])},
    )


def _owner(value: Any) -> tuple[str, str, str]:
    namespace, kind, name = value
    return str(namespace), str(kind), str(name)


def _backoff(one: Mapping[str, Any]) -> Backoff:
    return Backoff(int(one["minutes"]), float(one["until"]), float(one["breached_at"]))


def _victim(one: Mapping[str, Any]) -> Victim:
    return Victim(
        uid=str(one["uid"]),
        key=str(one["key"]),
        at=float(one["at"]),
        grace=float(one["grace"]),
        processes=tuple((int(pid), None if start is None else int(start)) for pid, start in one["processes"]),
        released_at=None if one["released_at"] is None else float(one["released_at"]),
    )

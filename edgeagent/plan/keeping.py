"""What of the state outlives the process. Breach windows start anew.

Evictions and their consequences belong to one boot: their times are monotonic seconds, which go
on over a restart of the agent but not of the machine. The last good capacity, and which key means
which pool, belong to one machine and its devices, whenever that was. Losing either is safe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY
from edgeagent.plan.state import Backoff, Good, State, Victim
from edgeagent.quantity import MIB

FORMAT = 1
"""Raised when a key changes its meaning. A key that is new is not in the files of an earlier version."""
LONGEST = 3600.0
"""Seconds that nothing kept reaches further ahead."""
COARSE = 300.0
"""Seconds by which a breach that goes on has to be later for that alone to be worth a write: flash wears out."""
LARGEST = 1 << 44
"""Bytes, 16 TiB: no board has so much GPU memory (eight of the largest cards of 2026 have 2.3 TB)."""
_RESOURCE = re.compile(rf"{re.escape(GPU_MEMORY)}(-\d{{1,5}})?|{re.escape(IGPU_MEMORY)}")


class Origin(NamedTuple):
    """Where a state holds: the boot of a board, the root under which it was read, and which machine it is."""

    boot_id: str | None
    host_root: str
    machine_id: str | None


class Restored(NamedTuple):
    """What a document leaves of an earlier run; ``ignored`` says why that is nothing, if something is wrong with it."""

    state: State
    ignored: str = ""


def kept(state: State, origin: Origin) -> dict[str, Any]:
    """The part of ``state`` to keep, as JSON values."""
    return {
        "format": FORMAT,
        "boot_id": origin.boot_id,
        "host_root": origin.host_root,
        "machine_id": origin.machine_id,
        "mixed": state.mixed,
        "good": {
            resource: {"bytes": one.value, "devices": [list(device) for device in one.devices]}
            for resource, one in sorted(state.good.items())
        },
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


def worth(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> bool:
    """Whether ``after`` says more than that the breaches of those in back-off went on for a little.

    Who restores ``before`` instead forgets such an owner that much earlier, half an hour after its last breach.
    """
    if before is None or _settled(before) != _settled(after):
        return True
    pairs = zip(before["backoff"], after["backoff"], strict=True)
    return any(new["breached_at"] - old["breached_at"] >= COARSE for old, new in pairs)


def _settled(document: Mapping[str, Any]) -> dict[str, Any]:
    return {**document, "backoff": [{**one, "breached_at": None} for one in document["backoff"]]}


def restored(document: Any, origin: Origin, now: float) -> Restored:
    """What ``document`` keeps and holds here. One that is in any way not as this agent writes it is ignored whole.

    A time that cannot be is the clock of another boot, whatever the document says.
    """
    try:
        foreign = _foreign(document, origin)
        state = State() if foreign else _of_machine(document, origin)
        if not foreign and origin.boot_id is not None and document["boot_id"] == origin.boot_id:
            state = _of_boot(state, document)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return Restored(State(), "it is not as this agent writes it")
    if not foreign and not _plausible(state, now):
        return Restored(State(), "it has times that cannot be")
    return Restored(state, foreign)


def _foreign(document: Mapping[str, Any], origin: Origin) -> str:
    """Why the document is none of this board and version; empty if it is."""
    if document["format"] != FORMAT:
        return "it is of another version"
    if document["host_root"] != origin.host_root:
        return "it is of another host root"
    machine = document.get("machine_id")
    other = machine is not None and origin.machine_id is not None and machine != origin.machine_id
    return "it is of another machine" if other else ""


def _of_machine(document: Mapping[str, Any], origin: Origin) -> State:
    """The part that outlives a boot, if it is proven to be this machine's. An earlier version did not write it."""
    good = {str(resource): _good(str(resource), one) for resource, one in document.get("good", {}).items()}
    if origin.machine_id is None or document.get("machine_id") != origin.machine_id:
        return State()
    return State(good=good, mixed=document["mixed"] is True)


def _good(resource: str, one: Mapping[str, Any]) -> Good:
    amount = one["bytes"]
    if type(amount) is not int or not 0 <= amount <= LARGEST or amount % MIB or not _RESOURCE.fullmatch(resource):
        raise ValueError
    return Good(amount, tuple((str(device), str(card)) for device, card in one["devices"]))


def _of_boot(state: State, document: Mapping[str, Any]) -> State:
    """``state`` with the part that holds in this boot alone."""
    return replace(
        state,
        hardware=replace(state.hardware, gpu_seen=document["gpu_seen"] is True),
        hold_down_until=float(document["hold_down_until"]),
        evicted_at=tuple(float(at) for at in document["evicted_at"]),
        backoff={_owner(one["owner"]): _backoff(one) for one in document["backoff"]},
        victims={victim.uid: victim for victim in map(_victim, document["victims"])},
    )


def _plausible(state: State, now: float) -> bool:
    victims = state.victims.values()
    breaches = (one.breached_at for one in state.backoff.values())
    past = [*state.evicted_at, *(victim.at for victim in victims), *breaches]
    ahead = [state.hold_down_until, *(one.until for one in state.backoff.values()), *(v.at + v.grace for v in victims)]
    return all(at <= now for at in past) and all(at <= now + LONGEST for at in ahead)


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

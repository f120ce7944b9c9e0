"""The peaks as a document that outlives the process, and what of one is believed. Losing it costs a week of watching.

They belong to a machine: its hours go on over a boot (:mod:`edgeagent.plan.peaktime`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from edgeagent.plan.keeping import LARGEST, Origin
from edgeagent.plan.peaks import MOST, Course, Peaks, Record, Steps, Workload
from edgeagent.plan.peaktime import BoardTime, Known, rebooted

FORMAT = 1
"""Raised when a key changes its meaning."""
_LONGEST_NAME = 253
"""Characters; the API server allows no longer ones."""
_MOST_STEPS = 64
_MALFORMED = (AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""What a document that is not as it must be makes the reader of it raise."""
_NOT_OURS = "it is not as this agent writes it"
_OTHER_VERSION = "it is of another version"


class Restored(NamedTuple):
    """The peaks of an earlier run; ``ignored`` says why there are none, if something is wrong with the document."""

    peaks: Peaks
    ignored: str = ""


def kept(peaks: Peaks, origin: Origin) -> dict[str, Any]:
    """The peaks as JSON values."""
    time = peaks.time
    return {
        "format": FORMAT,
        **origin._asdict(),
        "seconds": round(time.seconds, 3),
        "at": time.at,
        "known": None if time.known is None else [round(value, 3) for value in time.known],
        "shared": list(peaks.shared),
        "room": dict(peaks.room),
        "workloads": [
            {
                "of": list(who),
                "gpu": {resource: _course(course) for resource, course in one.gpu.items()},
                "host": _course(one.host),
                "gpu_budgets": dict(one.gpu_budgets),
                "memory_limit": one.memory_limit,
                "seen_at": round(one.seen_at, 3),
            }
            for who, one in sorted(peaks.records.items())
        ],
    }


def _course(course: Course) -> dict[str, Any]:
    steps = [list(step) for step in course.steps]
    return {"steps": steps, "watched": round(course.watched, 3), "at": round(course.at, 3)}


def higher(before: Peaks, after: Peaks) -> bool:
    """Whether ``after`` has a peak, a budget or a workload that ``before`` has not; an hour that goes on is none."""
    return after.records.keys() != before.records.keys() or any(
        _figures(before.records[who]) != _figures(one) for who, one in after.records.items()
    )


def _figures(one: Record) -> tuple[Any, ...]:
    largest = [(resource, course.steps[:1]) for resource, course in sorted(one.gpu.items())]
    return largest, one.host.steps[:1], one.gpu_budgets, one.memory_limit


def restored(document: Any, origin: Origin, now: float) -> Restored:
    """The peaks in ``document``, taken up at monotonic second ``now``. One that is not as it must be is ignored whole.

    Without a machine id nothing proves that they are this machine's.
    """
    try:
        foreign = _foreign(document, origin)
        return Restored(Peaks(), foreign) if foreign else Restored(_peaks(document, origin, now))
    except _MALFORMED:
        return Restored(Peaks(), _NOT_OURS)


def _foreign(document: Mapping[str, Any], origin: Origin) -> str:
    """Why the document is none of this board and version; empty if it is."""
    if document["format"] != FORMAT:
        return _OTHER_VERSION
    if document["host_root"] != origin.host_root:
        return "it is of another host root"
    if origin.machine_id is None:
        return "which machine this is cannot be told"
    return "it is of another machine" if document["machine_id"] != origin.machine_id else ""


def _peaks(document: Mapping[str, Any], origin: Origin, now: float) -> Peaks:
    time = BoardTime(_second(document["seconds"]), None if document["at"] is None else _second(document["at"]))
    if document["known"] is not None:
        wall, second = document["known"]
        time = replace(time, known=Known(_second(wall), _past(second, time)))
    if origin.boot_id is None or document["boot_id"] != origin.boot_id:
        time = rebooted(time)
    elif time.at is not None and time.at > now:
        raise ValueError
    found = {_workload(one["of"]): _record(one, time) for one in document["workloads"]}
    if len(found) > MOST or len(found) != len(document["workloads"]):
        raise ValueError
    shared = tuple(str(resource) for resource in document["shared"])
    # Older versions did not write it.
    room = {str(resource): _bytes(amount) for resource, amount in document.get("room", {}).items()}
    return Peaks(time=time, shared=shared, room=room, records=found)


def _workload(names: Any) -> Workload:
    namespace, kind, name, container = names
    if not all(type(one) is str and 0 < len(one) <= _LONGEST_NAME for one in names):
        raise ValueError
    return Workload(namespace, kind, name, container)


def _record(one: Mapping[str, Any], time: BoardTime) -> Record:
    limit = one["memory_limit"]
    return Record(
        gpu={str(resource): _restored(course, time) for resource, course in one["gpu"].items()},
        host=_restored(one["host"], time),
        gpu_budgets={str(resource): _bytes(amount) for resource, amount in one["gpu_budgets"].items()},
        memory_limit=None if limit is None else _bytes(limit),
        seen_at=_past(one["seen_at"], time),
    )


def _restored(one: Mapping[str, Any], time: BoardTime) -> Course:
    steps: Steps = tuple((_hour(when, time), _bytes(amount)) for when, amount in one["steps"])
    falling = all(early < late and more > less for (early, more), (late, less) in pairwise(steps))
    if len(steps) > _MOST_STEPS or not falling:
        raise ValueError
    return Course(steps, _second(one["watched"]), _past(one["at"], time))


def _hour(value: Any, time: BoardTime) -> int:
    if type(value) is not int or not 0 <= value <= time.hour:
        raise ValueError
    return value


def _bytes(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise ValueError
    return value


def _second(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
        raise ValueError
    return float(value)


def _past(value: Any, time: BoardTime) -> float:
    second = _second(value)
    if second > time.seconds:
        raise ValueError
    return second


def looked_at(document: Any) -> Restored:
    """The peaks in ``document`` for somebody who looks at it, on whichever machine."""
    try:
        if document["format"] != FORMAT:
            return Restored(Peaks(), _OTHER_VERSION)
        return Restored(_peaks(document, Origin(None, document["host_root"], None), 0.0))
    except _MALFORMED:
        return Restored(Peaks(), _NOT_OURS)

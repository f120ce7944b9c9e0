"""Reads records of incidents back: each line checked, the lines of one incident joined.

A line is taken whole or not at all: one that is in any place not as this agent writes it is not its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from edgeagent.plan import describing
from edgeagent.plan.incidents import FORMAT, MOST_PER_HOUR

_LARGEST = 1e15
"""A thousand TiB, or thirty million years."""
_LONGEST_UPTIME = 1e10
"""Seconds, three hundred years."""
_OBJECT = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""Names of namespaces and pods (RFC 1123): they become part of a path."""
_Check = Callable[[Any], Any]


class History(NamedTuple):
    """What is known of incidents, the latest last, and what was passed over."""

    incidents: tuple[dict[str, Any], ...]
    unreadable: int
    """Lines that are not whole, or not as this agent writes them."""
    foreign: int
    """Lines of another version."""


# --- one line ------------------------------------------------------------------------


def checked(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The line, if it is one of ours, without keys that we do not know."""
    if value is None or type(value.get("format")) is not int or value["format"] != FORMAT:
        return None
    shape = _SHAPES.get(str(value.get("line")))
    try:
        return None if shape is None else {"line": value["line"], **shape(value)}
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return None


def _is(*kinds: type) -> _Check:
    def check(value: Any) -> Any:
        # A boolean is an integer to Python, and a number that is none, such as NaN, is written by nobody here.
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise TypeError
        if isinstance(value, (int, float)) and not abs(value) < _LARGEST:
            raise ValueError
        if isinstance(value, str):
            value.encode()  # half of a surrogate pair is no text, and can be neither shown nor sent
        return value

    return check


def _maybe(check: _Check) -> _Check:
    return lambda value: None if value is None else check(value)


def _of(**keys: _Check) -> _Check:
    return lambda value: {key: check(value[key]) for key, check in keys.items()}


def _list(check: _Check) -> _Check:
    def checks(value: Any) -> list[Any]:
        return [check(one) for one in _is(list)(value)]

    return checks


def _among(*allowed: str) -> _Check:
    def check(value: Any) -> str:
        if value not in allowed:
            raise ValueError
        return str(value)

    return check


def _pair(value: Any) -> list[int | None]:
    gpu, host = _is(list)(value)
    return [_maybe(_is(int))(gpu), _maybe(_is(int))(host)]


def _time(value: Any) -> str:
    describing.seconds(_is(str)(value))
    return str(value)


def _uptime(value: Any) -> float:
    if not 0 <= _is(int, float)(value) < _LONGEST_UPTIME:
        raise ValueError
    return float(value)


def _object(value: Any) -> str:
    if not _OBJECT.fullmatch(_is(str)(value)):
        raise ValueError
    return str(value)


def _either(key: str, first: _Check, second: _Check) -> _Check:
    """A line has what ``second`` checks where it has ``key``."""
    return lambda value: (second if key in value else first)(value)


_text, _number, _bytes, _flag = _is(str), _is(int, float), _is(int), _is(bool)
_name = {"namespace": _text, "name": _text, "uid": _text, "owner": _maybe(_of(kind=_text, name=_text))}
_when = {"wall": _time, "wall_plausible": _flag, "boot_id": _maybe(_text), "seconds": _uptime}
_rows = _list(
    _of(
        t=_number,
        pods_t=_number,
        usable_bytes=_maybe(_bytes),
        floor_bytes=_bytes,
        drop_bytes=_bytes,
        pods=_list(_maybe(_pair)),
    )
)
_said = {"t": _number, "outcome": _text, "message": _text}
_SHAPES: dict[str, _Check] = {
    "decision": _of(
        id=_text,
        **_when,
        node=_maybe(_text),
        kind=_among(*MOST_PER_HOUR),
        mode=_among("enforce", "observe"),
        pod=_maybe(_of(**_name)),
        breach=_maybe(_text),
        resource=_maybe(_text),
        used_bytes=_maybe(_bytes),
        budget_bytes=_maybe(_bytes),
        excess_bytes=_maybe(_bytes),
        over_since=_maybe(_number),
        place=_maybe(_is(int)),
        places=_is(int),
        reason=_text,
        grace_seconds=_maybe(_is(int)),
        pids=_list(_is(int)),
        more_pids=_is(int),
        pods=_list(
            _of(
                **_name,
                state=_text,
                breach=_maybe(_text),
                held=_maybe(_text),
                resource=_maybe(_text),
                gpu_budget_bytes=_maybe(_bytes),
                total_budget_bytes=_maybe(_bytes),
            )
        ),
        more_pods=_is(int),
        before=_rows,
        left_out=_is(int),
    ),
    "outcome": _of(
        id=_text,
        **_when,
        t=_number,
        ended=_among("back", "gone", "within", "time", "stopped"),
        attempts=_is(int),
        outcomes=_list(_either("pids", _of(**_said), _of(**_said, pids=_list(_is(int)), more_pids=_is(int)))),
        after=_rows,
    ),
    "owed": _of(
        id=_text,
        **_when,
        event=_of(
            id=_text,
            reason=_text,
            kind=_among("Pod"),
            namespace=_object,
            name=_object,
            uid=_text,
            note=_text,
            warning=_flag,
        ),
    ),
    "told": _of(event=_text, wall=_time, seconds=_uptime, ending=_among("told", "refused", "dropped")),
}


# --- all lines -------------------------------------------------------------------------


def joined(values: Iterable[Mapping[str, Any] | None]) -> History:
    """The incidents that lines tell of, in the order in which they were decided."""
    found: dict[str, dict[str, Any]] = {}
    events: dict[str, dict[str, Any]] = {}
    unreadable = foreign = 0
    for value in values:
        line = checked(value)
        if line is None:
            other = value is not None and type(value.get("format")) is int and value["format"] != FORMAT
            foreign += other
            unreadable += not other
        elif line["line"] == "decision":
            found.setdefault(line["id"], _begun(line))
        elif line["line"] == "told":
            if line["event"] in events:
                events[line["event"]] |= {"ending": line["ending"], "ended": line["wall"]}
        elif line["id"] in found:  # that of another has gone with the oldest lines
            _add(found[line["id"]], line, events)
    return History(tuple(found.values()), unreadable, foreign)


def _begun(line: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in line.items() if key != "line"}
    return {"format": FORMAT, **kept, "attempts": None, "outcomes": [], "after": [], "ended": None, "events": []}


def _add(incident: dict[str, Any], line: Mapping[str, Any], events: dict[str, dict[str, Any]]) -> None:
    if line["line"] == "owed":
        told = line["event"]
        if told["id"] not in events:
            events[told["id"]] = {"reason": told["reason"], "note": told["note"], "ending": None, "ended": None}
            incident["events"].append(events[told["id"]])
        return
    incident["attempts"] = line["attempts"]
    incident["outcomes"] += line["outcomes"]
    incident["after"] += line["after"]
    incident["ended"] = {"t": line["t"], "why": line["ended"]}

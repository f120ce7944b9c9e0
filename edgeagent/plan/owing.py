"""What an incident has to tell: events that are named once, written down, and told after a restart if they were not.

An event that no incident is about, or one too many of it, is told as well as it can be and has no line in the journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgeagent.plan import describing, incidents
from edgeagent.plan.incidents import FORMAT, Book, Kind
from edgeagent.plan.types import Event

if TYPE_CHECKING:
    from edgeagent.plan.incidents import Moment

MOST_ALIKE = 5
"""Events of one reason that one incident has to tell: processes that are killed as fast as they start fill no disk."""
KINDS: Mapping[str, Kind] = {
    "MemoryBudgetEvicted": "eviction",
    "EvictionBlocked": "eviction",
    "MemoryBudgetKilled": "kill",
}
"""Reasons of events that tell of a decision, and the kind of their incident."""


def owe(book: Book, event: Event, moment: Moment) -> tuple[Book, Event, dict[str, Any] | None]:
    """The book after an incident got ``event`` to tell, the event under its name, and the record that says so.

    The record is None where no incident tells it.
    """
    event = replace(event, at=moment.now)
    kind = KINDS.get(event.reason)
    incident = book.open.get((kind, event.uid)) if kind else None
    if kind is None or incident is None or incident.told.count(event.reason) >= MOST_ALIKE:
        return book, event, None
    told = (*incident.told, event.reason)
    event = replace(event, id=f"{incident.id}/{event.reason}/{told.count(event.reason)}")
    after = {**book.open, (kind, event.uid): replace(incident, told=told)}
    return replace(book, open=after), event, owed(incident.id, event, moment)


def owed(incident: str, event: Event, moment: Moment) -> dict[str, Any]:
    """The line that says that an event has to be told."""
    return {
        "format": FORMAT,
        "line": "owed",
        "id": incident,
        **incidents.when(moment),
        "event": {
            "id": event.id,
            "reason": event.reason,
            "kind": event.kind,
            "namespace": event.namespace,
            "name": event.name,
            "uid": event.uid,
            "note": describing.cut(event.note),
            "warning": event.warning,
        },
    }


def told(event: str, ending: str, moment: Moment) -> dict[str, Any]:
    """The line that says what became of an event, by its id."""
    wall = describing.stamp(moment.wall)
    return {
        "format": FORMAT,
        "line": "told",
        "event": event,
        "ending": ending,
        "wall": wall,
        "seconds": round(moment.now, 3),
    }


def event(line: Mapping[str, Any], boot_id: str | None, now: float) -> Event:
    """The event of a line that says that it has to be told, with the time at which it happened."""
    found = line["event"]
    if boot_id is not None and line["boot_id"] == boot_id:
        return Event(**found, at=min(now, line["seconds"]))
    # Of another boot only its clock knows when that was. The clock of this one may not be set yet.
    return Event(**found, at=now, wall=describing.seconds(line["wall"]) if line["wall_plausible"] else None)

"""The lines of the incidents that were decided on last, as they stand in the journal."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

MOST = 20
"""Incidents, of 6 kB each as a rule."""
MOST_BYTES = 64 * 1024
"""Of one incident, however much it has to say."""


class Latest:
    """Lines as bytes: a tenth of what the same records take as objects."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, list[bytes]] = OrderedDict()
        """By id of the incident, the latest one last."""
        self._events: dict[str, str] = {}
        """The incident that has to tell an event, by id of the event."""
        self.lines: tuple[bytes, ...] = ()
        """The lines of an incident together, the latest incident last."""

    def add(self, record: Mapping[str, Any], line: bytes) -> None:
        """Take in one more record and the line that it is in the journal."""
        told = record["line"] == "told"
        incident = self._events.pop(record["event"], "") if told else record["id"]
        if record["line"] == "decision":
            self._lines.setdefault(incident, [])
        if incident not in self._lines:
            return  # it began before all that are kept
        if sum(map(len, self._lines[incident])) + len(line) > MOST_BYTES:
            return
        if record["line"] == "owed":
            self._events[record["event"]["id"]] = incident
        self._lines[incident].append(line)
        if len(self._lines) > MOST:
            gone, _ = self._lines.popitem(last=False)
            self._events = {event: one for event, one in self._events.items() if one != gone}
        self.lines = tuple(one for lines in self._lines.values() for one in lines)

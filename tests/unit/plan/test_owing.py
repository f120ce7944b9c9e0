"""What an incident has to tell: named once, written down, and bounded."""

from __future__ import annotations

import pytest

from edgeagent.plan import describing, history, owing
from edgeagent.plan.incidents import Book, Incident, Kind, Moment
from edgeagent.plan.types import Event
from edgeagent.system import journal

MOMENT = Moment(5000.25, 5000.0, 5000.0, 1_796_025_600.0, "boot", "edge-1")


def book(kind: Kind = "eviction", uid: str = "u-1") -> Book:
    """An incident about this pod is under way."""
    incident = Incident(id=f"boot/1.000/{kind}/{uid}", at=1.0, columns=(), over=True, seen_at=1.0, since=1.0)
    return Book(open={(kind, uid): incident})


def event(reason: str = "EvictionBlocked", note: str = "no", uid: str = "u-1") -> Event:
    return Event(reason=reason, kind="Pod", namespace="apps", name="greedy", uid=uid, note=note)


def test_what_an_incident_tells_is_named_and_dated_and_can_be_read_back() -> None:
    _, named, line = owing.owe(book(), event(), MOMENT)
    assert line is not None
    assert (named.id, named.at) == ("boot/1.000/eviction/u-1/EvictionBlocked/1", 5000.25)
    checked = history.checked(line)
    assert checked is not None
    assert owing.event(checked, "boot", 6000.0) == named


def test_the_same_words_of_two_incidents_or_twice_of_one_are_different_events() -> None:
    both = Book(open={**book().open, **book(uid="u-2").open})
    names = []
    for uid in ("u-1", "u-2", "u-1"):
        both, named, _ = owing.owe(both, event(uid=uid), MOMENT)
        names.append(named.id)
    assert len(set(names)) == 3


def test_one_incident_has_five_events_of_a_reason_to_tell_and_others_beside_them() -> None:
    kept, lines = book(), []
    for _ in range(1000):
        kept, named, line = owing.owe(kept, event(), MOMENT)
        lines.append(line)
        assert bool(named.id) == (line is not None)
    assert sum(line is not None for line in lines) == 5
    _, named, line = owing.owe(kept, event("MemoryBudgetEvicted"), MOMENT)
    assert (named.id, line is None) == ("boot/1.000/eviction/u-1/MemoryBudgetEvicted/1", False)


@pytest.mark.parametrize(
    "told",
    [event("MemoryBudgetKilled"), event(uid="u-2"), event("MemoryBudgetExceeded")],
    ids=["kind", "pod", "reason"],
)
def test_what_no_incident_is_about_is_told_without_a_line(told: Event) -> None:
    kept, named, line = owing.owe(book(), told, MOMENT)
    assert (kept, named.id, named.note, named.at, line) == (book(), "", told.note, 5000.25, None)


@pytest.mark.parametrize("sign", ["x", "\x00", "\U0001f600"])
def test_a_line_has_room_for_words_of_any_length(sign: str) -> None:
    """6 bytes for a control character, 12 for one outside the first plane: 1024 of them are 12 kB of 16."""
    _, _, line = owing.owe(book(), event(note=sign * 200_000), MOMENT)
    assert line is not None
    assert len(journal.encoded(line)) <= journal.LONGEST
    assert len(line["event"]["note"]) == describing.LONGEST_TEXT
    less = describing.lessened(line)
    assert len(less["event"]["note"]) == describing.LONGEST_ANSWER
    assert history.checked(less) is not None

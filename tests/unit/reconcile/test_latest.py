"""The latest incidents are at hand without the disk, and take little."""

from __future__ import annotations

import json
from typing import Any

from edgeagent.plan import history
from edgeagent.reconcile.latest import MOST, MOST_BYTES, Latest
from edgeagent.system import journal
from tests.unit.plan.test_history import decision, outcome, owed, told


def latest(*records: dict[str, Any]) -> Latest:
    kept = Latest()
    for record in records:
        kept.add(record, journal.encoded(record))
    return kept


def joined(kept: Latest) -> tuple[dict[str, Any], ...]:
    found = history.joined(json.loads(line) for line in kept.lines)
    assert (found.unreadable, found.foreign) == (0, 0)
    return found.incidents


def test_they_are_those_of_the_journal() -> None:
    records = [decision(), owed(), outcome(), told()]

    assert joined(latest(*records)) == history.joined(records).incidents


def test_the_lines_of_two_incidents_may_come_in_turns() -> None:
    records = [decision(), decision(id="two"), outcome(), outcome(id="two", ended="time"), owed(), told("refused")]

    one, two = joined(latest(*records))

    assert (one["ended"]["why"], two["ended"]["why"]) == ("back", "time")
    assert [event["ending"] for event in one["events"]] == ["refused"]


def test_the_oldest_go_first_and_nothing_is_added_to_one_that_went() -> None:
    first = [decision(), owed()]
    others = [decision(id=f"other-{number}") for number in range(20)]

    kept = latest(*first, *others, outcome(), told())

    assert MOST == 20
    assert [one["id"] for one in joined(kept)] == [one["id"] for one in others]


def test_an_incident_that_does_not_end_takes_no_more_than_its_share() -> None:
    kept = latest(decision(), *[owed()] * 1000)

    assert MOST_BYTES - len(journal.encoded(owed())) < sum(map(len, kept.lines)) <= MOST_BYTES == 65536


def test_what_an_incident_tells_whose_decision_was_never_seen_is_passed_over() -> None:
    assert latest(outcome(), owed(), told()).lines == ()

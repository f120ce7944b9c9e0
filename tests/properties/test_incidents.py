"""Whole lives of an agent: whatever is decided is kept once, can be read back, and says what was decided."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from edgeagent.plan import history, incidents
from edgeagent.plan.incidents import Book, Moment
from edgeagent.plan.types import EvictionResult, Plan
from edgeagent.system import journal
from tests.properties.life import World
from tests.properties.living import Life
from tests.properties.moves import made

MOVES = 180
RUNS = 60


@dataclass
class Keeping(Life):
    """A life whose incidents are kept."""

    book: Book = field(default_factory=Book)
    lines: list[dict[str, Any]] = field(default_factory=list)
    boots: list[str] = field(default_factory=list)
    decided: Counter[str] = field(default_factory=Counter)
    """Evictions that were planned, by the pod's uid."""

    def do_cycle(self, seconds: float, what: str) -> None:
        super().do_cycle(seconds, what)
        plan = self.plan
        assert plan is not None
        assert self.host is not None
        self.book, records = incidents.follow(self.book, self.state, plan, self._moment())
        for record in records:
            self._keep(record)
        self._check(plan)

    def do_answer(self) -> None:
        for call in self.calls:
            if call.outcome is not None:
                result = EvictionResult(uid=call.pod.uid, outcome=call.outcome)  # type: ignore[arg-type]
                self.book = incidents.answered(self.book, result, self.world.now)
        super().do_answer()

    def do_agent(self, how: str, listed: bool) -> None:  # noqa: FBT001 (as the move has it)
        if how == "kept" and self.host is not None:
            for record in incidents.stopped(self.book, self._moment()):
                self._keep(record)
        super().do_agent(how, listed)
        boot = f"boot-{self.world.boot}"
        kept = [line for line in self.lines if line["line"] == "decision" and line["boot_id"] == boot]
        recent = [(line["seconds"], line["kind"], line["pod"]["uid"] if line["pod"] else "") for line in kept]
        self.book = incidents.remembering(recent, self.world.now)

    def _moment(self) -> Moment:
        assert self.host is not None
        now, boot = self.world.now, f"boot-{self.world.boot}"
        wall = max(0.0, self.world.wall)  # no kernel takes a time before 1970
        return Moment(now, self.host.meminfo.at, self.host.attributed_at, wall, boot, "edge-1")

    def _keep(self, record: dict[str, Any]) -> None:
        line = journal.encoded(record)
        assert len(line) <= journal.LONGEST
        assert history.checked(json.loads(line)) is not None, f"it is not read back: {record}"
        self.lines.append(json.loads(line))

    def _check(self, plan: Plan) -> None:
        """Each decision of the plan is under way in the book, or one too many."""
        self.decided.update(one.uid for one in plan.evictions)
        for key in [("eviction", one.uid) for one in plan.evictions] + [("kill", one.uid) for one in plan.kills]:
            # A gone pod's incident may have ended in the very cycle in which the plan that was made before named it.
            assert key in self.book.open or key in self.book.silent, key
        assert len(self.book.looks) <= 100
        assert all(len(look.uses) <= 16 for look in self.book.looks)


@pytest.fixture(scope="module")
def lives() -> list[Keeping]:
    found = []
    for seed in range(RUNS):
        cards, moves = made(seed, MOVES)
        life = Keeping(World(cards=cards), judge=Life.begin(cards=cards).judge, offer=Life.begin(cards=cards).offer)
        found.append(life)
        life.play(moves)
    return found


def test_lives_have_incidents_of_each_kind(lives: list[Keeping]) -> None:
    kinds = Counter(line["kind"] for life in lives for line in life.lines if line["line"] == "decision")
    assert set(kinds) == set(incidents.MOST_PER_HOUR)
    ends = {line["ended"] for life in lives for line in life.lines if line["line"] == "outcome"}
    assert ends >= {"back", "within", "time"}


def test_every_pod_that_was_to_go_has_an_incident_or_was_one_too_many(lives: list[Keeping]) -> None:
    for life in lives:
        told = {line["pod"]["uid"] for line in life.lines if line.get("kind") == "eviction"}
        missing = set(life.decided) - told
        left = sum(line["left_out"] for line in life.lines if line["line"] == "decision") + life.book.left_out
        assert len(missing) <= left


def test_no_two_incidents_have_the_same_id_and_what_follows_one_belongs_to_it(lives: list[Keeping]) -> None:
    for life in lives:
        ids = [line["id"] for line in life.lines if line["line"] == "decision"]
        assert len(ids) == len(set(ids))
        seen: set[str] = set()
        for line in life.lines:
            if line["line"] == "decision":
                seen.add(line["id"])
            else:
                assert line["id"] in seen
        found = history.joined(life.lines)
        assert (len(found.incidents), found.unreadable, found.foreign) == (len(ids), 0, 0)


def test_readings_are_in_order_and_say_what_the_pods_are_that_they_are_of(lives: list[Keeping]) -> None:
    for life in lives:
        for one in history.joined(life.lines).incidents:
            rows = [*one["before"], *one["after"]]
            times = [row["t"] for row in rows]
            assert times == sorted(times)
            assert all(row["pods_t"] <= row["t"] for row in rows)
            assert all(len(row["pods"]) == len(one["pods"]) for row in rows)
            assert len(one["before"]) <= 20
            assert -30 <= times[0] <= 0


def test_an_eviction_is_of_a_pod_that_used_more_than_it_may(lives: list[Keeping]) -> None:
    for life in lives:
        for one in history.joined(life.lines).incidents:
            if one["kind"] in ("eviction", "would-evict", "kill") and one["breach"] in ("gpu", "shared"):
                assert one["used_bytes"] > one["budget_bytes"]
                assert one["excess_bytes"] > 0
                assert one["pods"][0]["uid"] == one["pod"]["uid"]


def test_an_hour_has_no_more_incidents_than_it_may(lives: list[Keeping]) -> None:
    for life in lives:
        begun = [line for line in life.lines if line["line"] == "decision"]
        for one in begun:
            hour = [
                other
                for other in begun
                if other["boot_id"] == one["boot_id"] and 0 <= one["seconds"] - other["seconds"] < incidents.HOUR
            ]
            alike = Counter(other["kind"] for other in hour)
            assert all(count <= incidents.MOST_PER_HOUR[kind] for kind, count in alike.items())
            assert Counter(other["kind"] == one["kind"] and other["pod"] == one["pod"] for other in hour)[True] <= 6

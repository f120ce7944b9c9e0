"""Events: in the form the API takes, counted when repeated, limited, never made twice and never worth an exception."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from edgeagent.cluster.client import Client
from edgeagent.plan.types import Event
from edgeagent.reconcile.events import EventRecorder
from edgeagent.reconcile.outbox import Ending
from tests.faults.conftest import Connect
from tests.faults.server import Exchange, Step, answers, refuses, resets, script, serving

WALL = 1795996800.25  # 2026-11-30T00:00:00.25Z


class Recording:
    """A recorder on clocks that pass when told."""

    def __init__(self, client: Client, node: str = "edge-07") -> None:
        self.now = 0.0
        self.recorder = EventRecorder(
            client, node, clock=lambda: self.now, wall=lambda: WALL + self.now, rng=random.Random(1)
        )

    async def at(self, now: float, event: Event) -> None:
        self.now = now
        await self.recorder.record(event)


def about_pod(note: str = "over its budget", **more: Any) -> Event:
    given: dict[str, Any] = {
        "reason": "MemoryBudgetExceeded",
        "kind": "Pod",
        "namespace": "shop",
        "name": "infer-0",
        "uid": "0000-1",
        "note": note,
    }
    return Event(**{**given, **more})


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the recorder has logged; the scripted server has its own to say."""
    return [record.message for record in caplog.records if record.name == "edgeagent.reconcile.events"]


async def stored(exchange: Exchange) -> None:
    await exchange.answer(201 if exchange.request.method == "POST" else 200)


async def test_event_about_a_pod(connect: Connect) -> None:
    async with serving(stored) as server, connect(server.url) as client:
        recording = Recording(client)
        await recording.at(0, about_pod())
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/apis/events.k8s.io/v1/namespaces/shop/events")
    body = request.json
    name = body["metadata"].pop("name")
    assert re.fullmatch(r"infer-0\.[0-9a-f]{16}", name)
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "shop"},
        "eventTime": "2026-11-30T00:00:00.250000Z",
        "type": "Warning",
        "reason": "MemoryBudgetExceeded",
        "action": "MemoryBudgetExceeded",
        "note": "over its budget",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "infer-0", "uid": "0000-1"},
        "reportingController": "edgeagent.dev/edgeagent",
        "reportingInstance": "edge-07",
    }
    assert recording.recorder.counts == {"written": 1}


async def test_event_about_a_node_lives_in_default(connect: Connect) -> None:
    event = about_pod(kind="Node", namespace="", name="edge-07", reason="CapacityPublished", warning=False)
    async with serving(stored) as server, connect(server.url) as client:
        await Recording(client).at(0, event)
    (request,) = server.requests
    assert request.path == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert request.json["metadata"]["namespace"] == "default"
    assert request.json["type"] == "Normal"
    assert request.json["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "edge-07", "uid": "0000-1"}


async def test_lengths_that_the_server_refuses_are_cut(connect: Connect) -> None:
    # 253 characters of name and 1024 bytes of note are the server's limits; "é" is two bytes.
    long = about_pod("x" + "é" * 600, name="n" * 235 + ".-" + "n" * 16)
    async with serving(stored) as server, connect(server.url) as client:
        await Recording(client, node="n" * 200).at(0, long)
    body = server.requests[0].json
    assert body["note"] == "x" + "é" * 511
    assert len(body["metadata"]["name"]) <= 253
    assert re.fullmatch(r"n{235}\.[0-9a-f]{16}", body["metadata"]["name"])
    assert body["reportingInstance"] == "n" * 128


async def test_repeated_words_become_a_series(connect: Connect) -> None:
    """Written at the second time, then when six minutes have passed since the last write."""
    async with serving(stored) as server, connect(server.url) as client:
        recording = Recording(client)
        for now in (0, 10, 20, 369, 371, 380):
            await recording.at(now, about_pod())
        counts = recording.recorder.counts
    assert [request.method for request in server.requests] == ["POST", "PATCH", "PATCH"]
    name = server.requests[0].json["metadata"]["name"]
    for request in server.requests[1:]:
        assert request.path == f"/apis/events.k8s.io/v1/namespaces/shop/events/{name}"
        assert request.headers["content-type"] == "application/merge-patch+json"
    assert [request.json for request in server.requests[1:]] == [
        {"series": {"count": 2, "lastObservedTime": "2026-11-30T00:00:10.250000Z"}},
        {"series": {"count": 5, "lastObservedTime": "2026-11-30T00:06:11.250000Z"}},
    ]
    assert counts == {"written": 3, "counted": 3}


async def test_other_words_objects_and_reasons_are_other_events(connect: Connect) -> None:
    async with serving(stored) as server, connect(server.url) as client:
        recording = Recording(client)
        for event in (about_pod(), about_pod("other"), about_pod(uid="0000-2"), about_pod(reason="BudgetInvalid")):
            await recording.at(0, event)
    assert [request.method for request in server.requests] == ["POST"] * 4


async def test_event_that_the_server_has_forgotten_is_said_anew(connect: Connect) -> None:
    async with serving(script(stored, refuses(404), stored, stored)) as server, connect(server.url) as client:
        recording = Recording(client)
        await recording.at(0, about_pod())
        await recording.at(4000, about_pod())
        await recording.at(4001, about_pod())
    assert [request.method for request in server.requests] == ["POST", "PATCH", "POST", "PATCH"]
    assert server.requests[3].path.endswith(server.requests[2].json["metadata"]["name"])
    assert server.requests[3].json["series"]["count"] == 2


async def test_one_object_is_not_talked_about_without_end(connect: Connect) -> None:
    """Ten at once, then one each five minutes; other objects are not held back."""
    async with serving(stored) as server, connect(server.url) as client:
        recording = Recording(client)
        for number in range(12):
            await recording.at(0, about_pod(str(number)))
        assert len(server.requests) == 10
        assert recording.recorder.counts == {"written": 10, "dropped": 2}
        await recording.at(0, about_pod(uid="0000-2"))
        assert len(server.requests) == 11
        await recording.at(299, about_pod("at 299 s"))
        assert len(server.requests) == 11
        await recording.at(300, about_pod("at 300 s"))
        assert len(server.requests) == 12


@pytest.mark.parametrize(
    ("trouble", "ending"),
    [
        (refuses(400, "no"), "refused"),
        (refuses(403, "no"), "refused"),
        (refuses(404, "no"), "refused"),
        (refuses(422, "no"), "refused"),
        (refuses(401, "no"), "later"),
        (refuses(409, "no", reason="Conflict"), "later"),
        (answers(429, b"no"), "later"),
        (answers(500, b"no"), "later"),
        (answers(503, b"no"), "later"),
        (resets(), "later"),
    ],
    ids=["400", "403", "404", "422", "401", "409", "429", "500", "503", "reset"],
)
async def test_failure_is_counted_and_logged_and_says_whether_to_try_again(
    connect: Connect, trouble: Step, ending: Ending, caplog: pytest.LogCaptureFixture
) -> None:
    # After a 401 the client itself asks once more.
    async with serving(trouble) as server, connect(server.url) as client:
        recording = Recording(client)
        assert await recording.recorder.record(about_pod()) == ending
        assert recording.recorder.counts == {"failed": 1}
        said = "is not told: " if ending == "refused" else "an event could not be recorded: "
        assert [said in line for line in logged(caplog)] == [True]
        client.paused_until = 0.0
        server.handle = stored
        assert await recording.recorder.record(about_pod()) == "told"
    assert recording.recorder.counts == {"failed": 1, "written": 1}


async def test_a_server_that_is_away_is_logged_once(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(answers(503, b"no")) as server, connect(server.url) as client:
        recording = Recording(client)
        for _ in range(5):
            await recording.recorder.record(about_pod())
        assert len(logged(caplog)) == 1
        server.handle = stored
        await recording.recorder.record(about_pod())
        server.handle = answers(503, b"no")
        await recording.recorder.record(about_pod("other"))
    assert len(logged(caplog)) == 2


async def test_attempts_that_fail_use_up_nothing_of_what_may_be_said(connect: Connect) -> None:
    """Ten events about one object may follow each other; twenty attempts at one of them are none."""
    async with serving(answers(503, b"no")) as server, connect(server.url) as client:
        recording = Recording(client)
        for _ in range(20):
            await recording.recorder.record(about_pod(id="one"))
        server.handle = stored
        assert await recording.recorder.record(about_pod(id="one")) == "told"
    assert recording.recorder.counts == {"failed": 20, "written": 1}


async def test_an_event_with_an_id_has_its_name_at_every_attempt_and_is_known_when_it_is_there(
    connect: Connect,
) -> None:
    known = refuses(409, "exists", reason="AlreadyExists")
    async with serving(script(resets(), known, stored)) as server, connect(server.url) as client:
        recording = Recording(client)
        assert await recording.recorder.record(about_pod(id="one")) == "later"
        # An agent that was started anew meanwhile knows no more than the id.
        again = Recording(client)
        assert await again.recorder.record(about_pod(id="one")) == "told"
        assert await again.recorder.record(about_pod(id="two", note="other")) == "told"
    names = [request.json["metadata"]["name"] for request in server.requests]
    assert names[0] == names[1] != names[2]
    assert again.recorder.counts == {"known": 1, "written": 1}


async def test_an_event_that_is_told_late_has_the_time_at_which_it_happened(connect: Connect) -> None:
    """By the seconds that passed since, so that a clock that was set meanwhile is right about it."""
    async with serving(stored) as server, connect(server.url) as client:
        recording = Recording(client)
        await recording.at(3600, about_pod(at=600.0))
    # The wall clock says 00:00:00.25 at second 0, so ten minutes on.
    assert [request.json["eventTime"] for request in server.requests] == ["2026-11-30T00:10:00.250000Z"]


async def test_what_was_done_to_a_pod_is_told_however_much_was_said_of_it(connect: Connect) -> None:
    async with serving(stored) as server, connect(server.url) as client:
        recording = Recording(client)
        for number in range(15):
            await recording.at(0, about_pod(str(number)))
        reasons = ["EvictionBlocked", "MemoryBudgetEvicted", "MemoryBudgetKilled"]
        for reason in reasons:
            await recording.at(0, about_pod(reason=reason))
    assert [request.json["reason"] for request in server.requests[10:]] == reasons


async def test_an_attempt_that_failed_is_not_counted_into_the_series_again(connect: Connect) -> None:
    async with serving(script(stored, refuses(500), refuses(500), stored)) as server, connect(server.url) as client:
        recording = Recording(client)
        await recording.at(0, about_pod(id="one"))
        for _ in range(3):
            await recording.at(1, about_pod(id="two"))
    assert [request.json["series"]["count"] for request in server.requests[1:]] == [2, 2, 2]


async def test_failed_count_goes_with_the_next_one(connect: Connect) -> None:
    async with serving(script(stored, refuses(500), stored)) as server, connect(server.url) as client:
        recording = Recording(client)
        for now in (0, 1, 400):
            await recording.at(now, about_pod())
    assert server.requests[-1].json["series"]["count"] == 3


async def test_memory_has_a_bound(connect: Connect) -> None:
    """Pods come and go for years: what is known of the least recent ones is dropped."""
    async with serving(stored) as server, connect(server.url) as client:
        recording = Recording(client)
        for number in range(600):
            await recording.at(0, about_pod(uid=str(number)))
            await recording.at(0, about_pod(uid="talked about all the time"))
        begun = len(server.requests)
        await recording.at(1, about_pod(uid="talked about all the time"))
        await recording.at(1, about_pod(uid="599"))
        await recording.at(1, about_pod(uid="0"))
    assert begun == 600 + 2
    assert [request.method for request in server.requests[begun:]] == ["PATCH", "POST"]


async def test_what_is_one_too_many_is_said_not_to_be_told(connect: Connect) -> None:
    async with serving(stored) as server, connect(server.url) as client:
        recorder = Recording(client).recorder
        ends = [await recorder.record(about_pod(str(number))) for number in range(12)]
    assert ends == ["told"] * 10 + ["dropped"] * 2
    assert len(server.requests) == 10


async def test_decisions_have_an_allowance_of_their_own_and_no_more(connect: Connect) -> None:
    """A process that starts as fast as it is killed makes no thousand events an hour."""
    async with serving(stored) as server, connect(server.url) as client:
        recorder = Recording(client).recorder
        for reason in ("MemoryBudgetKilled", "EvictionBlocked"):
            ends = [await recorder.record(about_pod(str(number), reason=reason)) for number in range(100)]
            assert ends.count("told") == 10
        assert await recorder.record(about_pod(reason="MemoryBudgetEvicted")) == "told"
    assert len(server.requests) == 21


async def test_the_same_event_told_again_is_known_and_makes_no_series(connect: Connect) -> None:
    """The server refuses a series of one (validation of events.k8s.io: a count of at least 2)."""
    async with serving(stored) as server, connect(server.url) as client:
        recording = Recording(client)
        for _ in range(3):
            assert await recording.recorder.record(about_pod(id="one")) == "told"
        assert [request.method for request in server.requests] == ["POST"]
        for _ in range(3):
            assert await recording.recorder.record(about_pod(id="two")) == "told"
    assert [request.method for request in server.requests] == ["POST", "PATCH"]
    assert server.requests[1].json["series"]["count"] == 2
    assert recording.recorder.counts == {"written": 2, "known": 4}


async def test_what_lasts_has_one_name_over_restarts_and_other_words_have_another(connect: Connect) -> None:
    names: set[str] = set()

    async def server_of_names(exchange: Exchange) -> None:
        if exchange.request.method == "POST":
            name = exchange.request.json["metadata"]["name"]
            await (refuses(409, reason="AlreadyExists") if name in names else answers(201))(exchange)
            names.add(name)
        else:
            await exchange.answer(200)

    async with serving(server_of_names) as server, connect(server.url) as client:
        # Each is a run of its own, which knows nothing of the one before.
        former, latter = Recording(client), Recording(client)
        for run, one in ((former, "a"), (former, "b"), (latter, "c")):
            assert await run.recorder.record(about_pod(lasting=True, id=one)) == "told"
        assert [request.method for request in server.requests] == ["POST", "PATCH", "POST"]
        assert len(names) == 1
        # It went away and is back: that is a series.
        await latter.recorder.record(about_pod(lasting=True, id="d"))
        assert server.requests[-1].path.rpartition("/")[2] in names
        assert server.requests[-1].json["series"]["count"] == 2
        await Recording(client).recorder.record(about_pod("other words", lasting=True, id="e"))
        await Recording(client).recorder.record(about_pod(uid="0000-2", lasting=True, id="f"))
    assert len(names) == 3


async def test_an_event_of_an_earlier_boot_has_the_time_of_its_own_clock(connect: Connect) -> None:
    async with serving(stored) as server, connect(server.url) as client:
        recording = Recording(client)
        await recording.at(3600, about_pod(at=3000.0, wall=WALL - 86400))
    assert server.requests[0].json["eventTime"] == "2026-11-29T00:00:00.250000Z"


async def test_words_that_are_no_text_are_told_as_well_as_they_can_be(connect: Connect) -> None:
    async with serving(stored) as server, connect(server.url) as client:
        await Recording(client).at(0, about_pod("a\ud800b"))
    assert server.requests[0].json["note"] == "a?b"

"""Requests: what an answer becomes, one retry after a 401, one pause for all traffic, no answer at all."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from edgeagent import __version__
from edgeagent.cluster.client import Client
from edgeagent.cluster.credentials import Credentials
from edgeagent.errors import AnswerError, UnreachableError
from tests.faults.conftest import Connect, write_kubeconfig
from tests.faults.server import Exchange, Step, answers, hangs, refuses, resets, script, serving, streams


async def events(client: Client) -> list[Any]:
    async with client.watch("/a", {"watch": "1"}, longest=30) as stream:
        return [event async for event in stream]


class Clock:
    """Monotonic seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_write_says_who_writes_and_in_which_format(connect: Connect) -> None:
    async with serving(answers(200, {"kind": "Node"})) as server, connect(server.url, token="secret") as client:
        answer = await client.request(
            "PATCH", "/api/v1/nodes/n1/status", body={"status": {}}, content_type="application/merge-patch+json"
        )
    request = server.requests[0]
    assert answer == {"kind": "Node"}
    assert (request.method, request.path, request.json) == ("PATCH", "/api/v1/nodes/n1/status", {"status": {}})
    assert request.query == {"fieldManager": "edgeagent"}
    assert request.headers["content-type"] == "application/merge-patch+json"
    assert request.headers["authorization"] == "Bearer secret"
    assert request.headers["user-agent"] == f"edgeagent/{__version__}"


async def test_read_carries_no_field_manager_and_no_token_that_is_not_there(connect: Connect) -> None:
    async with serving(answers(200)) as server, connect(server.url) as client:
        await client.request("GET", "/api/v1/pods", params={"fieldSelector": "spec.nodeName=n1"})
    assert server.requests[0].query == {"fieldSelector": "spec.nodeName=n1"}
    assert "authorization" not in server.requests[0].headers


async def test_calls_and_the_last_success_are_counted(connect: Connect) -> None:
    handle = script(answers(200), refuses(404), resets())
    async with serving(handle) as server, connect(server.url) as client:
        await client.request("GET", "/a")
        succeeded = client.last_success
        with pytest.raises(AnswerError):
            await client.request("GET", "/a")
        with pytest.raises(UnreachableError):
            await client.request("POST", "/a")
    assert client.calls == {("GET", "200"): 1, ("GET", "404"): 1, ("POST", "unreachable"): 1}
    assert client.last_success == succeeded


async def test_status_object_becomes_the_error(connect: Connect) -> None:
    handle = refuses(409, "the uid differs", reason="Conflict", causes=("UID", "Other"), Retry_After="7")
    async with serving(handle) as server, connect(server.url) as client:
        with pytest.raises(AnswerError) as caught:
            await client.request("GET", "/a")
    error = caught.value
    assert (error.code, error.reason, error.message) == (409, "Conflict", "the uid differs")
    assert error.causes == ("UID", "Other")
    assert error.retry_after == 7.0


@pytest.mark.parametrize(
    ("headers", "details", "expected"),
    [
        ({}, {}, None),
        ({}, {"retryAfterSeconds": 10}, 10.0),
        ({}, {"retryAfterSeconds": 0}, None),
        ({"Retry-After": "0"}, {"retryAfterSeconds": 10}, 0.0),
        ({"Retry-After": "Mon, 30 Nov 2026 11:00:00 GMT"}, {}, None),
    ],
)
async def test_retry_after(
    connect: Connect, headers: dict[str, str], details: dict[str, int], expected: float | None
) -> None:
    handle = answers(503, {"kind": "Status", "details": details}, headers)
    async with serving(handle) as server, connect(server.url) as client:
        with pytest.raises(AnswerError) as caught:
            await client.request("GET", "/a")
    assert caught.value.retry_after == expected


@pytest.mark.parametrize(
    "body", [b"upstream is down", b"\xff\xfe", b"", b"[1]", b'{"kind": "Pod", "reason": "no Status"}']
)
async def test_error_without_a_status_object_keeps_the_code(connect: Connect, body: bytes) -> None:
    async with serving(answers(502, body)) as server, connect(server.url) as client:
        with pytest.raises(AnswerError) as caught:
            await client.request("GET", "/a")
    assert (caught.value.code, caught.value.reason) == (502, "")
    assert caught.value.message == body.decode("utf-8", "replace")


@pytest.mark.parametrize("body", [b"<html>Welcome to the hotel network</html>", b"[]", b"null", b"", b"\xff"])
async def test_a_200_that_is_no_object_is_no_answer(connect: Connect, body: bytes) -> None:
    async with serving(answers(200, body)) as server, connect(server.url) as client:
        with pytest.raises(UnreachableError, match="not an object"):
            await client.request("GET", "/a")


async def test_redirect_is_refused_and_the_token_goes_nowhere_else(connect: Connect) -> None:
    async with serving(answers(200)) as other:
        handle = answers(302, {}, {"Location": f"{other.url}/a"})
        async with serving(handle) as server, connect(server.url, token="secret") as client:
            with pytest.raises(AnswerError) as caught:
                await client.request("GET", "/a")
        assert caught.value.code == 302
        assert other.requests == []


async def test_no_listener_and_no_answer_are_unreachable(connect: Connect) -> None:
    async with serving(hangs) as server:
        async with connect(server.url) as client:
            with pytest.raises(UnreachableError, match=r"GET /slow: .*Timeout"):
                await client.request("GET", "/slow", timeout=0.05)
        gone = server.url
    async with connect(gone) as client:
        with pytest.raises(UnreachableError, match=r"GET /a: .*Connect"):
            await client.request("GET", "/a")


async def test_body_cut_in_the_middle_is_unreachable(connect: Connect) -> None:
    async def cut(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 -\r\nContent-Length: 100\r\n\r\n{")
        exchange.reset()

    async with serving(cut) as server, connect(server.url) as client:
        with pytest.raises(UnreachableError):
            await client.request("PATCH", "/a", body={})


# --- 401


async def test_rotated_token_is_used_at_the_next_call(tmp_path: Path) -> None:
    """The kubelet swaps a projected token by pointing the link ..data to another folder."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / "token").write_text("A\n")
    (tmp_path / "two" / "token").write_text("B\n")
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "token").symlink_to("..data/token")
    async with serving(answers(200)) as server:
        path = write_kubeconfig(tmp_path / "config", server.url, tokenFile="token")
        async with Client(Credentials(path, environ={})) as client:
            await client.request("GET", "/a")
            (tmp_path / "new").symlink_to("two")
            (tmp_path / "new").rename(tmp_path / "..data")
            await client.request("GET", "/a")
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer A", "Bearer B"]


async def test_401_reads_the_files_again_and_retries_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("A")

    async def rotate(exchange: Exchange) -> None:
        accepted = exchange.request.headers["authorization"] == "Bearer B"
        token.write_text("B")  # while the request with A is on its way
        await exchange.answer(200 if accepted else 401)

    async with serving(rotate) as server:
        path = write_kubeconfig(tmp_path / "config", server.url, tokenFile="token")
        async with Client(Credentials(path, environ={})) as client:
            await client.request("POST", "/a", body={"n": 1})
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer A", "Bearer B"]
    assert [request.json for request in server.requests] == [{"n": 1}, {"n": 1}]


async def test_revoked_credentials_are_tried_twice_and_named(connect: Connect) -> None:
    async with serving(refuses(401)) as server, connect(server.url, token="A") as client:
        with pytest.raises(AnswerError, match="kubeconfig are not accepted") as caught:
            await client.request("GET", "/a")
    assert caught.value.code == 401
    assert len(server.requests) == 2


async def test_watch_retries_a_401_too(connect: Connect) -> None:
    handle = script(refuses(401), streams({"type": "BOOKMARK"}))
    async with serving(handle) as server, connect(server.url, token="A") as client:
        assert await events(client) == [{"type": "BOOKMARK"}]
    assert len(server.requests) == 2


# --- 429


def paused_client(tmp_path: Path, url: str, clock: Clock) -> Client:
    return Client(Credentials(write_kubeconfig(tmp_path / "kubeconfig", url), environ={}), clock=clock)


async def test_throttling_pauses_all_traffic_for_as_long_as_told(tmp_path: Path) -> None:
    clock = Clock()
    handle = script(answers(429, b"too many requests", {"Retry-After": "7"}), answers(200))
    async with serving(handle) as server, paused_client(tmp_path, server.url, clock) as client:
        with pytest.raises(AnswerError):
            await client.request("GET", "/a")
        assert client.paused_until == 1007.0
        clock.now = 1004.0
        with pytest.raises(AnswerError) as caught:
            await client.request("POST", "/b")
        assert (caught.value.code, caught.value.retry_after) == (429, 3.0)
        with pytest.raises(AnswerError):
            await events(client)
        assert len(server.requests) == 1
        clock.now = 1007.0
        await client.request("POST", "/b")
    assert [request.path for request in server.requests] == ["/a", "/b"]


async def test_throttling_in_the_background_pauses_the_background_alone(tmp_path: Path) -> None:
    clock = Clock()
    handle = script(answers(429, b"too many requests", {"Retry-After": "7"}), answers(200), answers(200))
    async with serving(handle) as server, paused_client(tmp_path, server.url, clock) as client:
        with pytest.raises(AnswerError):
            await client.request("GET", "/list", background=True)
        await client.request("POST", "/eviction")
        clock.now = 1006.0
        with pytest.raises(AnswerError) as caught:
            await client.request("GET", "/list", background=True)
        assert (caught.value.code, caught.value.retry_after) == (429, 1.0)
        clock.now = 1007.0
        await client.request("GET", "/list", background=True)
    assert [request.path for request in server.requests] == ["/list", "/eviction", "/list"]


async def test_what_is_asked_in_the_background_waits_when_all_else_does(tmp_path: Path) -> None:
    handle = script(answers(429, b"too many requests", {"Retry-After": "7"}))
    async with serving(handle) as server, paused_client(tmp_path, server.url, Clock()) as client:
        with pytest.raises(AnswerError):
            await client.request("GET", "/a")
        with pytest.raises(AnswerError):
            await client.request("GET", "/list", background=True)
    assert len(server.requests) == 1


async def test_a_disruption_budget_pauses_nothing(tmp_path: Path) -> None:
    handle = script(refuses(429, causes=("DisruptionBudget",), Retry_After="10"), answers(200))
    async with serving(handle) as server, paused_client(tmp_path, server.url, Clock()) as client:
        with pytest.raises(AnswerError):
            await client.request("POST", "/a")
        await client.request("GET", "/a")
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("header", "pause"),
    [({}, 1.0), ({"Retry-After": "0"}, 1.0), ({"Retry-After": "86400"}, 300.0)],
    ids=["without", "zero", "a day"],
)
async def test_a_pause_has_bounds(tmp_path: Path, header: dict[str, str], pause: float) -> None:
    """At least a second, or it would be no pause; at most five minutes, or a faulty proxy could mute the agent."""
    clock = Clock()
    async with serving(answers(429, b"", header)) as server, paused_client(tmp_path, server.url, clock) as client:
        with pytest.raises(AnswerError):
            await client.request("GET", "/a")
        assert client.paused_until - clock.now == pause


@pytest.mark.parametrize(
    "asked",
    [
        answers(503, {"kind": "Status"}, {"Retry-After": "86400"}),
        answers(503, {"kind": "Status", "details": {"retryAfterSeconds": 10**400}}),
        answers(503, {"kind": "Status"}, {"Retry-After": "9" * 400}),
    ],
    ids=["a day", "no float", "an infinite one"],
)
async def test_nobody_is_told_to_wait_for_longer_than_five_minutes(connect: Connect, asked: Step) -> None:
    """A watch waits as long as the answer to its request says: a day would leave the view behind for a day."""
    async with serving(asked) as server, connect(server.url) as client:
        with pytest.raises(AnswerError) as refusal:
            await client.request("GET", "/a")
        assert refusal.value.retry_after == 300.0


# --- streams


async def test_lines_of_any_length_and_in_any_pieces(connect: Connect) -> None:
    long = {"type": "ADDED", "object": {"text": "x" * 10_000_000}}
    pieces = json.dumps({"type": "BOOKMARK"}).encode() + b"\n\n" + json.dumps({"type": "DELETED"}).encode() + b"\n"
    chunks = [pieces[i : i + 5] for i in range(0, len(pieces), 5)]
    async with serving(streams(long, *chunks)) as server, connect(server.url) as client:
        found = await events(client)
    assert [event["type"] for event in found] == ["ADDED", "BOOKMARK", "DELETED"]
    assert len(found[0]["object"]["text"]) == 10_000_000
    assert server.requests[0].query == {"watch": "1"}


@pytest.mark.parametrize("line", [b'{"type": "ADD', b"no JSON\n", b"[]\n", b"\xff\xfe\n"])
async def test_a_line_that_is_no_event_ends_the_stream(connect: Connect, line: bytes) -> None:
    async with serving(streams({"type": "BOOKMARK"}, line)) as server, connect(server.url) as client:
        with pytest.raises(UnreachableError):
            await events(client)
        assert client.last_success is not None


async def test_leaving_a_watch_closes_its_connection(connect: Connect) -> None:
    closed = asyncio.Event()

    async def until_closed(exchange: Exchange) -> None:
        await exchange.stream({"type": "BOOKMARK"})
        try:
            while True:
                await exchange.send(b" ")
                await asyncio.sleep(0.01)
        except ConnectionError:
            closed.set()

    async with serving(until_closed) as server, connect(server.url) as client:
        async with client.watch("/a", {}, longest=5) as stream:
            await anext(stream)
        await asyncio.wait_for(closed.wait(), 5)

"""Live views: the newest state for each client, however slow it is, and a bound to all of it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import select
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from edgeagent.serve import state
from edgeagent.serve.http import Server
from edgeagent.serve.look import Look
from edgeagent.serve.shown import Shown
from edgeagent.serve.stream import Streams

from .states import NOW, PLAN, WALL, shown
from .talk import Listening, get, listening, parse, running, send, until

if TYPE_CHECKING:
    from pathlib import Path


def numbered(number: int) -> Shown:
    """A state that is told apart from others by the bytes that can be used."""
    return shown(plan=replace(PLAN, danger=replace(PLAN.danger, usable=number)))


def number(event: Any) -> int:
    return int(event["host"]["usable_bytes"])


def streaming(patience: float = 30.0) -> Any:
    """A server whose streams are as fast as they can be."""
    return running(state=numbered(0), streams=functools.partial(Streams, rest=0.0, patience=patience))


async def test_the_first_event_is_the_state_as_it_is() -> None:
    async with running(state=shown()) as server, listening(server) as client:
        event = await client.event()

    assert (client.status, client.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert client.headers["cache-control"] == "no-store"
    assert event == state.document(Look(shown(), NOW, WALL))


async def test_before_the_first_cycle_there_is_an_event_too() -> None:
    async with running() as server, listening(server) as client:
        before = await client.event()
        server.show(shown())
        after = await client.event()

    assert (before["board"], after["board"]["kind"]) == (None, "jetson")


async def test_each_cycle_is_told_to_all() -> None:
    async with streaming() as server, listening(server) as one, listening(server) as two:
        for cycle in range(1, 4):
            for client in (one, two):
                while number(await client.event()) != cycle - 1:
                    pass
            server.show(numbered(cycle))


async def test_fast_cycles_are_told_once_a_rest_and_the_newest_of_them() -> None:
    loop = asyncio.get_running_loop()
    made: list[float] = []

    def noting(make: Callable[[], bytes]) -> Streams:
        def noted() -> bytes:
            made.append(loop.time())
            return make()

        return Streams(noted, rest=0.2)

    async with running(state=numbered(0), streams=noting) as server, listening(server) as one, listening(server) as two:
        for cycle in range(1, 100):
            server.show(numbered(cycle))
            await asyncio.sleep(0.01)
        events = [await _four(client) for client in (one, two)]

    # 99 cycles in a second and more, of which five or so can be told; never an older one after a newer one.
    assert min(later - earlier for earlier, later in itertools.pairwise(made)) >= 0.199
    assert all(told == sorted(set(told)) for told in events)


async def _four(client: Listening) -> list[int]:
    return [number(await client.event()) for _ in range(4)]


async def test_a_state_that_grew_old_is_told_again_as_what_it_is_then() -> None:
    now = NOW
    server = Server("127.0.0.1:0", clock=lambda: now, streams=functools.partial(Streams, rest=0.0, quiet=0.05))
    await server.start()
    server.show(shown())
    try:
        async with listening(server) as client:
            assert (await client.event())["board"] is not None
            now = NOW + 11  # no cycle has come since
            while (event := await client.event())["board"] is not None:
                pass
    finally:
        await server.stop()

    assert "sample-stale" in [reason["name"] for reason in event["ready"]["reasons"]]


async def test_nothing_is_made_while_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    real = state.document

    def counting(look: Look) -> Any:
        nonlocal made
        made += 1
        return real(look)

    monkeypatch.setattr(state, "document", counting)
    async with streaming() as server:
        for cycle in range(10):
            server.show(numbered(cycle))
            await asyncio.sleep(0)
        assert made == 0

        async with listening(server) as client:
            await client.event()
        await until(lambda: not server.streams)
        told = made
        for cycle in range(10):
            server.show(numbered(cycle))
            await asyncio.sleep(0)
    assert told >= 1
    assert made == told


async def test_a_stream_outlives_the_time_of_other_connections_and_takes_none_of_their_places() -> None:
    async with (
        running(state=numbered(0), life=0.2, places=4, streams=functools.partial(Streams, rest=0.0)) as server,
        contextlib.AsyncExitStack() as stack,
    ):
        clients = [await stack.enter_async_context(listening(server)) for _ in range(8)]
        # More connections than places, so that whoever holds a place is pushed out.
        silent = [await asyncio.open_connection(*_address(server)) for _ in range(20)]
        for reader, writer in silent:
            with contextlib.suppress(ConnectionError):
                await reader.read()  # until its 0.2 s are over, or another one came
            writer.close()
        answer = await get(server, "/livez")
        server.show(numbered(7))
        for client in clients:
            while number(await client.event()) != 7:
                pass

    assert answer.status == 200


def _address(server: Server) -> tuple[str, int]:
    host, _, port = server.address.rpartition(":")
    return host, int(port)


async def test_there_are_eight_and_the_ninth_is_told_so_until_one_leaves() -> None:
    async with streaming() as server, contextlib.AsyncExitStack() as stack:
        first, *_ = [await stack.enter_async_context(listening(server)) for _ in range(8)]
        refused = await get(server, "/api/v1/stream")
        other = await get(server, "/api/v1/state")

        first.writer.close()
        await until(lambda: len(server.streams) < 8)
        async with listening(server) as client:
            event = await client.event()

    assert (refused.status, refused.json["reasons"][0]) == (
        503,
        {"name": "too-many-streams", "message": "there are 8 streams already"},
    )
    assert refused.headers["retry-after"] == "10"
    assert other.status == 200
    assert number(event) == 0


@contextlib.asynccontextmanager
async def deaf(server: Server) -> AsyncIterator[socket.socket]:
    """A client that asks for the stream and reads nothing, with a small buffer for what it does not read."""
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(0)
        await loop.sock_connect(client, _address(server))
        await loop.sock_sendall(client, b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: len(server.streams) == 1)
        yield client


def large(usable: int) -> Shown:
    """A state of more than 500 kB, which the buffers of a socket do not take up: 2000 pods."""
    small = numbered(usable)
    assert small.plan
    return replace(small, plan=replace(small.plan, pods=PLAN.pods[:1] * 2000))


async def test_a_client_that_reads_nothing_is_cut_off() -> None:
    async with streaming(patience=0.3) as server, deaf(server) as client:
        server.show(large(1))
        broken = select.poll()
        broken.register(client, 0)  # an error or a hang-up is reported always

        assert await asyncio.to_thread(broken.poll, 30_000)
        await until(lambda: not server.streams)


async def test_a_client_that_reads_nothing_holds_up_no_other() -> None:
    async with streaming() as server, deaf(server), listening(server) as client:
        for cycle in range(1, 6):
            server.show(large(cycle))
            while number(await client.event()) != cycle:
                pass
        assert len(server.streams) == 2


async def test_a_slow_client_gets_the_newest_state_and_never_a_backlog() -> None:
    async with streaming() as server, deaf(server) as client, listening(server) as other:
        for cycle in range(1, 11):
            server.show(large(cycle))
            while number(await other.event()) != cycle:
                pass
        # Only now does it read: what it was sent at first, what the kernel took on its way, and the newest. With
        # a backlog it were eleven.
        loop = asyncio.get_running_loop()
        received = b""
        while b'"usable_bytes":10,' not in received:
            received += await loop.sock_recv(client, 65536)

    assert received.count(b"event: state") <= 5


async def test_at_stop_each_stream_ends_and_is_seen_to_have_ended() -> None:
    async with streaming() as server, listening(server) as client:
        await client.event()
        await server.stop()
        while (event := await client.event()) is not None:
            assert number(event) == 0

        assert parse(await send_or_nothing(server)).status == 0


async def send_or_nothing(server: Server) -> bytes:
    """What the server says to one more client; nothing, since it does not listen any more."""
    with contextlib.suppress(ConnectionRefusedError):
        return await send(server, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return b"HTTP/1.1 0 nobody\r\n\r\n"


async def test_at_stop_a_client_that_reads_nothing_is_not_waited_for() -> None:
    loop = asyncio.get_running_loop()
    async with streaming() as server, deaf(server):
        server.show(large(1))
        begun = loop.time()
        await server.stop()

        # One second for all to take the end of their streams; a client has 30 s for one event.
        assert loop.time() - begun < 10


async def test_whoever_goes_away_leaves_nothing_behind() -> None:
    async with streaming() as server:
        for _ in range(20):
            async with listening(server) as client:
                await client.event()
        await until(lambda: not server.streams)
        names = {task.get_name() for task in asyncio.all_tasks()}

    assert "stream" not in names


async def test_the_token_is_needed_and_a_token_that_is_changed_ends_the_stream(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret")
    async with running(
        state=numbered(0), token_file=str(token), streams=functools.partial(Streams, rest=0.0, quiet=0.05)
    ) as server:
        assert (await get(server, "/api/v1/stream")).status == 401
        async with listening(server, token="s3cret") as client:
            assert number(await client.event()) == 0
            token.write_text("another")
            while await client.event() is not None:
                pass


async def test_head_asks_whether_there_is_a_stream_and_takes_none() -> None:
    async with streaming() as server:
        answer = await get(server, "/api/v1/stream", method="HEAD")

        assert (answer.status, answer.body, len(server.streams)) == (200, b"", 0)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"


async def test_old_http_has_no_chunks(caplog: pytest.LogCaptureFixture) -> None:
    async with streaming() as server:
        reader, writer = await asyncio.open_connection(*_address(server))
        writer.write(b"GET /api/v1/stream HTTP/1.0\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        event = await reader.readuntil(b"\n\n")
        writer.close()

    assert b"chunked" not in head
    assert event.startswith(b'event: state\ndata: {"at":')
    assert not caplog.records


async def test_a_fault_ends_the_streams_with_a_line_in_the_log_and_the_next_one_begins_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = False

    def made(make: Any) -> Streams:
        def or_not() -> bytes:
            if broken:
                raise KeyError("secret")
            return bytes(make())

        return Streams(or_not, rest=0.0)

    async with running(state=numbered(0), streams=made) as server:
        async with listening(server) as client:
            await client.event()
            broken = True
            server.show(numbered(1))
            with pytest.raises(asyncio.IncompleteReadError):
                await client.event()
        broken = False
        async with listening(server) as again:
            event = await again.event()

    assert number(event) == 1
    (record,) = caplog.records
    assert record.getMessage() == "a stream for 127.0.0.1 failed"


async def test_an_event_is_one_line_of_json() -> None:
    """What ends a line of an event stream (WHATWG HTML, 9.2.5) stands in no event, whatever a reason says."""
    odd = replace(PLAN.pods[0], reason="a\r\nevent: other\n\ndata: b\rc")
    async with running(state=shown(plan=replace(PLAN, pods=(odd,)))) as server, listening(server) as client:
        event = await client.event()

    assert event["pods"][0]["reason"] == "a\r\nevent: other\n\ndata: b\rc"
    assert json.dumps(event)


async def test_listening_takes_the_end_of_a_stream_for_none() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"0\r\n\r\n")
    reader.feed_eof()

    assert await Listening(reader, None).event() is None  # type: ignore[arg-type]  # it does not write


async def test_open_streams_are_counted() -> None:
    async with streaming() as server, listening(server), listening(server):
        await until(lambda: len(server.streams) == 2)
        scraped = await get(server, "/metrics")

    assert b"\nedgeagent_streams 2.0\n" in scraped.body

"""Many connections that say nothing, or say it slowly, disturb nobody."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .states import PLAN, shown
from .talk import connect, get, parse, running, until

if TYPE_CHECKING:
    import pytest

HALF = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_two_hundred_that_never_finish_their_request() -> None:
    async with running(state=shown()) as server:
        slow = []
        for _ in range(200):
            reader, writer = await connect(server)
            writer.write(HALF)
            slow.append((reader, writer))

        answers = [await get(server, "/metrics") for _ in range(20)]

        closed = await asyncio.gather(*(_is_closed(reader) for reader, _ in slow))
        for _, writer in slow:
            writer.close()
    assert {answer.status for answer in answers} == {200}
    # The oldest went first. 64 places: 136 were pushed out by others of their kind, at least one more and
    # at most 20 by requests.
    assert closed == sorted(closed, reverse=True)
    assert 200 - 64 + 1 <= closed.count(True) <= 200 - 64 + 20


async def _is_closed(reader: asyncio.StreamReader) -> bool:
    """Whether the end has come, without a word."""
    try:
        return await asyncio.wait_for(reader.read(), 1.0) == b""
    except ConnectionResetError:
        return True
    except asyncio.TimeoutError:
        return False


async def test_one_byte_at_a_time_wins_no_time() -> None:
    async with running(state=shown(), life=0.5) as server:
        reader, writer = await connect(server)
        answer = asyncio.create_task(_read(reader))
        for byte in HALF * 1000:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.02)
            if answer.done():
                break
        writer.close()

    assert parse(answer.result()).status == 408


async def _read(reader: asyncio.StreamReader) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while part := await reader.read(4096):
            received += part
    return received


async def test_whoever_does_not_read_the_answer_is_cut_off() -> None:
    # 5000 pods make an answer of more than 1 MB, which no socket buffer takes up.
    large = shown(plan=replace(PLAN, pods=PLAN.pods[:1] * 5000))
    async with running(state=large, life=0.5) as server:
        host, _, port = server.address.rpartition(":")
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.settimeout(0)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(deaf, (host, int(port)))
            await loop.sock_sendall(deaf, b"GET /api/v1/pods HTTP/1.1\r\nHost: localhost\r\n\r\n")
            broken = select.poll()
            broken.register(deaf, 0)  # an error or a hang-up is reported always

            assert await asyncio.to_thread(broken.poll, 30_000)


async def test_connections_leave_nothing_behind() -> None:
    async with running(state=shown()) as server:
        await get(server, "/livez")
        before = descriptors()
        for _ in range(50):
            _, writer = await connect(server)
            writer.write(HALF)
            writer.close()
            await get(server, "/livez")

        await until(lambda: descriptors() <= before)


async def test_out_of_descriptors_the_server_rests_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = 0
    real = socket.socket.accept

    def accept(listening: socket.socket) -> tuple[socket.socket, Any]:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(listening)

    async with running(state=shown()) as server:
        monkeypatch.setattr(socket.socket, "accept", accept)
        answer = await get(server, "/livez")

    assert answer.status == 200
    # One that failed, one for the connection, one that found no further: it did not spin meanwhile.
    assert attempts == 3

"""HTTP servers on loopback that pods might be: real ones, and ones that mean harm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[str]:
    """The URL of a server that does what ``answer`` says to each connection."""

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client had enough
        finally:
            writer.close()

    connections = []

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(asyncio.create_task(answered(reader, writer)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/metrics"
    finally:
        server.close()
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


def bytes_of(content: bytes, *, head: bytes = HEAD) -> Answer:
    """Answers every request with ``content``."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + b"Content-Length: %d\r\n\r\n" % len(content) + content)
        await writer.drain()

    return answer


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Takes the request and says nothing."""
    await reader.read()


async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One byte at a time, for ever."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(HEAD + b"Content-Length: 1000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As much as is taken."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(HEAD + b"Connection: close\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x" * 65536)
        await writer.drain()


async def headers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Headers without an end."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(HEAD)
    while not writer.is_closing():
        writer.write(b"X-More: " + b"y" * 60000 + b"\r\n")
        await writer.drain()


async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """No HTTP."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"\x00\xff" * 100)
    await writer.drain()


async def gone(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    """Hangs up."""

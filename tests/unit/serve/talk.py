"""A client that sends bytes as they are: what no HTTP library would send has to be sent too."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from edgeagent.serve.http import Server
from edgeagent.serve.shown import Shown

from .states import NOW, WALL


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@contextlib.asynccontextmanager
async def running(bind: str = "127.0.0.1:0", *, state: Shown | None = None, **options: Any) -> AsyncIterator[Server]:
    """A server that shows ``state`` at NOW."""
    server = Server(bind, clock=lambda: NOW, wall=lambda: WALL, **options)
    await server.start()
    if state is not None:
        server.show(state)
    try:
        yield server
    finally:
        await server.stop()


async def connect(
    server: Server, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = server.address.rpartition(":")
    return await asyncio.open_connection(host.strip("[]"), int(port), ssl=tls)


async def send(server: Server, raw: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """Everything that comes back until the server closes the connection."""
    reader, writer = await connect(server, tls)
    try:
        writer.write(raw)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        return await _rest(reader)
    finally:
        writer.close()


async def _rest(reader: asyncio.StreamReader) -> bytes:
    """What came before the end, also where the end is a reset: a server may close without reading all it was sent."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while part := await reader.read(65536):
            received += part
    return received


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what is sure to come; the test's own time-out ends it if it does not."""
    while not condition():  # noqa: ASYNC110 (nobody tells when)
        await asyncio.sleep(0.01)


class Listening:
    """A client of the stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}

    async def begin(self) -> None:
        """Take in the head of the answer."""
        head = parse(await self._reader.readuntil(b"\r\n\r\n"))
        self.status, self.headers = head.status, head.headers

    async def event(self) -> Any:
        """The next state, or None at the end of the stream."""
        block = await self._chunk()
        if not block:
            return None
        first, second, *rest = block.decode().split("\n")
        assert (first, second[:6], rest) == ("event: state", "data: ", ["", ""])
        return json.loads(second[6:])

    async def _chunk(self) -> bytes:
        """One piece of a chunked body (RFC 9112, 7.1); none once the last one, of size 0, has come."""
        size = int(await self._reader.readuntil(b"\r\n"), 16)
        return (await self._reader.readexactly(size + 2))[:-2]


@contextlib.asynccontextmanager
async def listening(server: Server, tls: ssl.SSLContext | None = None, *, token: str = "") -> AsyncIterator[Listening]:
    """A client that has asked for the stream and got an answer."""
    client = Listening(*await connect(server, tls))
    try:
        asks = f"Authorization: Bearer {token}\r\n" if token else ""
        client.writer.write(f"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n{asks}\r\n".encode())
        await client.begin()
        yield client
    finally:
        client.writer.close()


def parse(raw: bytes) -> Answer:
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *rows = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (row.partition(": ") for row in rows)}
    return Answer(int(first.split()[1]), headers, body)


async def get(
    server: Server,
    path: str,
    *,
    method: str = "GET",
    host: str | None = None,
    tls: ssl.SSLContext | None = None,
    **headers: str,
) -> Answer:
    """Ask once; further ``headers`` by name, underscores for dashes."""
    fields = {"Host": host or server.address, **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return parse(await send(server, "\r\n".join(lines).encode(), tls))

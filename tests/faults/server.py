"""An HTTP server on 127.0.0.1 that does what a test's script says, down to single bytes and TCP resets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Exchange:
    """A request and the means to answer it."""

    def __init__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self._writer = writer

    @property
    def common_name(self) -> str:
        """Of the client's certificate."""
        subject = self._writer.get_extra_info("peercert")["subject"]
        return str(dict(pair for part in subject for pair in part)["commonName"])

    async def answer(self, code: int, obj: Any = None, headers: Mapping[str, str] | None = None) -> None:
        """A whole answer; ``obj`` is JSON unless it is bytes."""
        body = obj if isinstance(obj, bytes) else json.dumps(obj if obj is not None else {}).encode()
        head = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        await self.raw(_head(code, head) + body)

    async def stream(self, *lines: Any) -> None:
        """Begin a chunked 200 and send ``lines``, each JSON or, as bytes, as it is."""
        await self.raw(_head(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}))
        for line in lines:
            await self.send(line)

    async def send(self, line: Any) -> None:
        """One chunk of the stream."""
        data = line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
        await self.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def end(self) -> None:
        """The stream's end, in order."""
        await self.raw(b"0\r\n\r\n")

    async def raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def reset(self) -> None:
        """Cut the connection with a TCP reset."""
        connection = self._writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Step = Callable[[Exchange], Awaitable[None]]


def _head(code: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {code} -", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


class ScriptedServer:
    """Answers each request by ``handle``; ``requests`` keeps them all."""

    def __init__(self, handle: Step) -> None:
        self.handle = handle
        self.requests: list[Received] = []
        self.url = ""
        self._connections: set[asyncio.Task[None]] = set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        try:
            while True:
                request = await _read(reader)
                self.requests.append(request)
                await self.handle(Exchange(request, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            return  # the client has gone, or the script has cut the connection
        except asyncio.CancelledError:
            return  # the server ends; asyncio would report the cancellation of a connection as an error
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def close_connections(self) -> None:
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


@contextlib.asynccontextmanager
async def serving(handle: Step, tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
    """A running server; with ``tls`` it speaks HTTPS."""
    scripted = ScriptedServer(handle)
    server = await asyncio.start_server(scripted._serve, "127.0.0.1", 0, ssl=tls)  # noqa: SLF001 (its own module)
    port = server.sockets[0].getsockname()[1]
    scripted.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield scripted
    finally:
        server.close()
        await scripted.close_connections()
        await server.wait_closed()


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *rest = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    url = urlsplit(target)
    return Received(method, url.path, dict(parse_qsl(url.query)), headers, body)


# --- steps of scripts


def answers(code: int, obj: Any = None, headers: Mapping[str, str] | None = None) -> Step:
    """Answer so."""

    async def step(exchange: Exchange) -> None:
        await exchange.answer(code, obj, headers)

    return step


def refuses(code: int, message: str = "", *, reason: str = "", causes: tuple[str, ...] = (), **headers: str) -> Step:
    """Answer with a Status object; ``Retry_After="7"`` sets a header."""
    obj = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": {"causes": [{"reason": cause} for cause in causes]},
    }
    return answers(code, obj, {name.replace("_", "-"): value for name, value in headers.items()})


def streams(*lines: Any) -> Step:
    """Send ``lines`` and end the stream."""

    async def step(exchange: Exchange) -> None:
        await exchange.stream(*lines)
        await exchange.end()

    return step


def holds(*lines: Any) -> Step:
    """Send ``lines``, then nothing more; the socket stays open."""

    async def step(exchange: Exchange) -> None:
        await exchange.stream(*lines)
        await asyncio.Event().wait()

    return step


def resets(*lines: Any) -> Step:
    """Send ``lines`` of a stream, then reset the connection."""

    async def step(exchange: Exchange) -> None:
        if lines:
            await exchange.stream(*lines)
        exchange.reset()
        await asyncio.Event().wait()

    return step


async def hangs(_exchange: Exchange) -> None:
    """Take the request and never answer."""
    await asyncio.Event().wait()


def script(*steps: Step) -> Step:
    """One step for each request, the last for all that follow."""
    left = list(steps)

    async def step(exchange: Exchange) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(exchange)

    return step

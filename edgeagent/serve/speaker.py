"""HTTP on one connection: aiohttp's protocol with small limits and answers of our own to what is no request."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct

from aiohttp import http_exceptions, web

from edgeagent.serve.responses import refuse

ALLOWED = {"Allow": "GET, HEAD"}
_LONGEST_LINE = 8190
"""Bytes of a request line or a header; a bearer token of a service account is about 1.2 kB."""
LARGEST_HEAD = 32 * 1024
"""Bytes of a request line and all headers together. The libraries' own limits would let one connection fill a MiB."""
_DISCARD = struct.pack("ii", 1, 0)
"""struct linger: closing throws away what was not sent."""
_log = logging.getLogger(__name__)


def _bare(status: str) -> bytes:
    """An answer to what is not understood yet."""
    return f"HTTP/1.1 {status}\r\nServer: edgeagent\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


class Speaker(web.RequestHandler):
    """Speaks HTTP with one client."""

    def __init__(self, server: web.Server) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # None means none, whatever its annotation says
            keepalive_timeout=0,  # the listener limits the whole connection
            lingering_time=0,  # nobody is to send a body
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
            tcp_keepalive=False,
        )
        self.over: asyncio.Future[None] = loop.create_future()
        """Done once the connection is lost."""
        self.staying: asyncio.Future[None] = loop.create_future()
        """Done once the answer is one that goes on, and the connection may last."""
        self.leaving: asyncio.Future[None] = loop.create_future()
        """Done once such an answer has ended."""
        self.answering = False
        """A whole request has come."""
        self._heard = 0

    def data_received(self, data: bytes) -> None:
        """Take in what the client sends, which is a request of a limited size and nothing after it."""
        self._heard += len(data)
        if self.answering:
            return
        if self._heard <= LARGEST_HEAD:
            super().data_received(data)
        elif self.transport is not None:
            self.answering = True
            self.transport.write(_bare("431 Request Header Fields Too Large"))
            self.transport.close()

    def stay(self, patience: float) -> None:
        """The answer goes on. A client that has gone without a word is found out after ``patience`` seconds."""
        self.staying.set_result(None)
        told: socket.socket | None = self.transport.get_extra_info("socket") if self.transport else None
        if told is not None:
            told.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(patience * 1000))

    def leave(self) -> None:
        """The answer that went on has ended."""
        self.leaving.set_result(None)

    def cut(self) -> None:
        """End the connection. Else the kernel keeps what the client does not read, and offers it for minutes."""
        if self.transport is not None:
            told: socket.socket | None = self.transport.get_extra_info("socket")
            if told is not None and self.answering:
                told.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DISCARD)
            self.transport.abort()

    def late(self) -> None:
        """The time of the connection is up: say so to a client that has not finished its request."""
        if self.transport is not None and not self.answering:
            self.transport.write(_bare("408 Request Timeout"))

    def connection_lost(self, exc: BaseException | None) -> None:
        """Say that it is over."""
        super().connection_lost(exc)
        if not self.over.done():
            self.over.set_result(None)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 (it quotes the client)
    ) -> web.StreamResponse:
        """Answer what is no request, and what was our fault. Only the latter is worth a line in the log."""
        self.answering = True
        if not self.staying.done():
            return self._excuse(request, status, exc)
        _log.error("a stream for %s failed", request.remote, exc_info=exc)
        raise ConnectionResetError  # there is an answer already, and no other can follow it

    @staticmethod
    def _excuse(request: web.BaseRequest, status: int, exc: BaseException | None) -> web.Response:
        if isinstance(exc, http_exceptions.LineTooLong):
            return refuse(431, "header-too-large", "the request line or a header is too long")
        if isinstance(exc, http_exceptions.BadHttpMethod):
            return refuse(405, "method-not-allowed", "only GET and HEAD are known", ALLOWED)
        if isinstance(exc, http_exceptions.HttpProcessingError):
            return refuse(status, "bad-request", "this is no HTTP request")
        _log.error("a request for %s failed", request.path, exc_info=exc)
        return refuse(500, "internal-error", "the agent's log says more")

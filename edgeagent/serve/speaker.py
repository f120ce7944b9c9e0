"""HTTP on one connection: aiohttp's protocol with small limits and answers of our own to what is no request."""

from __future__ import annotations

import asyncio
import logging

from aiohttp import http_exceptions, web

from edgeagent.serve.responses import refuse

ALLOWED = {"Allow": "GET, HEAD"}
_LONGEST_LINE = 8190
"""Bytes of a request line or a header; a bearer token of a service account is about 1.2 kB."""
_LATE = b"HTTP/1.1 408 Request Timeout\r\nServer: edgeagent\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_log = logging.getLogger(__name__)


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
        self.answering = False
        """A whole request has come."""

    def late(self) -> None:
        """The time of the connection is up: say so to a client that has not finished its request."""
        if self.transport is not None and not self.answering:
            self.transport.write(_LATE)

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
        if isinstance(exc, http_exceptions.LineTooLong):
            return refuse(431, "header-too-large", "the request line or a header is too long")
        if isinstance(exc, http_exceptions.BadHttpMethod):
            return refuse(405, "method-not-allowed", "only GET and HEAD are known", ALLOWED)
        if isinstance(exc, http_exceptions.HttpProcessingError):
            return refuse(status, "bad-request", "this is no HTTP request")
        _log.error("a request for %s failed", request.path, exc_info=exc)
        return refuse(500, "internal-error", "the agent's log says more")

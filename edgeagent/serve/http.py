"""The HTTP endpoint: GET and HEAD, answered from what was last shown and nothing else."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import ssl
import time
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from edgeagent.config import Tls
from edgeagent.errors import ConfigError
from edgeagent.serve import state, stream
from edgeagent.serve.bearer import Token
from edgeagent.serve.listener import LIFE, PLACES, Listener
from edgeagent.serve.look import Look
from edgeagent.serve.pages import FILES, OPEN, PAGES, STREAM, file
from edgeagent.serve.responses import encode, refuse, respond
from edgeagent.serve.shown import Shown
from edgeagent.serve.speaker import ALLOWED, Speaker

_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::\d*)?")
"""A Host header: name or address, the latter in brackets if it has colons, and perhaps a port."""


class Server:
    """The endpoint, between ``start`` and ``stop``.

    Args:
        bind: ``ADDRESS:PORT``, an IPv6 address in brackets; port 0 takes any that is free.
        tls: certificate and key files; None: plain HTTP.
        token_file: bearer token that everything but health needs; None: nobody is asked.
        clock: monotonic seconds, the same as of all readings.
        wall: Unix time.
        places: connections at a time.
        life: seconds for each.
        streams: makes the streams, from what makes their events.
    """

    def __init__(
        self,
        bind: str,
        *,
        tls: Tls | None = None,
        token_file: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        places: int = PLACES,
        life: float = LIFE,
        streams: Callable[[Callable[[], bytes]], stream.Streams] = stream.Streams,
    ) -> None:
        host, _, port = bind.rpartition(":")
        self._host = host.strip("[]")
        self._port = int(port)
        self._tls = tls
        self._token = Token(Path(token_file)) if token_file else None
        self._clock = clock
        self._wall = wall
        self._limits = (places, life)
        self._shown: Shown | None = None
        self.streams = streams(self._state)
        """The live views that are open."""
        self._loopback = False
        self._listener: Listener | None = None
        self.address = ""
        """``ADDRESS:PORT`` with the real port, once started."""

    def show(self, shown: Shown) -> None:
        """Answer from ``shown`` from now on."""
        self._shown = shown
        self.streams.changed()

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: certificate, key or token cannot be used.
            OSError: the address is in use, or not of this machine.
        """
        context = await asyncio.to_thread(_context, self._tls) if self._tls else None
        if self._token:
            await self._token.start()
        server = web.Server(self._answer)
        places, life = self._limits
        listener = Listener(lambda: Speaker(server), tls=context, places=places, life=life)
        try:
            address, port = await listener.open(self._host, self._port)
        except OSError:
            await self.stop()
            raise
        self._listener = listener
        found = ipaddress.ip_address(address.partition("%")[0])
        self._loopback = found.is_loopback
        self.address = f"[{address}]:{port}" if found.version == 6 else f"{address}:{port}"  # noqa: PLR2004

    async def stop(self) -> None:
        """End the streams, stop listening and close every connection."""
        await self.streams.stop()
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        if self._token is not None:
            await self._token.stop()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if isinstance(request.protocol, Speaker):
            request.protocol.answering = True
        refused = self._refusal(request)
        if refused is not None:
            return refused
        if request.path == STREAM:
            return await self._stream(request)
        # A disk that is slow must not stop the cycles.
        found = await asyncio.to_thread(file, request.path) if request.path in FILES else None
        if found is not None:
            content_type, body, headers = found
            return respond(200, content_type, body, headers)
        page = PAGES.get(request.path)
        if page is None:
            return refuse(404, "not-found", "there is no such path")
        return respond(*page(self._look(request)))

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "HEAD":
            return respond(200, stream.CONTENT_TYPE, b"")
        return await self.streams.serve(request, lambda: self._admits(request))

    def _state(self) -> bytes:
        return encode(state.document(Look(self._shown, self._clock(), self._wall())))

    def _look(self, request: web.BaseRequest) -> Look:
        return Look(
            self._shown,
            self._clock(),
            self._wall(),
            verbose="verbose" in request.query,
            excluded=frozenset(request.query.getall("exclude", ())),
            lines="text/plain" in request.headers.get("Accept", ""),
            streams=len(self.streams),
        )

    def _refusal(self, request: web.BaseRequest) -> web.Response | None:
        if self._loopback and not self._is_ours(request.headers.get("Host", "")):
            return refuse(403, "foreign-host", "the Host header names another machine")
        if request.method not in ("GET", "HEAD"):
            return refuse(405, "method-not-allowed", "only GET and HEAD are known", ALLOWED)
        if request.path in OPEN or self._admits(request):
            return None
        return refuse(401, "unauthorized", "a bearer token is needed", {"WWW-Authenticate": "Bearer"})

    def _admits(self, request: web.BaseRequest) -> bool:
        """Whether the request brings the token, as it is now, or needs none."""
        return self._token is None or self._token.accepts(request.headers.get("Authorization", ""))

    def _is_ours(self, host: str) -> bool:
        """Whether a Host header can come from somebody who meant this machine.

        A web page can make its own name resolve to 127.0.0.1 and then have the browser ask here; the
        browser still sends that name. No header at all is sent by no browser.
        """
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match[1].strip("[]").rstrip(".").lower()
        if name in ("", "localhost", self._host.lower()):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # An empty password, or a key that wants one would be asked for on the terminal.
        context.load_cert_chain(tls.cert, tls.key, password="")
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(f"serve.tls: {tls.cert} and {tls.key} cannot be used: {error.strerror or error}") from error
    return context

"""The HTTP endpoint: GET and HEAD, answered from what was last shown and nothing else."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from edgeagent.config import Tls
from edgeagent.errors import ConfigError
from edgeagent.serve import api, health, metrics
from edgeagent.serve.bearer import Token
from edgeagent.serve.listener import LIFE, PLACES, Listener
from edgeagent.serve.responses import JSON, encode, refuse, respond
from edgeagent.serve.shown import Shown
from edgeagent.serve.speaker import ALLOWED, Speaker

OPEN = frozenset({"/livez", "/readyz", "/healthz"})
"""Paths that need no token: probes have none, and the answers tell no more than that something is wrong."""


_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::\d*)?")
"""A Host header: name or address, the latter in brackets if it has colons, and perhaps a port."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a page is made from: the state, the present time twice, and whether everything is wanted."""

    shown: Shown | None
    now: float
    wall: float
    verbose: bool


Page = Callable[[Look], tuple[int, str, bytes]]
"""Makes status, content type and body."""


def _health(check: Callable[..., health.Answer], look: Look) -> tuple[int, str, bytes]:
    status, body = check(look.shown, look.now, verbose=look.verbose)
    return status, JSON, encode(body)


def _metrics(look: Look) -> tuple[int, str, bytes]:
    return health.OK, metrics.CONTENT_TYPE, metrics.text(look.shown, look.now, look.wall)


def _api(name: str, look: Look) -> tuple[int, str, bytes]:
    status, body = api.answer(name, look.shown, look.now)
    return status, JSON, encode(body)


PAGES: dict[str, Page] = {
    "/livez": functools.partial(_health, health.livez),
    "/readyz": functools.partial(_health, health.readyz),
    "/healthz": functools.partial(_health, health.healthz),
    "/metrics": _metrics,
    **{f"/api/v1/{name}": functools.partial(_api, name) for name in api.PARTS},
}


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
        self._loopback = False
        self._listener: Listener | None = None
        self.address = ""
        """``ADDRESS:PORT`` with the real port, once started."""

    def show(self, shown: Shown) -> None:
        """Answer from ``shown`` from now on."""
        self._shown = shown

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
        """Stop listening and close every connection."""
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
        page = PAGES.get(request.path)
        if page is None:
            return refuse(404, "not-found", "there is no such path")
        look = Look(self._shown, self._clock(), self._wall(), "verbose" in request.query)
        return respond(*page(look))

    def _refusal(self, request: web.BaseRequest) -> web.Response | None:
        if self._loopback and not self._is_ours(request.headers.get("Host", "")):
            return refuse(403, "foreign-host", "the Host header names another machine")
        if request.method not in ("GET", "HEAD"):
            return refuse(405, "method-not-allowed", "only GET and HEAD are known", ALLOWED)
        if self._token is None or request.path in OPEN or self._token.accepts(request.headers.get("Authorization", "")):
            return None
        return refuse(401, "unauthorized", "a bearer token is needed", {"WWW-Authenticate": "Bearer"})

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

"""A small client of the API server: requests with a time-out, watches with a read time-out, one pause for all.

No retries here beyond one after a 401: what to repeat, and when, is for those who know why they ask.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import aiohttp

from edgeagent import __version__
from edgeagent.cluster.access import Access
from edgeagent.cluster.answers import answer_error
from edgeagent.cluster.credentials import Credentials
from edgeagent.cluster.streams import WatchStream
from edgeagent.errors import AnswerError, UnreachableError

FIELD_MANAGER = "edgeagent"
DISRUPTION_BUDGET = "DisruptionBudget"
"""Cause in a 429 that a pod disruption budget gave: about one pod, not about the server's load."""
SILENCE = 75.0
"""Seconds without a byte after which a watch counts as dead: the server sends a bookmark each 60 s."""
_CONNECT = 5.0
_TOO_MANY_REQUESTS = 429
_UNAUTHORIZED = 401
_REDIRECT = 300
_WRITES = ("POST", "PATCH", "PUT")


def _kept_alive(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that notices a peer without power: aiohttp sets no keepalive on client sockets.

    Through a load balancer on this host it notices nothing; there the read time-out has to do.
    """
    family, kind, protocol, *_ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)
    return opened


def _said(error: Exception) -> str:
    """The error in words. aiohttp's own text for a failed connection prints the address of an object in memory."""
    cause: Exception = error
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
    elif isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
    return f"{type(error).__name__}: {cause}" if str(cause) else type(error).__name__


@dataclass(frozen=True, slots=True)
class _Send:
    """One request, as it is sent and, after a 401, sent again."""

    verb: str
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    data: bytes | None
    limits: aiohttp.ClientTimeout
    background: bool = False

    @property
    def what(self) -> str:
        """Method and path, for messages."""
        return f"{self.verb} {self.path}"


class Client:
    """One session to the API server, as an async context manager.

    Args:
        credentials: asked before each request; no file is read when none has changed.
        clock: monotonic seconds.
        silence: seconds without a byte that end a watch.
    """

    def __init__(
        self, credentials: Credentials, *, clock: Callable[[], float] = time.monotonic, silence: float = SILENCE
    ) -> None:
        self.credentials = credentials
        self.calls: Counter[tuple[str, str]] = Counter()
        """Calls by (HTTP method or ``WATCH``, status code or ``unreachable``)."""
        self.last_success: float | None = None
        """Monotonic second of the last 2xx answer or watch event; None before the first."""
        self.paused_until = float("-inf")
        """Monotonic second before which nothing is sent, because the server asked all traffic to wait."""
        self._background_until = float("-inf")
        """The same for requests in the background alone."""
        self._clock = clock
        self._silence = silence
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Client:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(socket_factory=_kept_alive),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept": "application/json", "User-Agent": f"edgeagent/{__version__}"},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session:
            await self._session.close()
            self._session = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
        timeout: float = 15.0,
        background: bool = False,
    ) -> dict[str, Any]:
        """Send one request and return the answer's object.

        ``timeout`` is the seconds that the whole exchange may take. ``background``: no decision waits for it, so if
        the server asks it to wait, only requests like it do.

        Raises:
            NoCredentialsError: nothing to sign in with.
            UnreachableError: no answer, or one that is not an object; the request may have been carried out.
            AnswerError: an error status, or 429 without asking while the server wants a pause.
        """
        query = dict(params or {})
        headers = {}
        data = None
        if method in _WRITES:
            query["fieldManager"] = FIELD_MANAGER
        if body is not None:
            data = json.dumps(body, separators=(",", ":")).encode()
            headers["Content-Type"] = content_type
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT)
        send = _Send(method, method, path, query, headers, data, limits, background)
        response = await self._answered(send)
        async with response:
            with self._reaching(send):
                text = await response.read()
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise UnreachableError(f"{send.what}: the answer is not an object of the API: {text[:64]!r}")
        return answer

    async def text(self, path: str, params: Mapping[str, str], *, most: int, timeout: float) -> bytes:
        """The first ``most`` bytes of an answer that is no object, as a log is; the rest is not waited for.

        ``timeout`` is the seconds that the whole exchange may take.

        Raises:
            NoCredentialsError, UnreachableError, AnswerError: as :meth:`request`.
        """
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT)
        send = _Send("GET", "GET", path, params, {"Accept": "*/*"}, None, limits)
        response = await self._answered(send)
        found = b""
        try:
            with self._reaching(send):
                while len(found) < most and (more := await response.content.read(most - len(found))):
                    found += more
        finally:
            response.close()
        return found

    @contextlib.asynccontextmanager
    async def watch(self, path: str, params: Mapping[str, str], *, longest: float) -> AsyncIterator[WatchStream]:
        """Open a watch, for at most ``longest`` seconds; leaving the context closes it.

        Raises:
            NoCredentialsError, UnreachableError, AnswerError: it could not be opened, as for ``request``.
        """
        limits = aiohttp.ClientTimeout(
            total=longest, connect=2 * _CONNECT, sock_connect=_CONNECT, sock_read=self._silence
        )
        send = _Send("WATCH", "GET", path, dict(params), {}, None, limits)
        response = await self._answered(send)
        try:
            yield WatchStream(lambda: self._chunk(response, send), send.what, self._clock)
        finally:
            response.close()

    async def _chunk(self, response: aiohttp.ClientResponse, send: _Send) -> bytes:
        with self._reaching(send):
            chunk = await response.content.readany()
        if chunk:
            self._heard()
        return chunk

    def _heard(self) -> None:
        self.last_success = self._clock()

    async def _answered(self, send: _Send) -> aiohttp.ClientResponse:
        """A 2xx answer, its body not read yet."""
        access = await self.credentials.access()
        response = await self._sent(send, access)
        if response.status == _UNAUTHORIZED:
            response.close()
            access = await self.credentials.reread()
            response = await self._sent(send, access)
        if response.status >= _REDIRECT:
            raise await self._refusal(send, response, access)
        self._heard()
        return response

    async def _sent(self, send: _Send, access: Access) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the client is used outside its context")
        until = max(self.paused_until, self._background_until) if send.background else self.paused_until
        wait = until - self._clock()
        if wait > 0:
            raise AnswerError(
                _TOO_MANY_REQUESTS,
                reason="Paused",
                message=f"{send.what} was not sent: the API server asked for a pause, {wait:.0f} s are left",
                retry_after=wait,
            )
        headers = dict(send.headers)
        if access.token is not None:
            headers["Authorization"] = f"Bearer {access.token}"
        with self._reaching(send):
            response = await self._session.request(
                send.method,
                access.server + send.path,
                params=send.query,
                headers=headers,
                data=send.data,
                timeout=send.limits,
                ssl=access.tls if access.tls is not None else True,
                server_hostname=access.server_name,
                proxy=access.proxy,
                allow_redirects=False,  # the token is for this server only
            )
        self.calls[send.verb, str(response.status)] += 1
        return response

    @contextlib.contextmanager
    def _reaching(self, send: _Send) -> Iterator[None]:
        """Turn whatever the network did into UnreachableError."""
        try:
            yield
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            self.calls[send.verb, "unreachable"] += 1
            raise UnreachableError(f"{send.what}: {_said(error)}"[:512]) from error

    async def _refusal(self, send: _Send, response: aiohttp.ClientResponse, access: Access) -> AnswerError:
        async with response:
            with self._reaching(send):
                text = await response.read()
        error = answer_error(response.status, response.headers, text)
        if error.code == _UNAUTHORIZED:
            return AnswerError(
                _UNAUTHORIZED, reason=error.reason, message=f"the credentials of {access.identity} are not accepted"
            )
        if error.code == _TOO_MANY_REQUESTS and DISRUPTION_BUDGET not in error.causes:
            until = self._clock() + max(error.retry_after or 0.0, 1.0)
            if send.background:
                self._background_until = max(self._background_until, until)
            else:
                self.paused_until = max(self.paused_until, until)
        return error

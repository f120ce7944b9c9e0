"""Asks the endpoint of an agent, by the standard library alone: it is loaded in a moment, and asks once.

Of this machine's agent everything is known: where it listens from its runtime directory, else from the
configuration, which also names token and certificate. An address that is given may be anybody's, so nothing
of this machine's configuration is used for it, its token least of all.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeagent.errors import InputError
from edgeagent.system import dirs

if TYPE_CHECKING:
    from edgeagent.config import Serve

SECONDS = 5.0
"""For one answer: an agent gives it in milliseconds, a board that swaps in a few seconds."""
LARGEST = 16 * 1024 * 1024
"""Bytes of an answer: a hundred times that of a board with 110 pods."""
STATE = "/api/v1/state"
STATE_KEYS = frozenset(
    {
        *("at", "node", "version", "started", "cluster", "mode", "observe_because", "ready", "readings", "stale"),
        "config",
        *("board", "host", "pools", "bars", "pods", "plan", "findings", "vitals", "incidents", "events", "floor_bytes"),
    }
)
"""What is made use of."""
_LONGEST_TOKEN = 4096
_LONGEST_ADDRESS = 512
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|([\w.-]+)):(\d{1,5})", re.ASCII)
_LAST_PORT = 65535
_OK, _UNAUTHORIZED, _NOT_FOUND, _UNAVAILABLE = 200, 401, 404, 503

Json = dict[str, Any]


class NoAnswerError(InputError):
    """Nobody answers at the address, or nobody who can be understood."""


class NotReadyError(InputError):
    """The agent answers that it cannot tell this now, and why: one problem for each reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where an agent answers, and how it is asked."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    """None: plain HTTP."""
    token: str = ""
    """Empty: none is sent."""
    seconds: float = SECONDS

    @property
    def address(self) -> str:
        """``HOST:PORT``, as people write it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def get(self, path: str) -> Json:
        """The document at ``path``.

        Raises:
            NotReadyError: the agent cannot tell it now.
            InputError: as :meth:`ask`.
        """
        status, document = self.ask(path)
        if status == _UNAVAILABLE:
            reasons = [f"{reason['name']}: {reason['message']}" for reason in document.get("reasons", ())]
            raise NotReadyError([f"the agent cannot tell it now: {reason}" for reason in reasons or ["503"]])
        return document

    def state(self) -> Json:
        """Everything that the agent tells, at once; every key of STATE_KEYS is there.

        Raises:
            InputError: as :meth:`get`, or the agent is of a version that has other keys.
        """
        document = self.get(STATE)
        missing = sorted(STATE_KEYS - document.keys())
        if missing:
            raise InputError(f"{self.address}: {STATE} has no {', '.join(missing)}: the agent is of another version")
        return document

    def ask(self, path: str) -> tuple[int, Json]:
        """(status, document) at ``path``: 200, or 503 with the reasons.

        Raises:
            NoAnswerError: nobody answers, or it is no agent that does.
            InputError: the agent refuses, or knows no such path.
        """
        status, body = self._asked(path)
        if status == _UNAUTHORIZED:
            given = "does not take this token" if self.token else "wants a token"
            raise InputError(f"{self.address}: {given}; give its file with --token-file")
        if status == _NOT_FOUND:
            raise InputError(f"{self.address}: has no {path}: what answers there is another version, or no edgeagent")
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        if status not in (_OK, _UNAVAILABLE) or not isinstance(document, dict):
            raise NoAnswerError(f"{self.address}: what answers there is no edgeagent: HTTP {status}, {len(body)} bytes")
        return status, document

    def _asked(self, path: str) -> tuple[int, bytes]:
        """Status and body."""
        headers = {"Accept": "application/json", "Connection": "close"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        deadline = time.monotonic() + self.seconds
        connection = self._connection()
        try:
            connection.request("GET", path, headers=headers)
            body = bytearray()
            # Not by getresponse(): that keeps the socket open where an answer does not begin.
            with http.client.HTTPResponse(connection.sock, method="GET") as response:
                response.begin()
                while part := response.read1(65536):
                    body += part
                    if len(body) > LARGEST:
                        raise NoAnswerError(f"{self.address}: its answer is larger than {LARGEST} bytes")
                    connection.sock.settimeout(max(deadline - time.monotonic(), 0.001))
                return response.status, bytes(body)
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswerError(f"{self.address}: {self._why(error)}") from error
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self.tls is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=self.seconds)
        return http.client.HTTPSConnection(self.host, self.port, timeout=self.seconds, context=self.tls)

    def _why(self, error: Exception) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not the one expected: {error.verify_message}"
        if isinstance(error, ssl.SSLError):
            return f"TLS failed: {error.reason or 'no reason is given'}"
        if isinstance(error, TimeoutError):
            return f"no answer within {self.seconds:g} s"
        if isinstance(error, http.client.RemoteDisconnected):
            return "the connection was closed without an answer" + (
                "" if self.tls else "; if it speaks TLS, write https://"
            )
        if isinstance(error, OSError):
            return error.strerror or type(error).__name__
        return "what answers there speaks no HTTP"


def find(
    *,
    address: str | None,
    runtime: Path,
    named: bool,
    serve: Callable[[], Serve],
    token_file: Path | None,
    ca_file: Path | None,
) -> Endpoint:
    """The endpoint that is meant; nothing is asked yet.

    Args:
        address: ``HOST:PORT``, perhaps with ``http://`` or ``https://`` before it; None: this machine's agent.
        runtime: the runtime directory of this machine's agent.
        named: somebody asked for this directory: the agent that is meant is there or nowhere.
        serve: reads this machine's configuration of the endpoint; called without an ``address`` only.
        token_file: with the bearer token; None: the configuration's, if any.
        ca_file: certificates that the endpoint's own is checked with, in PEM; with one, TLS is spoken.

    Raises:
        InputError: the address, a file or the configuration cannot be used.
    """
    if address is not None:
        scheme, _, rest = address.rpartition("://")
        host, port = _parts("--address", rest.rstrip("/"))
        if scheme not in ("", "http", "https") or (scheme == "http" and ca_file):
            raise InputError(f"--address: expected HOST:PORT or https://HOST:PORT, got {address!r}")
        tls = _trusting(ca_file) if scheme == "https" or ca_file else None
        return Endpoint(host=host, port=port, tls=tls, token=_token(token_file) if token_file else "")
    settings = serve()
    host, port = _own(runtime / dirs.ADDRESS, "" if named else settings.bind)
    if token_file is None and settings.token_file:
        token_file = Path(settings.token_file)
    if ca_file is not None:
        tls = _trusting(ca_file)
    else:
        tls = _trusting_only(Path(settings.tls.cert)) if settings.tls else None
    return Endpoint(host=host, port=port, tls=tls, token=_token(token_file) if token_file else "")


def _own(file: Path, bind: str) -> tuple[str, int]:
    """Where this machine's agent listens. The file is a convenience: that of a container is not seen from outside."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_LONGEST_ADDRESS).decode("ascii", "replace").strip()
        host, port = _parts(str(file), text)
    except FileNotFoundError as error:
        if not bind or bind.endswith(":0"):
            raise NoAnswerError(f"{file}: is not there, so no agent runs with this directory") from error
        host, port = _parts("serve.bind", bind)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    # An agent that listens on every address listens on this one too.
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port  # noqa: S104 (nothing is bound here)


def _parts(where: str, text: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(text)
    if not match or not 0 < int(match[3]) <= _LAST_PORT:
        raise InputError(f"{where}: expected HOST:PORT, an IPv6 address in brackets, got {text!r}")
    return match[1] or match[2], int(match[3])


def _token(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(_LONGEST_TOKEN).strip()
    except OSError as error:
        help_ = "; run it as root, or give another with --token-file" if isinstance(error, PermissionError) else ""
        raise InputError(f"{file}: the token cannot be read: {error.strerror}{help_}") from error
    token = content.decode("ascii", "replace")
    if not token or not token.isascii() or not token.isprintable():
        raise InputError(f"{file}: holds no token: one line of printable ASCII is expected")
    return token


def _trusting(ca_file: Path | None) -> ssl.SSLContext:
    """Trusts the certificates of the file, or those that the system trusts, for the name that is asked."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one
        raise InputError(f"{ca_file}: no certificate can be read from it: {_reason(error)}") from error


def _trusting_only(cert: Path) -> ssl.SSLContext:
    """Trusts this one certificate, whoever signed it and whatever name is in it: it is this machine's own."""
    try:
        text = cert.read_text(encoding="ascii", errors="replace")
        first = text[text.index("-----BEGIN CERTIFICATE-----") :].partition("-----END CERTIFICATE-----")
        context = ssl.create_default_context(cadata="".join(first[:2]))
    except (OSError, ValueError) as error:
        raise InputError(f"{cert}: no certificate can be read from it: {_reason(error)}; give --ca-file") from error
    context.check_hostname = False
    # It is trusted itself, not only as the signer of another.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return "it is not one in PEM"
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else "it is not one in PEM"

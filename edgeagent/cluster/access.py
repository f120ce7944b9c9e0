"""How the API server is reached, and the TLS context for it."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgeagent.errors import NoCredentialsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Everything that a request to the API server needs besides the request."""

    server: str
    """Base URL without a slash at its end."""
    identity: str
    """For messages: the path of a kubeconfig, or ``service account``."""
    token: str | None = None
    tls: ssl.SSLContext | None = None
    """None for a plain HTTP server."""
    server_name: str | None = None
    """Name that the server's certificate is checked against, where it is not the URL's."""
    proxy: str | None = None
    files: tuple[Path, ...] = ()
    """What it was read from; a change of any of them makes it outdated."""


def read_token(path: Path, last: str | None) -> str:
    """The bearer token in ``path``; ``last`` while the file is empty, as it is for a moment when it is rewritten.

    Raises:
        NoCredentialsError: empty and never read before, or not a token.
        OSError: not readable.
    """
    return check_token(path.read_text(encoding="utf-8"), str(path)) if path.stat().st_size else _kept(path, last)


def _kept(path: Path, last: str | None) -> str:
    if last is None:
        raise NoCredentialsError(f"the token file {path} is empty")
    return last


def check_token(text: str, where: str) -> str:
    """``text`` as it can stand in a header.

    Raises:
        NoCredentialsError: empty, or with white space or control characters inside.
    """
    token = text.strip()
    if not token.isascii() or not token.isprintable() or " " in token or not token:
        raise NoCredentialsError(f"{where} does not hold a bearer token")
    return token


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The TLS side of a kubeconfig. Each of ``ca``, ``certificate`` and ``key`` is a path or PEM bytes."""

    ca: Path | bytes | None = None
    certificate: Path | bytes | None = None
    key: Path | bytes | None = None
    insecure: bool = False

    @property
    def files(self) -> tuple[Path, ...]:
        """Those of the three that are files."""
        return tuple(part for part in (self.ca, self.certificate, self.key) if isinstance(part, Path))

    def context(self) -> ssl.SSLContext:
        """The context for a client.

        Raises:
            ssl.SSLError: not certificates or not a key of that certificate.
            OSError: a file that is not readable.
        """
        if isinstance(self.ca, bytes):
            context = ssl.create_default_context(cadata=self.ca.decode("ascii"))
        else:
            context = ssl.create_default_context(cafile=self.ca)
        # Python 3.13 began to refuse CAs without an authority key identifier, which clusters
        # were set up with for years: the same certificate has to work on every Python.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate is not None:
            with _as_file(self.certificate) as certificate, _as_file(self.key or self.certificate) as key:
                # An empty password: without one OpenSSL asks for it on the terminal.
                context.load_cert_chain(certificate, key, password="")
        return context


@contextlib.contextmanager
def _as_file(part: Path | bytes) -> Iterator[str]:
    """A path for ``part``. OpenSSL reads certificates from files only; inline ones never touch the disk."""
    if isinstance(part, Path):
        yield str(part)
        return
    with os.fdopen(os.memfd_create("edgeagent-tls"), "wb") as file:
        file.write(part)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"

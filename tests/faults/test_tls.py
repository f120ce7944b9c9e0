"""TLS both ways: the server is checked, the agent shows its certificate, and both may be renewed in place."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from edgeagent.cluster.client import Client
from edgeagent.cluster.credentials import Credentials
from edgeagent.errors import UnreachableError
from tests.faults.server import Exchange, answers, serving

SERVER_CA = trustme.CA()
CLIENT_CA = trustme.CA()


def server_context(host: str = "127.0.0.1", clients: trustme.CA | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    SERVER_CA.issue_cert(host).configure_cert(context)
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        clients.configure_trust(context)
    return context


def write(path: Path, url: str, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> Path:
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": url, **(cluster or {})}}],
        "users": [{"name": "c", "user": user or {}}],
    }
    path.write_text(json.dumps(document))
    return path


def encoded(*pems: trustme.Blob) -> str:
    return base64.b64encode(b"".join(pem.bytes() for pem in pems)).decode()


TRUSTED = {"certificate-authority-data": encoded(SERVER_CA.cert_pem)}


def renew(folder: Path, name: str) -> None:
    """Write a client certificate and its key over those that are there."""
    certificate = CLIENT_CA.issue_cert(common_name=name)
    (folder / "kubelet.crt").write_bytes(b"".join(pem.bytes() for pem in certificate.cert_chain_pems))
    (folder / "kubelet.key").write_bytes(certificate.private_key_pem.bytes())


async def ask(path: Path) -> None:
    async with Client(Credentials(path, environ={})) as client:
        await client.request("GET", "/a")


async def test_server_of_another_authority_is_refused(tmp_path: Path) -> None:
    async with serving(answers(200), server_context()) as server:
        stranger = {"certificate-authority-data": encoded(trustme.CA().cert_pem)}
        with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED") as refusal:
            await ask(write(tmp_path / "config", server.url, stranger))
        assert " object at " not in str(refusal.value)
        assert server.requests == []


async def test_nobody_listens(tmp_path: Path) -> None:
    async with serving(answers(200), server_context()) as server:
        gone = write(tmp_path / "config", server.url, TRUSTED)
    with pytest.raises(UnreachableError, match=r"^GET /a: ClientConnectorError: \[Errno 111\] Connect") as refusal:
        await ask(gone)
    assert " object at " not in str(refusal.value)


async def test_server_of_another_name_is_refused_unless_told(tmp_path: Path) -> None:
    async with serving(answers(200), server_context("kubernetes.default")) as server:
        with pytest.raises(UnreachableError, match="Certificate"):
            await ask(write(tmp_path / "config", server.url, TRUSTED))
        await ask(write(tmp_path / "config", server.url, {**TRUSTED, "tls-server-name": "kubernetes.default"}))
        await ask(write(tmp_path / "config", server.url, {"insecure-skip-tls-verify": True}))
        assert len(server.requests) == 2


async def test_client_certificate_from_inline_data(tmp_path: Path) -> None:
    certificate = CLIENT_CA.issue_cert(common_name="system:node:n1")
    user = {
        "client-certificate-data": encoded(*certificate.cert_chain_pems),
        "client-key-data": encoded(certificate.private_key_pem),
    }
    async with serving(answers(200), server_context(clients=CLIENT_CA)) as server:
        await ask(write(tmp_path / "config", server.url, TRUSTED, user))
        assert len(server.requests) == 1


async def test_client_certificate_renewed_in_place_is_used_at_the_next_call(tmp_path: Path) -> None:
    """K3s rewrites client-kubelet.crt and .key where they are; the connection that is still open is not used again."""
    shown: list[str] = []

    async def look(exchange: Exchange) -> None:
        shown.append(exchange.common_name)
        await exchange.answer(200)

    renew(tmp_path, "old")
    async with serving(look, server_context(clients=CLIENT_CA)) as server:
        user = {"client-certificate": "kubelet.crt", "client-key": "kubelet.key"}
        path = write(tmp_path / "config", server.url, TRUSTED, user)
        async with Client(Credentials(path, environ={})) as client:
            await client.request("GET", "/a")
            renew(tmp_path, "new")
            await client.request("GET", "/a")
    assert shown == ["old", "new"]


async def test_certificate_that_ran_out_is_read_anew_after_the_401(tmp_path: Path) -> None:
    """The API server takes an expired certificate's connection and answers 401."""

    async def expires(exchange: Exchange) -> None:
        renew(tmp_path, "new")  # while the request is on its way
        await exchange.answer(200 if exchange.common_name == "new" else 401)

    renew(tmp_path, "old")
    async with serving(expires, server_context(clients=CLIENT_CA)) as server:
        user = {"client-certificate": "kubelet.crt", "client-key": "kubelet.key"}
        await ask(write(tmp_path / "config", server.url, TRUSTED, user))
        assert len(server.requests) == 2

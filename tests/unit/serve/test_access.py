"""Who may ask: the bearer token and TLS."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme

from edgeagent.config import Tls
from edgeagent.errors import ConfigError
from edgeagent.serve.bearer import Token
from edgeagent.serve.http import OPEN, PAGES, Server

from .states import shown
from .talk import get, running, send, until


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    return file


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Bearer s3cret", 200),
        ("bearer  s3cret", 200),
        ("Bearer s3cre", 401),
        ("Bearer s3cret2", 401),
        ("Bearer", 401),
        ("Basic s3cret", 401),
        ("s3cret", 401),
        ("Bearer s\xe9cret", 401),
    ],
)
async def test_only_the_whole_token_opens(token: Path, header: str, status: int) -> None:
    async with running(state=shown(), token_file=str(token)) as server:
        answer = await get(server, "/api/v1/pods", Authorization=header)

    assert answer.status == status


async def test_health_is_open_and_everything_else_is_not(token: Path) -> None:
    async with running(state=shown(), token_file=str(token)) as server:
        open_to_all = {path for path in PAGES if (await get(server, path)).status == 200}
        refused = await get(server, "/metrics")
        unknown = await get(server, "/nothing")

    assert open_to_all == OPEN == {"/livez", "/readyz", "/healthz"}
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert unknown.status == 401, "which paths there are is nobody's business either"
    assert b"s3cret" not in refused.body


def accepts(token: Token, value: str) -> bool:
    return token.accepts(f"Bearer {value}")


def put(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
    else:
        path.write_text(text)


async def test_the_file_is_read_again_when_it_changes(token: Path, caplog: pytest.LogCaptureFixture) -> None:
    watched = Token(token, poll=0.01)
    await watched.start()
    try:
        assert accepts(watched, "s3cret")

        put(token, "another")
        await until(lambda: accepts(watched, "another"))
        assert not accepts(watched, "s3cret")

        put(token, None)
        await until(lambda: not accepts(watched, "another"))
        assert "cannot be read" in caplog.text

        put(token, "third")
        await until(lambda: accepts(watched, "third"))

        put(token, " \n")
        await until(lambda: not accepts(watched, "third"))
        assert not watched.accepts("Bearer ")
    finally:
        await watched.stop()


async def test_an_empty_token_file_is_an_error(token: Path) -> None:
    put(token, "\n")

    with pytest.raises(ConfigError, match="is empty"):
        await Token(token).start()


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls(authority: trustme.CA, tmp_path: Path) -> Tls:
    issued = authority.issue_cert("127.0.0.1")
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    issued.cert_chain_pems[0].write_to_path(str(cert))
    issued.private_key_pem.write_to_path(str(key))
    return Tls(cert=str(cert), key=str(key))


def client(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.mark.may_block("the client's TLS context reads the system's certificates")
async def test_tls(authority: trustme.CA, tls: Tls) -> None:
    async with running(state=shown(), tls=tls) as server:
        answer = await get(server, "/livez", tls=client(authority))
        plain = await send(server, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert answer.status == 200
    assert not plain.startswith(b"HTTP/")


@pytest.mark.may_block("the client's TLS context reads the system's certificates")
async def test_connections_that_never_shake_hands_do_not_keep_others_out(authority: trustme.CA, tls: Tls) -> None:
    async with running(state=shown(), tls=tls, places=8) as server:
        host, _, port = server.address.rpartition(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(50)]

        answer = await get(server, "/livez", tls=client(authority))

        for _, writer in silent:
            writer.close()
    assert answer.status == 200


@pytest.mark.parametrize("broken", ["cert", "key"])
async def test_files_that_cannot_be_used_are_an_error(tls: Tls, broken: str) -> None:
    put(Path(getattr(tls, broken)), "nothing")

    with pytest.raises(ConfigError, match=r"serve\.tls: .*tls\.crt and .*tls\.key cannot be used"):
        await Server("127.0.0.1:0", tls=tls).start()

"""Who may ask: the bearer token and TLS."""

from __future__ import annotations

import asyncio
import hmac
import ssl
from pathlib import Path

import pytest
import trustme

from edgeagent.config import Config, Serve, Tls, cross_check
from edgeagent.errors import ConfigError
from edgeagent.serve import dashboard
from edgeagent.serve.bearer import Token
from edgeagent.serve.http import Server
from edgeagent.serve.pages import FILES, OPEN, PAGES, STREAM

from .states import shown
from .talk import get, listening, running, send, until


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


async def test_health_and_the_files_of_the_dashboard_are_open_and_everything_else_is_not(token: Path) -> None:
    async with running(state=shown(), token_file=str(token)) as server:
        paths = {*PAGES, *FILES, STREAM}
        open_to_all = {path for path in paths if (await get(server, path)).status == 200}
        refused = await get(server, "/metrics")
        unknown = await get(server, "/nothing")

    assert open_to_all == OPEN == {"/livez", "/readyz", "/healthz", *dashboard.PATHS}
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert unknown.status == 401, "which paths there are is nobody's business either"
    assert b"s3cret" not in refused.body


@pytest.mark.parametrize("path", dashboard.PATHS)
async def test_the_files_of_the_dashboard_hold_nothing_of_the_board(path: str) -> None:
    async with running() as server:
        before = await get(server, path)
        server.show(shown())
        after = await get(server, path)

    assert before.status == 200
    assert before.body == after.body


async def test_a_token_in_the_address_opens_nothing(token: Path) -> None:
    """Addresses stand in logs and in histories of browsers."""
    async with running(state=shown(), token_file=str(token)) as server:
        answers = [await get(server, f"/api/v1/pods?{name}=s3cret") for name in ("token", "access_token")]

    assert {answer.status for answer in answers} == {401}


async def test_the_token_is_compared_in_constant_time(token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    real = hmac.compare_digest

    def compare(given: bytes, expected: bytes) -> bool:
        compared.append((given, expected))
        return real(given, expected)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    async with running(state=shown(), token_file=str(token)) as server:
        for given in ("s3cret", "s", "wrong"):
            await get(server, "/api/v1/pods", Authorization=f"Bearer {given}")

    assert compared == [(given, b"s3cret") for given in (b"s3cret", b"s", b"wrong")]


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


def allow(path: Path, mode: int) -> None:
    path.chmod(mode)


async def test_a_token_that_everybody_can_read_is_told_once_and_used(
    token: Path, caplog: pytest.LogCaptureFixture
) -> None:
    allow(token, 0o644)
    opened = Token(token, poll=0.01)
    await opened.start()
    try:
        assert accepts(opened, "s3cret")
        await asyncio.sleep(0.1)  # looked at again and again
        assert caplog.text.count("everybody on this machine can read the token (mode 0644)") == 1

        allow(token, 0o640)
        await asyncio.sleep(0.5)
        allow(token, 0o644)
        await until(lambda: caplog.text.count("everybody on this machine") == 2)
    finally:
        await opened.stop()


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


@pytest.mark.may_block("the client's TLS context reads the system's certificates")
async def test_the_stream_over_tls(authority: trustme.CA, tls: Tls) -> None:
    async with (
        running(state=shown(), tls=tls) as server,
        listening(server, client(authority)) as stream,
    ):
        event = await stream.event()

    assert (stream.status, event["node"]) == (200, "n")


@pytest.mark.parametrize(
    ("serve", "wanted"),
    [
        (Serve(bind="127.0.0.1:9843"), False),
        (Serve(bind="[::1]:9843"), False),
        (Serve(bind="localhost:9843"), False),
        (Serve(bind="0.0.0.0:9843"), True),
        (Serve(bind="[::]:9843"), True),
        (Serve(bind="192.168.1.7:9843"), True),
        (Serve(bind="board-7.lan:9843"), True),
        (Serve(bind="0.0.0.0:9843", tls=Tls(cert="c", key="k")), False),
        (Serve(bind="0.0.0.0:9843", token_file="t"), False),
        (Serve(bind="0.0.0.0:9843", insecure=True), False),
    ],
    ids=lambda value: str(value) if isinstance(value, bool) else None,
)
def test_another_address_needs_tls_or_a_token_or_the_word_that_it_is_wanted(serve: Serve, *, wanted: bool) -> None:
    problems = [problem for problem in cross_check(Config(serve=serve)) if problem.startswith("serve.bind")]

    assert bool(problems) == wanted
    assert all("serve.tls" in one and "serve.token_file" in one and "serve.insecure" in one for one in problems)


@pytest.mark.parametrize("broken", ["cert", "key"])
async def test_files_that_cannot_be_used_are_an_error(tls: Tls, broken: str) -> None:
    put(Path(getattr(tls, broken)), "nothing")

    with pytest.raises(ConfigError, match=r"serve\.tls: .*tls\.crt and .*tls\.key cannot be used"):
        await Server("127.0.0.1:0", tls=tls).start()

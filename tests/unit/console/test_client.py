"""Asking an agent's endpoint: the real one where it can say it, a socket of the test's own where it would not."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from edgeagent.config import Serve, Tls
from edgeagent.console.client import LARGEST, Endpoint, NoAnswerError, NotReadyError, find
from edgeagent.errors import InputError
from tests.unit.serve.states import shown
from tests.unit.serve.talk import running

BOARD = "/api/v1/board"


def endpoint(
    address: str | None = None,
    *,
    runtime: Path = Path("/nowhere"),
    named: bool = False,
    serve: Serve | None = None,
    token_file: Path | None = None,
    ca_file: Path | None = None,
) -> Endpoint:
    return find(
        address=address,
        runtime=runtime,
        named=named,
        serve=lambda: serve or Serve(),
        token_file=token_file,
        ca_file=ca_file,
    )


async def get(address: str | None = None, path: str = BOARD, **options: Any) -> dict[str, Any]:
    """What an endpoint tells, asked as commands do: from outside of the loop."""
    return await asyncio.to_thread(lambda: endpoint(address, **options).get(path))


@contextlib.asynccontextmanager
async def saying(*parts: bytes, pause: float = 0.0, end: bool = True) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Somebody who answers every request with ``parts``: the address, and what was asked."""
    asked: list[bytes] = []
    tasks: list[asyncio.Task[None]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(pause)
            if not end:
                await asyncio.Event().wait()
        except ConnectionError:
            pass  # whoever asked has seen enough
        finally:
            writer.close()

    def seat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.create_task(answer(reader, writer)))

    server = await asyncio.start_server(seat, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def response(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


# --- the agent of this machine ------------------------------------------------------------------


async def test_where_it_listens_stands_in_its_runtime_directory(tmp_path: Path) -> None:
    async with running(state=shown()) as server:
        (tmp_path / "address").write_text(f"{server.address}\n")

        assert set(await get(runtime=tmp_path, named=True)) == {"board", "devices", "host"}


async def test_without_that_file_the_configured_address_is_asked(tmp_path: Path) -> None:
    async with running(state=shown()) as server:
        assert await get(runtime=tmp_path, serve=Serve(bind=server.address))


def test_a_runtime_directory_that_was_named_is_the_one_that_is_meant(tmp_path: Path) -> None:
    with pytest.raises(NoAnswerError, match="no agent runs with this directory"):
        endpoint(runtime=tmp_path, named=True, serve=Serve(bind="127.0.0.1:9843"))
    with pytest.raises(NoAnswerError, match="no agent runs with this directory"):
        endpoint(runtime=tmp_path, serve=Serve(bind="127.0.0.1:0"))


@pytest.mark.parametrize(
    ("bind", "host", "shown_as"),
    [
        ("0.0.0.0:9843", "127.0.0.1", "127.0.0.1:9843"),
        ("[::]:9843", "::1", "[::1]:9843"),
        ("[fe80::1%eth0]:9843", "fe80::1%eth0", "[fe80::1%eth0]:9843"),
        ("localhost:9843", "localhost", "localhost:9843"),
    ],
)
def test_one_that_listens_everywhere_listens_here(tmp_path: Path, bind: str, host: str, shown_as: str) -> None:
    (tmp_path / "address").write_text(bind)

    found = endpoint(runtime=tmp_path)

    assert (found.host, found.port, found.address) == (host, 9843, shown_as)


async def test_its_token_and_its_certificate_are_those_of_the_configuration(tmp_path: Path) -> None:
    token, cert, key = tmp_path / "token", tmp_path / "cert.pem", tmp_path / "key.pem"
    token.write_text("secret\n")
    leaf = trustme.CA().issue_cert("board.example")  # not the address that is asked
    leaf.cert_chain_pems[0].write_to_path(cert)
    leaf.private_key_pem.write_to_path(key)
    tls = Tls(cert=str(cert), key=str(key))

    async with running(state=shown(), tls=tls, token_file=str(token)) as server:
        serve = Serve(bind=server.address, tls=tls, token_file=str(token))
        assert await get(serve=serve)

        # Another certificate, whose signer is unknown too, is another machine.
        trustme.CA().issue_cert("board.example").cert_chain_pems[0].write_to_path(cert)
        with pytest.raises(NoAnswerError, match="its certificate is not the one expected"):
            await get(serve=serve)


def test_a_token_that_may_not_be_read_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "address").write_text("127.0.0.1:1")

    with pytest.raises(InputError, match="none: the token cannot be read: No such file"):
        endpoint(runtime=tmp_path, serve=Serve(token_file=str(tmp_path / "none")))
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(InputError, match="holds no token"):
        endpoint(runtime=tmp_path, token_file=tmp_path / "empty")


@pytest.mark.parametrize(
    "text", ["", "9843", "host", "host:0", "host:65536", "a b:1", "::1:9843", "[::1]", "h:1/x", "h:1\r\nX: y"]
)
def test_what_is_no_address_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "address").write_text(text)

    with pytest.raises(InputError, match="expected HOST:PORT"):
        endpoint(runtime=tmp_path)
    with pytest.raises(InputError, match="expected HOST:PORT"):
        endpoint(text)


# --- another one ----------------------------------------------------------------------------------


async def test_an_address_is_asked_with_the_token_and_certificates_that_are_given(tmp_path: Path) -> None:
    token, ca_file, cert, key = (tmp_path / name for name in ("token", "ca.pem", "cert.pem", "key.pem"))
    token.write_text("secret")
    ca = trustme.CA()
    leaf = ca.issue_cert("127.0.0.1")
    ca.cert_pem.write_to_path(ca_file)
    leaf.cert_chain_pems[0].write_to_path(cert)
    leaf.private_key_pem.write_to_path(key)

    async with running(state=shown(), tls=Tls(cert=str(cert), key=str(key)), token_file=str(token)) as server:
        assert await get(f"https://{server.address}/", token_file=token, ca_file=ca_file)
        assert await get(server.address, token_file=token, ca_file=ca_file)
        with pytest.raises(InputError, match="wants a token; give its file with --token-file"):
            await get(server.address, ca_file=ca_file)
        token.write_text("wrong")
        with pytest.raises(InputError, match="does not take this token"):
            await get(server.address, token_file=token, ca_file=ca_file)
        with pytest.raises(NoAnswerError, match="its certificate is not the one expected"):
            await get(f"https://{server.address}")
        with pytest.raises(NoAnswerError, match="if it speaks TLS, write https://"):
            await get(server.address)


async def test_nothing_of_this_machine_is_told_to_an_address_that_was_given(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    async with saying(response(b"{}")) as (address, asked):
        await get(address, serve=Serve(token_file=str(tmp_path / "token")))
        await get(address, token_file=tmp_path / "token")

    assert b"secret" not in asked[0]
    assert b"Authorization: Bearer secret\r\n" in asked[1]


def test_other_schemes_and_certificates_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("nothing")

    for address in ("ftp://h:1", "http://h:1"):
        with pytest.raises(InputError, match="expected HOST:PORT or https"):
            endpoint(address, ca_file=tmp_path / "no.pem")
    for arguments in (
        {"address": "https://h:1", "ca_file": tmp_path / "no.pem"},
        {"address": "h:1", "ca_file": tmp_path / "x"},
    ):
        with pytest.raises(InputError, match="no certificate can be read from it"):
            endpoint(**arguments)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"no certificate can be read from it.*give --ca-file"):
        endpoint(serve=Serve(tls=Tls(cert=str(tmp_path / "no.pem"), key="")))


# --- what comes back ----------------------------------------------------------------------------------


async def test_an_agent_that_cannot_tell_says_why() -> None:
    async with running() as server:
        with pytest.raises(NotReadyError, match="first-reading: the board was not read completely yet"):
            await get(server.address)
        status, document = await asyncio.to_thread(endpoint(server.address).ask, "/readyz")

    assert (status, document["status"]) == (503, "unavailable")


async def test_nobody_there_is_one_line(unused_tcp_port: int) -> None:
    with pytest.raises(NoAnswerError) as refused:
        await get(f"127.0.0.1:{unused_tcp_port}")

    assert refused.value.problems == (f"127.0.0.1:{unused_tcp_port}: Connection refused",)


async def test_a_path_that_is_not_there_is_another_version() -> None:
    async with running(state=shown()) as server:
        with pytest.raises(InputError, match="has no /api/v9/state: what answers there is another version"):
            await get(server.address, "/api/v9/state")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (response(b"<html>"), "no edgeagent: HTTP 200, 6 bytes"),
        (response(b"[1]"), "no edgeagent: HTTP 200"),
        (response(b"{}", "500 Oops"), "no edgeagent: HTTP 500"),
        (response(b"[" * 100_000), "no edgeagent: HTTP 200"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "speaks no HTTP"),
        (b"", "closed without an answer"),
    ],
)
async def test_what_is_no_agent_is_said_to_be_none(answer: bytes, said: str) -> None:
    async with saying(answer) as (address, _):
        with pytest.raises(NoAnswerError, match=said):
            await get(address)


async def test_an_answer_without_end_is_cut_off() -> None:
    chunk = b" " * (1024 * 1024)
    async with saying(b"HTTP/1.1 200 OK\r\n\r\n", *[chunk] * (LARGEST // len(chunk) + 2)) as (address, _):
        with pytest.raises(NoAnswerError, match=f"larger than {LARGEST} bytes"):
            await get(address)


@pytest.mark.parametrize("parts", [(), (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",)], ids=["silent", "half"])
async def test_whoever_does_not_come_to_an_end_is_not_waited_for(parts: tuple[bytes, ...]) -> None:
    async with saying(*parts, end=False) as (address, _):
        host, _, port = address.rpartition(":")
        with pytest.raises(NoAnswerError, match=r"no answer within 0\.2 s"):
            await asyncio.to_thread(Endpoint(host=host, port=int(port), seconds=0.2).get, BOARD)


async def test_whoever_sends_byte_by_byte_has_no_more_time() -> None:
    async with saying(response(b" " * 1000)[:-1000], *[b" "] * 1000, pause=0.01) as (address, _):
        host, _, port = address.rpartition(":")
        with pytest.raises(NoAnswerError, match=r"no answer within 0\.3 s"):
            await asyncio.to_thread(Endpoint(host=host, port=int(port), seconds=0.3).get, BOARD)


async def test_a_state_without_a_key_is_that_of_another_version() -> None:
    async with saying(response(json.dumps({"at": ""}).encode())) as (address, _):
        with pytest.raises(InputError, match=r"has no bars, board.*: the agent is of another version"):
            await asyncio.to_thread(endpoint(address).state)


async def test_the_state_of_the_real_endpoint_has_every_key() -> None:
    async with running(state=shown()) as server:
        state = await asyncio.to_thread(endpoint(server.address).state)

    assert state["node"] == "n"
    assert state["cluster"] == {"complete": True, "view_age_seconds": 0.0, "error": ""}
    # 1 700 000 000 − 100 s, as the state of the tests has it.
    assert state["started"] == "2023-11-14T22:11:40.000Z"

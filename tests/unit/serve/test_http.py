"""The endpoint over real connections: what it answers, and what it refuses."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

import pytest

from edgeagent.errors import ConfigError
from edgeagent.serve import api, dashboard, metrics
from edgeagent.serve.http import Server
from edgeagent.serve.look import Look
from edgeagent.serve.pages import DOCUMENT, FILES, PAGES, file

from .states import MIB, NOW, WALL, cluster, shown
from .talk import connect, get, parse, running, send


async def test_every_page_before_and_after_the_first_cycle() -> None:
    async with running() as server:
        before = {path: (await get(server, path)).status for path in PAGES}
        server.show(shown())
        after = {path: (await get(server, path)).status for path in PAGES}

    assert before.pop("/readyz") == 503
    assert {before.pop(path) for path in ("/livez", "/healthz", "/metrics", "/api/v1/state")} == {200}
    assert set(before.values()) == {503}
    assert set(after.values()) == {200}
    sampled = {"board", "pools", "pods", "plan", "findings"}
    kept = {"events", "incidents", "history", "config", "budgets", "neighbours", "vitals"}
    assert {f"/api/v1/{name}" for name in sampled | kept} == set(before)


async def test_the_openapi_document_is_served_as_it_is() -> None:
    async with running() as server:
        answer = await get(server, "/openapi.json")

    assert (answer.status, answer.headers["content-type"]) == (200, "application/json; charset=utf-8")
    assert answer.body == await asyncio.to_thread(DOCUMENT.read_bytes)


@pytest.mark.parametrize("path", dashboard.PATHS)
async def test_the_files_of_the_dashboard_are_served_with_a_policy_of_their_own(path: str) -> None:
    async with running() as server:
        answer = await get(server, path)

    found = await asyncio.to_thread(file, path)
    assert found
    content_type, body, headers = found
    assert (answer.status, answer.headers["content-type"], answer.body) == (200, content_type, body)
    assert answer.headers["content-security-policy"] == headers["Content-Security-Policy"] == dashboard.POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_health_api_and_metrics_are_those_of_what_was_shown() -> None:
    state = shown(cluster=cluster(published=False))
    async with running(state=state) as server:
        ready = await get(server, "/readyz")
        verbose = await get(server, "/readyz?verbose")
        pods = await get(server, "/api/v1/pods")
        scraped = await get(server, "/metrics")

    assert (ready.status, [reason["name"] for reason in ready.json["reasons"]]) == (503, ["not-published"])
    told = {"name": "sample-stale", "ok": True, "message": "", "age_seconds": 0, "allowed_seconds": 10}
    assert told in verbose.json["checks"]
    assert pods.json == api.answer("pods", Look(state, NOW, WALL))[1]
    assert pods.json["pods"][1]["gpu_bytes"] == 2900 * MIB
    assert scraped.body == metrics.text(state, NOW, WALL)
    assert scraped.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert pods.headers["content-type"] == "application/json; charset=utf-8"


async def test_health_as_lines_of_text_for_those_who_ask_for_them() -> None:
    state = shown(cluster=cluster(published=False, complete=False))
    async with running(state=state) as server:
        short = await get(server, "/livez", Accept="text/plain")
        failed = await get(server, "/readyz?exclude=not-published", Accept="text/plain")
        probe = await get(server, "/readyz?exclude=not-published&exclude=view-incomplete", Accept="*/*")

    assert (short.status, short.body, short.headers["content-type"]) == (200, b"ok\n", "text/plain; charset=utf-8")
    assert failed.status == 503
    rows = failed.body.decode().splitlines()
    assert "[+]loop-stalled:cycle ok" in rows
    assert "[-]view-incomplete failed: own node and own pods were not listed yet" in rows
    assert "[+]not-published excluded: ok" in rows
    assert rows[-1] == "readyz check failed"
    assert (probe.status, probe.json) == (200, {"status": "ok", "reasons": []})


async def test_json_is_compact_and_headers_tell_browsers_to_keep_off() -> None:
    async with running(state=shown()) as server:
        answer = await get(server, "/livez")

    assert answer.body == b'{"status":"ok","reasons":[]}\n'
    wanted = {
        "cache-control": "no-store",
        "connection": "close",
        "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
        "server": "edgeagent",
        "x-content-type-options": "nosniff",
    }
    assert {name: answer.headers.get(name) for name in wanted} == wanted


@pytest.mark.parametrize("path", sorted({*PAGES, *FILES}))
async def test_head_is_get_without_the_body(path: str) -> None:
    async with running(state=shown()) as server:
        whole = await get(server, path)
        head = await get(server, path, method="HEAD")

    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["content-length"]) == len(whole.body)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"])
async def test_nothing_but_get_and_head(method: str) -> None:
    async with running(state=shown()) as server:
        answer = await get(server, "/livez", method=method)

    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_a_body_is_not_read() -> None:
    async with running(state=shown()) as server:
        raw = await send(
            server, b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000
        )

    assert parse(raw).status == 405


@pytest.mark.parametrize(
    "path",
    [
        "//",
        "/livez/",
        "/dashboard",
        "/api/v1/stream/",
        "/api/v1",
        "/api/v2/pods",
        "/debug/pprof",
        "/metrics/..%2f..%2fetc/passwd",
    ],
)
async def test_unknown_paths(path: str) -> None:
    async with running(state=shown()) as server:
        answer = await get(server, path)

    assert (answer.status, answer.json["reasons"][0]["name"]) == (404, "not-found")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:9843", 200),
        ("LOCALHOST", 200),
        ("localhost.", 200),
        ("127.0.0.1", 200),
        ("192.168.1.7:80", 200),
        ("[::1]:9843", 200),
        ("", 200),
        ("::1", 403),
        ("[evil.example]:80", 403),
        ("evil.example:9843", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("evil.example@localhost", 403),
        ("1", 403),
    ],
)
async def test_the_host_header_has_to_mean_this_machine(host: str, status: int) -> None:
    async with running(state=shown()) as server:
        answer = await get(server, "/api/v1/pods", host=host)

    assert answer.status == status


async def test_a_client_without_a_host_header_is_no_browser() -> None:
    async with running(state=shown()) as server:
        raw = await send(server, b"GET /livez HTTP/1.0\r\n\r\n")

    assert parse(raw).status == 200


async def test_the_name_it_is_bound_to_is_its_own() -> None:
    async with running("localhost:0", state=shown()) as server:
        assert (await get(server, "/livez", host="localhost:1")).status == 200
        assert (await get(server, "/livez", host="elsewhere")).status == 403


async def test_other_addresses_are_asked_by_other_names() -> None:
    # A name in the network's DNS is the usual way to reach an address that is not loopback.
    async with running("0.0.0.0:0", state=shown()) as server:
        answer = await get(server, "/livez", host="board-7.lan:9843")

    assert answer.status == 200


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS client\r\n\r\n", 405),
        (b"GET /livez HTTP/1.1\r\nHost localhost\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
    ],
    ids=["header", "request line", "no HTTP at all", "no colon", "negative length"],
)
async def test_what_is_no_request(raw: bytes, status: int, caplog: pytest.LogCaptureFixture) -> None:
    async with running(state=shown()) as server:
        received = await send(server, raw)
        other = await get(server, "/livez")

    # A client that is still sending may see a reset in place of the answer.
    assert not received or parse(received).status == status
    assert other.status == 200
    assert not caplog.records, "strangers must not fill the log"


async def test_the_head_of_a_request_is_limited_as_a_whole() -> None:
    """A hundred headers of 300 bytes are 30 kB, of 400 bytes 40 kB; the limit is 32 KiB."""

    def request(size: int) -> bytes:
        headers = (b"X-%02d: " % number + b"a" * (size - 8) for number in range(100))
        return b"\r\n".join([b"GET /livez HTTP/1.1", b"Host: localhost", *headers, b"", b""])

    async with running(state=shown()) as server:
        small = await send(server, request(300))
        large = await send(server, request(400))

    assert parse(small).status == 200
    # A client that is still sending may see a reset in place of the answer.
    assert not large or parse(large).status == 431


async def test_a_head_without_an_end_is_not_kept() -> None:
    async with running(state=shown()) as server:
        reader, writer = await connect(server)
        writer.write(b"GET /livez HTTP/1.1\r\n")
        sent = 0
        with contextlib.suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(b"X: " + b"a" * 1000 + b"\r\n")
                sent += 1005
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    # Buffers of the kernel take a few hundred kB; what is refused comes after 32 KiB, and not after 10 s.
    assert sent < 10_000_000


async def test_a_pipelined_second_request_is_not_answered() -> None:
    request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with running(state=shown()) as server:
        raw = await send(server, request * 50)

    assert raw.count(b"HTTP/1.1 ") == 1
    assert parse(raw).status == 200


async def test_a_bug_in_a_page_is_a_500_and_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: object) -> tuple[int, str, bytes]:
        raise KeyError("secret")

    monkeypatch.setitem(PAGES, "/metrics", broken)
    async with running(state=shown()) as server:
        answer = await get(server, "/metrics")

    assert (answer.status, answer.json["reasons"][0]["name"]) == (500, "internal-error")
    assert b"secret" not in answer.body
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "a request for /metrics failed")


async def test_the_address_has_the_real_port_and_a_port_in_use_is_an_error() -> None:
    async with running() as server:
        host, _, port = server.address.rpartition(":")
        assert host == "127.0.0.1"
        assert int(port) > 0

        with pytest.raises(OSError, match="Address already in use"):
            await Server(server.address).start()


async def test_ipv6_addresses_are_bracketed() -> None:
    async with running("[::1]:0", state=shown()) as server:
        assert server.address.startswith("[::1]:")
        assert (await get(server, "/livez")).status == 200


async def test_after_stop_nobody_listens_and_connections_are_closed() -> None:
    async with running(state=shown()) as server:
        host, _, port = server.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /li")
        await writer.drain()
        # Answered after the first connection was accepted, so that one is held by now.
        await get(server, "/livez")
        await server.stop()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, int(port))
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            pass
        finally:
            writer.close()


def test_a_missing_token_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"serve\.token_file: .*/token: cannot be read"):
        asyncio.run(Server("127.0.0.1:0", token_file=str(tmp_path / "token")).start())

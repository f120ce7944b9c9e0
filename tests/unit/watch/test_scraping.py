"""Pages of pods, over real connections: a pod's answer may be anything, and harms nobody."""

from __future__ import annotations

import asyncio
import gzip
import time

import pytest

from edgeagent.watch import scraping
from edgeagent.watch.exposition import ScrapeError
from edgeagent.watch.scraping import LARGEST, Scraper
from tests.unit.watch import servers
from tests.unit.watch.servers import Answer, bytes_of, serving


async def got(url: str) -> bytes:
    scraper = Scraper()
    try:
        return await scraper.get(url)
    finally:
        await scraper.close()


async def test_a_page_is_read_and_nothing_more_is_sent_than_needed() -> None:
    seen = b""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen = await reader.readuntil(b"\r\n\r\n")
        writer.write(servers.HEAD + b"Set-Cookie: a=b\r\nContent-Length: 3\r\n\r\nx 1")
        await writer.drain()

    async with serving(answer) as url:
        scraper = Scraper()
        assert await scraper.get(f"{url}?a=b") == b"x 1"
        assert await scraper.get(f"{url}?a=b") == b"x 1"
        await scraper.close()
    assert seen.startswith(b"GET /metrics?a=b HTTP/1.1\r\n")
    assert b"Accept-Encoding: identity" in seen
    assert b"Authorization" not in seen
    assert b"Cookie" not in seen  # not at the second time, either


async def test_as_much_as_is_allowed_is_read() -> None:
    async with serving(bytes_of(b"x" * LARGEST)) as url:
        assert len(await got(url)) == LARGEST
    async with serving(bytes_of(b"x" * (LARGEST + 1))) as url:
        with pytest.raises(ScrapeError, match="longer than"):
            await got(url)


BOMB = gzip.compress(b"x" * 50_000_000)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (servers.silent, "no answer"),
        (servers.slow, "no answer"),
        (servers.endless, "longer than"),
        (servers.headers, None),
        (servers.garbage, None),
        (servers.gone, None),
        (bytes_of(BOMB, head=servers.HEAD + b"Content-Encoding: gzip\r\n"), "compressed"),
        (bytes_of(b"", head=b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n"), "HTTP 302"),
        (bytes_of(b"no", head=b"HTTP/1.1 404 Not Found\r\n"), "HTTP 404"),
        (bytes_of(b"x", head=servers.HEAD + b"Content-Encoding: \x00\r\n"), None),
    ],
    ids=["silent", "slow", "endless", "headers", "garbage", "gone", "bomb", "redirect", "missing", "encoding"],
)
async def test_a_hostile_answer_is_a_reason_soon_and_holds_up_nobody(
    answer: Answer, why: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scraping, "TIMEOUT", 0.3)
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    async with serving(answer) as url:
        beating, begun = asyncio.create_task(beat()), time.monotonic()
        with pytest.raises(ScrapeError, match=why) as caught:
            await got(url)
        spent = time.monotonic() - begun
        beating.cancel()
    assert 0 < len(str(caught.value)) <= 160
    assert spent < 5  # the limit is 0.3 s; a machine that is busy gets some more
    assert beats >= spent / 0.01 / 10 - 1  # the loop went on meanwhile


async def test_a_redirect_is_not_followed() -> None:
    asked = False

    async def secret(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked = True

    async with serving(secret) as there:
        head = b"HTTP/1.1 301 Moved\r\nLocation: " + there.encode() + b"\r\n"
        async with serving(bytes_of(b"", head=head)) as url:
            with pytest.raises(ScrapeError, match="HTTP 301"):
                await got(url)
    assert not asked


async def test_nobody_listens() -> None:
    async with serving(servers.gone) as url:
        pass
    with pytest.raises(ScrapeError, match="Connect"):
        await got(url)

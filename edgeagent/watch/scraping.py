"""Reads the latency histograms of pods over HTTP. A pod's answer may be anything, and is never waited for long."""

from __future__ import annotations

import asyncio

import aiohttp

from edgeagent import __version__
from edgeagent.watch.exposition import ScrapeError

TIMEOUT = 1.0
"""Seconds for everything, from the connection to the last byte."""
LARGEST = 1024 * 1024
"""Bytes of an answer; a longer one is refused."""
_CHUNK = 65536


class Scraper:
    """Gets the pages of pods. Knows no proxy, no cookie, no credentials, and follows nothing."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def get(self, url: str) -> bytes:
        """The text at ``url``, whose host is an address.

        Raises:
            ScrapeError: none in time, too long, or another answer than 200.
        """
        try:
            return await self._read(url)
        except asyncio.TimeoutError:
            raise ScrapeError(f"no answer within {TIMEOUT:.0f} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ScrapeError(_said(error)) from error

    async def close(self) -> None:
        """Let go of all connections."""
        if self._session is not None:
            await self._session.close()

    async def _read(self, url: str) -> bytes:
        if self._session is None:
            self._session = _session()
        async with self._session.get(url, allow_redirects=False) as response:
            if response.status != 200:  # noqa: PLR2004 (HTTP)
                raise ScrapeError(f"HTTP {response.status}")
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise ScrapeError("the answer is compressed, which was not asked for")
            body = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK):
                body += chunk
                if len(body) > LARGEST:
                    response.close()
                    raise ScrapeError(f"the answer is longer than {LARGEST} bytes")
            return bytes(body)


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=TIMEOUT),
        connector=aiohttp.TCPConnector(force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,  # a small answer can be gigabytes
        headers={
            "Accept": "text/plain;version=0.0.4",
            "Accept-Encoding": "identity",
            "User-Agent": f"edgeagent/{__version__}",
        },
    )


def _said(error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(reason).split())[:120]

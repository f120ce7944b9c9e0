"""When a watched list tries again: growing random delays, short while an outage is young, spread over a fleet."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, cast
from unittest import mock

import pytest

from edgeagent.cluster.client import Client
from edgeagent.cluster.streams import WatchStream
from edgeagent.cluster.watching import Watched
from edgeagent.errors import AnswerError, UnreachableError

pytestmark = pytest.mark.looptime

LONGEST_WAIT = mock.Mock(spec=random.Random, uniform=lambda _low, high: high)
"""Jitter that always takes the whole limit."""

GONE = AnswerError(410, reason="Expired")
CUT = UnreachableError("cut")


def jitter(seed: int) -> Any:
    """Whole milliseconds: looptime 0.7, the last for Python 3.10, never reaches a fraction of a microsecond."""
    rng = random.Random(seed)
    return mock.Mock(spec=random.Random, uniform=lambda low, high: round(rng.uniform(low, high), 3))


Watch = Callable[[], Any]
"""Raises, or returns what a stream does: an error to break with, or the seconds until it ends in order."""


def now() -> float:
    return asyncio.get_running_loop().time()


class ScriptedClient:
    """Lists of one pod and watches by script, at moments that are kept."""

    def __init__(self, watch: Watch, listing: Callable[[], None] = lambda: None) -> None:
        self.lists: list[float] = []
        self.watches: list[float] = []
        self._watch = watch
        self._listing = listing

    async def request(self, _method: str, _path: str, **_: Any) -> dict[str, Any]:
        self.lists.append(now())
        self._listing()
        return {"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"uid": "u"}}]}

    @contextlib.asynccontextmanager
    async def watch(self, _path: str, _params: Mapping[str, str], **_: Any) -> AsyncIterator[WatchStream]:
        self.watches.append(now())
        result = self._watch()

        async def read() -> bytes:
            if isinstance(result, UnreachableError):
                raise result
            await asyncio.sleep(result)
            return b""

        yield WatchStream(read, "watch", now)


@contextlib.asynccontextmanager
async def watching(client: ScriptedClient, rng: random.Random = LONGEST_WAIT) -> AsyncIterator[Watched[str]]:
    watched = Watched(cast("Client", client), "/p", "", lambda _: "pod", clock=now, changed=asyncio.Event(), rng=rng)
    watched.start()
    try:
        yield watched
    finally:
        await watched.stop()


def fails(error: Exception, until: float = float("inf")) -> Watch:
    """Refuse to open; from ``until`` on, open for ever."""

    def watch() -> float:
        if now() < until:
            raise error
        return float("inf")

    return watch


def gaps(moments: list[float]) -> list[float]:
    return [round(later - earlier, 3) for earlier, later in itertools.pairwise(moments)]


async def test_ten_410s_in_a_row_wait_longer_and_longer() -> None:
    # The limit: 0.5 s × 2 for the first failure, doubled for each further one, at most 5 s.
    client = ScriptedClient(fails(GONE))
    async with watching(client) as watched:
        await asyncio.sleep(1 + 2 + 4 + 6 * 5 + 1)
        assert gaps(client.lists) == [1, 2, 4, 5, 5, 5, 5, 5, 5]
        assert client.watches == client.lists
        assert watched.health().failures == 10
        assert not watched.health().open


async def test_streams_that_end_at_once_wait_longer_too() -> None:
    """The server answers well each time; only a stream that stays open ends the growth."""
    client = ScriptedClient(lambda: 0.0)
    async with watching(client):
        await asyncio.sleep(1 + 2 + 4 + 5 + 5 + 1)
        assert gaps(client.watches) == [1, 2, 4, 5, 5]
        assert len(client.lists) == 1


async def test_long_outage_is_asked_about_less_often() -> None:
    client = ScriptedClient(fails(CUT))
    async with watching(client):
        await asyncio.sleep(900)
    early = [moment for moment in client.watches if moment <= 600]
    late = gaps([moment for moment in client.watches if moment > 605])
    assert max(gaps(early)) == 5
    assert late
    assert set(late) == {30}


async def test_failures_are_forgotten_once_a_stream_stays_open() -> None:
    # Refused at 0, 1 and 3; open from 7 s for 100 s, ended in order: a delay of at most 0.5 s, as at the very start.
    lives: Iterator[Exception | float] = iter([GONE, GONE, GONE, 100.0, float("inf")])

    def watch() -> float:
        life = next(lives)
        if isinstance(life, Exception):
            raise life
        return life

    client = ScriptedClient(watch)
    async with watching(client) as watched:
        await asyncio.sleep(7 + 4)
        assert watched.health().failures == 3  # open for 4 s: not proven yet
        await asyncio.sleep(2)
        assert watched.health().failures == 0
        await asyncio.sleep(100)
        assert client.watches == [0, 1, 3, 7, 107.5]
        assert watched.health().failures == 0


async def test_a_stable_stream_that_breaks_begins_a_new_outage() -> None:
    lives = iter([CUT, CUT, 700.0])

    def watch() -> Any:
        return next(lives, CUT)

    client = ScriptedClient(watch)
    async with watching(client):
        await asyncio.sleep(3 + 700 + 0.5 + 1 + 2 + 4 + 5 + 1)
    # 703 s after the first trouble the limit is that of a young outage again.
    assert client.watches == [0, 1, 3, 703.5, 704.5, 706.5, 710.5, 715.5]


async def test_a_wait_that_the_server_asks_for_is_kept_and_spread() -> None:
    errors = iter([AnswerError(429, retry_after=40.0)])

    def watch() -> float:
        for error in errors:
            raise error
        return float("inf")

    client = ScriptedClient(watch)
    async with watching(client):
        await asyncio.sleep(50)
    assert client.watches == [0, 40 + 1]


async def test_lists_anew_every_ten_minutes_give_or_take_a_fifth() -> None:
    # The server ends each stream after the asked time; each list is due 1.2 × 600 s after the last.
    client = ScriptedClient(lambda: 720.0)
    async with watching(client):
        await asyncio.sleep(3 * 720.5 + 1)
    assert client.lists == [0, 720.5, 1441, 2161.5]


async def test_view_is_as_old_as_the_break() -> None:
    lives = iter([60.0])

    def watch() -> float:
        for life in lives:
            return life
        raise CUT

    async with watching(ScriptedClient(watch)) as watched:
        assert watched.fresh_at(0.0) == float("-inf")
        await asyncio.sleep(30)
        assert watched.fresh_at(30.0) == 30.0
        await asyncio.sleep(60)
        assert watched.fresh_at(90.0) == 60.0


async def test_view_of_a_list_alone_dates_from_the_question() -> None:
    async with watching(ScriptedClient(fails(CUT))) as watched:
        await asyncio.sleep(0.5)
        assert watched.complete
        assert watched.values == ("pod",)
        assert watched.fresh_at(0.5) == 0.0


async def test_first_list_that_fails_leaves_the_view_incomplete() -> None:
    def listing() -> None:
        raise AnswerError(403, message="pods is forbidden")

    async with watching(ScriptedClient(fails(CUT), listing)) as watched:
        await asyncio.sleep(20)
        assert not watched.complete
        assert watched.fresh_at(20.0) == float("-inf")
        assert "pods is forbidden" in watched.health().last_error


async def test_a_fleet_comes_back_soon_and_spread_out() -> None:
    """An outage of a minute ends for 100 agents at once: p95 within 5 s, over at least 4 s."""
    end = 60.0
    clients = [ScriptedClient(fails(CUT, until=end)) for _ in range(100)]
    async with contextlib.AsyncExitStack() as stack:
        for seed, client in enumerate(clients):
            await stack.enter_async_context(watching(client, jitter(seed)))
        await asyncio.sleep(end + 10)
    back = sorted(client.watches[-1] - end for client in clients)
    assert back[94] <= 5
    assert back[-1] - back[0] >= 4

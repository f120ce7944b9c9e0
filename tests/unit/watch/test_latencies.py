"""Which pods are scraped, when, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Histogram, start_http_server

from edgeagent.facts.neighbours import Latency
from edgeagent.watch.exposition import ScrapeError
from edgeagent.watch.latencies import EVERY, LONGEST_PAUSE, MOST_PODS, Latencies
from edgeagent.watch.scraping import Scraper
from tests.unit import factories
from tests.unit.watch.making import PORT, Clock, page, shows


class Pages:
    """Pages made by hand; an exception is raised."""

    def __init__(self, content: bytes | ScrapeError = b"") -> None:
        self.content = content
        self.asked: list[str] = []

    async def get(self, url: str) -> bytes:
        self.asked.append(url)
        if isinstance(self.content, ScrapeError):
            raise self.content
        return self.content


def histogram(upto: float, every: float) -> bytes:
    return page("latency_seconds", {"0.1": upto, "+Inf": every})


async def test_the_first_scrape_has_nothing_to_compare_and_the_second_has() -> None:
    pages, clock = Pages(histogram(100, 100)), Clock()
    latencies = Latencies(pages, clock)
    await latencies.scrape([shows()])
    assert latencies.told("uid-a") == (None, "")
    clock.now += EVERY
    pages.content = histogram(130, 130)
    await latencies.scrape([shows()])
    # 30 requests in 20 s, all up to 0.1: 0.1 × 15 / 30, 0.1 × 29.7 / 30
    latency, why = latencies.told("uid-a")
    assert latency == Latency(p50_seconds=0.05, p99_seconds=0.099, requests_per_second=1.5, requests=30.0)
    assert why == ""
    assert pages.asked == ["http://10.42.0.9:8000/metrics"] * 2


async def test_requests_go_on_being_counted_over_a_restart_of_the_pod_s_server() -> None:
    pages, clock = Pages(), Clock()
    latencies = Latencies(pages, clock)
    told = []
    for count in (100, 130, 10, 30):  # + 30, a restart, + 20
        pages.content = histogram(count, count)
        await latencies.scrape([shows()])
        told.append(latencies.told("uid-a")[0])
        clock.now += EVERY
    assert [one and one.requests for one in told] == [None, 30.0, None, 50.0]


async def test_it_is_scraped_no_sooner_than_every_twenty_seconds() -> None:
    pages, clock = Pages(histogram(1, 1)), Clock()
    latencies = Latencies(pages, clock)
    for _ in range(8):
        await latencies.scrape([shows()])
        clock.now += 5.0
    assert len(pages.asked) == 2  # at 0 and at 20 s; the next one would be at 40


async def test_a_pod_that_fails_is_tried_more_and_more_seldom() -> None:
    pages, clock = Pages(ScrapeError("HTTP 500")), Clock()
    latencies = Latencies(pages, clock)
    asked = []
    for _ in range(250):
        before = len(pages.asked)
        await latencies.scrape([shows()])
        if len(pages.asked) > before:
            asked.append(clock.now - 1000.0)
        assert latencies.told("uid-a") == (None, "HTTP 500")
        clock.now += 5.0
    # pauses of 20, 40, 80, 160 s, then of 300 s
    assert asked == [0.0, 20.0, 60.0, 140.0, 300.0, 600.0, 900.0, 1200.0]
    assert LONGEST_PAUSE == 300.0


async def test_what_is_old_is_not_told() -> None:
    pages, clock = Pages(histogram(1, 1)), Clock()
    latencies = Latencies(pages, clock)
    for _ in range(2):
        await latencies.scrape([shows()])
        clock.now += EVERY
    assert latencies.told("uid-a")[0] is not None
    clock.now += 36.0  # 20 s since the scrape, and 36
    assert latencies.told("uid-a")[0] is None


async def test_no_more_than_sixteen_pods_and_those_who_were_first_stay() -> None:
    pages = Pages(histogram(1, 1))
    latencies = Latencies(pages, Clock())
    pods = [shows(f"p{n}", ip=f"10.42.0.{n}", created_at=1000.0 - n) for n in range(1, MOST_PODS + 3)]
    await latencies.scrape(pods)
    # p18 is the oldest, p1 and p2 came last
    assert sorted(pages.asked) == sorted(f"http://10.42.0.{n}:8000/metrics" for n in range(3, 19))
    assert "16 other pods" in latencies.told("uid-p1")[1]
    assert latencies.told("uid-p18") == (None, "")


async def test_annotations_that_cannot_be_followed_are_told_and_not_scraped() -> None:
    pages = Pages(histogram(1, 1))
    latencies = Latencies(pages, Clock())
    await latencies.scrape([shows("a", port="http"), factories.pod("b")])
    assert latencies.told("uid-a") == (None, f"{PORT} is no port")
    assert latencies.told("uid-b") == (None, "")
    assert pages.asked == []


async def test_a_pod_with_another_address_begins_anew() -> None:
    pages, clock = Pages(histogram(100, 100)), Clock()
    latencies = Latencies(pages, clock)
    await latencies.scrape([shows()])
    clock.now += EVERY
    pages.content = histogram(130, 130)
    await latencies.scrape([shows(ip="10.42.0.10")])
    assert latencies.told("uid-a") == (None, "")


async def test_what_is_no_histogram_is_told() -> None:
    latencies = Latencies(Pages(b"x 1\n"), Clock())
    await latencies.scrape([shows()])
    assert latencies.told("uid-a") == (None, "no histogram latency_seconds")


class Slow(Pages):
    """Counts how many wait for a page at a time."""

    waiting = most = 0

    async def get(self, url: str) -> bytes:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await asyncio.sleep(0.01)
        self.waiting -= 1
        return await super().get(url)


async def test_one_page_at_a_time_is_read_and_parsed() -> None:
    pages = Slow(histogram(1, 1))
    latencies = Latencies(pages, Clock())
    await latencies.scrape([shows(f"p{n}", ip=f"10.42.0.{n}") for n in range(1, 4)])
    assert (len(pages.asked), pages.most) == (3, 1)


async def test_the_time_in_which_others_were_read_is_no_part_of_the_rate() -> None:
    clock = Clock()

    class Late(Pages):
        async def get(self, url: str) -> bytes:
            if "10.42.0.1:" in url:
                await asyncio.sleep(0)  # the other waits by now
                clock.now += 5.0  # the first of the two takes so long, once
            return await super().get(url)

    pages = Late(histogram(100, 100))
    latencies = Latencies(pages, clock)
    first, second = shows("a", ip="10.42.0.1", created_at=1.0), shows("b", ip="10.42.0.2", created_at=2.0)
    await latencies.scrape([first, second])  # b is read at 5 s
    clock.now += 20.0
    pages.content = histogram(140, 140)
    await latencies.scrape([second])  # and at 25 s
    latency, _ = latencies.told("uid-b")
    assert latency is not None
    assert latency.requests_per_second == 2.0  # 40 in 20 s


# --- a real server -------------------------------------------------------------------


class Loopback:
    """Asks the port at 127.0.0.1, where a test can listen; the agent itself refuses that address."""

    def __init__(self) -> None:
        self.scraper = Scraper()

    async def get(self, url: str) -> bytes:
        return await self.scraper.get(url.replace("10.42.0.9", "127.0.0.1"))


@contextmanager
def served(registry: CollectorRegistry) -> Iterator[int]:
    """The port of the server that applications themselves use."""
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def test_a_real_application_s_histogram() -> None:
    registry = CollectorRegistry()
    observed: Any = Histogram(
        "latency_seconds", "Of requests.", ["model"], buckets=(0.05, 0.1, 0.2, 0.4), registry=registry
    )
    clock = Clock()
    with served(registry) as port:
        pages = Loopback()
        latencies, pod = Latencies(pages, clock), shows(port=str(port))
        observed.labels("a").observe(0.3)  # before the first scrape: it does not count
        await latencies.scrape([pod])
        for _ in range(60):
            observed.labels("a").observe(0.15)
        for _ in range(40):
            observed.labels("b").observe(0.07)
        clock.now += 20.0
        await latencies.scrape([pod])
        await pages.scraper.close()
    latency, why = latencies.told("uid-a")
    assert (latency is not None, why) == (True, "")
    assert latency is not None
    # 40 up to 0.1 and 60 up to 0.2. rank 50: 0.1 + 0.1 × (50 − 40) / 60; rank 99: 0.1 + 0.1 × 59 / 60
    assert latency.p50_seconds == pytest.approx(0.1 + 0.1 * 10 / 60)
    assert latency.p99_seconds == pytest.approx(0.1 + 0.1 * 59 / 60)
    assert latency.requests_per_second == 5.0  # 100 in 20 s
    assert latency.requests == 100.0

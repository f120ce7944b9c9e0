"""A watched list against a server that breaks in every way it can: the list is right again, and nothing spins."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from edgeagent.cluster.client import Client
from edgeagent.cluster.objects import ObjectError
from edgeagent.cluster.watching import Watched
from tests.faults.conftest import Connect, until
from tests.faults.server import (
    Exchange,
    ScriptedServer,
    Step,
    answers,
    holds,
    refuses,
    resets,
    script,
    serving,
    streams,
)

NO_WAIT = mock.Mock(spec=random.Random, uniform=lambda low, _high: low)
"""Jitter that never waits; the list is due after 0.8 × 600 s."""


def pod(name: str, version: int = 1, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}, **more}


def event(kind: str, obj: Any) -> dict[str, Any]:
    return {"type": kind, "object": obj}


def listing(version: int, *items: Any) -> Step:
    return answers(200, {"kind": "PodList", "metadata": {"resourceVersion": str(version)}, "items": list(items)})


def refused_in_stream(code: int, reason: str) -> dict[str, Any]:
    return event("ERROR", {"kind": "Status", "code": code, "reason": reason, "metadata": {}})


def name_of(obj: Mapping[str, Any]) -> str:
    """The parser of these tests: an object that says so is not understood."""
    if obj.get("odd"):
        raise ObjectError("odd")
    return f"{obj['metadata']['name']}@{obj['metadata']['resourceVersion']}"


def by_kind(lists: Step, watches: Step) -> Step:
    async def step(exchange: Exchange) -> None:
        await (watches if "watch" in exchange.request.query else lists)(exchange)

    return step


def kinds(server: ScriptedServer) -> list[str]:
    return ["watch" if "watch" in request.query else "list" for request in server.requests]


def versions(server: ScriptedServer) -> list[str | None]:
    return [request.query.get("resourceVersion") for request in server.requests]


@contextlib.asynccontextmanager
async def watching(client: Client, rng: random.Random = NO_WAIT) -> AsyncIterator[Watched[str]]:
    watched = Watched(
        client,
        "/api/v1/pods",
        "spec.nodeName=n1",
        name_of,
        clock=time.monotonic,
        changed=asyncio.Event(),
        rng=rng,
    )
    watched.start()
    try:
        yield watched
    finally:
        await watched.stop()


async def test_list_then_watch_from_its_version(connect: Connect) -> None:
    handle = by_kind(
        listing(10, pod("a"), pod("b")),
        holds(event("MODIFIED", pod("a", 11)), event("DELETED", pod("b", 12)), event("ADDED", pod("c", 13))),
    )
    async with serving(handle) as server, connect(server.url) as client, watching(client) as watched:
        await until(lambda: watched.values == ("a@11", "c@13"))
        assert watched.health().open
        assert watched.fresh_at(12345.0) == 12345.0  # its watch is open: as fresh as now
    first, second = server.requests
    assert first.query == {"fieldSelector": "spec.nodeName=n1", "resourceVersion": "0"}
    assert second.query == {
        "fieldSelector": "spec.nodeName=n1",
        "watch": "1",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": second.query["timeoutSeconds"],
        "resourceVersion": "10",
    }
    assert 470 <= int(second.query["timeoutSeconds"]) <= 480  # until the next list: 0.8 × 600 s


async def test_resumes_from_the_last_version_and_a_bookmark_moves_only_that(connect: Connect) -> None:
    handle = by_kind(
        listing(10, pod("a")),
        script(
            streams(event("MODIFIED", pod("a", 11))),
            streams(event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "15"}})),
            resets(event("ADDED", pod("b", 16))),
            holds(),
        ),
    )
    async with serving(handle) as server, connect(server.url) as client, watching(client) as watched:
        await until(lambda: len(server.requests) == 5 and watched.health().open)
        assert set(watched.values) >= {"a@11"}
        assert watched.reconnects == 3
    assert kinds(server) == ["list", "watch", "watch", "watch", "watch"]
    # A reset may overtake what was sent before it; then the last stream starts where the bookmark was.
    assert versions(server)[:4] == ["0", "10", "11", "15"]
    assert versions(server)[4] in ("15", "16")


@pytest.mark.parametrize(
    "gone",
    [
        refuses(410, reason="Expired"),
        refuses(410, reason="Gone"),
        streams(refused_in_stream(410, "Expired")),
        streams(refused_in_stream(410, "Gone")),
        streams(event("ERROR", {"kind": "Status", "code": 410})),
        streams(event("ERROR", {"code": 500, "reason": "InternalError"})),
        streams(event("ERROR", None)),
        streams({"type": "ERROR"}),
        refuses(400, "invalid resource version"),
    ],
    ids=[
        "410 expired",
        "410 gone",
        "event expired",
        "event gone",
        "event without reason or metadata",
        "event 500",
        "event null",
        "event without object",
        "400",
    ],
)
async def test_forgotten_version_lists_anew_and_drops_what_has_gone(connect: Connect, gone: Step) -> None:
    handle = by_kind(
        script(listing(10, pod("a"), pod("b")), listing(20, pod("b"), pod("c"))),
        script(gone, holds()),
    )
    async with serving(handle) as server, connect(server.url) as client, watching(client) as watched:
        await until(lambda: watched.values == ("b@1", "c@1") and watched.health().open)
        assert watched.health().failures == 1
        assert watched.health().last_error
    assert kinds(server) == ["list", "watch", "list", "watch"]
    # The second list asks for the newest: it carries no version, and never the word None.
    assert versions(server) == ["0", "10", None, "20"]


async def test_changed_is_set_by_what_changes(connect: Connect) -> None:
    """The kubelet writes its node every few seconds or minutes; what is not kept of it wakes nobody."""
    steps = asyncio.Queue[dict[str, Any]]()

    async def told(exchange: Exchange) -> None:
        await exchange.stream()
        while True:
            await exchange.send(await steps.get())

    handle = by_kind(listing(10, pod("a")), told)
    async with serving(handle) as server, connect(server.url) as client, watching(client) as watched:
        changed = watched._changed  # noqa: SLF001 (given to it by the view)
        await until(lambda: watched.health().open)
        for kind, obj, sets in (
            ("MODIFIED", pod("a", 1), False),
            ("BOOKMARK", pod("", 2), False),
            ("DELETED", pod("unknown", 3), False),
            ("MODIFIED", pod("a", 4), True),
            ("ADDED", pod("b", 5), True),
            ("DELETED", pod("a", 6), True),
        ):
            changed.clear()
            seen = client.last_success
            steps.put_nowait(event(kind, obj))
            await until(lambda seen=seen: client.last_success != seen)  # type: ignore[misc]
            assert changed.is_set() == sets


async def test_list_refused_for_its_version_asks_for_the_newest(connect: Connect) -> None:
    handle = by_kind(script(refuses(504, "Too large resource version"), listing(20, pod("a"))), holds())
    async with serving(handle) as server, connect(server.url) as client, watching(client) as watched:
        await until(lambda: watched.values == ("a@1",))
    assert versions(server)[:2] == ["0", None]


@pytest.mark.parametrize(
    "broken",
    [
        streams(b'{"type": "MODIFIED", "object": {"meta'),
        streams(b"<html>bad gateway</html>\n"),
        streams(),
        resets(),
        refuses(503),
        answers(429, b"too many"),
    ],
    ids=["half a line", "not JSON", "end at once", "reset", "503", "429"],
)
async def test_broken_stream_is_resumed_without_a_new_list(connect: Connect, broken: Step) -> None:
    handle = by_kind(listing(10, pod("a")), script(broken, holds(event("MODIFIED", pod("a", 11)))))
    async with serving(handle) as server, connect(server.url) as client, watching(client) as watched:
        await until(lambda: watched.values == ("a@11",))
    assert kinds(server) == ["list", "watch", "watch"]
    assert versions(server) == ["0", "10", "10"]


async def test_long_line(connect: Connect) -> None:
    """A pod as large as the API server takes, and larger."""
    padded = pod("a", 11, spec={"padding": "x" * 10_000_000})
    handle = by_kind(listing(10), holds(event("ADDED", padded)))
    async with serving(handle) as server, connect(server.url) as client, watching(client) as watched:
        await until(lambda: watched.values == ("a@11",))


async def test_silence_ends_a_stream_that_stays_open(connect: Connect) -> None:
    """Behind a dead load balancer nothing comes and nothing breaks: the view is as old as its last byte."""
    handle = by_kind(
        listing(10, pod("a")),
        script(holds(event("MODIFIED", pod("a", 11))), refuses(503)),
    )
    async with serving(handle) as server, connect(server.url, silence=0.2) as client, watching(client) as watched:
        await until(lambda: watched.values == ("a@11",))
        heard = watched.fresh_at(time.monotonic())
        await until(lambda: not watched.health().open)
        assert watched.fresh_at(time.monotonic()) <= heard
        assert "Timeout" in watched.health().last_error or "503" in watched.health().last_error


async def test_end_of_a_stream_dates_the_view(connect: Connect) -> None:
    ended = asyncio.Event()

    async def ends_later(exchange: Exchange) -> None:
        await exchange.stream()
        await ended.wait()
        await exchange.end()

    handle = by_kind(listing(10), script(ends_later, refuses(503)))
    async with serving(handle) as server, connect(server.url) as client, watching(client) as watched:
        await until(lambda: watched.health().open)
        before = time.monotonic()
        ended.set()
        await until(lambda: len(server.requests) >= 3)
        # Nothing came for a while, but the connection told of its end: it was alive until then.
        assert before <= watched.fresh_at(float("inf")) <= time.monotonic()


async def test_odd_objects_are_skipped_and_counted(connect: Connect) -> None:
    handle = by_kind(
        listing(10, pod("a"), pod("b", odd=True), {"metadata": None}, "text", {"metadata": {"name": "no-uid"}}),
        holds(
            event("MODIFIED", pod("a", 11, odd=True)),  # known: stays as it was last understood
            event("ADDED", None),
            event("SURPRISE", pod("x", 12)),
            event("ADDED", pod("c", 13)),
        ),
    )
    async with serving(handle) as server, connect(server.url) as client, watching(client) as watched:
        await until(lambda: watched.values == ("a@1", "c@13"))
        assert watched.health().open
        assert watched.odd == 4 + 3
    assert kinds(server) == ["list", "watch"]


async def test_known_object_that_turns_odd_survives_a_new_list(connect: Connect) -> None:
    """It exists, so what it has booked still counts."""
    handle = by_kind(
        script(listing(10, pod("a")), listing(20, pod("a", 15, odd=True), pod("b"))),
        script(refuses(410), holds()),
    )
    async with serving(handle) as server, connect(server.url) as client, watching(client) as watched:
        await until(lambda: watched.values == ("a@1", "b@1"))


@pytest.mark.parametrize(
    "answer",
    [{}, {"metadata": {}}, {"metadata": {"resourceVersion": ""}}, {"metadata": {"resourceVersion": "1"}, "items": "x"}],
)
async def test_answer_that_is_no_list_is_no_list(connect: Connect, answer: dict[str, Any]) -> None:
    handle = by_kind(script(answers(200, answer), listing(10, pod("a"))), holds())
    async with serving(handle) as server, connect(server.url) as client, watching(client) as watched:
        await until(lambda: watched.health().open)
        assert watched.values == ("a@1",)
    assert kinds(server) == ["list", "list", "watch"]


async def test_empty_list_written_as_null_is_complete(connect: Connect) -> None:
    handle = by_kind(answers(200, {"metadata": {"resourceVersion": "1"}, "items": None}), holds())
    async with serving(handle) as server, connect(server.url) as client, watching(client) as watched:
        await until(lambda: watched.complete)
        assert watched.values == ()


async def test_credentials_that_appear_later_are_found(connect: Connect, tmp_path: Path) -> None:
    """K3s may start after the agent."""
    async with serving(by_kind(listing(10, pod("a")), holds())) as server, connect(server.url) as client:
        kubeconfig = tmp_path / "kubeconfig"
        hidden = kubeconfig.rename(tmp_path / "hidden")
        async with watching(client) as watched:
            await until(lambda: "there is no kubeconfig" in watched.last_error)
            hidden.rename(kubeconfig)
            await until(lambda: watched.values == ("a@1",))


async def test_an_outage_is_logged_once_and_its_end_too(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "edgeagent")
    down = refuses(503, "no etcd")
    handle = by_kind(script(*[down] * 8, listing(10)), script(resets(), holds()))
    async with serving(handle) as server, connect(server.url) as client, watching(client) as watched:
        await until(lambda: len(server.requests) == 11 and watched.health().open)
    assert caplog.messages == [
        "/api/v1/pods cannot be watched: HTTP 503 : no etcd",
        "/api/v1/pods is watched again",
    ]


async def test_nothing_grows_over_events_and_reconnects(connect: Connect) -> None:
    """1000 events over 100 streams, every third cut in a line, every tenth reset: nothing is left open."""
    streams_begun = 0
    go_on = asyncio.Event()

    async def ten_events(exchange: Exchange) -> None:
        nonlocal streams_begun
        streams_begun += 1
        begin = int(exchange.request.query["resourceVersion"]) + 1
        await exchange.stream(*[event("MODIFIED", pod("a", begin + i)) for i in range(10)])
        if streams_begun in (11, 101):
            await go_on.wait()
            go_on.clear()
        if streams_begun % 3 == 0:
            await exchange.send(b'{"type": "MOD')
        if streams_begun % 10 == 0:
            exchange.reset()
        else:
            await exchange.end()

    def open_things() -> tuple[int, int]:
        return len(asyncio.all_tasks()), len(list(Path("/proc/self/fd").iterdir()))

    handle = by_kind(listing(1000, pod("a")), ten_events)
    async with serving(handle) as server, connect(server.url) as client, watching(client) as watched:
        await until(lambda: streams_begun == 11 and watched.health().open)
        before = open_things()
        go_on.set()
        await until(lambda: streams_begun == 101 and watched.health().open)
        assert open_things() == before
        assert watched.reconnects == 100
        assert set(client.calls) <= {("GET", "200"), ("WATCH", "200"), ("WATCH", "unreachable")}


async def test_stop_ends_the_task_at_any_moment(connect: Connect) -> None:
    before = asyncio.all_tasks()
    async with serving(by_kind(listing(10), holds())) as server, connect(server.url) as client:
        for wanted in (0, 1, 2):
            server.requests.clear()
            async with watching(client) as watched:
                await until(lambda wanted=wanted: len(server.requests) >= wanted)  # type: ignore[misc]
            assert not watched.health().crashed
    assert asyncio.all_tasks() == before


async def test_a_bug_is_seen_in_health_and_raised_at_the_end(connect: Connect) -> None:
    handle = by_kind(listing(10, pod("a")), holds())
    async with serving(handle) as server, connect(server.url) as client:
        watched = Watched(
            client,
            "/api/v1/pods",
            "",
            mock.Mock(side_effect=ZeroDivisionError),
            clock=time.monotonic,
            changed=asyncio.Event(),
            rng=NO_WAIT,
        )
        watched.start()
        await until(lambda: watched.health().crashed)
        with pytest.raises(ZeroDivisionError):
            await watched.stop()

"""The demo's API server answers as the real one did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edgeagent.cluster.client import Client
from edgeagent.cluster.credentials import Credentials
from edgeagent.demo import apiserver
from edgeagent.demo import setting as settings
from edgeagent.demo.apiserver import ApiServer
from tests.unit.demo import conversation


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as started:
        yield started


@pytest.fixture
async def client(server: ApiServer, tmp_path: Path) -> AsyncIterator[Client]:
    kubeconfig = tmp_path / "kubeconfig"
    await asyncio.to_thread(settings.write_kubeconfig, kubeconfig, server.url, "somebody")
    async with Client(Credentials(kubeconfig)) as opened:
        yield opened


async def test_it_gives_the_answers_of_a_real_one(client: Client) -> None:
    answers = await conversation.Conversation(client, "default").hold()

    assert answers == conversation.expected()


async def test_every_request_is_recorded_with_who_asked_and_how_it_was_answered(
    server: ApiServer, client: Client
) -> None:
    await client.request("POST", "/api/v1/nodes", body={"metadata": {"name": "n"}})
    await client.request("GET", "/api/v1/nodes/n")

    assert [(one.user, one.method, one.path, one.status) for one in server.requests] == [
        ("somebody", "POST", "/api/v1/nodes", 201),
        ("somebody", "GET", "/api/v1/nodes/n", 200),
    ]
    assert server.requests[0].body == {"metadata": {"name": "n"}}


async def test_an_idle_watch_gets_bookmarks_with_the_version_to_go_on_from(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apiserver, "BOOKMARK_SECONDS", 0.01)
    await client.request("POST", "/api/v1/nodes", body={"metadata": {"name": "n"}})
    listed = await client.request("GET", "/api/v1/nodes")
    version = listed["metadata"]["resourceVersion"]

    params = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version}
    async with client.watch("/api/v1/nodes", params, longest=10) as stream:
        event = await stream.__anext__()

    assert event["type"] == "BOOKMARK"
    assert event["object"]["metadata"]["resourceVersion"] == version


async def test_a_watch_ends_after_the_time_that_it_asked_for(client: Client) -> None:
    async with client.watch("/api/v1/nodes", {"watch": "1", "timeoutSeconds": "0.05"}, longest=10) as stream:
        assert [event async for event in stream] == []


async def test_a_watch_from_no_version_begins_with_what_is_there(client: Client) -> None:
    await client.request("POST", "/api/v1/nodes", body={"metadata": {"name": "n"}})

    async with client.watch("/api/v1/nodes", {"watch": "1", "timeoutSeconds": "0.05"}, longest=10) as stream:
        events = [event async for event in stream]

    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [("ADDED", "n")]

"""The command ends by itself, stays up when told to, and says what went wrong."""

from __future__ import annotations

import asyncio
import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from typing_extensions import override

from edgeagent import cli
from edgeagent.cluster.client import Client
from edgeagent.cluster.credentials import Credentials
from edgeagent.config import Config
from edgeagent.demo import play, script
from edgeagent.demo.apiserver import ApiServer
from edgeagent.demo.narrator import Narrator
from edgeagent.demo.stage import StepError
from edgeagent.errors import AnswerError
from tests.unit.demo.performing import setting

DEMO = [sys.executable, "-m", "edgeagent", "demo", "--speed", "50"]


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as started:
        yield started


async def get(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


class Out(io.StringIO):
    """Where the story is told to, and who waits for some words of it."""

    def __init__(self, awaited: str) -> None:
        super().__init__()
        self._awaited = awaited
        self._written = asyncio.Event()

    @override
    def write(self, text: str) -> int:
        if self._awaited in text:
            self._written.set()
        return super().write(text)

    async def written(self, playing: asyncio.Task[bool]) -> None:
        """Wait for the words, or for the end of all waiting."""
        waiting = asyncio.create_task(self._written.wait())
        await asyncio.wait({waiting, playing}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        assert self._awaited in self.getvalue(), playing


async def test_agent_and_endpoint_go_on_after_the_story_when_told_to(server: ApiServer, tmp_path: Path) -> None:
    out, stop = Out("Ctrl-C"), asyncio.Event()
    given = await setting(tmp_path, Config(), server.url, keep=True)
    playing = asyncio.create_task(play.perform(given, Narrator(out, {}), stop))
    await out.written(playing)

    address = (await asyncio.to_thread((tmp_path / "address").read_text)).strip()
    assert f"http://{address}/" in out.getvalue()
    status, body = await get(f"http://{address}/api/v1/pods")
    assert (status, [pod["name"] for pod in json.loads(body)["pods"]]) == (200, ["detector", "speech"])
    assert (await get(f"http://{address}/readyz"))[0] == 200

    stop.set()
    assert await playing
    with pytest.raises(aiohttp.ClientConnectionError):
        await get(f"http://{address}/readyz")


async def test_a_step_that_does_not_happen_is_named(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "_PATIENCE", 1.0)
    # In observe mode nobody is ever evicted.
    given = await setting(tmp_path, replace(Config(), mode="observe"), server.url)

    with pytest.raises(StepError, match="not within 2 s: the eviction of chat"):
        await play.perform(given, Narrator(io.StringIO(), {}), asyncio.Event())


async def test_a_story_that_is_stopped_has_not_come_to_its_end(server: ApiServer, tmp_path: Path) -> None:
    out, stop = Out("Two models come"), asyncio.Event()
    given = await setting(tmp_path, Config(), server.url)
    playing = asyncio.create_task(play.perform(given, Narrator(out, {}), stop))
    await out.written(playing)
    stop.set()

    assert not await playing
    assert "Two models fitted" not in out.getvalue()


async def test_where_the_api_server_outlives_the_demo_nothing_is_left_on_it(server: ApiServer, tmp_path: Path) -> None:
    given = await setting(tmp_path, Config(), server.url, clear=True)
    assert await play.perform(given, Narrator(io.StringIO(), {}), asyncio.Event())

    for path in ("/api/v1/nodes", "/api/v1/pods"):
        assert json.loads((await get(f"{server.url}{path}"))[1])["items"] == []


async def test_a_node_of_that_name_that_was_there_before_is_left_alone(server: ApiServer, tmp_path: Path) -> None:
    given = await setting(tmp_path, Config(), server.url, clear=True)
    async with Client(Credentials(given.kubeconfig)) as client:
        before = await client.request("POST", "/api/v1/nodes", body={"metadata": {"name": "orin-nano"}})

        with pytest.raises(AnswerError, match="already exists"):
            await play.perform(given, Narrator(io.StringIO(), {}), asyncio.Event())

        assert await client.request("GET", "/api/v1/nodes/orin-nano") == before


def test_the_command_ends_by_itself() -> None:
    done = subprocess.run(DEMO, capture_output=True, text=True, timeout=100, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "edgeagent explain" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(number: signal.Signals) -> None:
    with subprocess.Popen([*DEMO, "--keep"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if "Ctrl-C" in line:
                break
        process.send_signal(number)
        assert (process.wait(60), process.stderr.read()) == (0, "")


def test_a_signal_before_the_end_is_told_by_the_exit_code() -> None:
    with subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if "Two models come" in line:
                break
        process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.stderr.read()) == (1, "")


def test_a_host_root_with_something_in_it_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious").touch()

    assert cli.main(["demo", "--host-root", str(tmp_path)]) == 2
    assert re.search("has to be empty", capsys.readouterr().err)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


@pytest.mark.parametrize("keep", [False, True])
def test_the_end_says_where_to_look_in_a_browser(keep: bool) -> None:  # noqa: FBT001 (a parameter of the cases)
    out = io.StringIO()
    play._sum_up(Narrator(out, {}), "127.0.0.1:9843", keep=keep)  # noqa: SLF001 (what the story ends with)

    assert ("open http://127.0.0.1:9843/ in a browser" in out.getvalue()) is keep
    assert "in a browser" in " ".join(out.getvalue().split())

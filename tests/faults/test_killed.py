"""A real agent process that is killed in the middle of an eviction, and the next one on the same board."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.recorded import recorded_board
from tests.faults.conftest import until, write_kubeconfig
from tests.faults.server import Exchange, ScriptedServer, serving
from tests.faults.virtual import NODE, Call, Outpost, Watch

SETTINGS = "policy: {grace: 1s}\nsampling: {interval: 200ms, fast: 100ms, max_age: 5s}\n"
GRACE = 1.0


class Killing:
    """Outpost and server; the agent's process gets SIGKILL at one moment of its first eviction."""

    def __init__(self, folder: Path, when: str) -> None:
        self.outpost = Outpost(folder)
        # The victim ignores SIGTERM: its process stays for as long as the test wants it.
        self.outpost.api.deletes = lambda _pod: None
        self.process: asyncio.subprocess.Process | None = None
        self.killed = asyncio.Event()
        self._folder = folder
        self._when = when

    async def start(self, server: ScriptedServer) -> None:
        folder = self._folder
        (folder / "config.yaml").write_text(SETTINGS)
        kubeconfig = write_kubeconfig(folder / "kubeconfig", server.url)
        arguments = [
            *("--config", folder / "config.yaml", "--kubeconfig", kubeconfig, "--node", NODE, "--bind", "127.0.0.1:0"),
            *("--host-root", self.outpost.board.root, "--nvml-replay", recorded_board() / "nvml.json"),
            *("--state-dir", folder / "state", "--runtime-dir", folder / "run"),
        ]
        with (folder / "log").open("a") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "edgeagent", "run", *map(str, arguments)), stdout=log, stderr=log
            )

    async def kill(self) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    async def __call__(self, exchange: Exchange) -> None:
        asked = exchange.request
        body = asked.json if asked.body else None
        call = Call(asyncio.get_running_loop().time(), asked.method, asked.path, asked.query, body)
        if call.watch:
            await self._stream(exchange, call)
            return
        first = call.eviction and not self.killed.is_set()
        self.outpost.api.calls.append(call)
        if first and self._when == "received":
            await self._end()
        answer = self.outpost.api.answer(call)
        if first and self._when == "carried out":
            await self._end()
        await exchange.answer(answer.status, await answer.read(), answer.headers)
        if first and self._when in ("answered", "kept"):
            await asyncio.sleep(0.0 if self._when == "answered" else 1.0)
            await self._end()

    async def _end(self) -> None:
        await self.kill()
        self.killed.set()
        if self._when == "received":
            raise ConnectionResetError

    async def _stream(self, exchange: Exchange, call: Call) -> None:
        watch = self.outpost.api.answer(call, _Limits())  # type: ignore[arg-type]
        if not isinstance(watch, Watch):
            await exchange.answer(watch.status, await watch.read())
            return
        try:
            await exchange.stream()
            while True:
                await exchange.send(await watch.readany())
        finally:
            watch.close()


class _Limits:
    total: float | None = None
    sock_read: float | None = None


@contextlib.asynccontextmanager
async def killing(folder: Path, when: str) -> AsyncIterator[tuple[Killing, ScriptedServer]]:
    scene = await asyncio.to_thread(Killing, folder, when)
    async with serving(scene) as server:
        try:
            yield scene, server
        finally:
            await scene.kill()
            sys.stdout.write((folder / "log").read_text())  # what a failing test shows


@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="needs Linux")
@pytest.mark.parametrize("when", ["received", "carried out", "answered", "kept"])
async def test_the_next_agent_neither_repeats_the_eviction_nor_goes_on_to_another_pod(
    when: str, tmp_path: Path
) -> None:
    async with killing(tmp_path, when) as (scene, server):
        outpost = scene.outpost
        greedy = outpost.pod("greedy", 1024, 1000)
        other = outpost.pod("other", 1024, 1000)
        await scene.start(server)
        await until(lambda: bool(outpost.api.node["status"]["capacity"].get("edgeagent.dev/gpu-memory")))
        outpost.hold(greedy, 1060)
        await asyncio.wait_for(scene.killed.wait(), 30)
        if when == "kept":
            # The state was written a second ago: nobody else goes while the victim still has its memory.
            outpost.hold(other, 1060)
        await scene.start(server)
        if when == "received":
            # Nothing was carried out, so the next agent evicts, once the breach has lasted anew.
            await until(lambda: len(outpost.api.accepted) == 1)
        # Long enough for a breach to mature anew, several times.
        await asyncio.sleep(6 * GRACE)
        assert [uid for _, uid in outpost.api.accepted] == [greedy.uid]
        assert other.uid in outpost.loads


@pytest.mark.parametrize("method", ["PATCH", "POST"])
async def test_a_stop_does_not_wait_for_an_api_server_that_hangs(method: str, tmp_path: Path) -> None:
    """In the middle of a write, whose end the server decides."""
    async with killing(tmp_path, "never") as (scene, server):
        held = asyncio.Event()

        async def hanging(exchange: Exchange) -> None:
            if exchange.request.method == method:
                held.set()
                await asyncio.Event().wait()
            await scene(exchange)

        server.handle = hanging
        scene.outpost.pod("greedy", 1024, 1500)
        await scene.start(server)
        await asyncio.wait_for(held.wait(), 30)
        assert scene.process is not None
        begun = asyncio.get_running_loop().time()
        scene.process.terminate()
        assert await asyncio.wait_for(scene.process.wait(), 30) == 0
        # 2 s on a machine that does nothing else.
        assert asyncio.get_running_loop().time() - begun < 5.0
        if method == "PATCH":
            assert "edgeagent.dev/gpu-memory" not in scene.outpost.api.node["status"]["capacity"]

"""The command: the same agent as on a board, with a recorded board below it and an API server beside it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.agent import Agent, Options
from edgeagent.cluster.client import Client
from edgeagent.cluster.credentials import Credentials
from edgeagent.config import Node, Serve
from edgeagent.demo import script
from edgeagent.demo.apiserver import ApiServer
from edgeagent.demo.narrator import Narrator
from edgeagent.demo.orin import Board
from edgeagent.demo.stage import Cluster, StepError, until
from edgeagent.errors import ClusterError, InputError
from edgeagent.serve.http import Server
from edgeagent.status import Status
from edgeagent.system import dirs, lock

if TYPE_CHECKING:
    from edgeagent.config import Config

NODE = "orin-nano"
NAMESPACE = "default"
AGENT, SCRIPT = "agent", "script"
"""Who asks, for the demo's own API server."""
_PICTURE_SECONDS = 30.0
_WARNINGS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Everything that one performance needs."""

    config: Config
    """Of the agent; its durations are already those of ``speed``."""
    options: Options
    """Of the agent. ``host_root`` is where the board is laid out."""
    board_nvml: Path
    """Where the recorded answers of NVML are laid out."""
    agent_kubeconfig: Path
    """Credentials of the agent, as in its options."""
    kubeconfig: Path
    """Credentials of the script, which plays operator and kubelet."""
    runtime: Path
    namespace: str = NAMESPACE
    speed: float = 1.0
    keep: bool = False
    """Go on after the end of the story."""
    clear: bool = False
    """Take pods and node away in the end: the API server outlives the demo."""


def run(arguments: argparse.Namespace, config: Config) -> int:
    """Play; 0 once the story has come to its end, 1 if it did not.

    Raises:
        InputError: the host root is in use, or a directory cannot be used.
        AlreadyRunningError: another instance holds the runtime directory.
    """
    narrator = Narrator(sys.stdout, os.environ)
    with tempfile.TemporaryDirectory(prefix="edgeagent-demo-") as name, _warnings() as warnings:
        setting = _setting(arguments, config, Path(name))
        with lock.only_instance(dirs.prepare(setting.runtime)):
            finished = asyncio.run(_play(setting, narrator, own=arguments.kubeconfig is None))
        for line in () if finished else warnings:
            narrator.problem(f"agent: {line}")
    return 0 if finished else 1


def hurried(config: Config, speed: float) -> Config:
    """``config`` with the durations that make up the story's pace divided by ``speed``."""
    policy, pressure, sampling = config.policy, config.pressure, config.sampling
    return replace(
        config,
        policy=replace(policy, grace=policy.grace / speed, start_grace=policy.start_grace / speed),
        pressure=replace(pressure, horizon=pressure.horizon / speed),
        # How old a reading may be depends on the machine that reads, which is not any faster.
        sampling=replace(
            sampling,
            interval=sampling.interval / speed,
            fast=sampling.fast / speed,
            max_age=sampling.max_age / min(speed, 1.0),
        ),
    )


def write_kubeconfig(path: Path, url: str, user: str) -> None:
    """Credentials for the demo's own API server (JSON is YAML)."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "demo", "cluster": {"server": url}}],
        "users": [{"name": user, "user": {"token": user}}],
        "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": user}}],
        "current-context": "demo",
    }
    path.write_text(json.dumps(content), encoding="utf-8")


async def perform(setting: Setting, narrator: Narrator, stop: asyncio.Event) -> bool:
    """Run the agent and the story side by side until the story has ended or ``stop`` is set; whether it ended.

    Raises:
        StepError: a step did not come to its end.
        ClusterError: the API server did not answer the script, or refused.
    """
    board = Board(setting.options.host_root, setting.board_nvml)
    await asyncio.to_thread(board.unpack)
    # Opening the board's files blocks.
    agent = await asyncio.to_thread(Agent, setting.options, setting.config, clock=time.monotonic, wall=time.time)
    status, server = Status(agent), _endpoint(setting.config.serve)
    await server.start()
    await asyncio.to_thread(dirs.write_address, setting.runtime, server.address)
    ended = asyncio.Event()
    acting = asyncio.create_task(agent.run(ended, lambda _: server.show(status.shown())), name="agent")
    telling = asyncio.create_task(_tell(setting, board, agent, narrator, server.address), name="story")
    stopping = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait({acting, telling, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if telling.done():
            telling.result()
            _sum_up(narrator, server.address, keep=setting.keep)
            if setting.keep:
                await asyncio.wait({acting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if acting.done():
            acting.result()
        return telling.done()
    finally:
        ended.set()
        telling.cancel()
        stopping.cancel()
        await asyncio.gather(acting, telling, stopping, return_exceptions=True)
        await server.stop()


def _endpoint(settings: Serve) -> Server:
    return Server(settings.bind, tls=settings.tls, token_file=settings.token_file)


async def _play(setting: Setting, narrator: Narrator, *, own: bool) -> bool:
    """Perform with signals, and with the demo's ``own`` API server where no other is given; whether the story ended."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        if not own:
            return await perform(setting, narrator, stop)
        async with ApiServer() as server:
            for path, user in ((setting.agent_kubeconfig, AGENT), (setting.kubeconfig, SCRIPT)):
                await asyncio.to_thread(write_kubeconfig, path, server.url, user)
            return await perform(setting, narrator, stop)
    except (StepError, ClusterError) as error:
        narrator.problem(f"The demo stopped: {error}")
        return False


async def _tell(setting: Setting, board: Board, agent: Agent, narrator: Narrator, address: str) -> None:
    narrator.title("A recorded Jetson Orin Nano 8 GB, and the same agent that runs on a real one.")
    narrator.title(f"Meanwhile it answers at http://{address}/metrics, /readyz and /api/v1/pods.")
    node = setting.config.node.name or NODE
    async with Client(Credentials(setting.kubeconfig)) as client:
        scene = script.Scene(
            cluster=Cluster(client, setting.namespace),
            board=board,
            audience=_Audience(narrator, agent),
            node=node,
            speed=setting.speed,
            grace=setting.config.policy.grace * setting.speed,
        )
        try:
            await script.play(scene)
        finally:
            if setting.clear:
                await script.clear(scene)


class _Audience:
    """The narrator, with a view of the agent's plan."""

    def __init__(self, narrator: Narrator, agent: Agent) -> None:
        self.say = narrator.say
        self.quote = narrator.quote
        self._narrator = narrator
        self._agent = agent

    async def picture(self) -> None:
        """Show the plan of a sample that was taken after now."""
        now = self._agent.now()

        async def look() -> bool | None:
            host = self._agent.host
            return (host is not None and now < host.attributed_at <= self._agent.cycled_at) or None

        await until("a new sample of the board", look, _PICTURE_SECONDS)
        if self._agent.plan is not None and self._agent.plan.pools:
            self._narrator.show(self._agent.plan)


def _sum_up(narrator: Narrator, address: str, *, keep: bool) -> None:
    narrator.title("")
    narrator.title("Two models fitted, a third waited, one outgrew its budget and went, and the third took its place.")
    if keep:
        narrator.title(f"Agent and endpoint go on: http://{address}/ and curl http://{address}/api/v1/pools")
        narrator.title("Ctrl-C ends them.")
    else:
        narrator.title("To look around afterwards: edgeagent demo --keep, then curl its /api/v1/pools")
        narrator.title("On a board, without touching anything: edgeagent explain")


def _setting(arguments: argparse.Namespace, config: Config, folder: Path) -> Setting:
    root = arguments.host_root if arguments.host_root != Path("/") else folder / "host"
    if root.exists() and any(root.iterdir()):
        raise InputError(f"{root}: the demo lays out its own board there, so it has to be empty")
    # The port of the service may be taken by the service.
    bind = config.serve if config.serve != Serve() or arguments.bind else replace(config.serve, bind="127.0.0.1:0")
    named = replace(config, serve=bind, node=Node(config.node.name or NODE))
    runtime = arguments.runtime_dir or folder / "run"
    agent_kubeconfig = arguments.kubeconfig or folder / "agent.kubeconfig"
    return Setting(
        config=hurried(named, arguments.speed),
        options=Options(
            kubeconfig=agent_kubeconfig,
            host_root=root,
            nvml_replay=arguments.nvml_replay or folder / "nvml.json",
            state_dir=arguments.state_dir or folder / "state",
            runtime_dir=runtime,
        ),
        board_nvml=folder / "nvml.json",
        agent_kubeconfig=agent_kubeconfig,
        kubeconfig=arguments.kubeconfig or folder / "script.kubeconfig",
        runtime=runtime,
        speed=arguments.speed,
        keep=arguments.keep,
        clear=arguments.kubeconfig is not None,
    )


class _Kept(logging.Handler):
    """Keeps the last warnings instead of writing them between the lines of the story."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: deque[str] = deque(maxlen=_WARNINGS)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.lines.append(record.getMessage())


@contextlib.contextmanager
def _warnings() -> Iterator[deque[str]]:
    """The last warnings of the package, for the case that the story does not come to its end."""
    handler, logger = _Kept(), logging.getLogger("edgeagent")
    logger.addHandler(handler)
    try:
        yield handler.lines
    finally:
        logger.removeHandler(handler)

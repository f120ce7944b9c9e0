"""The command: the same agent as on a board, with a recorded board below it and an API server beside it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from edgeagent import daemon
from edgeagent.agent import Agent
from edgeagent.cluster.client import Client
from edgeagent.cluster.credentials import Credentials
from edgeagent.config import Config
from edgeagent.demo import script
from edgeagent.demo import setting as settings
from edgeagent.demo.apiserver import ApiServer
from edgeagent.demo.narrator import Narrator
from edgeagent.demo.orin import Board
from edgeagent.demo.setting import Setting
from edgeagent.demo.stage import Cluster, StepError, until
from edgeagent.errors import ClusterError, InputError
from edgeagent.serve.http import Server
from edgeagent.status import Status
from edgeagent.system import dirs, lock

_PICTURE_SECONDS = 30.0
_WARNINGS = 10


def _command() -> str:
    """How this program is called from here: its virtual environment is seldom on the path."""
    own = Path(sys.executable).with_name("edgeagent")
    if not own.exists() or shutil.which("edgeagent") == str(own):
        return "edgeagent"
    return str(own.relative_to(Path.cwd())) if own.is_relative_to(Path.cwd()) else str(own)


COMMAND = _command()


def run(arguments: argparse.Namespace, config: Config) -> int:
    """Play; 0 once the story has come to its end, 1 if it did not.

    Raises:
        InputError: the host root is in use, or a directory cannot be used.
        AlreadyRunningError: another instance holds the runtime directory.
    """
    narrator = Narrator(sys.stdout, os.environ)
    with tempfile.TemporaryDirectory(prefix="edgeagent-demo-") as name, _warnings() as warnings:
        setting = settings.from_arguments(arguments, config, Path(name))
        dirs.prepare(setting.options.state_dir or setting.runtime, private=True)
        with lock.only_instance(dirs.prepare(setting.runtime)):
            finished = asyncio.run(_play(setting, narrator, own=arguments.kubeconfig is None))
        for line in () if finished else warnings:
            narrator.problem(f"agent: {line}")
    return 0 if finished else 1


async def perform(setting: Setting, narrator: Narrator, stop: asyncio.Event) -> bool:
    """Run the agent and the story side by side until the story has ended or ``stop`` is set; whether it ended.

    Raises:
        InputError: the address of the endpoint or the folder of the board cannot be used.
        StepError: a step did not come to its end.
        ClusterError: the API server did not answer the script, or refused.
    """
    board = await asyncio.to_thread(_unpacked, setting)
    server = await daemon.listen(setting.config.serve, setting.runtime)
    try:
        # Opening the board's files blocks.
        agent = await asyncio.to_thread(Agent, setting.options, setting.config, clock=time.monotonic, wall=time.time)
        narrator.title("A recorded Jetson Orin Nano 8 GB, and the same agent that runs on a real one.")
        narrator.title(f"Meanwhile it answers at http://{server.address}/metrics, /readyz and /api/v1/pods.")
        narrator.title(f"Open http://{server.address}/ in a browser to watch it there.")
        async with Client(Credentials(setting.kubeconfig)) as client:
            scene = _scene(setting, client, board, _Audience(narrator, agent))
            try:
                # Before the agent starts: were there a node of that name already, it would publish this board on it.
                await script.register(scene)
                async with _acting(agent, server) as acting:
                    finished = await _told(scene, acting, stop)
                    if finished:
                        _sum_up(narrator, server.address, keep=setting.keep)
                    if finished and setting.keep:
                        await _first(stop, acting)
                    return finished
            finally:
                if setting.clear:
                    await scene.cluster.clear()
    finally:
        await server.stop()


def _scene(setting: Setting, client: Client, board: Board, audience: script.Audience) -> script.Scene:
    return script.Scene(
        cluster=Cluster(client, setting.namespace),
        board=board,
        audience=audience,
        node=setting.config.node.name or settings.NODE,
        speed=setting.speed,
        grace=setting.config.policy.grace * setting.speed,
    )


@contextlib.asynccontextmanager
async def _acting(agent: Agent, server: Server) -> AsyncIterator[asyncio.Task[None]]:
    """The running agent, which shows itself through ``server``."""
    status, ended = Status(agent), asyncio.Event()
    task = asyncio.create_task(agent.run(ended, lambda _: server.show(status.shown())), name="agent")
    try:
        yield task
    finally:
        ended.set()
        await asyncio.gather(task, return_exceptions=True)


async def _told(scene: script.Scene, acting: asyncio.Task[None], stop: asyncio.Event) -> bool:
    """Whether the story came to its end before ``stop`` was set."""
    telling = asyncio.create_task(script.play(scene), name="story")
    try:
        await _first(stop, telling, acting)
        return telling.done()
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _first(stop: asyncio.Event, *tasks: asyncio.Task[None]) -> None:
    """Wait until one of ``tasks`` has ended, what ended it being raised here, or until ``stop`` is set."""
    stopping = asyncio.create_task(stop.wait(), name="stop")
    await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    for task in tasks:
        if task.done():
            task.result()


def _unpacked(setting: Setting) -> Board:
    board = Board(setting.options.host_root, setting.board_nvml)
    try:
        board.unpack()
    except OSError as error:
        raise InputError(f"{board.root}: the board cannot be laid out there: {error.strerror}") from error
    return board


async def _play(setting: Setting, narrator: Narrator, *, own: bool) -> bool:
    """Perform with signals, and with the demo's ``own`` API server where no other is given; whether the story ended."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        if own:
            server = await stack.enter_async_context(ApiServer())
            for path, user in ((setting.agent_kubeconfig, settings.AGENT), (setting.kubeconfig, settings.SCRIPT)):
                await asyncio.to_thread(settings.write_kubeconfig, path, server.url, user)
        try:
            finished = await perform(setting, narrator, stop)
        except (StepError, ClusterError) as error:
            narrator.problem(f"The story did not come to its end: {error}")
            return False
    if not finished:
        narrator.problem("The story was stopped before its end.")
    return finished


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
        narrator.title(f"Agent and endpoint go on: open http://{address}/ in a browser,")
        narrator.title(f"or curl http://{address}/api/v1/pools")
        narrator.title("Ctrl-C ends them.")
    else:
        narrator.title(f"To look around afterwards: {COMMAND} demo --keep, and open its page in a browser")
        narrator.title(f"On a board, without touching anything: {COMMAND} explain")


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

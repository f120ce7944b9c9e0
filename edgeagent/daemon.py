"""One agent as a process: one instance, logs, signals, endpoint, watchdog."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgeagent.agent import Agent, Options
from edgeagent.config import DEFAULT_FILE
from edgeagent.errors import ConfigError, InputError
from edgeagent.serve.http import Server
from edgeagent.status import Status
from edgeagent.system import dirs, lock, logs, mounted, notify, shield
from edgeagent.system.clock import boottime

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from edgeagent.config import Config, Serve
    from edgeagent.plan.types import Plan

log = logging.getLogger(__name__)

CYCLES_MISSED = 5
"""Intervals without a completed cycle that the watchdog has to bear."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The configuration at the start, and how it is read again."""

    folder: Path
    version: str | None
    """Of the ConfigMap that is mounted at ``folder``; None: none is."""
    config: Config
    load: Callable[[], Config]


def run(arguments: argparse.Namespace, load: Callable[[], Config]) -> int:
    """Run the agent until SIGTERM or SIGINT; ``load`` reads the configuration, again at each SIGHUP.

    So it does when the configuration is a mounted ConfigMap that has changed.

    Raises:
        InputError: configuration or directories cannot be used.
        AlreadyRunningError: another instance holds the runtime directory.
    """
    folder = (arguments.config or DEFAULT_FILE).parent
    # Looked at before it is read, so that a change in between is seen at the next look.
    loaded = _Loaded(folder, mounted.version(folder), load(), load)
    options = Options.from_arguments(arguments)
    if not options.host_root.is_dir():
        raise InputError(f"{options.host_root}: is no directory")
    runtime = dirs.prepare(dirs.runtime(options.runtime_dir, os.environ))
    shield.one_heap()
    with lock.only_instance(runtime):
        dirs.forget_address(runtime)  # that of a process which was killed
        writer = logs.start("INFO", os.environ)
        try:
            asyncio.run(_serve(options, loaded, runtime, writer))
        finally:
            writer.finish()
    return 0


def _state_dir(options: Options) -> Path | None:
    """Where state is kept; None where the default place cannot be used, which is no reason not to run."""
    try:
        return dirs.prepare(dirs.state(options.state_dir, os.environ), private=True)
    except InputError as error:
        if options.state_dir is not None:
            raise
        log.warning("nothing is kept over a restart: %s", error)
        return None


async def _serve(options: Options, loaded: _Loaded, runtime: Path, writer: logs.Logs) -> None:
    server = await listen(loaded.config.serve, runtime)
    notifier = notify.Notifier(os.environ)
    kept = replace(options, state_dir=_state_dir(options))
    agent = Agent(kept, loaded.config, clock=boottime, wall=time.time)
    status = Status(agent, lambda: writer.lost)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    wanted = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, wanted.set)
    beside = (
        asyncio.create_task(reloads(wanted, agent, status, notifier, loaded.load), name="reload"),
        asyncio.create_task(mounted.follow(loaded.folder, loaded.version, wanted.set), name="mounted configuration"),
    )
    unlocked = shield.lock_memory()
    if unlocked:
        log.warning("memory is not locked, so the agent may be slow when the board runs out of it: %s", unlocked)

    def after_cycle(_: Agent) -> None:
        server.show(status.shown())
        if agent.cycles == 1:
            _stretch_watchdog(notifier, agent.config)
            shield.settle()
            log.info("%s", sentence(agent.plan))
            notifier.ready(sentence(agent.plan))
        # The first cycle often knows no node yet, and so no capacity; and the mode may change.
        notifier.status(sentence(agent.plan))
        notifier.alive()
        for task in beside:
            if task.done():
                task.result()

    try:
        await agent.run(stop, after_cycle)
        log.info("stopping; what was published stays on the node")
        notifier.stopping()
    finally:
        for task in beside:
            task.cancel()
        await server.stop()
        dirs.forget_address(runtime)
        notifier.close()


async def listen(serve: Serve, runtime: Path) -> Server:
    """The endpoint, answering. Its address is the first thing that is said, in the log and in the runtime directory.

    Raises:
        InputError: the address cannot be used.
    """
    server = Server(serve.bind, tls=serve.tls, token_file=serve.token_file, clock=boottime, wall=time.time)
    try:
        await server.start()
    except OSError as error:
        raise InputError(f"serve.bind: {serve.bind}: {error.strerror}") from error
    log.info("listening on %s", server.address)
    unwritten = await asyncio.to_thread(dirs.write_address, runtime, server.address)
    if unwritten:
        log.warning("%s", unwritten)
    return server


async def reloads(
    wanted: asyncio.Event, agent: Agent, status: Status, notifier: notify.Notifier, load: Callable[[], Config]
) -> None:
    """Whenever it is ``wanted``, take the new configuration whole, or keep the old one whole.

    ``load`` runs in a thread: a file that is read slowly must not stop the cycles. One runs at a time, and what is
    wanted meanwhile is done after it, because it may have read the older files.
    """
    while True:
        await wanted.wait()
        wanted.clear()
        notifier.reloading()
        try:
            agent.config = await asyncio.to_thread(load)
            _stretch_watchdog(notifier, agent.config)
            status.refused = ()
            log.info("the configuration was read again")
        except ConfigError as error:
            status.refused = error.problems
            for problem in error.problems:
                log.error("the configuration stays as it was: %s", problem)  # noqa: TRY400 (a sentence, no stack)
        # What is told and decided follows at once, not when the next reading is due.
        agent.wake()
        notifier.ready()


def _stretch_watchdog(notifier: notify.Notifier, config: Config) -> None:
    """A cycle that is configured to take long must not look like one that hangs."""
    wanted = CYCLES_MISSED * config.sampling.interval
    if notifier.watchdog is not None and notifier.watchdog < wanted:
        notifier.watch_every(wanted)


def sentence(plan: Plan | None) -> str:
    """What the board is, what is published of it and whether anybody is evicted, in a line for ``systemctl status``."""
    if plan is None:
        return ""
    amounts = ", ".join(f"{key} {value}" for key, value in plan.node.capacity.items())
    return f"{plan.board.kind}, {amounts or 'no capacity'}, mode {'observe' if plan.observe else 'enforce'}"

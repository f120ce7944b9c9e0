"""Reads the board off the event loop: files in one thread, the driver in another, so that neither stalls the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from edgeagent.host.nvml import NvmlSource, PynvmlSource
from edgeagent.host.nvml_replay import ReplaySource
from edgeagent.host.nvml_worker import NvmlWorker
from edgeagent.host.sampler import HostSampler

if TYPE_CHECKING:
    from pathlib import Path

    from edgeagent.facts import HostFacts, MemInfo, Reading
    from edgeagent.host.files import Files


def nvml_source(replay: Path | None, clock: Callable[[], float]) -> NvmlSource:
    """The driver of this machine, or the file that stands in for it."""
    return ReplaySource(replay) if replay else PynvmlSource(clock)


class BoardReader:
    """Samples of one board.

    Args:
        files: the host's files.
        source: NVML or its stand-in.
        data_dir: K3s' data directory, where it is configured; None: from K3s' own configuration.
        clock: monotonic seconds.
    """

    def __init__(self, files: Files, source: NvmlSource, *, data_dir: str | None, clock: Callable[[], float]) -> None:
        self.worker = NvmlWorker(source, clock=clock)
        self._sampler = HostSampler(files, clock=clock, data_dir=data_dir)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="board")

    async def meminfo(self) -> Reading[MemInfo]:
        """One reading of /proc/meminfo."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._sampler.meminfo)

    async def sample(self, wanted_pods: Collection[str], *, host_processes: bool = False) -> HostFacts:
        """One sample of everything.

        ``wanted_pods``: cgroup uids whose memory is asked for. ``host_processes``: look for the largest outside pods.
        """
        loop = asyncio.get_running_loop()
        nvml = await self.worker.sample(await loop.run_in_executor(self._thread, self._sampler.power))
        take = partial(self._sampler.sample, nvml, tuple(wanted_pods), host_processes=host_processes)
        return await loop.run_in_executor(self._thread, take)

    def close(self) -> None:
        """Let go of the threads. One that hangs in a driver is left behind; it is a daemon."""
        self.worker.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

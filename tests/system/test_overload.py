"""The agent while others take its CPU and its memory: it still evicts, and the right pod.

How long that takes is no matter for tests that run beside others: ``python -m tests.bench.overload`` measures it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .overload import Box, Station, busy_cores, station
from .requirements import ROOT


async def evicts_the_greedy_pod(scene: Station) -> None:
    """One breach, one eviction, and that of its owner."""
    load = scene.greedy()
    await asyncio.sleep(3)
    assert scene.outpost.api.accepted == []
    await scene.breach(load)
    assert [uid for _, uid in scene.outpost.api.accepted] == [load.uid]
    assert scene.process is not None
    assert scene.process.returncode is None


async def test_with_every_core_taken_three_times_it_evicts(tmp_path: Path) -> None:
    async with station(tmp_path) as scene:
        with busy_cores():
            await evicts_the_greedy_pod(scene)


@pytest.fixture
def box() -> Iterator[Box]:
    with Box() as box:
        yield box


def locked_kib(pid: int) -> int:
    match = re.search(r"^VmLck:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1])


@ROOT
async def test_a_neighbour_that_takes_all_memory_is_ended_and_the_agent_evicts(tmp_path: Path, box: Box) -> None:
    """In one memory cgroup with it, up to the cgroup's limit, again and again.

    The unit lowers the agent's own OOM score by 900, for which whoever runs the tests may lack CAP_SYS_RESOURCE; here
    the neighbour's is raised by 1000.
    """
    async with station(tmp_path, box.entry) as scene:
        assert scene.process is not None
        # Locked are the pages that it uses, and it cannot do with less than 10 MiB.
        assert locked_kib(scene.process.pid) > 10 * 1024
        async with box.grown() as ends:
            await evicts_the_greedy_pod(scene)
        assert set(ends) == {-9}
        assert box.ended == len(ends)
        assert scene.process.returncode is None


@ROOT
async def test_while_the_kernel_takes_back_pages_all_the_time_it_evicts(tmp_path: Path, box: Box) -> None:
    async with station(tmp_path, box.entry) as scene:
        with box.thrashed(tmp_path):
            await evicts_the_greedy_pod(scene)

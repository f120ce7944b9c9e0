"""A whole agent on a board that is full by a process of the host: when it looks, and whom it names."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from edgeagent.agent import Agent, Options
from edgeagent.plan.types import Plan
from tests.unit.factories import config
from tests.unit.snapshot.making import nvmap, write

ROOM, LOW = 4_000_000, 100_000
"""KiB usable; the floor is 128 MiB = 131 072 KiB."""


def meminfo(usable: int, anon: int = 4_000_000) -> str:
    rows = {"MemTotal": 7802736, "MemFree": usable, "MemAvailable": usable, "AnonPages": anon}
    zero = dict.fromkeys(("Shmem", "SUnreclaim", "KernelStack", "PageTables"), 0)
    return "".join(f"{row}: {kib} kB\n" for row, kib in {**rows, **zero}.items())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    stat = "812 (ollama) S 1 1 1 0 -1 4194304 " + "0 " * 8 + "20 0 1 0 88123 " + "0 " * 30 + "\n"
    files = {
        "proc/meminfo": meminfo(ROOM),
        "proc/device-tree/compatible": b"nvidia,p3767-0005\0nvidia,tegra234\0",
        "proc/812/stat": stat,
        "proc/812/status": "Name:\tollama\nVmSize:\t 9000 kB\nRssAnon:\t 300 kB\nRssShmem:\t 0 kB\n",
        "proc/812/cgroup": "0::/system.slice/ollama.service\n",
        "sys/kernel/debug/nvmap/iovmm/clients": nvmap(("Xorg", 700, 64)),
    }
    return write(tmp_path / "host", files)


def an_agent(root: Path) -> Agent:
    nvml = root.parent / "nvml.json"
    nvml.write_text(json.dumps({"library": "absent"}))
    settings = config("sampling: {interval: 10ms, fast: 10ms}")
    return Agent(Options(host_root=root, nvml_replay=nvml), settings, clock=time.monotonic, wall=time.time)


async def cycle(agent: Agent) -> Plan:
    """One more, with a sample of its own: the next is due after 10 ms."""
    await asyncio.sleep(0.02)
    return await agent.cycle()


async def told(agent: Agent) -> tuple[str, bool]:
    """The reason after one more cycle, and whether all processes were looked through for it."""
    plan = await cycle(agent)
    assert agent.host is not None
    return plan.node.conditions[0].reason, agent.host.host_processes is not None


@pytest.mark.may_block("the test itself rewrites files of the board")
async def test_it_looks_when_memory_gets_low_and_names_who_it_is_with_the_first_word(root: Path) -> None:
    agent = an_agent(root)
    assert [await told(agent) for _ in range(3)] == [("MemoryAboveFloor", False)] * 3
    (root / "proc/meminfo").write_text(meminfo(LOW))
    # One reading below the floor is no pressure yet, but the next sample looks.
    assert await told(agent) == ("MemoryAboveFloor", False)
    assert await told(agent) == ("HostMemory", True)
    assert agent.plan is not None
    assert "ollama (pid 812, ollama.service)" in agent.plan.node.conditions[0].message
    agent.reader.close()


@pytest.mark.may_block("the test itself rewrites files of the board")
async def test_while_pods_fill_the_board_it_never_looks(root: Path) -> None:
    # 1 GB outside pods is within the 1280 MiB that are reserved.
    agent = an_agent(root)
    (root / "proc/meminfo").write_text(meminfo(LOW, anon=1_000_000))
    assert [await told(agent) for _ in range(4)][1:] == [("MemoryBelowFloor", False)] * 3
    # Then the host grows over them, and is named by the sample after.
    (root / "proc/meminfo").write_text(meminfo(LOW))
    assert await told(agent) == ("MemoryBelowFloor", False)
    assert await told(agent) == ("HostMemory", True)
    agent.reader.close()

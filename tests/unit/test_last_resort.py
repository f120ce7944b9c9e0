"""A whole agent on a board whose memory ends, while its API server does not answer."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest

from edgeagent.agent import Agent, Options
from edgeagent.facts import ClusterFacts
from edgeagent.plan.types import Plan
from edgeagent.status import Status
from tests.unit.factories import GIB, config, container, pod, resources
from tests.unit.reconcile.living import CGROUP, CONTAINER, UID, Board, child, start_ticks

SETTINGS = config("pressure: {floor: 128Mi, critical: 64Mi}\nsampling: {fast: 10ms}")
LOW = b"MemTotal:        7802736 kB\nMemFree:           30000 kB\nMemAvailable:      30000 kB\n"
KTHREADD = b"2 (kthreadd) S 0 0 0 0 -1 2129984 " + b"0 " * 8 + b"20 0 1 0 25 " + b"0 " * 30 + b"\n"


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    with child() as started:
        yield started


def entries(pid: int) -> dict[str, bytes]:
    """An Orin on which the process holds 3 GiB of GPU memory, of which its pod may have 2."""
    rows = [("PROCESS", "PID", "SIZE"), ("sleep", str(pid), "3145728K")]
    table = [
        f"{'user' if number else 'CLIENT':<18} {row[0]:>18} {row[1]:>8} {row[2]:>11}" for number, row in enumerate(rows)
    ]
    table.append(f"{'total':<18} {'':>18} {'':>8} {'3145728K':>11}")
    return {
        "proc/device-tree/compatible": b"nvidia,p3767-0005\0nvidia,tegra234\0",
        "proc/meminfo": LOW,
        "proc/2/stat": KTHREADD,
        f"proc/{pid}/cgroup": CGROUP,
        "sys/kernel/debug/nvmap/iovmm/clients": "\n".join([*table, ""]).encode(),
    }


def an_agent(root: Path, nvml: Path) -> Agent:
    nvml.write_text(json.dumps({"library": "absent"}))
    agent = Agent(Options(host_root=root, nvml_replay=nvml), SETTINGS, clock=time.monotonic, wall=time.time)
    limits = resources(2 * GIB)
    main = container(requests=limits, limits=limits, container_id=CONTAINER)
    # A minute ago the API server was last heard of, so nobody can be evicted.
    view = ClusterFacts(node=None, pods=(pod("llm", uid=UID, containers=(main,)),), fresh_at=time.monotonic() - 60)
    agent.link.view = mock.Mock(facts=lambda _now: view, health=dict)
    return agent


@pytest.fixture
def from_files(tmp_path: Path, victim: subprocess.Popen[bytes]) -> Agent:
    """A tree of plain files that names a process which does exist here, by its true start time."""
    stat = Path(f"/proc/{victim.pid}/stat").read_bytes()
    for path, content in {**entries(victim.pid), f"proc/{victim.pid}/stat": stat}.items():
        place = tmp_path / "host" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return an_agent(tmp_path / "host", tmp_path / "nvml.json")


@pytest.fixture
def on_a_machine(tmp_path: Path, victim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> Agent:
    """The same board, but the process table is this machine's."""
    monkeypatch.setattr("edgeagent.agent.RootFiles", lambda _root: Board(entries(victim.pid)))
    return an_agent(tmp_path, tmp_path / "nvml.json")


async def cycle(agent: Agent) -> Plan:
    """One more, with a reading of its own: the next is due after 10 ms."""
    await asyncio.sleep(0.02)
    return await agent.cycle()


async def test_driven_from_files_a_kill_is_planned_and_never_sent(
    from_files: Agent, victim: subprocess.Popen[bytes]
) -> None:
    assert (await cycle(from_files)).kills == ()
    plan = await cycle(from_files)
    (kill,) = plan.kills
    assert (kill.uid, kill.processes) == (UID, ((victim.pid, start_ticks(victim.pid)),))
    assert dict(from_files.kills) == {"not-procfs": 1}
    shown = await asyncio.to_thread(lambda: Status(from_files).shown())
    assert shown.counters.kills == {"not-procfs": 1}
    with pytest.raises(subprocess.TimeoutExpired):
        victim.wait(0.1)


async def test_on_a_machine_it_is_sent(on_a_machine: Agent, victim: subprocess.Popen[bytes]) -> None:
    await cycle(on_a_machine)
    assert victim.poll() is None
    plan = await cycle(on_a_machine)
    assert [kill.uid for kill in plan.kills] == [UID]
    assert victim.wait(10) == -signal.SIGKILL
    assert dict(on_a_machine.kills) == {"killed": 1}
    # The process is gone, so nobody is killed again; and nobody was told, since nobody could be.
    plan = await cycle(on_a_machine)
    assert plan.kills == ()
    waiting = on_a_machine.outbox._waiting.values()  # noqa: SLF001 (it waits for a server)
    assert [event.reason for event in waiting] == ["MemoryBudgetKilled"]


async def test_the_log_says_once_why_nobody_is_killed(
    on_a_machine: Agent, victim: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    on_a_machine.config = config("policy: {kill: never}\npressure: {floor: 128Mi}\nsampling: {fast: 10ms}")
    for _ in range(4):
        await cycle(on_a_machine)
    assert [record.message for record in caplog.records if "no pod is killed" in record.message] == [
        "The memory of the board is nearly gone, and no pod is killed: policy.kill is never."
    ]
    assert victim.poll() is None


async def test_it_does_not_wait_for_threads_that_others_keep_busy(on_a_machine: Agent) -> None:
    busy = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(busy)
    done = threading.Event()
    await cycle(on_a_machine)
    blocked = busy.submit(done.wait)
    try:
        await asyncio.wait_for(cycle(on_a_machine), 30)
        assert dict(on_a_machine.kills) == {"killed": 1}
        assert not blocked.done()
    finally:
        done.set()


async def test_what_is_only_told_comes_after_what_is_done(on_a_machine: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[Plan] = []
    monkeypatch.setattr(on_a_machine, "hand_over", handed.append)
    monkeypatch.setattr(on_a_machine.rounds, "saw", mock.Mock(side_effect=ValueError("the diagnosis is at fault")))

    with pytest.raises(ValueError, match="at fault"):
        await cycle(on_a_machine)

    assert len(handed) == 1

"""A real agent process that is stopped, killed and started again on the same board: the peaks stay."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import until
from tests.faults.test_killed import Killing, killing
from tests.faults.virtual import Load

pytestmark = pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="needs Linux")

MIB = 1024**2
POD = "llm-7f9c-abcde"
OWNER = [{"kind": "ReplicaSet", "name": "llm-7f9c", "controller": True}]


def host(scene: Killing, load: Load, container: str, mib: int) -> None:
    """From now on the cgroups of the pod and of its container hold so much, a third of which is page cache."""
    pod = f"sys/fs/cgroup/kubepods/burstable/pod{load.uid}"
    for place in (pod, f"{pod}/{container}"):
        stat = f"anon 0\nactive_file {mib * MIB // 4}\ninactive_file {mib * MIB // 4}\nslab_reclaimable 0\n"
        scene.outpost.board.write(f"{place}/memory.stat", stat)
        scene.outpost.board.write(f"{place}/memory.current", f"{mib * MIB * 3 // 2}\n")


def budgets(folder: Path) -> Any:
    """What the endpoint says of the only workload; None while nobody answers or none is known."""
    try:
        address = (folder / "run/address").read_text().strip()
        with urllib.request.urlopen(f"http://{address}/api/v1/budgets", timeout=5) as answer:
            found = json.load(answer)["budgets"]
    except OSError:
        return None
    return found[0] if found else None


async def told(folder: Path, gpu: int, host_: int) -> Any:
    """The document, once its peaks are so many MiB and the pod has been seen by this process."""
    one = None
    for _ in range(300):
        one = await asyncio.to_thread(budgets, folder)
        peaks = (one["gpu"]["peak_day_bytes"], one["host"]["peak_day_bytes"]) if one else None
        if one and peaks == (gpu * MIB, host_ * MIB) and one["pods"] == [POD]:
            return one
        await asyncio.sleep(0.1)
    raise AssertionError(one)


async def ended(scene: Killing, number: signal.Signals) -> None:
    assert scene.process is not None
    scene.process.send_signal(number)
    await asyncio.wait_for(scene.process.wait(), 20)


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "edgeagent", "budgets", "--config", str(folder / "config.yaml")]
    environ = {**os.environ, "STATE_DIRECTORY": str(folder / "state")}
    return subprocess.run([*argv, *arguments], capture_output=True, text=True, check=False, timeout=60, env=environ)


async def test_peaks_outlive_the_process_and_the_pod_that_had_them(tmp_path: Path) -> None:
    async with killing(tmp_path, "never") as (scene, server):
        await asyncio.to_thread(scene.outpost.board.write, "etc/machine-id", "0d5f6c1e8b7a4f2e9c3d1a2b3c4d5e6f\n")
        load = scene.outpost.pod(POD, None, 1740, ownerReferences=OWNER)
        host(scene, load, f"{1:064x}", 505)
        await scene.start(server)
        high = await told(tmp_path, 1740, 505)
        # 1740 + 174 is up to 1920 in whole 64 MiB, 505 + 50.5 up to 576 in whole 32.
        assert high["write"] == {"edgeagent.dev/gpu-memory": "1920Mi", "memory": "2496Mi"}
        assert high["owner"] == {"kind": "Deployment", "name": "llm"}

        scene.outpost.hold(load, 100)
        host(scene, load, f"{1:064x}", 50)
        await ended(scene, signal.SIGTERM)
        kept = await asyncio.to_thread((tmp_path / "state/peaks.json").read_text)
        await scene.start(server)
        await told(tmp_path, 1740, 505)

        # Killed, nothing is written: what was there before is what the next one knows.
        await ended(scene, signal.SIGKILL)
        assert await asyncio.to_thread((tmp_path / "state/peaks.json").read_text) == kept

        offline = await asyncio.to_thread(command, tmp_path, "--runtime-dir", str(tmp_path / "none"))
        assert offline.returncode == 0
        assert "apps/llm (Deployment), container main" in offline.stdout
        assert "edgeagent.dev/gpu-memory: 1920Mi" in offline.stdout
        assert offline.stderr.count("\n") == 1
        assert "no agent answers" in offline.stderr

        # A file that is cut off in the middle costs the week, and nothing else.
        await asyncio.to_thread((tmp_path / "state/peaks.json").write_text, kept[: len(kept) // 2])
        await scene.start(server)
        await told(tmp_path, 100, 50)
        online = await asyncio.to_thread(command, tmp_path, "--runtime-dir", str(tmp_path / "run"), "--format", "json")
        (one,) = json.loads(online.stdout)["budgets"]
        assert (online.stderr, one["gpu"]["peak_week_bytes"]) == ("", 100 * MIB)
        await until(lambda: "peaks.json is not used" in (tmp_path / "log").read_text())

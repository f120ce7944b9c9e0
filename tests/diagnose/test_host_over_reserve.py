"""Processes outside pods hold more than is reserved for them, in two frames: one sample proves nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cases.holders import CLIENTS, client, table, task
from tests.cases.making import KIB, frames, meminfo
from tests.diagnose.making import TOTAL_KIB, Capture, found, healthy, judged

ID = "host-over-reserve"
SERVICE = "0::/system.slice/ollama.service"


def board(available_mib: int) -> dict[str, Any]:
    """A service holds 4 GiB of GPU memory outside pods, where 1280 MiB are reserved; so much is usable."""
    return healthy(
        **{
            "host/proc/meminfo": meminfo(TOTAL_KIB, MemAvailable=available_mib * KIB),
            CLIENTS: table(client(b"ollama", 812, 4 * KIB * KIB)),
            **task(812, SERVICE, name="ollama", fds=()),
            "host/proc/812/status": "Name:\tollama\nVmSize:\t 900000 kB\nRssAnon:\t 0 kB\nRssShmem:\t 0 kB\n",
            **frames({}, {}),
        }
    )


TRIGGER = board(100)  # pressure.floor is 128 MiB
NEAR_MISS = board(2000)


def test_it_says_who_and_how_to_stop_it(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("error", "certain", "pool edgeagent.dev/gpu-memory")
    assert "sudo systemctl stop ollama.service" in one["remedy"].splitlines()
    # 4096 MiB are outside pods; 512 of them are K3s' line.
    assert "echo 'reserves: {os: 3584Mi}' | sudo tee /etc/edgeagent/config.d/99-reserves.yaml" in one["remedy"]


def test_the_lines_that_are_pasted_end_it(tmp_path: Path, capsys: Capture) -> None:
    raised = {**TRIGGER, "config.yaml": {"reserves": {"os": "3584Mi"}}}
    assert found(capsys, tmp_path, raised, ID) == []

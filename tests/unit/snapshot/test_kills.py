"""Kills in a recorded series: planned, and carried out only if a later frame says that the processes are gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgeagent.plan.types import Plan
from edgeagent.snapshot import recording
from edgeagent.snapshot.replay import plans
from tests.unit.snapshot.making import UID, nvmap, orin, write


def low(kib: int) -> str:
    return f"MemTotal:        7802736 kB\nMemFree:           30000 kB\nMemAvailable: {kib:>10} kB\n"


def series(folder: Path, *frames: dict[str, Any]) -> list[Plan]:
    """The plans of frames a tenth of a second apart, on an Orin whose pod holds 3 GiB of its 2."""
    config = {"pressure": {"floor": "128Mi", "critical": "64Mi"}}
    files: dict[str, Any] = {**orin(3072), "config.yaml": config}
    files["frames.yaml"] = [{"frame": f"{number:04}", "at": number / 10} for number in range(len(frames))]
    for number, changes in enumerate(frames):
        files[f"frames/{number:04}/host/proc/uptime"] = f"{100 + number / 10:.2f} 10.00\n"
        files.update({f"frames/{number:04}/{path}": content for path, content in changes.items()})
    return [plan for _, plan in plans(recording.read(write(folder, files)))]


CALM = {"host/proc/meminfo": low(4_000_000)}
LOW = {"host/proc/meminfo": low(30_000)}
GONE = {
    **LOW,
    "host/sys/kernel/debug/nvmap/iovmm/clients": nvmap(("Xorg", 99, 1024)),
    "removed.txt": "host/proc/4242\n",
}


def killed(found: list[Plan]) -> list[tuple[int, ...]]:
    return [tuple(pid for kill in plan.kills for pid, _ in kill.processes) for plan in found]


def test_the_kill_follows_the_eviction_whose_bytes_are_not_back(tmp_path: Path) -> None:
    found = series(tmp_path, CALM, LOW, LOW, LOW, LOW)
    # 0.1 s: the first critical reading · 0.2 s: the second, and pressure: evicted · 0.3 s: not back
    assert [[eviction.uid for eviction in plan.evictions] for plan in found] == [[], [], [UID], [], []]
    assert killed(found) == [(), (), (), (4242,), ()]
    assert found[3].kills[0].uid == UID


def test_a_planned_kill_is_not_told_as_done(tmp_path: Path) -> None:
    found = series(tmp_path, CALM, LOW, LOW, LOW, LOW)
    assert "MemoryBudgetKilled" not in [event.reason for plan in found for event in plan.events]


def test_a_victim_that_went_in_time_is_not_killed(tmp_path: Path) -> None:
    found = series(tmp_path, CALM, LOW, LOW, GONE, GONE, GONE)
    assert [[eviction.uid for eviction in plan.evictions] for plan in found][2] == [UID]
    assert killed(found) == [()] * 6

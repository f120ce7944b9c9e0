"""When the peaks are written, and what is made of a file that is not as it should be."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from edgeagent.plan.keeping import Origin
from edgeagent.plan.peaks import Peaks
from edgeagent.reconcile.peaks import LATEST, SOONEST, PeakKeeper
from edgeagent.system import statefile
from tests.unit.plan.workloads import GIB, MAX_AGE, MIB, WALL, peak, plan, view

ORIGIN = Origin("boot", "/", "0d5f6c1e8b7a4f2e9c3d1a2b3c4d5e6f")


class Run:
    """One run of the keeper, whose clock stands still until it is told. ``writes`` are the documents."""

    def __init__(self, folder: Path | None, monkeypatch: pytest.MonkeyPatch | None = None, problem: str = "") -> None:
        self.now = 1000.0
        self.wall = WALL
        self.writes: list[Any] = []
        self.problem = problem
        self.keeper = PeakKeeper(folder, clock=lambda: self.now, wall=lambda: self.wall + self.now)
        if monkeypatch:
            monkeypatch.setattr(statefile, "write", self._write)

    def _write(self, _: Path, document: Any, name: str) -> str:
        assert name == "peaks.json"
        if not self.problem:
            self.writes.append(document)
        return self.problem

    async def sees(self, gpu: int | None, at: float, age: float = 0.0) -> None:
        """A plan at second ``at``, of a sample that is so old; what is written of it is on the disk."""
        self.now = at
        self.keeper.saw(plan(view(gpu=gpu)), at - age, MAX_AGE)
        await settled()


async def settled() -> None:
    """Until every write has ended."""
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "peaks"))


async def test_a_stop_writes_what_the_next_run_reads(tmp_path: Path) -> None:
    run = Run(tmp_path)
    await run.keeper.open(ORIGIN)
    await run.sees(GIB, 1002.0)
    assert not (tmp_path / "peaks.json").exists()
    await run.keeper.close()

    again = Run(tmp_path)
    again.now = 1010.0
    await again.keeper.open(ORIGIN)
    assert again.keeper.peaks == run.keeper.peaks
    assert peak(again.keeper.peaks) == GIB
    assert (tmp_path / "peaks.json").stat().st_mode & 0o777 == 0o600


async def test_a_new_peak_is_written_after_five_minutes_and_nothing_new_after_a_quarter_of_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, monkeypatch)
    await run.keeper.open(ORIGIN)
    for second in range(2, int(SOONEST), 2):
        await run.sees(GIB, 1000.0 + second)
    assert run.writes == []
    await run.sees(GIB, 1000.0 + SOONEST)
    assert len(run.writes) == 1
    for second in range(2, int(LATEST), 2):
        await run.sees(GIB, 1000.0 + SOONEST + second)
    assert len(run.writes) == 1
    await run.sees(GIB, 1000.0 + SOONEST + LATEST)
    assert len(run.writes) == 2
    # In a day of the same load that is every quarter of an hour: 96 writes.
    assert 24 * 3600 / LATEST == 96


async def test_a_run_that_saw_nothing_new_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, monkeypatch)
    await run.keeper.open(ORIGIN)
    await run.keeper.close()
    assert run.writes == []


async def test_a_sample_that_is_too_old_is_not_counted(tmp_path: Path) -> None:
    run = Run(tmp_path)
    await run.keeper.open(ORIGIN)
    await run.sees(GIB, 1020.0, age=MAX_AGE + 0.1)
    assert run.keeper.peaks == Peaks()
    await run.sees(GIB, 1030.0, age=MAX_AGE)
    assert peak(run.keeper.peaks) == GIB


async def test_without_a_state_directory_they_last_as_long_as_the_process() -> None:
    run = Run(None)
    await run.keeper.open(ORIGIN)
    await run.sees(GIB, 1000.0 + LATEST)
    assert peak(run.keeper.peaks) == GIB
    await run.keeper.close()


async def test_a_disk_that_is_full_is_told_of_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(tmp_path, monkeypatch, problem="no space left")
    await run.keeper.open(ORIGIN)
    await run.sees(GIB, 1000.0 + SOONEST)
    await run.sees(GIB, 1002.0 + SOONEST)
    await run.sees(GIB, 1000.0 + 2 * SOONEST)
    assert [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING] == [
        "peaks are not kept over a restart: no space left"
    ]
    run.problem = ""
    await run.sees(GIB, 1000.0 + 3 * SOONEST)
    assert len(run.writes) == 1


@pytest.mark.parametrize(
    ("change", "cut", "said"),
    [
        ({}, 60, "is not used"),
        ({}, 0, "is not used"),
        ({"machine_id": "another"}, None, "it is of another machine"),
        ({"format": 99}, None, "it is of another version"),
        ({"workloads": [None]}, None, "it is not as this agent writes it"),
    ],
    ids=["torn", "empty", "foreign", "newer", "absurd"],
)
async def test_a_file_that_cannot_be_used_is_one_line_in_the_log_and_the_next_takes_its_place(
    change: dict[str, Any], cut: int | None, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = Run(tmp_path)
    await first.keeper.open(ORIGIN)
    await first.sees(GIB, 1002.0)
    await first.keeper.close()
    path = tmp_path / "peaks.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change})[:cut])

    run = Run(tmp_path)
    run.now = 1010.0
    caplog.clear()
    await run.keeper.open(ORIGIN)
    assert run.keeper.peaks == Peaks()
    (line,) = [one.getMessage() for one in caplog.records]
    assert str(path) in line
    assert said in line
    await run.sees(MIB, 1012.0)
    await run.keeper.close()
    again = Run(tmp_path)
    again.now = 1020.0
    await again.keeper.open(ORIGIN)
    assert peak(again.keeper.peaks) == MIB


async def test_what_killed_runs_have_left_of_a_write_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".peaks.json.abcdefgh").write_text("{")
    await Run(tmp_path).keeper.open(ORIGIN)
    assert os.listdir(tmp_path) == []  # noqa: PTH208 (in a loop)

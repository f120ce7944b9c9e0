"""A folder that is swapped as the kubelet swaps a ConfigMap's: a new directory, then a link renamed over ``..data``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from edgeagent.system import mounted
from tests.faults.conftest import until

if TYPE_CHECKING:
    import pytest


def swap(folder: Path, name: str) -> None:
    """What the kubelet does, in its order."""
    (folder / name).mkdir()
    (folder / "..data_tmp").symlink_to(name)
    (folder / "..data_tmp").rename(folder / "..data")


def changes(monkeypatch: pytest.MonkeyPatch, folder: Path, seen: str | None, *steps: str | None) -> list[int]:
    """How many changes have been told three looks after each step. A step is the name to swap to, None for none."""
    monkeypatch.setattr(mounted, "SECONDS", 0.001)
    count = 0
    real = mounted.version

    def version(of: Path) -> str | None:
        nonlocal count
        count += 1
        return real(of)

    monkeypatch.setattr(mounted, "version", version)
    return asyncio.run(_changes(folder, seen, steps, lambda: count))


async def _changes(
    folder: Path, seen: str | None, steps: tuple[str | None, ...], looks: Callable[[], int]
) -> list[int]:
    told: list[None] = []
    counts = []
    following = asyncio.create_task(mounted.follow(folder, seen, lambda: told.append(None)))
    for name in steps:
        if name:
            await asyncio.to_thread(swap, folder, name)
        # The first of them may have been under way before the step, and what the last one found is told after it.
        enough = looks() + 3
        await until(lambda enough=enough: looks() >= enough)  # type: ignore[misc]
        counts.append(len(told))
    following.cancel()
    return counts


def test_each_version_is_told_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    swap(tmp_path, "..1")

    assert changes(monkeypatch, tmp_path, "..1", None, "..2", None, "..3") == [0, 1, 1, 2]


def test_a_version_that_came_while_the_configuration_was_first_read_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    swap(tmp_path, "..1")
    seen = mounted.version(tmp_path)
    swap(tmp_path, "..2")

    assert changes(monkeypatch, tmp_path, seen, None) == [1]


def test_files_that_somebody_edits_in_a_plain_folder_are_left_until_the_signal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text("mode: observe\n")
    seen = mounted.version(tmp_path)
    (tmp_path / "config.yaml").write_text("mode: enfor")

    assert changes(monkeypatch, tmp_path, seen, None) == [0]


def test_a_link_that_is_gone_is_no_new_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert mounted.version(tmp_path) is None
    assert changes(monkeypatch, tmp_path, "..1", None) == [0]

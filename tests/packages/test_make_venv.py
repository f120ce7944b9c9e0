"""make-venv, and what it makes of a state in which it was interrupted."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.packages.building import Built
from tests.packages.pythons import find
from tests.packages.requirements import DPKG, ONCE

pytestmark = [DPKG, ONCE]


@pytest.fixture
def bundle(built: Built, tmp_path: Path) -> Path:
    with tarfile.open(built.one("*-offline.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    return folder


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """An environment that is in use."""
    there = tmp_path / "environment"
    there.mkdir()
    (there / "mine").touch()
    return there


def make(bundle: Path, target: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """Run make-venv; ``programs`` are shell scripts that it finds in place of those of the system."""
    instead = bundle / "instead"
    instead.mkdir(exist_ok=True)
    for name, script in programs.items():
        (instead / name).write_text(f"#!/bin/sh\n{script}\n")
        (instead / name).chmod(0o755)
    return subprocess.run(
        [bundle / "make-venv", bundle / "wheels", target, find("3.11").program],
        env={**os.environ, "PATH": f"{instead if programs else bundle}:{os.environ['PATH']}"},
        check=False,
        capture_output=True,
        text=True,
    )


def damage(bundle: Path) -> None:
    """Take away what no environment can be made without."""
    for wheel in bundle.glob("wheels/aiohttp-*.whl"):
        wheel.unlink()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_an_environment_stays_as_it_is_when_a_new_one_cannot_be_made(bundle: Path, there: Path) -> None:
    damage(bundle)

    made = make(bundle, there)

    assert made.returncode != 0
    assert "aiohttp" in made.stderr
    assert names(there.parent) == {bundle.name, "environment"}
    assert names(there) == {"mine"}


def test_one_that_was_set_aside_when_the_power_failed_comes_back(bundle: Path, there: Path) -> None:
    # Between the two moves: what makes the second one is killed, and who waits for it.
    cut = f'if [ "$1" != {there} ]; then kill -9 $PPID; exit; fi\nexec /bin/mv "$@"'
    assert make(bundle, there, mv=cut).returncode == -9
    assert names(there.parent) == {bundle.name, "environment.new", "environment.old"}
    damage(bundle)

    # Not even when the next attempt fails is there none.
    made = make(bundle, there)

    assert made.returncode != 0
    assert names(there.parent) == {bundle.name, "environment"}
    assert names(there) == {"mine"}


def test_after_both_moves_the_new_one_counts(bundle: Path, there: Path) -> None:
    (there.parent / "environment.old").mkdir()
    (there.parent / "environment.new").mkdir()
    damage(bundle)

    assert make(bundle, there).returncode != 0

    assert names(there.parent) == {bundle.name, "environment"}
    assert names(there) == {"mine"}


def test_it_is_on_the_disk_before_it_is_in_place(bundle: Path, there: Path) -> None:
    # A fresh environment is still under its other name, complete, and the old one in use, when it is written out.
    seen = there.parent / "seen"
    look = f'echo "$@"; ls {there}; ls {there}.new/bin/edgeagent'

    made = make(bundle, there, sync=f"( {look} ) >{seen}")

    assert (made.returncode, made.stderr) == (0, "")
    assert seen.read_text().splitlines() == [f"-f {there}.new", "mine", f"{there}.new/bin/edgeagent"]
    assert "mine" not in names(there)


def test_it_stays_as_it_is_when_the_disk_does_not_take_the_new_one(bundle: Path, there: Path) -> None:
    assert make(bundle, there, sync="exit 1").returncode != 0

    assert names(there.parent) == {bundle.name, "environment"}
    assert names(there) == {"mine"}

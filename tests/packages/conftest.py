"""Packages are built once for all tests. None of these tests runs the product in its own process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packages.building import REPOSITORY, Built, architecture, build, copy
from tests.packages.machine import Machine
from tests.packages.rootfs import root_folder

OLDER = "0.0.9"
BOARD = Path(__file__).parents[1] / "boards/orin-nano-8gb-jp62/snapshot"


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy(REPOSITORY, tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="session")
def built(source: Path) -> Built:
    """Everything that the recipe makes."""
    return build(source)


@pytest.fixture(scope="session")
def older(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Debian package of a lower version, for this machine."""
    place = copy(source, tmp_path_factory.mktemp("older"), version=OLDER)
    return build(place, "--only=deb", f"--arch={architecture()}").deb(architecture())


@pytest.fixture(scope="session")
def debian() -> Path:
    """The files of a small Debian."""
    return root_folder()


@pytest.fixture
def machine(tmp_path: Path, debian: Path, built: Built, older: Path) -> Iterator[Machine]:
    """A board under systemd, on which nothing is installed."""
    with furnished(tmp_path, debian, built, older) as machine:
        yield machine


def furnished(folder: Path, debian: Path, built: Built, older: Path) -> Machine:
    """A machine, not started yet, with both packages and a recorded board in its /media."""
    machine = Machine(folder, debian)
    shutil.copy(built.deb(architecture()), machine.shared / "edgeagent.deb")
    shutil.copy(older, machine.shared / "older.deb")
    shutil.copytree(BOARD, machine.shared / "board")
    return machine

"""The arm64 package's own libraries, loaded and run by an emulated arm64."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.packages.building import Built
from tests.packages.conftest import BOARD
from tests.packages.requirements import EMULATOR, MACHINE, ONCE
from tests.packages.rootfs import foreign_folder

pytestmark = [MACHINE, EMULATOR, ONCE]

LIBRARIES = (
    "aiohttp._http_parser", "aiohttp._http_writer", "aiohttp._websocket.mask", "aiohttp._websocket.reader_c",
    "frozenlist._frozenlist", "multidict._multidict", "propcache._helpers_c", "yaml._yaml",
    "yarl._quoting_c",
)  # fmt: skip


@pytest.fixture(scope="module")
def site(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels for Debian's own Python 3.11, unpacked: what installing them is, but for the programs."""
    package, site = tmp_path_factory.mktemp("package"), tmp_path_factory.mktemp("site")
    subprocess.run(["dpkg-deb", "--extract", built.deb("arm64"), package], check=True)
    for wheel in package.glob("usr/lib/edgeagent/wheels/*.whl"):
        if wheel.name.split("-")[-3] in ("cp311", "cp36", "py3") and not wheel.name.startswith("pip-"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(site)
    return site


def run(site: Path, *argv: str) -> str:
    root = foreign_folder("arm64")
    command = ["qemu-aarch64-static", "-L", str(root), str(root / "usr/bin/python3.11"), *argv]
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd="/")
    return done.stdout


def test_every_library_is_loaded(site: Path) -> None:
    code = f"import platform, {', '.join(LIBRARIES)}; print(platform.machine())"

    assert run(site, "-c", code) == "aarch64\n"


def test_the_agent_explains_a_recorded_board(site: Path) -> None:
    assert "jetson: CPU and GPU share one memory" in run(site, "-m", "edgeagent", "explain", str(BOARD))

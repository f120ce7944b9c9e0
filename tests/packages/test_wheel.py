"""Wheel and sdist."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.packages.building import Built, build, copy
from tests.packages.conftest import BOARD
from tests.packages.pythons import PYTHONS, find
from tests.packages.requirements import DPKG, ONCE

pytestmark = [DPKG, ONCE]


def hashes(built: Built) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in built.folder.iterdir()}


def test_the_wheel_has_every_file_of_the_package_and_no_other(built: Built, source: Path) -> None:
    with zipfile.ZipFile(built.one("*.whl")) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}

    package = {str(path.relative_to(source)) for path in source.glob("edgeagent/**/*") if path.is_file()}
    assert names == {name for name in package if "__pycache__" not in name}


def test_the_sdist_builds_the_same_wheel(built: Built, tmp_path: Path) -> None:
    with tarfile.open(built.one("edgeagent-*[0-9].tar.gz")) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()

    again = build(unpacked, "--only=wheel")

    name = built.one("*.whl").name
    assert hashes(again)[name] == hashes(built)[name]


def test_the_same_source_gives_the_same_bytes(built: Built, source: Path, tmp_path: Path) -> None:
    # A clone elsewhere, later, by somebody whose files are nobody else's business.
    (tmp_path / "a folder").mkdir()
    other = copy(source, tmp_path / "a folder")
    for path in other.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o700)
            os.utime(path)

    again = build(other, umask=0o077, TZ="Asia/Tokyo", LC_ALL="C")

    assert hashes(again) == hashes(built)


@pytest.mark.parametrize("version", PYTHONS)
def test_it_installs_into_a_fresh_environment(built: Built, tmp_path: Path, version: str) -> None:
    with tarfile.open(built.one("*-offline.tar.gz")) as bundle:
        bundle.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    environment = tmp_path / "environment"

    subprocess.run([folder / "make-venv", folder / "wheels", environment, find(version).program], check=True)

    program = environment / "bin/edgeagent"
    assert built.one("*.whl").name.startswith(f"{run(program, '--version').strip().replace(' ', '-')}-")
    # The kind of the board, as the recording has it.
    assert "jetson: CPU and GPU share one memory" in run(program, "explain", BOARD)
    # What a live page is drawn with.
    run(environment / "bin/python", "-c", "import edgeagent.console.screen")
    # Complete: every requirement is met, at the version that it asks for.
    (pip,) = folder.glob("wheels/pip-*.whl")
    assert run(environment / "bin/python", pip / "pip", "check") == "No broken requirements found.\n"


def run(*argv: str | Path) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, cwd="/").stdout

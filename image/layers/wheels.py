"""The upper layers: pinned wheels, and the agent itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from layers.interpreter import Interpreter
from layers.places import CACHE, DIST_PACKAGES, IMAGE, PYTHON, REPOSITORY, Machine, native

_GLIBC = ("2_17", "2_28", "2_34")
"""Versions of the C library that wheels are built for; the image's is newer than all."""
_USELESS = (".pyx", ".pxd", ".pyi", ".c", ".h", ".hash")
"""Sources of compiled modules, and stubs."""

_SCRIPT = f"""\
#!/usr/bin/python{PYTHON} -I
import sys

from edgeagent.cli import main

sys.exit(main())
"""


def platforms(machine: Machine) -> list[str]:
    """Options of pip for wheels of a machine and of the image's Python."""
    tags = [f"--platform=manylinux_{version}_{machine.wheel}" for version in _GLIBC]
    return ["--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON}", *tags]


def fetch(requirements: str, machine: Machine, folder: Path) -> list[Path]:
    """The wheels for a file of pinned requirements, in ``folder``, each checked by pip against its hash.

    Raises:
        subprocess.CalledProcessError: one cannot be had, or is not the pinned one.
    """
    cache = CACHE / "wheels"
    cache.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    pip += ["--require-hashes", f"--requirement={IMAGE / requirements}", *platforms(machine), f"--dest={folder}"]
    offline = [*pip, "--no-index", f"--find-links={cache}"]
    if subprocess.run(offline, check=False, capture_output=True).returncode:
        subprocess.run(pip, check=True)
        for wheel in folder.glob("*.whl"):
            fresh = cache / f".{os.getpid()}-{wheel.name}"  # another build may be looking
            shutil.copyfile(wheel, fresh).replace(cache / wheel.name)
    return sorted(folder.glob("*.whl"))


def dependencies(machine: Machine, downloads: Path, root: Path) -> None:
    """Make ``root`` the layer of what the agent imports."""
    for wheel in fetch("requirements.txt", machine, downloads):
        _unpack(wheel, root / DIST_PACKAGES)


def build(interpreter: Interpreter, folder: Path, timestamp: int) -> Path:
    """Build the agent's wheel in the new folder ``folder``, which takes the build backend too."""
    backend = folder / "backend"
    for wheel in fetch("build-requirements.txt", native(), folder / "downloads"):
        _unpack(wheel, backend)
    interpreter.run(
        *("-m", "hatchling", "build", "--target=wheel", f"--directory={folder}"),
        folder=REPOSITORY,
        PYTHONPATH=str(backend),
        SOURCE_DATE_EPOCH=str(timestamp),
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def agent(wheel: Path, root: Path) -> None:
    """Make ``root`` the layer of the agent: the wheel, its command, and the folders that are mounted over."""
    _unpack(wheel, root / DIST_PACKAGES)
    command = root / "usr/bin/edgeagent"
    command.parent.mkdir(parents=True)
    command.write_text(_SCRIPT)
    command.chmod(0o755)
    for folder in ("host", "etc/edgeagent", "run/edgeagent", "var/lib/edgeagent"):
        (root / folder).mkdir(parents=True)


def _unpack(wheel: Path, folder: Path) -> None:
    """What pip does with a wheel that has modules only.

    Raises:
        RuntimeError: it has more.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith((*_USELESS, "/"))]
        if any(name.partition("/")[0].endswith(".data") for name in names):
            raise RuntimeError(f"{wheel.name} has files that are no modules")
        archive.extractall(folder, [name for name in names if "_testcapi" not in name])

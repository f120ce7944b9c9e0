"""The upper layers: the wheels of the packages, and the agent itself."""

from __future__ import annotations

import zipfile
from pathlib import Path

from recipe import wheels as shipped

from layers.interpreter import Interpreter
from layers.places import DIST_PACKAGES, PYTHON, Machine

_USELESS = (".pyx", ".pxd", ".pyi", ".c", ".h", ".hash")
"""Sources of compiled modules, and stubs."""

_SCRIPT = f"""\
#!/usr/bin/python{PYTHON} -I
import sys

from edgeagent.cli import main

sys.exit(main())
"""


def dependencies(interpreter: Interpreter, machine: Machine, own: Path, downloads: Path, root: Path) -> None:
    """Make ``root`` the layer of what the agent, whose wheel is ``own``, imports: locked wheels of the packages.

    Raises:
        subprocess.CalledProcessError: they are not all that it needs.
        SystemExit: one is not the locked one.
    """
    locked = [wheel for wheel in shipped.locked() if wheel.runs_on(machine.wheel) and wheel.runs_with(PYTHON)]
    offered, taken = downloads / "offered", downloads / "taken"
    offered.mkdir(parents=True)
    for wheel in shipped.fetch(locked):
        (offered / wheel.name).symlink_to(wheel)
    # Which of them this Python needs. Only pip that runs on it knows: it reads conditions as those of its own Python.
    (pip,) = offered.glob("pip-*.whl")
    options = [
        "--isolated",
        "--quiet",
        "--disable-pip-version-check",
        "--no-cache-dir",
        "--no-index",
        "--only-binary=:all:",
    ]
    options += [f"--find-links={offered}", f"--dest={taken}", *shipped.fitting(PYTHON, machine.wheel)]
    interpreter.run(pip / "pip", "download", *options, own)
    for wheel in sorted(taken.iterdir()):
        if wheel.name != own.name:
            _unpack(wheel, root / DIST_PACKAGES)


def build(folder: Path, timestamp: int) -> Path:
    """Build the agent's wheel, as the packages have it, in the new folder ``folder``."""
    folder.mkdir()
    wheel, _ = shipped.build(folder, str(timestamp))
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

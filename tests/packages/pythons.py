"""The supported Pythons: where this machine has them, and how one becomes that of a test's machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from tests.packages.building import REPOSITORY
from tests.packages.machine import Machine

PYTHONS = tuple(
    re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (REPOSITORY / "pyproject.toml").read_text())
)
"""As pyproject.toml says them."""


@dataclass(frozen=True)
class Python:
    """One interpreter of this machine."""

    name: str
    program: Path
    library: Path


def lacking(what: str) -> NoReturn:
    """Skip the test, but fail in CI."""
    if os.environ.get("CI"):
        pytest.fail(f"needs {what}")
    pytest.skip(f"needs {what}")


def find(version: str) -> Python:
    """The interpreter of this version; the test is skipped where there is none, but not in CI."""
    name = f"python{version}"
    found = shutil.which(name)
    asked = [found or name, "-I", "-c", "import os, sys; print(os.path.realpath(sys.executable), os.__file__)"]
    told = subprocess.run(asked, check=False, capture_output=True, text=True) if found else None
    if told is None or told.returncode:
        lacking(name)
    program, module = told.stdout.split()
    return Python(name, Path(program), Path(module).parent)


def lay(python: Python, machine: Machine) -> None:
    """Put an interpreter and its library where a Debian package would."""
    shutil.copy(python.program, machine.path(f"/usr/bin/{python.name}"))
    for shared in python.library.parent.glob(f"lib{python.name}.so*"):
        shutil.copy(shared, machine.path("/usr/lib"))
    # Nobody needs its own tests, and what was installed into it is not its library.
    apart = shutil.ignore_patterns("test", "tests", "site-packages", "__pycache__", "config-*", "idlelib", "ensurepip")
    shutil.copytree(python.library, machine.path(f"/usr/lib/{python.name}"), symlinks=True, ignore=apart)
    machine.run("ldconfig")
    # It was built for the C library of this machine, and that of the test's machine is Debian 12's.
    said = machine.run(f"{python.name} -c ''", check=False)
    if "GLIBC_" in said:
        lacking(f"a {python.name} that runs with glibc 2.36: {said.strip()}")

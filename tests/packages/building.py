"""Runs the recipe as a person does, on a copy of the repository that nobody else changes meanwhile."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
EPOCH = "1700000000"
PARTS = ("edgeagent", "packaging", "systemd", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md")


@dataclass(frozen=True)
class Built:
    """What one run of the recipe has made."""

    folder: Path

    def one(self, pattern: str) -> Path:
        """The file of this name."""
        (found,) = self.folder.glob(pattern)
        return found

    def deb(self, architecture: str) -> Path:
        return self.one(f"*_{architecture}.deb")


def copy(source: Path, place: Path, *, version: str | None = None) -> Path:
    """The files that are built from, as another ``version`` if given."""
    for part in PARTS:
        if (source / part).is_dir():
            shutil.copytree(source / part, place / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source / part, place / part)
    if version is not None:
        file = place / "edgeagent/__init__.py"
        file.write_text(re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', file.read_text()))
    return place


def build(source: Path, *options: str, umask: int = 0o022, **variables: str) -> Built:
    """Run the recipe."""
    out = source / "dist"
    subprocess.run(
        [sys.executable, source / "packaging/build.py", "--out", out, *options],
        env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH, **variables},
        cwd=source.parent,
        umask=umask,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return Built(out)


def architecture() -> str:
    """This machine's, in Debian's words."""
    told = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True)
    return told.stdout.strip()

#!/usr/bin/env python3
"""Takes the newest versions that pyproject.toml allows: rewrites ``locks/``. Needs the package index.

For each Python and each machine on its own, because a release of a dependency may have left one of them behind.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from recipe import tools, wheels
from recipe.targets import MACHINES, PYTHONS, ROOT


def main() -> None:
    """Rewrite both locks."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        # Unlike pip it resolves for a Python that is not the running one.
        tools.pip(folder / "venv/bin/python", "install", "uv")
        _compile(folder, ["--universal", "--generate-hashes"], _build_system(folder), PYTHONS[0], tools.REQUIREMENTS)
        found = folder / "wheels"
        for python in PYTHONS:
            for machine in MACHINES.values():
                requirements = folder / f"{python}-{machine}.txt"
                # The extra as make-venv has it.
                options = ["--extra", "top", "--python-platform", f"{machine}-manylinux_2_28"]
                _compile(folder, options, ROOT / "pyproject.toml", python, requirements)
                wheels.resolve(requirements, python, machine, found)
        # pip comes along, so that a board needs none.
        tools.pip(tools.python(), "download", "--no-deps", "--only-binary=:all:", "--dest", found, "pip")
        lines = [f"{wheels.digest(path)}  {path.name}\n" for path in sorted(found.iterdir())]
        wheels.LOCK.write_text("".join(lines))


def _build_system(folder: Path) -> Path:
    """The build's requirements as a file: the line of pyproject.toml that names them."""
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    line = next(line for line in lines if line.startswith("requires = ["))
    place = folder / "build-system.in"
    place.write_text(line.split('"')[1] + "\n")
    return place


def _compile(folder: Path, options: list[str], source: Path, python: str, target: Path) -> None:
    command: list[str | Path] = [
        folder / "venv/bin/uv",
        "pip",
        "compile",
        "--quiet",
        "--upgrade",
        "--no-header",
        "--no-annotate",
    ]
    subprocess.run([*command, *options, "--python-version", python, "--output-file", target, source], check=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Builds what is shipped: wheel and sdist, Debian packages, the offline bundle.

Needs Python 3.10 or newer with venv, dpkg-deb, and, the first time, the package index. The same commit gives the same
bytes; ``SOURCE_DATE_EPOCH`` stands in for the commit's time.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
from pathlib import Path

from recipe import bundle, debian, tools, wheels
from recipe.targets import MACHINES, ROOT


def main() -> None:
    """Build, and print the path of each file that was made."""
    parser = argparse.ArgumentParser(description="Build what is shipped.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", metavar="DIR", help="default: dist")
    parser.add_argument("--only", choices=("wheel", "deb"), help="wheel: no Debian packages; deb: no offline bundle")
    parser.add_argument("--arch", choices=MACHINES, action="append", help="default: each")
    arguments = parser.parse_args()
    if arguments.only != "wheel" and not shutil.which("dpkg-deb"):
        parser.error("needs dpkg-deb, which Debian and Ubuntu have; without it: --only wheel")
    arguments.out.mkdir(parents=True, exist_ok=True)
    try:
        made = build(arguments.out.resolve(), arguments.only, arguments.arch or list(MACHINES))
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"failed, see above: {shlex.join(map(str, error.cmd))}") from None
    for path in made:
        print(path)  # noqa: T201 (its answer)


def build(out: Path, only: str | None, architectures: list[str]) -> list[Path]:
    """Build into ``out``; the files."""
    own, sdist = wheels.build(out, tools.epoch())
    made = [own, sdist]
    if only == "wheel":
        return made
    wanted = wheels.locked()
    packages, files = [], {own}
    for architecture in architectures:
        needed = wheels.fetch([wheel for wheel in wanted if wheel.runs_on(MACHINES[architecture])])
        packages.append(debian.build(out, architecture, [own, *needed]))
        files |= {*needed}
    made += packages
    if only is None:
        made.append(bundle.build(out, packages, sorted(files)))
    return made


if __name__ == "__main__":
    main()

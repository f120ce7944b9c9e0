"""``image/pin``: chooses the newest Debian packages and writes them down with their hashes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import unquote

from layers import lock
from layers.places import MACHINES, PYTHON, Machine, native

PACKAGES = (
    *("base-files", "libc6", "libc-bin", "libgcc-s1", "libstdc++6", "gcc-14-base"),
    *(f"python{PYTHON}-minimal", f"libpython{PYTHON}-minimal", f"libpython{PYTHON}-stdlib"),
    *("libssl3t64", "libexpat1", "zlib1g", "libffi8", "libbz2-1.0", "liblzma5", "libuuid1", "libzstd1"),
)
"""All that a minimal Python, its standard library and the wheels need, and the licences' texts. None brings a shell."""
FOR_ALL = ("ca-certificates",)
"""Packages that are the same for every machine."""

_MIRRORS = (
    "http://deb.debian.org/{archive}/{path}",
    "http://snapshot.debian.org/archive/{archive}/{date}/{path}",
)
_HEAD = """\
# The Debian packages of the image: machine, archive, path in it, SHA-256. Written by image/pin.
# Debian's mirrors keep a version until a newer one replaces it, its snapshots for ever; the first that has it is used.
"""
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_SOURCES = f"""\
deb [signed-by={_KEYRING}] http://deb.debian.org/debian trixie main
deb [signed-by={_KEYRING}] http://deb.debian.org/debian-security trixie-security main
"""
_APT = """\
APT::Architecture "{native}"; APT::Architectures {{ {arches} }}; Acquire::Languages "none"; APT::Sandbox::User "";
Dir "{folder}"; Dir::State "state"; Dir::State::status "{folder}/status"; Dir::Cache "cache"; Dir::Etc "etc";
Dir::Etc::parts "none"; Dir::Etc::sourceparts "none"; Dir::Etc::preferencesparts "none";
"""


def main() -> int:
    """Write debian.lock; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="edgeagent-pin-") as folder:
        _pin(Path(folder))
    return 0


def _pin(folder: Path) -> None:
    for name in ("state/lists/partial", "cache/archives/partial", "etc/none"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "etc/sources.list").write_text(_SOURCES)
    arches = " ".join(f'"{arch}";' for arch in MACHINES)
    (folder / "apt.conf").write_text(_APT.format(native=native().arch, arches=arches, folder=folder))
    _apt(folder, "apt-get", "-qq", "update")
    rows = sorted(row for machine in MACHINES.values() for row in _candidates(folder, machine))
    date = f"date {datetime.now(timezone.utc).strftime(lock.FORMAT)}"
    lock.FILE.write_text("\n".join([_HEAD + date, *(f"mirror {mirror}" for mirror in _MIRRORS), *rows]) + "\n")


def _candidates(folder: Path, machine: Machine) -> list[str]:
    """The rows of a machine in debian.lock."""
    names = [*(f"{name}:{machine.arch}" for name in PACKAGES), *FOR_ALL]
    told = _apt(folder, "apt-cache", "show", "--no-all-versions", *names).split("\n\n")
    hashes = {fields["Filename"]: fields["SHA256"] for fields in map(_fields, told) if fields}
    rows = []
    for line in _apt(folder, "apt-get", "download", "--print-uris", *names).splitlines():
        archive, _, path = line.split("'")[1].partition("://")[2].partition("/")[2].partition("/")
        path = unquote(path)
        rows.append(" ".join((machine.arch, archive, path, hashes[path])))
    return rows


def _fields(text: str) -> dict[str, str]:
    return {key: value for key, mark, value in (line.partition(": ") for line in text.splitlines()) if mark}


def _apt(folder: Path, *command: str) -> str:
    environ = os.environ | {"APT_CONFIG": str(folder / "apt.conf")}
    return subprocess.run(command, env=environ, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())

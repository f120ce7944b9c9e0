"""What packages are made for, and where things are."""

from __future__ import annotations

import os
import re
from pathlib import Path

FOLDER = Path(__file__).parents[1]
ROOT = FOLDER.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgeagent/packaging"

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
"""``python3`` of Ubuntu 22.04 (JetPack 6), Debian 12, Ubuntu 24.04 (JetPack 7, DGX OS 7) and Debian 13."""

NO_LONGER = "3.14"
"""The first Python without wheels here."""

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""What ``uname -m`` says, by the name of the architecture in Debian."""

PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_28", "manylinux_2_34")
"""Tags of wheels that run with the C library of Ubuntu 22.04, which is 2.35."""


def version() -> str:
    """The version of the package, from the only place where it stands."""
    text = (ROOT / "edgeagent/__init__.py").read_text()
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise SystemExit("edgeagent/__init__.py has no __version__")
    return found[1]


def debian_version(version: str) -> str:
    """The same version in Debian's order: a pre-release (PEP 440) sorts before its release only behind ``~``."""
    return re.sub(r"\.?(a|b|rc|dev)(?=\d)", r"~\1", version) + "-1"

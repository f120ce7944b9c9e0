"""Where things are, and the two machines that the image is made for."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

IMAGE = Path(__file__).parents[1]
REPOSITORY = IMAGE.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgeagent/image"
"""Debian packages, each checked against its pinned hash whenever it is used."""

PYTHON = "3.13"
"""The image's own Python, that of Debian 13."""
DIST_PACKAGES = "usr/lib/python3/dist-packages"
"""Where Debian's Python looks for modules that are not its own."""


@dataclass(frozen=True)
class Machine:
    """One architecture under its three names, and the loader of its C library."""

    arch: str
    wheel: str
    triplet: str
    loader: str


MACHINES = {
    "amd64": Machine("amd64", "x86_64", "x86_64-linux-gnu", "usr/lib64/ld-linux-x86-64.so.2"),
    "arm64": Machine("arm64", "aarch64", "aarch64-linux-gnu", "usr/lib/ld-linux-aarch64.so.1"),
}


def native() -> Machine:
    """The machine that this runs on.

    Raises:
        KeyError: it is none of the two.
    """
    return {machine.wheel: machine for machine in MACHINES.values()}[platform.machine()]

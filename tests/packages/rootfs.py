"""The files of a small Debian, made once: what a board has before the package comes."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from tests.controlplane.build import cache_root

_SUITE = "bookworm"
_PACKAGES = ("python3", "systemd", "procps")
"""Neither python3-venv nor pip is there, as on many boards."""


def root_folder() -> Path:
    """A whole system; nobody writes there, machines lay their own over it."""
    return _made("--variant=minbase", f"--include={','.join(_PACKAGES)}")


def foreign_folder(architecture: str) -> Path:
    """Python and what the package depends on, unpacked for another architecture, where nothing can be configured."""
    return _made("--variant=extract", f"--architectures={architecture}", "--include=python3,libstdc++6,libgcc-s1")


def _made(*options: str) -> Path:
    command = ["mmdebstrap", "--quiet", "--format=directory", "--aptopt=Acquire::Retries 3", *options, _SUITE]
    key = hashlib.sha256(" ".join(command).encode()).hexdigest()[:12]
    place = cache_root() / "packaging" / f"debian-{key}"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        making = place.with_suffix(".making")
        subprocess.run(["rm", "-rf", "--one-file-system", making], check=True)
        subprocess.run([*command, making], check=True, timeout=600)
        making.rename(place)
    return place

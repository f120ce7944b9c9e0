"""What these tests need of the machine. In CI all of it has to be there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


def _needs(reason: str, *, there: bool) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not there and not os.environ.get("CI"), reason=f"needs {reason}")


DPKG = _needs("dpkg-deb, as on Debian and Ubuntu", there=shutil.which("dpkg-deb") is not None)
LINTIAN = _needs("lintian: apt-get install lintian", there=shutil.which("lintian") is not None)
MACHINE = _needs(
    "root, unshare, mmdebstrap and Debian's keys: apt-get install util-linux mmdebstrap debian-archive-keyring",
    there=os.geteuid() == 0
    and all(shutil.which(name) for name in ("dpkg-deb", "unshare", "mmdebstrap"))
    and Path("/usr/share/keyrings/debian-archive-keyring.gpg").exists(),
)
READELF = _needs("readelf: apt-get install binutils", there=shutil.which("readelf") is not None)
EMULATOR = _needs(
    "qemu-aarch64-static: apt-get install qemu-user-static", there=shutil.which("qemu-aarch64-static") is not None
)
ONCE = pytest.mark.timeout(900)
"""The first of these tests fetches and makes what all of them need: a small Debian, wheels, the packages, the image."""

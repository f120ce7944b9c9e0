"""What some tests need of the machine. In CI all of it has to be there."""

from __future__ import annotations

import os
import shutil

import pytest


def _needs(reason: str, *, there: bool) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not there and not os.environ.get("CI"), reason=f"needs {reason}")


SYSTEMD = _needs(
    "systemd-analyze, systemd-sysusers and systemd-tmpfiles: apt-get install systemd",
    there=all(shutil.which(name) for name in ("systemd-analyze", "systemd-sysusers", "systemd-tmpfiles")),
)
ROOT = _needs(
    "root, unshare, setpriv, systemd-analyze and libseccomp: apt-get install util-linux systemd libseccomp2",
    there=os.geteuid() == 0 and all(shutil.which(name) for name in ("unshare", "setpriv", "systemd-analyze")),
)

"""What these tests need of the machine. In CI all of it has to be there."""

from __future__ import annotations

import os
import shutil

import pytest

PROMETHEUS = pytest.mark.skipif(
    not all(shutil.which(name) for name in ("prometheus", "promtool")) and not os.environ.get("CI"),
    reason="needs prometheus and promtool: apt-get install prometheus",
)

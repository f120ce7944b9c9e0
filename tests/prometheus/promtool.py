"""Prometheus' own tool, as a judge of what edgeagent shows and ships."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def judge(*arguments: str | Path, given: bytes = b"") -> str:
    """What promtool complains of; empty: nothing."""
    done = subprocess.run(["promtool", *map(str, arguments)], input=given, capture_output=True, check=False, timeout=60)
    said = (done.stdout + done.stderr).decode()
    # It succeeds with complaints too, and it praises on stdout.
    return said if done.returncode or done.stderr else ""

"""Asks jetson-stats, in a process that lives for a moment: its library changes the process that imports it.

Files say the same on most boards, so it is asked only where ``vitals.jtop`` says so.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from edgeagent.watch.health import Jtop

SCRIPT = Path(__file__).with_name("jtop_child.txt")
"""Not a module of the package: only a process of its own may import what it imports."""
PATIENCE = 8.0
"""Seconds that the process may live."""
_LONGEST = 65536
_HOTTEST = 150.0


class JtopError(Exception):
    """jetson-stats gives nothing; the text says why, on one line."""


def ask() -> Jtop:
    """What jetson-stats says; takes up to PATIENCE seconds, so it is for a thread.

    Raises:
        JtopError: it is not installed, its service does not run or is of another version, or it did not answer in time.
    """
    return understood(_output())


def understood(output: bytes) -> Jtop:
    """What the process has printed: one JSON object.

    Raises:
        JtopError: something else.
    """
    try:
        told = json.loads(output[:_LONGEST])
        if "error" in told:
            raise JtopError(" ".join(str(told["error"]).split())[:200])
        mode = told.get("power_mode")
        return Jtop(
            power_mode=str(mode)[:64] if mode else None,
            temperatures={str(zone)[:64]: float(one) for zone, one in told["temperatures"].items() if _hot(one)},
            fan=_ratio(told.get("fan_percent")),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise JtopError("jetson-stats gave no answer that can be read") from error


def _output() -> bytes:
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", SCRIPT.read_text(encoding="utf-8")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # it starts programs of its own, which end with it
        )
    except OSError as error:
        raise JtopError(f"no process can be started: {error.strerror}") from error
    try:
        return process.communicate(timeout=PATIENCE)[0]
    except subprocess.TimeoutExpired:
        raise JtopError(f"jetson-stats did not answer within {PATIENCE:.0f} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.stdout:
            process.stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1.0)


def _hot(value: Any) -> bool:
    return _number(value) and math.isfinite(value) and abs(value) <= _HOTTEST


def _ratio(percent: Any) -> float | None:
    known = _number(percent) and 0 <= percent <= 100  # noqa: PLR2004 (a percentage)
    return float(percent) / 100 if known else None


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

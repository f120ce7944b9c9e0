"""jetson-stats in a process of its own: a library made for the test stands in for it, the process is real."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from edgeagent.watch import jtop
from edgeagent.watch.health import Jtop
from edgeagent.watch.jtop import JtopError, ask, understood

# Shapes: jetson_stats 4.3.2, jtop.py (temperature, fan, nvpmodel) and core/common.py (what is readable as a dict).
BOARD = """
class Interface:
    def __init__(self, data): self._data = data
    def keys(self): return self._data.keys()
    def __getitem__(self, key): return self._data[key]
class Mode:
    name = "MAXN_SUPER"
class jtop:
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def ok(self): return True
    temperature = {"cpu": {"temp": 48.5, "online": True}, "cv0": {"temp": -256, "online": False}, "gpu": {"temp": 47}}
    fan = Interface({"pwmfan": {"speed": [40.0, 55.0], "rpm": [1200], "profile": "quiet"}})
    nvpmodel = Mode()
"""
NO_SERVICE = """
class JtopException(Exception): pass
class jtop:
    def __enter__(self): raise JtopException("The jtop.service is not active. Please run:\\nsudo jtop")
    def __exit__(self, *_): pass
"""
HANGS = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open(os.environ["JTOP_CHILD"], "w").write(str(child.pid))
time.sleep(60)
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a library ``jtop`` that the process finds; without it there is none."""
    # The process is started in isolated mode, so that a library is only found where a program stands in for Python.
    program = tmp_path / "python"
    real = sys.executable
    program.write_text(
        f'#!/bin/sh\nshift\nexport JTOP_CHILD={tmp_path}/child PYTHONPATH={tmp_path}\nexec {real} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return tmp_path / "jtop.py"


def test_a_board_that_has_it(library: Path) -> None:
    library.write_text(BOARD)
    assert ask() == Jtop(power_mode="MAXN_SUPER", temperatures={"cpu": 48.5, "gpu": 47.0}, fan=0.55)
    assert "jtop" not in sys.modules


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (None, "not installed"),
        (NO_SERVICE, "JtopException: The jtop.service is not active. Please run: sudo jtop"),
        ("class jtop:\n    pass\n", "jetson-stats: "),
        (BOARD.replace("return True", "return False"), "says nothing"),
        ("raise SystemExit(3)\n", "no answer that can be read"),
        ("print('hello')\n" + BOARD, "no answer that can be read"),
    ],
)
def test_a_missing_or_old_service_is_one_line(library: Path, source: str | None, why: str) -> None:
    if source is not None:
        library.write_text(source.encode().decode("unicode_escape") if "\\\n" in source else source)
    with pytest.raises(JtopError) as caught:
        ask()
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def gone(pid: int) -> bool:
    """Whether a process has ended; one that waits to be reaped has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def test_one_that_hangs_is_ended_with_all_that_it_started(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library.write_text(HANGS)
    monkeypatch.setattr(jtop, "PATIENCE", 1.5)
    with pytest.raises(JtopError, match="did not answer"):
        ask()
    child = int(library.with_name("child").read_text())
    until = time.monotonic() + 10
    while not gone(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert gone(child)


def test_what_cannot_be_is_left_out() -> None:
    told = {
        "power_mode": None,
        "fan_percent": 101,
        "temperatures": {"a": 1e9, "b": None, "c": "hot", "d": 50, "e": True},
    }
    found = understood(json.dumps(told).encode())
    assert found == Jtop(temperatures={"d": 50.0})


@pytest.mark.parametrize("output", [b"", b"[]", b"null", b"{}", b'{"temperatures": 3}', b"\xff", b"[" * 100_000])
def test_what_is_no_answer_is_refused(output: bytes) -> None:
    with pytest.raises(JtopError):
        understood(output)

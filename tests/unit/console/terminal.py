"""A real terminal with a program in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

HOME = b"\x1b[H"
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
SHOW_CURSOR = b"\x1b[?25h"
PATIENCE = 30.0
"""Seconds for what is sure to come: the machine may be busy."""
# A session leader that opens a terminal is given it, so that Ctrl-C reaches whoever runs in it.
_LEAD = """
import os, sys
os.close(os.open(os.ttyname(0), os.O_RDWR))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


class Terminal:
    """The program ``edgeagent`` in a terminal of its own.

    Attributes:
        written: all that it has written so far.
    """

    def __init__(self, process: subprocess.Popen[bytes], master: int, slave: int) -> None:
        self.written = b""
        self._seen = 0
        self.process = process
        self._master = master
        self._slave = slave

    @property
    def settings(self) -> list[object]:
        """How the terminal treats keys."""
        return list(termios.tcgetattr(self._slave))

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, *words: str) -> str:
        """Wait for a page that has all the words, not one of before the last that was waited for, and give it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self._read(0.1)
            # The last one may have come in part; a page is drawn each second at least.
            for page in self.written[self._seen :].split(HOME)[:-1]:
                self._seen += len(page) + len(HOME)
                plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", page.decode(errors="replace"))
                if all(word in plain for word in words):
                    return plain
        raise AssertionError(f"{words} did not come: {self.written[-2000:]!r}")

    def end(self) -> int:
        """Wait for the end, and give the exit code."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            self._read(0.05)
        while self._read(0.0):
            pass  # what it wrote last
        return self.process.wait(timeout=1)

    def _read(self, seconds: float) -> bool:
        """Whether anything came within so many seconds. A program may write without end, so this takes one piece."""
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        self.written += os.read(self._master, 65536)
        return True


@contextlib.contextmanager
def terminal(*arguments: str, columns: int = 80, lines: int = 24, **environment: str) -> Iterator[Terminal]:
    """``edgeagent`` with ``arguments`` in a terminal of that size."""
    master, slave = pty.openpty()
    usual = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    process = None
    try:
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-c", _LEAD, "-W", "error", "-m", "edgeagent", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**usual, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environment},
        )
        yield Terminal(process, master, slave)
    finally:
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        os.close(master)
        os.close(slave)

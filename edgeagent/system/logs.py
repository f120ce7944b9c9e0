"""Logging that never waits: the loop puts lines into a bounded queue, a thread writes them.

A pipe that nobody reads, a journal that is stopped or a full disk block the thread, never the
loop. Lines that find the queue full are lost, counted, and said to be lost once that is possible.
"""

from __future__ import annotations

import logging
import os
import queue
import select
import threading
import time
from collections.abc import Mapping

from edgeagent.system.repeats import Repeats

LIMIT = 1000
"""Lines that wait, at most."""
LONGEST = 8192
"""Characters of one entry that are written."""
_IDLE = 5.0
"""Seconds between looks for repetitions that are due."""
_LEVELS = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
"""Priorities of syslog(3), which journald reads from ``<4>`` at the start of a line."""
_DEBUG = 7
# A pod's name or a server's answer must not drive the terminal of whoever reads the log.
_HARMLESS = {code: f"\\x{code:02x}" for code in (*range(32), *range(0x7F, 0xA0)) if code != ord("\n")}

_Line = tuple[int, str]
"""Level and text, of one or several lines."""


class Logs(logging.Handler):
    """A handler for the root logger, with the thread that writes what it is given.

    Args:
        descriptor: where to write; a copy of it is kept.
        journal: whether journald reads there.
    """

    def __init__(self, descriptor: int, *, journal: bool) -> None:
        super().__init__()
        self._descriptor = os.dup(descriptor)
        self._writable = select.poll()
        self._writable.register(self._descriptor, select.POLLOUT)
        self._journal = journal
        self._queue: queue.SimpleQueue[_Line | None] = queue.SimpleQueue()
        self._dropped = 0
        self._unwritten = 0
        self._told = 0
        # A daemon: a write that never comes back must not keep the process from ending.
        self._writer = threading.Thread(target=self._run, name="logs", daemon=True)
        self._writer.start()

    @property
    def lost(self) -> int:
        """Lines that were never written."""
        return self._dropped + self._unwritten

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the record, or lose it."""
        if self._queue.qsize() >= LIMIT:
            self._dropped += 1
            return
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001 (arguments that do not fit their message: a bug must not end the loop)
            text = f"a log line of {record.pathname}:{record.lineno} cannot be formatted: {record.msg!r}"
        self._queue.put((record.levelno, text[:LONGEST]))

    def finish(self, seconds: float = 1.0) -> None:
        """Write what waits, for at most ``seconds``."""
        self._queue.put(None)
        self._writer.join(seconds)

    def _run(self) -> None:
        repeats: dict[int, Repeats] = {}
        while True:
            waits = any(lines.pending() for lines in repeats.values())
            try:
                line = self._queue.get(timeout=_IDLE if waits else None)
            except queue.Empty:
                self._say_due(repeats, time.monotonic())
                continue
            if line is None:
                break
            level, text = line
            for said in repeats.setdefault(level, Repeats()).pass_on(text, time.monotonic()):
                self._write(level, said)
        self._say_due(repeats, float("inf"))
        os.close(self._descriptor)

    def _say_due(self, repeats: Mapping[int, Repeats], now: float) -> None:
        for level, lines in repeats.items():
            for said in lines.due(now):
                self._write(level, said)

    def _write(self, level: int, text: str) -> None:
        lost = self.lost
        if lost > self._told and self._put(logging.WARNING, f"{lost - self._told} log lines were lost"):
            self._told = lost
        if not self._put(level, text):
            self._unwritten += 1

    def _put(self, level: int, text: str) -> bool:
        prefix = f"<{_priority(level)}>" if self._journal else _stamp(level)
        lines = text.translate(_HARMLESS).split("\n")
        left = "".join(f"{prefix}{line}\n" for line in lines).encode("utf-8", "backslashreplace")
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:
                # The descriptor is shared with whoever started us, and they may have made it non-blocking.
                self._writable.poll()
            except OSError:
                return False
        return True


def start(level: str, environ: Mapping[str, str], *, descriptor: int = 2) -> Logs:
    """Send all logging of the process through a new :class:`Logs`; ``level`` as ``logging`` names it, ``INFO``.

    Raises:
        ValueError: no such level.
    """
    logs = Logs(descriptor, journal=_is_journal(descriptor, environ))
    root = logging.getLogger()
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    root.addHandler(logs)
    root.setLevel(level)
    return logs


def _is_journal(descriptor: int, environ: Mapping[str, str]) -> bool:
    """Whether $JOURNAL_STREAM speaks of this descriptor: it is inherited, and may mean another stream."""
    told = os.fstat(descriptor)
    return environ.get("JOURNAL_STREAM") == f"{told.st_dev}:{told.st_ino}"


def _priority(level: int) -> int:
    return next((priority for least, priority in _LEVELS if level >= least), _DEBUG)


def _stamp(level: int) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {logging.getLevelName(level)} "

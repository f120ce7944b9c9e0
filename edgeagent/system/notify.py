"""What the service tells systemd: ready, reloading, stopping, a line of status, still alive.

The protocol is one datagram per message to the socket that ``NOTIFY_SOCKET`` names, as
sd_notify(3) describes it. Without that variable every message goes nowhere.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping

_MICROSECOND = 1_000_000


class Notifier:
    """Sends to systemd, never waits for it, and fails in silence: nobody else could be told.

    Args:
        environ: the environment of the process.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.watchdog = _watchdog(environ)
        """Seconds after which systemd takes the process for hung; None: it does not watch."""
        self._line = ""
        """The line of status that systemd has."""
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._socket: socket.socket | None = None
        if self._address is not None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.settimeout(0)

    def ready(self, status: str = "") -> bool:
        """The service is up, or a reload is done. ``status`` is the line for ``systemctl status``."""
        taken = self._send("READY=1", *_status(status))
        if taken and status:
            self._line = status
        return taken

    def status(self, line: str) -> bool:
        """What stands in ``systemctl status`` from now on; whether that was sent, as the same line is not again."""
        if line == self._line or not self._send(*_status(line)):
            return False
        self._line = line
        return True

    def reloading(self) -> bool:
        """A reload begins. systemd since 253 wants to know when, or it takes an older READY for the end of it."""
        return self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> bool:
        """The service is on its way out."""
        return self._send("STOPPING=1")

    def alive(self) -> bool:
        """A cycle was completed. Nothing else may call this: a live process with a dead loop has to be noticed."""
        return self.watchdog is not None and self._send("WATCHDOG=1")

    def watch_every(self, seconds: float) -> bool:
        """Ask systemd for a longer watchdog limit than the unit's, where a cycle is configured to take longer."""
        self.watchdog = seconds
        return self._send(f"WATCHDOG_USEC={round(seconds * _MICROSECOND)}")

    def close(self) -> None:
        """Nothing is sent any more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, *lines: str) -> bool:
        """Whether the datagram was taken. A full socket loses it: the loop must not wait for systemd."""
        if self._socket is None or self._address is None:
            return False
        try:
            self._socket.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            return False
        return True


def _address(text: str) -> str | None:
    """A path, or a name in the abstract namespace, which is written with ``@`` for its leading zero byte."""
    if text.startswith("@"):
        return "\0" + text[1:]
    return text if text.startswith("/") else None


def _status(text: str) -> tuple[str, ...]:
    return (f"STATUS={' '.join(text.split())}",) if text else ()


def _watchdog(environ: Mapping[str, str]) -> float | None:
    limit, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not (limit.isascii() and limit.isdigit()) or int(limit) == 0:
        return None
    # The variables are inherited; they may be meant for the parent.
    return int(limit) / _MICROSECOND if pid in ("", str(os.getpid())) else None

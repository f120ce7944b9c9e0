"""A terminal that is drawn anew at news, a key or another size, and afterwards is as it was before."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from rich.console import Console
from rich.live import Live
from rich.text import Text

from edgeagent.console.frame import View, lines
from edgeagent.console.podtable import ORDERS
from edgeagent.console.watching import Watcher
from edgeagent.plan.report.style import NARROWEST, WIDEST, Style, render

OVERDUE = "nothing has come back since"
_IDLE = 1.0
"""Seconds without news, after which a page that gets older says so."""
_LATE = 10.0
"""Seconds beyond the interval without a look that has come back, after which what is shown is old."""
_DISABLED = b"\0"
"""_POSIX_VDISABLE of Linux: no key is this character."""


def run(watcher: Watcher, first: View, order: str, interval: float, style: Style) -> None:
    """Show what ``watcher`` sees until q.

    Args:
        watcher: looks at the agent or the board.
        first: what it has seen already.
        order: of the pods, one of :data:`edgeagent.console.podtable.ORDERS`.
        interval: seconds from look to look.
        style: of the page, but for its width, which is the terminal's.

    Raises:
        EdgeAgentError: there is nothing more to show.
        KeyboardInterrupt: Ctrl-C, or SIGTERM.
    """
    page = _Page(first, order, style, late=_LATE + interval)
    waking, waker = socket.socketpair()
    with waking, waker, _signals(waker), _keyboard() as keyboard, _screen() as live:

        def show(seen: View | Exception) -> None:
            page.news.append(seen)
            _wake(waker)

        watcher.follow(interval, show)
        try:
            while not page.ended:
                size = os.get_terminal_size(sys.stdout.fileno())
                live.console.size = (size.columns, size.lines)
                live.update(Text.from_ansi(page.drawn(size), no_wrap=True, overflow="crop"), refresh=True)
                page.take(_pressed(waking, keyboard))
        finally:
            watcher.stop()


class _Page:
    """What is shown, and what keys have made of it.

    Attributes:
        news: the latest that was seen, and is not shown yet.
        ended: somebody has asked to end.
    """

    def __init__(self, first: View, order: str, style: Style, late: float) -> None:
        self.news: deque[View | Exception] = deque(maxlen=1)
        self.ended = False
        self._view = first
        self._seen_at = time.monotonic()
        self._late = late
        self._order = order
        self._style = style
        self._paused_at: float | None = None

    def take(self, keys: bytes | None) -> None:
        """Do what keys ask for, and take up what is new. None: nobody can press one any more."""
        for key in (keys or b"").decode("ascii", "replace"):
            if key == "s":
                names = list(ORDERS)
                self._order = names[(names.index(self._order) + 1) % len(names)]
            elif key == "p":
                self._paused_at = time.monotonic() if self._paused_at is None else None
        self.ended = keys is None or b"q" in keys
        if self.news:
            found = self.news.popleft()
            if isinstance(found, Exception):
                raise found
            if self._paused_at is None:
                self._view, self._seen_at = found, time.monotonic()

    def drawn(self, size: os.terminal_size) -> str:
        """The page for a terminal of that size."""
        style = replace(self._style, width=min(max(size.columns, NARROWEST), WIDEST))
        return render(lines(self._current(), self._order, style, size.lines, self._keys()), style)

    def _current(self) -> View:
        """What was seen; with its age when the next look is overdue, as where a driver hangs."""
        waited = time.monotonic() - self._seen_at
        if self._paused_at is not None or waited <= self._late:
            return self._view
        return replace(self._view, age=self._view.age + waited, trouble=self._view.trouble or OVERDUE)

    def _keys(self) -> str:
        if self._paused_at is None:
            return "q quit   s sort   p pause"
        return f"q quit   s sort   p go on   paused for {time.monotonic() - self._paused_at:.0f} s"


def _screen() -> Live:
    # The page has its colours, or none, before it comes here; and a dumb terminal does not.
    console = Console(force_terminal=True, highlight=False, markup=False, emoji=False)
    return Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)


@contextlib.contextmanager
def _keyboard() -> Iterator[int | None]:
    """The descriptor that keys come from, one by one and unseen; None: there is no keyboard."""
    if not sys.stdin.isatty():
        yield None
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        # Ctrl-Z would leave the shell with this page in place of its own.
        settings = termios.tcgetattr(descriptor)
        settings[6][termios.VSUSP] = _DISABLED
        termios.tcsetattr(descriptor, termios.TCSANOW, settings)
        yield descriptor
    finally:
        # A terminal that was closed has nothing to restore.
        with contextlib.suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _signals(waker: socket.socket) -> Iterator[None]:
    """SIGTERM ends as Ctrl-C does; another size is news. What libraries log would stand in the middle of the page."""
    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, signal.default_int_handler),
        signal.SIGWINCH: signal.signal(signal.SIGWINCH, lambda *_: _wake(waker)),
    }
    silent = logging.NullHandler()
    logging.getLogger().addHandler(silent)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(silent)
        for number, handler in before.items():
            signal.signal(number, handler)


def _wake(waker: socket.socket) -> None:
    """End the wait for keys. Where it is full it ends anyway, and where it is closed nobody waits."""
    with contextlib.suppress(OSError):
        waker.send(b"\0", socket.MSG_DONTWAIT)


def _pressed(waking: socket.socket, keyboard: int | None) -> bytes | None:
    """The keys that were pressed, after a wait for one, for news or for another size; None: the keyboard is gone."""
    woken = waking.fileno()
    ready, _, _ = select.select([woken] if keyboard is None else [woken, keyboard], [], [], _IDLE)
    if woken in ready:
        waking.recv(4096)
    if keyboard is None or keyboard not in ready:
        return b""
    return os.read(keyboard, 64) or None

"""systemd's own programs, run for a machine below a root. Only a systemd that runs here is asked to start anything."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edgeagent.errors import InputError

SERVICE = "edgeagent.service"
USER = "edgeagent"
BOOTED = Path("/run/systemd/system")
"""There while systemd is the init of this machine (sd_booted(3))."""
PROGRAMS = ("systemctl", "systemd-sysusers", "systemd-tmpfiles")
LONGEST = 150.0
"""Seconds: the unit's time-outs for start and stop, with room for a slow board."""

STOPPED = ("inactive", "failed")
"""The states of a unit in which nothing of it runs, or is about to (org.freedesktop.systemd1(5), ActiveState)."""
FULL_NAME = "edgeagent node agent"
"""Of the user, as sysusers.d makes it."""

_MICROSECOND = 1_000_000
_FIRST_OF_PEOPLE = 1000
"""User ids from here on are people's (login.defs(5), SYS_UID_MAX)."""

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def _run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=LONGEST,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(list(argv), 1, "", str(error))


def missing() -> tuple[str, ...]:
    """Those of systemd's programs that this machine lacks."""
    return tuple(name for name in PROGRAMS if shutil.which(name) is None)


class Systemd:
    """systemd of the machine below ``root``.

    Args:
        root: ``/``, or the file system of a machine that does not run.
        booted: it runs, here and now; None: find out.
        run: runs a command, and never raises.
    """

    def __init__(self, root: Path, *, booted: bool | None = None, run: Run = _run) -> None:
        here = root == Path("/")
        self.running = (here and BOOTED.is_dir()) if booted is None else booted
        self._root = root
        self._options = () if here else (f"--root={root}",)
        self._run = run

    def has_user(self) -> bool:
        """Whether the service's user is there."""
        return self._listed("passwd")

    def made_user(self) -> bool:
        """Whether the service's user is one that sysusers.d made, and not somebody of the same name."""
        row = self._row("passwd")
        if row is None:
            return False
        _, _, uid, _, full_name, _, shell = (row.split(":") + [""] * 7)[:7]
        system = uid.isdigit() and 0 < int(uid) < _FIRST_OF_PEOPLE
        return system and full_name == FULL_NAME and shell.endswith("/nologin")

    def make_user(self, file: str) -> None:
        """Make what a sysusers.d ``file`` lists.

        Raises:
            InputError: refused.
        """
        self._do("systemd-sysusers", *self._options, file)

    def make_folders(self, file: str) -> None:
        """Make what a tmpfiles.d ``file`` lists.

        Raises:
            InputError: refused.
        """
        self._do("systemd-tmpfiles", *self._options, "--create", file)

    def drop_user(self) -> None:
        """Remove the service's user and its group.

        Raises:
            InputError: refused.
        """
        where = ("--prefix", str(self._root)) if self._options else ()
        self._do("userdel", *where, USER)
        if self._listed("group"):  # whether userdel takes it along is a setting of the machine (login.defs(5))
            self._do("groupdel", *where, USER)

    def read_units(self) -> None:
        """Let a running systemd read its unit files again.

        Raises:
            InputError: refused.
        """
        if self.running:
            self._do("systemctl", "daemon-reload")

    def is_enabled(self) -> bool:
        """Whether the service starts at boot."""
        return self._ask("systemctl", *self._options, "is-enabled", SERVICE)

    def state(self) -> str:
        """The unit's ActiveState; empty where systemd does not say, which is no proof that nothing runs."""
        if not self.running:
            return "inactive"
        return self._run(("systemctl", "show", "--property=ActiveState", "--value", SERVICE)).stdout.strip()

    def is_active(self) -> bool:
        """Whether the service runs, and has started."""
        return self.state() in ("active", "reloading")

    def is_stopped(self) -> bool:
        """Whether nothing of the service runs, starts, ends, or waits to be started again."""
        return self.state() in STOPPED

    def started(self) -> float | None:
        """When the running service was started, in seconds since 1970 of this machine's clock; None: not known."""
        asked = ("systemctl", "show", "--property=ExecMainStartTimestampMonotonic", "--value", SERVICE)
        told = self._run(asked).stdout.strip()
        if not told.isdigit() or told == "0":
            return None
        return time.time() - (time.monotonic() - int(told) / _MICROSECOND)

    def enable(self) -> None:
        """Let the service start at boot.

        Raises:
            InputError: refused.
        """
        self._do("systemctl", *self._options, "enable", SERVICE)

    def tell(self, verb: str) -> str:
        """``start``, ``restart``, ``reload`` or ``stop`` the service; why that failed, or an empty text."""
        return self._said(self._run(("systemctl", verb, SERVICE)))

    def disable(self) -> None:
        """Let the service no longer start at boot.

        Raises:
            InputError: refused.
        """
        self._do("systemctl", *self._options, "disable", SERVICE)

    def _listed(self, database: str) -> bool:
        return self._row(database) is not None

    def _row(self, database: str) -> str | None:
        try:
            rows = (self._root / "etc" / database).read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return None
        return next((row for row in rows if row.startswith(f"{USER}:")), None)

    def _ask(self, *argv: str) -> bool:
        return self._run(argv).returncode == 0

    def _do(self, *argv: str) -> None:
        said = self._said(self._run(argv))
        if said:
            raise InputError(f"{' '.join(argv)}: {said}")

    @staticmethod
    def _said(done: subprocess.CompletedProcess[str]) -> str:
        """What a command that failed had to say, in one line."""
        if done.returncode == 0:
            return ""
        return " ".join((done.stderr or done.stdout).split()) or f"ended with exit code {done.returncode}"

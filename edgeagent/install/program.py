"""The program that the service starts: the very installation that runs this command, if the service can use it."""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import edgeagent
from edgeagent.errors import InputError

REMEDY = (
    "install the package where the service can use it, in a virtual environment such as one made by "
    "/usr/bin/python3 -m venv /opt/edgeagent, and run the edgeagent install of that one"
)
_HIDDEN = {
    "/home": "ProtectHome=yes",
    "/root": "ProtectHome=yes",
    "/run/user": "ProtectHome=yes",
    "/tmp": "PrivateTmp=yes",  # noqa: S108 (looked for, not used)
    "/var/tmp": "PrivateTmp=yes",  # noqa: S108 (as above)
}
"""Folders that the unit's sandbox hides from the service (systemd.exec(5)), with the directive that does."""
_PLAIN = re.compile(r"[\w/.+@:=-]+", re.ASCII)
"""Paths that mean in a unit file what they say: no blanks, quotes, specifiers and variables."""
_READ, _ENTER = 0o4, 0o1
"""Permission bits of all others than owner and group."""


def find(root: Path) -> str:
    """The path of this program as the machine below ``root`` sees it.

    Raises:
        InputError: it is not there, or the service's user cannot use it.
    """
    script = Path(sysconfig.get_path("scripts")) / "edgeagent"
    parts = (script, Path(sys.executable), Path(edgeagent.__file__).parent)
    if not script.is_file():
        raise InputError(f"{script}: is not there, so there is nothing that the service could start; {REMEDY}")
    problem = unusable(parts, root)
    if problem:
        raise InputError(f"{problem} {REMEDY}")
    return seen(script, root)


def seen(path: Path, root: Path) -> str:
    """``path`` as a machine sees it whose file system is below ``root``; a path elsewhere is taken as it is."""
    below = path.is_relative_to(root)
    return f"/{path.relative_to(root)}" if below else str(path)


def unusable(parts: Iterable[Path], root: Path) -> str:
    """Why a service that is neither root nor in its home directory cannot use a program of these parts; or nothing."""
    for path in parts:
        if not _PLAIN.fullmatch(seen(path, root)):
            return f"{path}: has characters that mean something else in a unit file;"
        for place in dict.fromkeys((path, path.resolve())):  # a virtual environment links to its interpreter
            inside = Path(seen(place, root))
            hider = next((folder for folder in _HIDDEN if inside.is_relative_to(folder)), None)
            if hider:
                return f"{place}: below {hider}, which the service does not see ({_HIDDEN[hider]});"
            closed = _closed(place, root)
            if closed:
                return f"{closed}: not open to all, and the service runs as a user of its own; chmod -R go+rX, or"
    return ""


def _closed(path: Path, root: Path) -> Path | None:
    """The part of ``path`` that others than its owner and group may not read or enter."""
    for part in path.parents:
        if part == root:
            break
        if not part.stat().st_mode & _ENTER:
            return part
    wanted = _READ | _ENTER
    return path if path.stat().st_mode & wanted != wanted else None

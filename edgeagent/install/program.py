"""The program that the service starts: the very installation that runs this command, if the service can use it."""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import edgeagent
from edgeagent.errors import InputError
from edgeagent.host.paths import MAX_LINKS

REMEDY = (
    "install the package where the service can use it, in a virtual environment such as one made by "
    "/usr/bin/python3 -m venv /opt/edgeagent, and run the edgeagent install of that one; for --root, at the same path "
    "below it, too"
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
    script = here()
    parts = (script, Path(sys.executable), Path(edgeagent.__file__).parent)
    if not script.is_file():
        raise InputError(f"{script}: is not there, so there is nothing that the service could start; {REMEDY}")
    problem = absent(parts, root) or unusable(parts, root)
    if problem:
        raise InputError(f"{problem} {REMEDY}")
    return seen(script, root)


def called(path: str) -> str:
    """How the program at ``path`` is called from a shell: a virtual environment is seldom on the path."""
    found = shutil.which("edgeagent")
    same = found is not None and Path(path).exists() and Path(found).samefile(path)
    return "edgeagent" if same else path


def here() -> Path:
    """The path of this program on the machine that runs it, where it is installed."""
    return Path(sysconfig.get_path("scripts")) / "edgeagent"


def absent(parts: Iterable[Path], root: Path) -> str:
    """Why the machine below ``root`` has no program of these parts, at least not at the path that it has here."""
    for path in parts:
        inside = Path(seen(path, root))
        if not _below(_end(inside, root), root).exists():
            return f"{_below(inside, root)}: is not there, and the machine below {root} sees no other {inside};"
    return ""


def seen(path: Path, root: Path) -> str:
    """``path`` as a machine sees it whose file system is below ``root``; for a path elsewhere, the same path there."""
    below = path.is_relative_to(root)
    return f"/{path.relative_to(root)}" if below else str(path)


def unusable(parts: Iterable[Path], root: Path) -> str:
    """Why a service that is neither root nor in its home directory cannot use a program of these parts; or nothing."""
    for path in parts:
        if not _PLAIN.fullmatch(seen(path, root)):
            return f"{path}: has characters that mean something else in a unit file;"
        start = Path(seen(path, root))
        end = _end(start, root)  # a virtual environment links to its interpreter
        for inside in (start, end):
            hider = next((folder for folder in _HIDDEN if inside.is_relative_to(folder)), None)
            if hider:
                return f"{inside}: below {hider}, which the service does not see ({_HIDDEN[hider]});"
        closed = _closed(start, end, root)
        if closed:
            return f"{closed}: not open to all, and the service runs as a user of its own; chmod -R go+rX, or"
    return ""


def _below(inside: Path, root: Path) -> Path:
    return root / inside.relative_to("/")


def _end(inside: Path, root: Path) -> Path:
    """The path without links, which are followed as the machine below ``root`` follows them.

    Raises:
        InputError: they lead in a circle.
    """
    at = Path("/")
    left = [*reversed(inside.parts[1:])]
    links = 0
    while left:
        name = left.pop()
        place = _below(at / name, root)
        if name == "..":
            at = at.parent
        elif place.is_symlink():
            links += 1
            if links > MAX_LINKS:
                raise InputError(f"{_below(inside, root)}: its links lead in a circle")
            target = place.readlink()
            at = Path("/") if target.is_absolute() else at
            left += reversed([part for part in target.parts if part != "/"])
        else:
            at /= name
    return at


def _closed(start: Path, end: Path, root: Path) -> Path | None:
    """The part of the way from ``start`` to the ``end`` of its links that others than owner and group may not use."""
    way = [folder for last in (_end(start.parent, root) / start.name, end) for folder in last.parents[:-1]]
    places = [(_below(folder, root), _ENTER) for folder in way] + [(_below(end, root), _READ | _ENTER)]
    return next((place for place, wanted in places if place.stat().st_mode & wanted != wanted), None)

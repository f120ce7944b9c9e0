"""The power mode of a Jetson, as its tool ``nvpmodel`` keeps it.

``/var/lib/nvpmodel/status`` holds ``pmode:0002`` and, on some releases, more behind it. ``/etc/nvpmodel.conf`` names
the modes, ``< POWER_MODEL ID=2 NAME=MAXN_SUPER >``, and the first one of all, ``< PM_CONFIG DEFAULT=2 >``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeagent.host.files import Files

STATUS = "var/lib/nvpmodel/status"
CONFIG = "etc/nvpmodel.conf"
_SET = re.compile(r"\bpmode:(\d{1,4})\b")
_LINES = re.compile(
    r"^[ \t]*<[ \t]*(?:POWER_MODEL[ \t]+ID=\d{1,4}[ \t]+NAME=\S{1,64}|PM_CONFIG[ \t]+DEFAULT=\d{1,4})[ \t]*>",
    re.MULTILINE,
)
"""The lines of the configuration that are read."""
_MODEL = re.compile(r"POWER_MODEL[ \t]+ID=(\d+)[ \t]+NAME=(\S+)")
_DEFAULT = re.compile(r"PM_CONFIG[ \t]+DEFAULT=(\d+)")


def power_mode(files: Files) -> str | None:
    """The name of the mode that is set; its number where it has no name; None where there is no such thing."""
    lines = _LINES.findall(_text(files, CONFIG))
    names = {int(match[1]): match[2] for line in lines if (match := _MODEL.search(line))}
    match = _SET.search(_text(files, STATUS))
    if match is None:  # nothing was ever set: the board is as it starts
        match = next((found for line in lines if (found := _DEFAULT.search(line))), None)
    return None if match is None else names.get(int(match[1]), str(int(match[1])))


def told(text: str) -> list[str]:
    """What of either file is read."""
    return [match[0] for pattern in (_SET, _LINES) for match in pattern.finditer(text)]


def _text(files: Files, path: str) -> str:
    try:
        return files.read(path).decode(errors="replace")
    except OSError:
        return ""

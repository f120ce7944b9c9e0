"""The unit file, read."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "systemd"
UNIT = FOLDER / "edgeagent.service"


ALLOWED = {
    "memory is locked": True,
    "files of other users' processes": True,
    "signals to other users": True,
    "writable code": False,
    "writing outside its folders": False,
    "changing priorities": False,
    "tracing a process": False,
    "mounting": False,
    "a new namespace": False,
}
"""What a process of the unit may do and what not, as ``probe.py`` tells it, which tells the capabilities besides."""


def capabilities() -> list[str]:
    """Those that the unit keeps, as ``probe.py`` tells them."""
    return sorted(name.lower() for name in section("Service")["AmbientCapabilities"].split())


def section(name: str) -> dict[str, str]:
    """The directives of a section; one that stands there several times has several lines."""
    found: dict[str, str] = {}
    inside = False
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            inside = line == f"[{name}]"
        elif inside and line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key] = f"{found[key]}\n{value}" if key in found else value
    return found

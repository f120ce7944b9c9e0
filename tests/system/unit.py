"""The unit file, read."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "systemd"
UNIT = FOLDER / "edgeagent.service"


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

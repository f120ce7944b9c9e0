"""Notices that the kubelet has put a new version of a ConfigMap into the folder where it is mounted.

The kubelet writes all files into a fresh directory and then swaps the link ``..data`` to it (``atomic_writer.go`` of
Kubernetes), so a new text of the link means a whole new configuration. A folder without the link, as on a board with
the systemd service, never changes by itself: there somebody may be in the middle of an edit, and SIGHUP ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

DATA = "..data"
SECONDS = 2.0
"""Between two looks; the kubelet itself takes up to a minute and more to bring a change."""


def version(folder: Path) -> str | None:
    """What the link says; None where nothing is mounted."""
    try:
        return str((folder / DATA).readlink())
    except OSError:
        return None


async def follow(folder: Path, seen: str | None, changed: Callable[[], None]) -> None:
    """Call ``changed`` for every version of ``folder`` other than the one before; ``seen`` is the first of them."""
    while True:
        await asyncio.sleep(SECONDS)
        found = await asyncio.to_thread(version, folder)
        if found is not None and found != seen:
            seen = found
            changed()

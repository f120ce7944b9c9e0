"""JSON documents in the state directory, each replaced as a whole. Without them the agent runs just as well."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

from edgeagent.system import dirs

log = logging.getLogger(__name__)

NAME = "state.json"
"""What decisions depend on."""
PEAKS = "peaks.json"
"""What workloads held at most."""
LIMIT = 4 * 1024**2
"""Bytes; a longer file is not ours."""


def load(folder: Path, name: str) -> Any:
    """The document.

    Raises:
        OSError: it cannot be read.
        ValueError, RecursionError: it is none.
    """
    with os.fdopen(dirs.opened(folder / name), "rb") as file:
        return json.loads(file.read(LIMIT))


def read(folder: Path, name: str = NAME) -> Any:
    """The document; None where there is none, or none that can be read, and a log line that says so."""
    path = folder / name
    try:
        return load(folder, name)
    except FileNotFoundError:
        log.info("%s is not there: nothing is known of an earlier run", path)
        return None
    except (OSError, ValueError, RecursionError) as error:
        log.warning("%s is not used: %s", path, error)
        return None


def tidy(folder: Path, name: str = NAME) -> None:
    """Remove what earlier runs that were killed in the middle of a write have left."""
    dirs.tidy(folder / name)


def write(folder: Path, document: Any, name: str = NAME) -> str:
    """Replace the document; why that cannot be, or an empty text."""
    try:
        dirs.write(folder / name, json.dumps(document, separators=(",", ":")).encode(), mode=0o600)
    except OSError as error:
        return f"{folder / name}: {error.strerror}"
    return ""

"""One JSON document in the state directory, replaced as a whole. Without it the agent runs just as well."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

from edgeagent.system import dirs

log = logging.getLogger(__name__)

NAME = "state.json"
LIMIT = 4 * 1024**2
"""Bytes; a longer file is not ours."""


def read(folder: Path) -> Any:
    """The document; None where there is none, or none that can be read, and a log line that says so."""
    path = folder / NAME
    try:
        with os.fdopen(dirs.opened(path), "rb") as file:
            return json.loads(file.read(LIMIT))
    except FileNotFoundError:
        log.info("%s is not there: nothing is known of an earlier run", path)
        return None
    except (OSError, ValueError, RecursionError) as error:
        log.warning("%s is not used: %s", path, error)
        return None


def tidy(folder: Path) -> None:
    """Remove what earlier runs that were killed in the middle of a write have left."""
    dirs.tidy(folder / NAME)


def write(folder: Path, document: Any) -> str:
    """Replace the document; why that cannot be, or an empty text."""
    try:
        dirs.write(folder / NAME, json.dumps(document, separators=(",", ":")).encode(), mode=0o600)
    except OSError as error:
        return f"{folder / NAME}: {error.strerror}"
    return ""

"""The lists of host files that NVIDIA's runtime mounts into containers on a Jetson, and which of those files are there.

Format: NVIDIA/nvidia-container-toolkit, internal/platform-support/tegra/csv: rows of ``type, path``, the types being
``dev``, ``lib``, ``sym`` and ``dir``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.facts.diagnosis import CsvLists
from edgeagent.host.files import there
from edgeagent.host.paths import why

if TYPE_CHECKING:
    from edgeagent.host.files import Files

SETTINGS = "/etc/nvidia-container-runtime"
FOLDER = f"{SETTINGS}/host-files-for-container.d"
_LINK = "sym"
_TYPES = ("dev", "lib", _LINK, "dir")


def wanted(files: Files) -> bool:
    """Whether this is a Tegra: only there the lists are used."""
    try:
        return b"nvidia,tegra" in files.read("proc/device-tree/compatible")
    except OSError:
        return there(files, "etc/nv_tegra_release") or there(files, "dev/nvmap")


def lists(files: Files) -> CsvLists:
    """All lists together."""
    settings = there(files, SETTINGS)
    try:
        found = tuple(name for name in files.names(FOLDER) if name.endswith(".csv"))
    except (FileNotFoundError, NotADirectoryError):
        return CsvLists(folder=FOLDER, files=None, settings=settings)
    except OSError as error:
        return CsvLists(folder=FOLDER, files=None, settings=settings, problem=why(error, FOLDER))
    kinds: dict[str, str] = {}
    problem = ""
    for name in found:
        try:
            text = files.read(f"{FOLDER}/{name}").decode(errors="replace")
        except OSError as error:
            problem = why(error, f"{FOLDER}/{name}")
            continue
        kinds |= {path: kind for kind, path in _rows(text)}
    return CsvLists(
        folder=FOLDER,
        files=found,
        problem=problem,
        settings=settings,
        listed=len(kinds),
        missing=tuple(path for path, kind in kinds.items() if not _there(files, kind, path)),
        devices=sum(path.startswith("/dev/") for path in kinds),
    )


def _rows(text: str) -> Iterator[tuple[str, str]]:
    """Type and path of each row that names one file."""
    for row in text.splitlines():
        kind, comma, path = (part.strip() for part in row.partition(","))
        if comma and kind in _TYPES and path.startswith("/") and "*" not in path:
            yield kind, path


def _there(files: Files, kind: str, path: str) -> bool:
    """Whether it stands there. A link is made anew in the container, wherever it leads; all else is mounted."""
    if kind != _LINK:
        return there(files, path)
    try:
        return files.link(path) is not None or there(files, path)
    except OSError:
        return False

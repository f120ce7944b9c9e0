"""CDI specifications: which devices containers can ask for by name.

Format: cncf-tags/container-device-interface, SPEC.md. JSON is YAML, so one parser reads both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import yaml

from edgeagent.facts.diagnosis import CdiSpec
from edgeagent.host.files import names
from edgeagent.host.paths import why

if TYPE_CHECKING:
    from edgeagent.host.files import Files

FOLDERS = ("etc/cdi", "var/run/cdi", "run/cdi")
"""``/var/run`` is a link to ``/run`` nearly everywhere; then its specifications are found once."""
_ENDINGS = (".json", ".yaml", ".yml")


def specs(files: Files) -> Iterator[CdiSpec]:
    """Every specification, by folder and name."""
    seen: set[tuple[str, bytes]] = set()
    for folder in FOLDERS:
        for name in names(files, folder):
            if not name.endswith(_ENDINGS):
                continue
            path = f"/{folder}/{name}"
            try:
                content = files.read(path)
            except OSError as error:
                yield CdiSpec(path=path, problem=why(error, path), closed=True)
                continue
            if folder == "run/cdi" and (name, content) in seen:
                continue
            if folder == "var/run/cdi":
                seen.add((name, content))
            yield _spec(path, content)


def _spec(path: str, content: bytes) -> CdiSpec:
    try:
        # The base loader: a device named 0 or on is a text. It constructs nothing.
        document = yaml.load(content, Loader=yaml.BaseLoader)  # noqa: S506
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return CdiSpec(path=path, problem=f"{path}: is not YAML: {' '.join(str(error).split())}")
    kind = document.get("kind") if isinstance(document, dict) else None
    if not isinstance(kind, str) or not kind:
        return CdiSpec(path=path, problem=f"{path}: has no kind")
    listed = document.get("devices")
    devices = [one.get("name") for one in (listed if isinstance(listed, list) else []) if isinstance(one, dict)]
    return CdiSpec(path=path, kind=kind, devices=tuple(name for name in devices if isinstance(name, str)))

"""Files that configure container runtimes beside the one that counts, templates, and the toolkit's own settings."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from edgeagent.facts.diagnosis import RuntimeConfig, RuntimeTemplate
from edgeagent.host import containerd
from edgeagent.host.files import names
from edgeagent.host.paths import why

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

if TYPE_CHECKING:
    from edgeagent.host.files import Files

BINARY = "nvidia-container-runtime"
DOCKER = "/etc/docker/daemon.json"
_DROP_INS = "/etc/containerd/conf.d"
"""Where newer toolkits put what the system's containerd imports."""
_TEMPLATES = ("config-v3.toml.tmpl", "config.toml.tmpl")
_TOOLKIT = "etc/nvidia-container-runtime/config.toml"


def docker(files: Files) -> RuntimeConfig:
    """Docker's configuration (dockerd(8), daemon.json)."""
    try:
        document = json.loads(files.read(DOCKER))
    except FileNotFoundError as error:
        return RuntimeConfig(path=DOCKER, problem=why(error, DOCKER), there=False)
    except OSError as error:
        return RuntimeConfig(path=DOCKER, problem=why(error, DOCKER))
    except (ValueError, RecursionError) as error:
        return RuntimeConfig(path=DOCKER, problem=f"{DOCKER}: is not JSON: {error}")
    found = document if isinstance(document, dict) else {}
    default, listed = found.get("default-runtime"), found.get("runtimes")
    paths = {
        str(name): str(entry.get("path") or "")
        for name, entry in (listed if isinstance(listed, dict) else {}).items()
        if isinstance(entry, dict)
    }
    return RuntimeConfig(
        path=DOCKER,
        default=default if isinstance(default, str) else None,
        runtimes={name: (path, containerd.is_installed(files, path)) for name, path in paths.items()},
    )


def elsewhere(files: Files, used: str) -> Iterator[RuntimeConfig]:
    """Those that say something and are not ``used``, which a reader of it may take for it."""
    found = [docker(files), containerd.config(files, containerd.PLAIN)]
    found += [containerd.config(files, f"{_DROP_INS}/{name}") for name in names(files, _DROP_INS) if _is_toml(name)]
    for one in found:
        # What the system's containerd imports is no other file where that is the one in use.
        own = one.path == used or (used == containerd.PLAIN and one.path.startswith(_DROP_INS))
        if not own and not one.problem:
            yield one


def _is_toml(name: str) -> bool:
    return name.endswith(".toml")


def templates(files: Files, data_dir: str) -> Iterator[RuntimeTemplate]:
    """What K3s makes its containerd's configuration from, where somebody has written a template."""
    for name in _TEMPLATES:
        path = f"{data_dir}/agent/etc/containerd/{name}"
        try:
            text = files.read(path).decode(errors="replace")
        except OSError:
            continue
        rows = [row for row in text.splitlines() if not row.lstrip().startswith("#")]
        yield RuntimeTemplate(
            path=path,
            base=any(re.search(r'\{\{-?\s*template\s+"base"', row) for row in rows),
            nvidia=any(re.search(r"runtimes\.[\"']?nvidia", row) for row in rows),
        )


def toolkit_mode(files: Files) -> str | None:
    """How NVIDIA's runtime gives containers the GPU: ``auto``, ``csv``, ``cdi``, ``legacy``; None: it is not set."""
    try:
        document: dict[str, Any] = tomllib.loads(files.read(_TOOLKIT).decode())
    except (OSError, ValueError, RecursionError):
        return None
    section = document.get(BINARY)
    mode = section.get("mode") if isinstance(section, dict) else None
    return mode if isinstance(mode, str) else None

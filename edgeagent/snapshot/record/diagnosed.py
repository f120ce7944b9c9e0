"""What is kept of files that are read for a diagnosis: names of runtimes, devices and files of NVIDIA's."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

if TYPE_CHECKING:
    from edgeagent.snapshot.record.redact import Redactor

_TEMPLATE_ROW = re.compile(r"""\s*(?:\{\{-?\s*template\s+"base".*|\[.*runtimes\.["']?nvidia[^]]*\].*)""")
_CSV_ROW = re.compile(r"\s*(?:dev|lib|sym|dir)\s*,\s*/[\w./+*-]+\s*")
_CDI = ("etc/cdi/", "var/run/cdi/", "run/cdi/")


def known(path: str) -> Callable[[Redactor, str], str] | None:
    """How a file at this path is reduced; None: it is none of these."""
    if path == "etc/docker/daemon.json":
        return docker
    if path.endswith(".toml.tmpl"):
        return template
    if path.startswith(_CDI):
        return cdi
    if path.startswith("etc/nvidia-container-runtime/host-files-for-container.d/"):
        return csv
    return toolkit if path == "etc/nvidia-container-runtime/config.toml" else None


def docker(redactor: Redactor, text: str) -> str:
    """Docker's runtimes and which is the default one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(found, Mapping):
        return ""
    listed, default = found.get("runtimes"), found.get("default-runtime")
    kept: dict[str, Any] = {"default-runtime": redactor.text(default)} if isinstance(default, str) else {}
    if isinstance(listed, Mapping):
        kept["runtimes"] = {
            redactor.text(str(name)): {"path": redactor.text(str(entry.get("path") or ""))}
            for name, entry in listed.items()
            if isinstance(entry, Mapping)
        }
    return json.dumps(kept) + "\n"


def template(_: Redactor, text: str) -> str:
    """The rows that take in K3s' own text, or begin the table of an NVIDIA runtime."""
    return "".join(f"{row}\n" for row in text.splitlines() if _TEMPLATE_ROW.fullmatch(row))


def cdi(redactor: Redactor, text: str) -> str:
    """Kind and names of devices; a GPU's own name becomes another one."""
    try:
        found = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 (every scalar as its text, as they are read)
    except (yaml.YAMLError, ValueError, RecursionError):
        return ""
    if not isinstance(found, Mapping) or not isinstance(found.get("kind"), str):
        return ""
    listed = found.get("devices")
    names = [one.get("name") for one in (listed if isinstance(listed, list) else []) if isinstance(one, Mapping)]
    devices = [{"name": redactor.text(name)} for name in names if isinstance(name, str)]
    return json.dumps({"kind": redactor.text(found["kind"]), "devices": devices}) + "\n"


def csv(_: Redactor, text: str) -> str:
    """The rows of the lists, which NVIDIA's packages bring."""
    return "".join(f"{row}\n" for row in text.splitlines() if _CSV_ROW.fullmatch(row))


def toolkit(redactor: Redactor, text: str) -> str:
    """The mode of NVIDIA's runtime."""
    try:
        section = tomllib.loads(text).get("nvidia-container-runtime")
    except (ValueError, RecursionError):
        return ""
    mode = section.get("mode") if isinstance(section, dict) else None
    return f"[nvidia-container-runtime]\nmode = {json.dumps(redactor.text(mode))}\n" if isinstance(mode, str) else ""

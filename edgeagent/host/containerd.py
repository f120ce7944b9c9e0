"""What containerd's own configuration says about NVIDIA runtimes.

Only the file that containerd reads is proof: K3s generates it at every start from a
template, and a runtime that was configured anywhere else is not there. The table of a
runtime is named by the version of the file (containerd, docs/cri/config.md).
"""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Iterator
from typing import Any

from edgeagent.facts import RuntimeFacts
from edgeagent.host.files import Files, there

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

_PLAIN = "/etc/containerd/config.toml"
_V1, _V2, _V3 = "cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"
_PLUGINS = {"1": (_V1, _V2), "2": (_V2,), "3": (_V3,)}
"""The plug-in that keeps the runtimes, by the file's version. A file without a version is of version 1."""
_FOLDERS = ("/usr/local/nvidia/toolkit", "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Where a binary without a folder is looked for: the first is where the GPU operator puts it."""
_DEPTH = 3
"""Steps from file to imported file that are followed, so that files which import each other come to an end."""


class _UnreadableError(Exception):
    """The configuration is not there as a whole, so that nothing is proven by it."""


def runtime(files: Files, data_dir: str) -> RuntimeFacts:
    """The NVIDIA runtimes of K3s' containerd or, where there is no K3s, of the system's own."""
    own = f"{data_dir}/agent/etc/containerd/config.toml"
    path = own if there(files, own) or there(files, f"{data_dir}/agent") else _PLAIN
    try:
        tables = list(_load(files, path, version="1", depth=_DEPTH))
    except _UnreadableError:
        return RuntimeFacts(readable=False, path=path)
    found: dict[str, tuple[str, bool]] = {}
    for table in tables:
        # Before it had a name, the default runtime was a table of its own.
        unnamed = [pair for pair in _tables(table) if pair[0] == "default_runtime"]
        for key, entry in (*unnamed, *_tables(table.get("runtimes"))):
            binary = _binary(entry)
            if key.startswith("nvidia") or "nvidia-container-runtime" in binary.rsplit("/", 1)[-1]:
                found[key] = (binary, _is_installed(files, binary))
    return RuntimeFacts(readable=True, path=path, nvidia=found)


def _load(files: Files, path: str, *, version: str, depth: int) -> Iterator[dict[str, Any]]:
    """The ``containerd`` tables of a file and of what it imports, later ones counting more.

    Raises:
        _UnreadableError: one of the files is not readable, empty, or not TOML.
    """
    try:
        document = tomllib.loads(files.read(path).decode())
    except (OSError, ValueError, RecursionError) as error:  # tomllib's and Unicode's errors are ValueErrors
        raise _UnreadableError from error
    if not document:  # not even a version: K3s is about to write it
        raise _UnreadableError
    version = str(document.get("version", version))
    plugins = document.get("plugins")
    for name in _PLUGINS.get(version, (_V1, _V2, _V3)):
        for key, plugin in _tables(plugins):
            if key == name:
                yield from (table for below, table in _tables(plugin) if below == "containerd")
    if depth:
        for imported in _imports(files, path, document.get("imports")):
            yield from _load(files, imported, version=version, depth=depth - 1)


def _imports(files: Files, path: str, patterns: Any) -> Iterator[str]:
    for pattern in patterns if isinstance(patterns, list) else []:
        if not isinstance(pattern, str):
            continue
        absolute = pattern if pattern.startswith("/") else f"{path.rsplit('/', 1)[0]}/{pattern}"
        folder, _, name = absolute.rpartition("/")
        try:
            names = files.names(folder)
        except OSError:  # a drop-in folder need not be there
            continue
        yield from (f"{folder}/{found}" for found in fnmatch.filter(names, name))


def _tables(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, table in (value if isinstance(value, dict) else {}).items():
        if isinstance(table, dict):
            yield key, table


def _binary(entry: dict[str, Any]) -> str:
    """``BinaryName``, or ``Runtime`` for the shim of containerd before 1.3; "" where the runtime names none."""
    for _, options in filter(lambda pair: pair[0] == "options", _tables(entry)):
        for key in ("BinaryName", "Runtime"):
            if isinstance(options.get(key), str):
                return str(options[key])
    return ""


def _is_installed(files: Files, binary: str) -> bool:
    if not binary:
        return False
    return any(there(files, path) for path in ([binary] if "/" in binary else [f"{at}/{binary}" for at in _FOLDERS]))

"""What containerd's own configuration says about NVIDIA runtimes.

Only the file that containerd reads is proof: K3s generates it at every start from a
template, and a runtime that was configured anywhere else is not there. The table of a
runtime is named by the version of the file (containerd, docs/cri/config.md).
"""

from __future__ import annotations

import fnmatch
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from edgeagent.facts import RuntimeFacts
from edgeagent.facts.diagnosis import RuntimeConfig
from edgeagent.host.files import Files, there
from edgeagent.host.paths import why

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

PLAIN = "/etc/containerd/config.toml"
_OTHERS = ("/var/lib/rancher/rke2/agent/etc/containerd/config.toml", "/var/snap/microk8s/current/args/containerd.toml")
"""Where RKE2 and MicroK8s keep the configuration of a containerd of their own."""
ONCE = ("default_runtime_name",)
"""Keys that templates are known to set twice, after which containerd does not start."""
_V1, _V2, _V3 = "cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"
_PLUGINS = {"1": (_V1, _V2), "2": (_V2,), "3": (_V3,)}
"""The plug-in that keeps the runtimes, by the file's version. A file without a version is of version 1."""
FOLDERS = ("/usr/local/nvidia/toolkit", "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Where a binary without a folder is looked for: the first is where the GPU operator puts it."""
_DEPTH = 3
"""Steps from file to imported file that are followed, so that files which import each other come to an end."""


class _UnreadableError(Exception):
    """The configuration is not there as a whole, so that nothing is proven by it. Its text says why."""

    def __init__(self, why: str, *, there: bool = True, twice: str = "") -> None:
        super().__init__(why)
        self.there = there
        self.twice = twice


def place(files: Files, data_dir: str, external: str | None = None) -> str:
    """The file that the containerd of this node reads: K3s' own or, where there is none, the system's.

    ``external``: the runtime that K3s was told to use in place of its own.
    """
    own = f"{data_dir}/agent/etc/containerd/config.toml"
    if external is not None:
        return PLAIN
    if there(files, own) or there(files, f"{data_dir}/agent"):
        return own
    return next((path for path in _OTHERS if there(files, path)), PLAIN)


def runtime(files: Files, data_dir: str, external: str | None = None) -> RuntimeFacts:
    """The NVIDIA runtimes of the containerd that runs pods here.

    Where Docker or another runtime runs them, containerd's file proves nothing.
    """
    path = place(files, data_dir, external)
    found = config(files, path)
    if not found.pods or external == "docker":
        return RuntimeFacts(readable=False, path=path)
    return RuntimeFacts(
        readable=not found.problem, path=path, nvidia={name: found.runtimes[name] for name in found.nvidia}
    )


def config(files: Files, path: str) -> RuntimeConfig:
    """What a configuration of containerd's says about runtimes, with all that it imports."""
    try:
        top = _document(files, path)
        tables = list(_load(files, path, version="1", depth=_DEPTH))
    except _UnreadableError as error:
        return RuntimeConfig(path=path, problem=str(error), there=error.there, twice=error.twice)
    runtimes: dict[str, tuple[str, bool]] = {}
    default: str | None = None
    for table in tables:
        # Before it had a name, the default runtime was a table of its own.
        unnamed = [pair for pair in _tables(table) if pair[0] == "default_runtime"]
        for key, entry in (*unnamed, *_tables(table.get("runtimes"))):
            binary = _binary(entry)
            runtimes[key] = (binary, is_installed(files, binary))
        named = table.get("default_runtime_name")
        default = named if isinstance(named, str) and named else default
    version = str(top.get("version", "1"))
    if version not in _PLUGINS and not runtimes and default is None:
        # The next version may well give their tables another name, as the last one did.
        return RuntimeConfig(path=path, problem=f"{path}: is of version {version}, whose runtimes are not known here")
    return RuntimeConfig(
        path=path, version=str(top.get("version", "")), default=default, runtimes=runtimes, pods=_runs_pods(top)
    )


def _runs_pods(document: Mapping[str, Any]) -> bool:
    """Whether it answers the kubelet at all. As Docker's packages bring it, it does not."""
    disabled = document.get("disabled_plugins")
    names = (str(name) for name in (disabled if isinstance(disabled, list) else []))
    return not any(name.rpartition(".")[2] == "cri" for name in names)


def _load(files: Files, path: str, *, version: str, depth: int) -> Iterator[dict[str, Any]]:
    """The ``containerd`` tables of a file and of what it imports, later ones counting more.

    Raises:
        _UnreadableError: one of the files is not readable, empty, or not TOML.
    """
    document = _document(files, path)
    version = str(document.get("version", version))
    plugins = document.get("plugins")
    for name in _PLUGINS.get(version, (_V1, _V2, _V3)):
        for key, plugin in _tables(plugins):
            if key == name:
                yield from (table for below, table in _tables(plugin) if below == "containerd")
    if depth:
        for imported in _imports(files, path, document.get("imports")):
            yield from _load(files, imported, version=version, depth=depth - 1)


def _document(files: Files, path: str) -> dict[str, Any]:
    try:
        text = files.read(path).decode()
    except FileNotFoundError as error:
        raise _UnreadableError(why(error, path), there=False) from error
    except OSError as error:
        raise _UnreadableError(why(error, path)) from error
    except ValueError as error:
        raise _UnreadableError(f"{path}: is not UTF-8") from error
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        twice = next((key for key in ONCE if len(_assigned(text, key)) > 1), "")
        raise _UnreadableError(f"{path}: is not TOML: {error}", twice=twice) from error
    if not document:  # not even a version: K3s is about to write it
        raise _UnreadableError(f"{path}: is empty")
    return document


def _assigned(text: str, key: str) -> list[str]:
    """The lines that set ``key``, outside comments."""
    return re.findall(rf"^[ \t]*{key}[ \t]*=.*$", text, re.MULTILINE)


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


def is_installed(files: Files, binary: str) -> bool:
    """Whether a runtime's binary exists; one without a folder is looked for where programs are."""
    if not binary:
        return False
    return any(there(files, path) for path in ([binary] if "/" in binary else [f"{at}/{binary}" for at in FOLDERS]))

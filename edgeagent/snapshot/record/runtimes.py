"""What is kept of containerd's configuration: runtimes and their binaries. It also holds passwords of registries."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

if TYPE_CHECKING:
    from edgeagent.snapshot.record.redact import Redactor

_BINARIES = ("BinaryName", "Runtime")


def toml(redactor: Redactor, text: str) -> str:
    """The configuration in TOML; "" where it is empty, or none."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not document:
        return ""
    return "".join(f"{row}\n" for row in _lines(_kept(redactor, document)))


def _kept(redactor: Redactor, document: Mapping[str, Any]) -> dict[str, Any]:
    """Version and imports, and of every plug-in what it says of runtimes."""
    version, imports = document.get("version"), document.get("imports")
    return {
        # A text or a number: whatever else it is, no version of containerd's has it.
        **({} if version is None else {"version": version if isinstance(version, int) else str(version)}),
        **({"disabled_plugins": ["cri"]} if _runs_no_pods(document) else {}),
        "imports": [redactor.text(name) for name in imports if isinstance(name, str)]
        if isinstance(imports, list)
        else [],
        "plugins": {
            name: {"containerd": _runtimes(redactor, table["containerd"])}
            for name, table in _tables(document.get("plugins"))
            if isinstance(table.get("containerd"), dict)
        },
    }


def _runs_no_pods(document: Mapping[str, Any]) -> bool:
    """The plug-in that answers the kubelet is disabled; which others are is nobody's affair."""
    disabled = document.get("disabled_plugins")
    return isinstance(disabled, list) and any(str(name).rpartition(".")[2] == "cri" for name in disabled)


def _runtimes(redactor: Redactor, table: Mapping[str, Any]) -> dict[str, Any]:
    unnamed = {key: _options(redactor, entry) for key, entry in _tables(table) if key == "default_runtime"}
    named = {redactor.text(key): _options(redactor, entry) for key, entry in _tables(table.get("runtimes"))}
    default = table.get("default_runtime_name")
    chosen = {"default_runtime_name": redactor.text(default)} if isinstance(default, str) else {}
    return {**chosen, **unnamed, "runtimes": named}


def _options(redactor: Redactor, entry: Mapping[str, Any]) -> dict[str, Any]:
    options = dict(_tables(entry)).get("options", {})
    return {"options": {key: redactor.text(options[key]) for key in _BINARIES if isinstance(options.get(key), str)}}


def _tables(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, table in (value if isinstance(value, dict) else {}).items():
        if isinstance(table, dict):
            yield key, table


def _lines(document: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[str]:
    """A document of texts, numbers, lists of texts and tables, in TOML."""
    tables = {key: value for key, value in document.items() if isinstance(value, Mapping)}
    for key, value in document.items():
        if key not in tables:
            yield f"{_key(key)} = {_quoted(value)}"
    for key, table in tables.items():
        path = (*above, key)
        yield f"[{'.'.join(map(_key, path))}]"
        yield from _lines(table, path)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _quoted(key)


def _quoted(value: Any) -> str:
    """JSON's texts, lists and numbers are TOML's too, but for one character that TOML wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

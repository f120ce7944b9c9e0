"""What is kept of files that say how K3s and the kubelet run: the settings that are read, and nothing beside them.

Tokens, URLs, addresses and other arguments stand in the same files.
"""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import yaml

from edgeagent.snapshot.record.redact import NODE

if TYPE_CHECKING:
    from edgeagent.snapshot.record.redact import Redactor

_ENVIRONMENT = ("K3S_DATA_DIR", "K3S_CONFIG_FILE", "K3S_NODE_NAME")
_ENDPOINT = "container-runtime-endpoint"
_WITH_VALUE = ("kubelet-arg", "data-dir", "config", "node-name", _ENDPOINT)
_SWITCHES = ("with-node-id", "docker")
_SHORT = {"d": "data-dir", "c": "config"}
_RESERVES = ("system-reserved", "kube-reserved", "eviction-hard")
_KUBELET = ("systemReserved", "kubeReserved", "evictionHard")


def unit(redactor: Redactor, text: str) -> str:
    """A unit file: how K3s is started, and its environment."""
    rows = ["[Service]"]
    for key, value in _unit_settings(text):
        if key == "ExecStart":
            rows.append(f"ExecStart={shlex.join(_command(redactor, _split(value)))}")
        elif key == "Environment":
            kept = shlex.join(_assignments(redactor, _split(value)))
            rows += [f"Environment={kept}"] if kept else []
        elif key == "EnvironmentFile":
            rows.append(f"EnvironmentFile={redactor.text(value)}")
    return "".join(f"{row}\n" for row in rows)


def environment(redactor: Redactor, text: str) -> str:
    """A file with variables, some on each line; "" where none of them is read."""
    rows = [_split(row) for row in text.split("\n") if not row.lstrip().startswith("#")]
    kept = (list(_assignments(redactor, words)) for words in rows)
    return "".join(f"{shlex.join(words)}\n" for words in kept if words)


def mapping(redactor: Redactor, text: str) -> str:
    """K3s' or the kubelet's configuration, which share no key; "" where none of them is read, or it is not YAML."""
    try:
        found = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 (every scalar as its text, as they are read)
    except (yaml.YAMLError, ValueError, RecursionError):
        return ""
    kept = dict(_kept(redactor, found)) if isinstance(found, dict) else {}
    return yaml.safe_dump(kept, sort_keys=False, allow_unicode=True) if kept else ""


def _unit_settings(text: str) -> Iterator[tuple[str, str]]:
    """As in systemd.syntax(7): a line that ends in a backslash goes on in the next."""
    begun = ""
    for row in map(str.strip, text.split("\n")):
        if row.startswith(("#", ";")):
            continue
        if row.endswith("\\"):
            begun += row[:-1] + " "
            continue
        key, equals, value = (begun + row).partition("=")
        begun = ""
        if equals:
            yield key.strip(), value.strip()


def _command(redactor: Redactor, words: list[str]) -> Iterator[str]:
    """K3s, its sub-command and the flags that are read. What stands before K3s may be anything."""
    names = [word.rpartition("/")[2] for word in words]
    start = next((at for at, name in enumerate(names) if name in ("k3s", "k3s-agent", "k3s-server")), None)
    if start is None:
        return
    yield f"/usr/local/bin/{names[start]}"
    rest = deque(words[start + 1 :])
    while rest:
        word = rest.popleft()
        if word in ("server", "agent"):
            yield word
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        name = _SHORT.get(name, name)
        if name in _SWITCHES:
            yield f"--{name}{equals}{redactor.text(value)}"
        elif name in _WITH_VALUE:
            # The readers take the next word for the value of the others only, whatever it is.
            follows = rest and (name != _ENDPOINT or not rest[0].startswith("-"))
            given = [value] if equals else [rest.popleft()] if follows else []
            yield from (f"--{name}={kept}" for kept in _values(redactor, name, given))


def _values(redactor: Redactor, name: str, values: Iterable[str]) -> Iterator[str]:
    """The values of a flag; of the kubelet's arguments only those that reserve memory."""
    for value in values:
        if name == "node-name":
            yield NODE if value else ""
        elif name != "kubelet-arg" or value.removeprefix("--").partition("=")[0].rstrip("+-") in _RESERVES:
            yield redactor.text(value)


def _assignments(redactor: Redactor, words: Iterable[str]) -> Iterator[str]:
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name in _ENVIRONMENT:
            yield f"{name}={NODE if name == 'K3S_NODE_NAME' and value else redactor.text(value)}"


def _kept(redactor: Redactor, found: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in found.items():
        name = key.removesuffix("+") if isinstance(key, str) else ""
        if name in _WITH_VALUE or name in _SWITCHES:
            given = value if isinstance(value, list) else [value]
            texts = list(_values(redactor, name, (item for item in given if isinstance(item, str))))
            yield key, texts if isinstance(value, list) else "".join(texts)
        elif name in _KUBELET:
            yield key, _amounts(redactor, value)


def _amounts(redactor: Redactor, value: Any) -> Any:
    if isinstance(value, dict):
        texts = ((key, amount) for key, amount in value.items() if isinstance(key, str) and isinstance(amount, str))
        return {redactor.text(key): redactor.text(amount) for key, amount in texts}
    return value if value in ("", "null", "~", "Null", "NULL") else "none"


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote that is never closed
        return text.split()

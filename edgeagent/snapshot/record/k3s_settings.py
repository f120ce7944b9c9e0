"""What is kept of files that say how K3s and the kubelet run: the settings that are read, and nothing beside them.

Tokens, URLs, addresses and other arguments stand in the same files.
"""

from __future__ import annotations

import re
import shlex
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import yaml

from edgeagent.host.k3s import FILES, MAPS, SHORT
from edgeagent.host.unit import settings, split, variables
from edgeagent.snapshot.record.redact import NODE

if TYPE_CHECKING:
    from edgeagent.snapshot.record.redact import Redactor

_ENVIRONMENT = ("K3S_DATA_DIR", "K3S_CONFIG_FILE", "K3S_NODE_NAME")
_ENDPOINT = "container-runtime-endpoint"
_WITH_VALUE = ("kubelet-arg", "data-dir", "config", "node-name", _ENDPOINT)
_SWITCHES = ("with-node-id", "docker")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})")


def unit(redactor: Redactor, text: str) -> str:
    """A unit file: how K3s is started, and its environment."""
    rows = ["[Service]"]
    for key, value in settings(text):
        if key == "ExecStart":
            rows.append(f"ExecStart={shlex.join(_command(redactor, split(value)))}")
        elif key == "Environment":
            kept = shlex.join(_assignments(redactor, split(value)))
            rows += [f"Environment={kept}"] if kept else []
        elif key == "EnvironmentFile":
            rows.append(f"EnvironmentFile={redactor.text(value)}")
    return "".join(f"{row}\n" for row in rows)


def environment(redactor: Redactor, text: str) -> str:
    """A file with variables, some on each line; "" where none of them is read."""
    kept = _assignments(redactor, (f"{name}={value}" for name, value in variables(text)))
    return "".join(f"{name}={shlex.quote(value)}\n" for name, _, value in (word.partition("=") for word in kept))


def mapping(redactor: Redactor, text: str) -> str:
    """K3s' or the kubelet's configuration, which share no key; "" where none of them is read, or it is not YAML."""
    try:
        found = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 (every scalar as its text, as they are read)
    except (yaml.YAMLError, ValueError, RecursionError):
        return ""
    kept = dict(_kept(redactor, found)) if isinstance(found, dict) else {}
    return yaml.safe_dump(kept, sort_keys=False, allow_unicode=True) if kept else ""


def _command(redactor: Redactor, words: list[str]) -> Iterator[str]:
    """K3s, its sub-command and the flags that are read. What stands before K3s may be anything."""
    names = [word.rpartition("/")[2] for word in words]
    start = next((at for at, name in enumerate(names) if name in ("k3s", "k3s-agent", "k3s-server")), None)
    if start is None:
        return
    yield f"/usr/local/bin/{names[start]}"
    yield from _arguments(redactor, words[start + 1 :])


def _arguments(redactor: Redactor, words: Iterable[str]) -> Iterator[str]:
    """The sub-command, the flags that are read, and variables that may stand for some."""
    rest = deque(words)
    while rest:
        word = rest.popleft()
        if word in ("server", "agent") or _VARIABLE.fullmatch(word):
            yield word
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        name = SHORT.get(name, name)
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
        elif name != "kubelet-arg" or value.removeprefix("--").partition("=")[0].rstrip("+-") in (*MAPS, *FILES):
            yield redactor.text(value)


def _assignments(redactor: Redactor, words: Iterable[str]) -> Iterator[str]:
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name in _ENVIRONMENT:
            yield f"{name}={NODE if name == 'K3S_NODE_NAME' and value else redactor.text(value)}"
        elif equals and (flags := list(_arguments(redactor, split(value)))):
            # Any variable may hold arguments for the command line; what is no flag that is read stays out.
            yield f"{name}={shlex.join(flags)}"


def _kept(redactor: Redactor, found: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in found.items():
        name = key.removesuffix("+") if isinstance(key, str) else ""
        name = SHORT.get(name, name)
        if name in _WITH_VALUE or name in _SWITCHES:
            given = value if isinstance(value, list) else [value]
            texts = list(_values(redactor, name, (item for item in given if isinstance(item, str))))
            yield key, texts if isinstance(value, list) else "".join(texts)
        elif name in MAPS.values():
            yield key, _amounts(redactor, value)


def _amounts(redactor: Redactor, value: Any) -> Any:
    if isinstance(value, dict):
        texts = ((key, amount) for key, amount in value.items() if isinstance(key, str) and isinstance(amount, str))
        return {redactor.text(key): redactor.text(amount) for key, amount in texts}
    return value if value in ("", "null", "~", "Null", "NULL") else "none"

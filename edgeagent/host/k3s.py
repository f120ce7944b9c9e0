"""The kubelet's memory settings on this node, by K3s' own precedence.

K3s puts what its configuration files say in front of its command line's own arguments, so
that the later one wins, and hands every ``kubelet-arg`` on to the kubelet, which merges
repeated flags. The kubelet starts from its configuration files; a flag replaces a whole
map of theirs. Order of the files: ``config.yaml``, then ``config.yaml.d/*.yaml`` by name;
a key in a later file replaces the earlier one's, ``key+`` appends to it. (K3s,
pkg/configfilearg/parser.go and pkg/util/args.go; kubelet, cmd/kubelet/app/server.go,
which merges the files of ``--config-dir`` by name over ``--config``.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

from edgeagent import quantity
from edgeagent.facts import KubeletSettings
from edgeagent.host.files import Files, names, there
from edgeagent.host.paths import why
from edgeagent.host.unit import FOLDERS, Service, Text, service

DATA_DIR = "/var/lib/rancher/k3s"
_CONFIG = "/etc/rancher/k3s/config.yaml"
_PLAIN_CONFIG = "var/lib/kubelet/config.yaml"
_NODE_ID = "etc/rancher/node/id"
_KUBELET_DEFAULT = "100Mi"
"""The kubelet's own threshold for memory.available where no map is given; K3s gives one without it."""

_ENDPOINT = "container-runtime-endpoint"
_OWN_SOCKET = "/run/k3s/containerd/"
_SWITCHES = ("with-node-id", "docker")
SHORT = {"d": "data-dir", "c": "config"}
FILES = ("config", "config-dir")
"""The kubelet's flags that name a configuration file and a folder of such."""
MAPS = {"system-reserved": "systemReserved", "kube-reserved": "kubeReserved", "eviction-hard": "evictionHard"}
"""The kubelet's flags that are maps, and what its configuration calls them."""
_MEMORY = {"system-reserved": "memory", "kube-reserved": "memory", "eviction-hard": "memory.available"}


def settings(files: Files, data_dir: str | None = None) -> KubeletSettings:
    """What K3s, or else a plain kubelet, has been told; ``data_dir`` overrides K3s' own.

    Whatever cannot be read or parsed is named in ``problems`` and left out.
    """
    return _Reader(files).settings(data_dir)


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a file of K3s' configuration that adds kubelet arguments has to go by."""

    folder: str
    """Where such a file goes: ``<configuration file>.d``."""
    maps: Mapping[str, Mapping[str, str]]
    """Every entry of the maps that the kubelet has been given so far, by flag: a flag replaces a whole map."""


def arguments(files: Files, data_dir: str | None = None) -> Arguments | None:
    """What is there already for kubelet arguments to be added to; None on a machine without K3s."""
    return _Reader(files).arguments(data_dir)


class _Reader:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._problems: list[str] = []

    def arguments(self, data_dir: str | None) -> Arguments | None:
        unit = _k3s_service(self._files)
        flags = self._flags(unit)
        chosen = self._data_dir(data_dir, unit, flags)
        if not self._is_k3s(unit, flags, chosen):
            return None
        maps = self._kubelet(flags.get("kubelet-arg", []), chosen)
        return Arguments(
            f"{self._config_path(unit)}.d",
            {name: {key: text for key, (text, _) in entries.items()} for name, entries in maps.items()},
        )

    def settings(self, data_dir: str | None) -> KubeletSettings:
        unit = _k3s_service(self._files)
        flags = self._flags(unit)
        chosen = self._data_dir(data_dir, unit, flags)
        maps = self._kubelet(flags.get("kubelet-arg", []), chosen)
        k3s = self._is_k3s(unit, flags, chosen)
        if not k3s:
            maps = self._plain(maps)
        memory = {name: self._amount(name, maps[name]) for name in MAPS}
        return KubeletSettings(
            server=there(self._files, f"{chosen}/server"),
            data_dir=chosen,
            system_reserved=memory["system-reserved"],
            kube_reserved=memory["kube-reserved"],
            eviction_hard=memory["eviction-hard"],
            node_name=self._node_name(unit, flags),
            problems=tuple(self._problems),
            k3s=k3s,
            external_runtime=_external(flags),
        )

    # --- K3s ---

    def _is_k3s(self, unit: Service | None, flags: dict[str, list[Text]], data_dir: str) -> bool:
        return unit is not None or bool(flags) or there(self._files, f"{data_dir}/agent")

    def _data_dir(self, given: str | None, unit: Service | None, flags: dict[str, list[Text]]) -> str:
        return given or _last(flags, "data-dir") or _environment(unit, "K3S_DATA_DIR") or DATA_DIR

    def _config_path(self, unit: Service | None) -> str:
        named = [text for name, text in _command_flags(unit.words) if name == "config"] if unit else []
        return _environment(unit, "K3S_CONFIG_FILE") or (named[0][0] if named else _CONFIG)

    def _flags(self, unit: Service | None) -> dict[str, list[Text]]:
        """The values of every flag, those from files before those of the command line."""
        flags = self._config(self._config_path(unit))
        for name, text in _command_flags(unit.words) if unit else ():
            flags.setdefault(name, []).append(text)
        return flags

    def _config(self, path: str) -> dict[str, list[Text]]:
        values: dict[str, list[Text]] = {}
        for file in (path, *(f"{path}.d/{name}" for name in names(self._files, f"{path}.d") if _is_yaml(name))):
            for key, value in self._yaml(file).items():
                items = value if isinstance(value, list) else [value]
                texts: list[Text] = [(item, file) for item in items if isinstance(item, str)]
                name = key.removesuffix("+")
                values[name] = values.get(name, []) + texts if key.endswith("+") else texts
        # A key of one letter becomes a short flag. Both spellings are handed on, in the order in which they first came.
        flags: dict[str, list[Text]] = {}
        for name, texts in values.items():
            flags.setdefault(SHORT.get(name, name), []).extend(texts)
        return flags

    def _node_name(self, unit: Service | None, flags: dict[str, list[Text]]) -> str | None:
        name = _last(flags, "node-name") or _environment(unit, "K3S_NODE_NAME")
        if not name:
            return None
        name = name.strip().lower()
        if _last(flags, "with-node-id") in (None, "false"):
            return name
        try:
            identity = self._files.read(_NODE_ID).decode(errors="replace").strip()
        except OSError as error:
            self._problems.append(f"{why(error, _NODE_ID)}; the node's name is not known without it")
            return None
        return f"{name}-{identity}"

    # --- the kubelet ---

    def _kubelet(self, arguments: list[Text], data_dir: str) -> dict[str, dict[str, Text]]:
        """Each map of ``MAPS`` with the texts of its entries."""
        maps: dict[str, dict[str, Text]] = {name: {} for name in MAPS}
        given = [(argument.removeprefix("--").partition("="), where) for argument, where in arguments]
        # Before 1.32 K3s hands these two on as they are; later ones put copies among the drop-ins.
        told = {name.rstrip("+-"): value for (name, _, value), _ in given}
        files, folders = ([told[name]] if name in told else [] for name in FILES)
        for folder in (*folders, f"{data_dir}/agent/etc/kubelet.conf.d"):
            files += self._drop_ins(folder.rstrip("/"))
        for file in files:
            self._merge_config(maps, file)
        flags: dict[str, dict[str, Text]] = {}
        for (flag, _, value), where in given:
            name = flag.rstrip("+-")
            if name in MAPS:
                entries = flags.setdefault(name, {})
                entries.update(self._entries(name, value, where))
        return {**maps, **flags}

    def _entries(self, name: str, value: str, where: str) -> dict[str, Text]:
        separator = "<" if name == "eviction-hard" else "="
        found = {}
        for part in filter(None, map(str.strip, value.split(","))):
            key, is_there, amount = part.partition(separator)
            if not is_there:
                self._problems.append(f"{where}: {part!r} in {name} has no {separator!r}")
                continue
            found[key.strip()] = (amount.strip(), where)
        return found

    def _drop_ins(self, folder: str) -> Iterator[str]:
        for name in names(self._files, folder):
            if name.endswith(".conf"):
                yield f"{folder}/{name}"
            elif names(self._files, f"{folder}/{name}"):
                yield from self._drop_ins(f"{folder}/{name}")

    def _merge_config(self, maps: dict[str, dict[str, Text]], file: str) -> bool:
        """Merges a KubeletConfiguration as a JSON merge patch (RFC 7386); tells whether it has any threshold."""
        config = self._yaml(file)
        for name, field in MAPS.items():
            value = config.get(field)
            if isinstance(value, dict):
                for key, amount in value.items():
                    if _is_null(amount):
                        maps[name].pop(key, None)
                    elif isinstance(amount, str):
                        maps[name][key] = (amount, file)
            elif field in config and _is_null(value):
                maps[name] = {}
        return bool(config.get("evictionHard"))

    def _plain(self, maps: dict[str, dict[str, Text]]) -> dict[str, dict[str, Text]]:
        """A kubelet of its own, as kubeadm sets it up."""
        if not there(self._files, _PLAIN_CONFIG):
            return maps
        if not self._merge_config(maps, f"/{_PLAIN_CONFIG}"):
            maps["eviction-hard"] = {"memory.available": (_KUBELET_DEFAULT, "the kubelet's own default")}
        return maps

    def _amount(self, name: str, entries: dict[str, Text]) -> Text | None:
        entry = entries.get(_MEMORY[name])
        if entry is None:
            return None
        text, where = entry
        try:
            size = quantity.size(text, 0) if name == "eviction-hard" else quantity.parse(text)
        except ValueError as error:
            self._problems.append(f"{where}: {name}: {error}")
            return None
        if size < 0:
            self._problems.append(f"{where}: {name}: {text!r} is negative")
            return None
        return entry

    # --- files ---

    def _yaml(self, path: str) -> dict[str, object]:
        """The top-level mapping of a file, every scalar as its text; empty where there is none."""
        try:
            content = self._files.read(path)
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._problems.append(why(error, path))
            return {}
        try:
            # BaseLoader: 0123 or 1e3 are what was written, and nothing is constructed.
            document = yaml.load(content, Loader=yaml.BaseLoader)  # noqa: S506
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            self._problems.append(f"{path}: not YAML: {' '.join(str(error).split())}")
            return {}
        if document is None or document == "":
            return {}
        if not isinstance(document, dict):
            self._problems.append(f"{path}: not a mapping of keys to values")
            return {}
        return {key: value for key, value in document.items() if isinstance(key, str)}


def _k3s_service(files: Files) -> Service | None:
    """The K3s service of this node: of several the one that is enabled, else the first by the usual names."""
    units = ["k3s.service", "k3s-agent.service"]
    for folder in FOLDERS:
        units += [name for name in names(files, folder) if name.startswith("k3s") and name.endswith(".service")]
    found = {name: unit for name in units if (unit := service(files, name)) and any(_command_start(unit.words))}
    enabled = (unit for name, unit in found.items() if _enabled(files, name))
    return next(enabled, next(iter(found.values()), None))


def _enabled(files: Files, name: str) -> bool:
    try:
        files.link(f"{FOLDERS[0]}/multi-user.target.wants/{name}")
    except OSError:
        return False
    return True


def _command_start(words: tuple[Text, ...]) -> tuple[Text, ...]:
    """The words from K3s' sub-command on; () where the service does not run K3s itself."""
    for index, (word, _) in enumerate(words):
        if word.rsplit("/", 1)[-1] in ("k3s", "k3s-agent", "k3s-server"):
            return words[index + 1 :] or words[index:]
    return ()


def _command_flags(words: tuple[Text, ...]) -> Iterator[tuple[str, Text]]:
    """The flags of K3s' command line by their long names; a value may follow after ``=`` or as the next word."""
    rest = iter(_command_start(words))
    for word, where in rest:
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        name = SHORT.get(name, name)
        if equals or name in _SWITCHES:
            yield name, (value, where)
        elif name in ("kubelet-arg", "data-dir", "config", "node-name", _ENDPOINT):
            following = next(rest, None)
            if following:
                yield name, following


def _external(flags: dict[str, list[Text]]) -> str | None:
    """The container runtime that K3s uses in place of its own, as ``--docker`` or an endpoint says."""
    if _last(flags, "docker") not in (None, "false"):
        return "docker"
    endpoint = _last(flags, _ENDPOINT)
    return endpoint if endpoint and _OWN_SOCKET not in endpoint else None


def _last(flags: dict[str, list[Text]], name: str) -> str | None:
    values = flags.get(name)
    return values[-1][0] if values else None


def _environment(unit: Service | None, name: str) -> str | None:
    return unit.environment.get(name, (None, ""))[0] if unit else None


def _is_yaml(name: str) -> bool:
    return name.lower().endswith((".yaml", ".yml"))


def _is_null(value: object) -> bool:
    return value in ("", "null", "~", "Null", "NULL")

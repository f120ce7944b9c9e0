"""The agent's configuration: frozen types with their defaults, and a loader that reports every problem at once.

A configuration is read whole or not at all: :func:`load` returns a :class:`Config` or
raises a :class:`~edgeagent.errors.ConfigError` that lists each unknown key (with the
nearest known one) and each wrong value, with its file. Durations are seconds as ``float``,
sizes bytes as ``int``.
"""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, cast

import yaml

from edgeagent import checks
from edgeagent.errors import ConfigError

DEFAULT_FILE = Path("/etc/edgeagent/config.yaml")


def _setting(check: checks.Check, default: Any) -> Any:
    return field(default=default, metadata={"check": check})


def _optional(check: checks.Check, default: Any = None) -> Any:
    return field(default=default, metadata={"check": lambda value: None if value is None else check(value)})


# --- the configuration ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Node:
    """Which node this is."""

    name: str | None = _optional(checks.text)


@dataclass(frozen=True, slots=True)
class K3s:
    """Where K3s keeps its data; None: from K3s' own configuration."""

    data_dir: str | None = _optional(checks.text)


@dataclass(frozen=True, slots=True)
class Reserves:
    """Reserve lines: bytes, a percentage of the pool's total (``6%``), or None for the default formula.

    A configured value replaces the whole default of its line. ``ceiling`` caps what is advertised.
    """

    os: int | str | None = _optional(checks.size_or_percent)
    k3s: int | str | None = _optional(checks.size_or_percent)
    cma: int | str | None = _optional(checks.size_or_percent)
    headroom: int | str | None = _optional(checks.size_or_percent)
    driver: int | str | None = _optional(checks.size_or_percent)
    ceiling: int | str | None = _optional(checks.size_or_percent)


@dataclass(frozen=True, slots=True)
class Unified:
    """Unified pools: ``detect`` overrules detection, ``coupling`` says whether memory requests shrink the pool."""

    detect: Literal["auto", "yes", "no"] = _setting(checks.detect, "auto")
    coupling: Literal["requests", "static"] = _setting(checks.choice("requests", "static"), "requests")
    gpu_from_hugepages: bool = _setting(checks.boolean, default=False)


@dataclass(frozen=True, slots=True)
class Discrete:
    """Discrete pools: one sum for the node, or one resource per device."""

    pools: Literal["node", "device"] = _setting(checks.choice("node", "device"), "node")


@dataclass(frozen=True, slots=True)
class Policy:
    """When a pod is evicted. Times in seconds, tolerance and budgets in bytes."""

    grace: float = _setting(checks.duration, 15.0)
    start_grace: float = _setting(checks.duration, 120.0)
    max_grace: float = _setting(checks.duration, 30.0)
    pressure_grace: float = _setting(checks.duration, 2.0)
    tolerance: int | None = _optional(checks.size)
    default_budget: int | None = _optional(checks.size)
    unbudgeted: Literal["report", "evict"] = _setting(checks.choice("report", "evict"), "report")
    daemonsets: Literal["report", "evict"] = _setting(checks.choice("report", "evict"), "report")
    protect: tuple[str, ...] = _setting(checks.texts, ("kube-system",))
    kill: Literal["pressure", "never"] = _setting(checks.choice("pressure", "never"), "pressure")
    evictions_per_hour: int = _setting(checks.count, 6)
    aliyun_unit: Literal["Gi", "Mi"] = _setting(checks.choice("Gi", "Mi"), "Gi")


@dataclass(frozen=True, slots=True)
class Pressure:
    """When the board itself is in danger. ``floor`` and ``critical`` None: the formulas of the memory model."""

    floor: int | None = _optional(checks.size)
    critical: int | None = _optional(checks.size)
    horizon: float = _setting(checks.duration, 3.0)
    within_budget: Literal["alarm", "above-request"] = _setting(checks.choice("alarm", "above-request"), "alarm")


@dataclass(frozen=True, slots=True)
class Sampling:
    """How often the board is read, and when a reading is stale."""

    interval: float = _setting(checks.duration, 2.0)
    fast: float = _setting(checks.duration, 0.1)
    max_age: float = _setting(checks.duration, 10.0)


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificate and key files of the HTTP endpoint."""

    cert: str
    key: str


def _tls(value: Any) -> Tls:
    if (
        not isinstance(value, dict)
        or set(value) != {"cert", "key"}
        or not all(isinstance(v, str) for v in value.values())
    ):
        raise ValueError("expected {cert: FILE, key: FILE}")
    return Tls(cert=value["cert"], key=value["key"])


@dataclass(frozen=True, slots=True)
class Serve:
    """The read-only HTTP endpoint."""

    bind: str = _setting(checks.address, "127.0.0.1:9843")
    tls: Tls | None = _optional(_tls)  # noqa: RUF009 (it is a field of this class, whatever its name)
    token_file: str | None = _optional(checks.text)
    insecure: bool = _setting(checks.boolean, default=False)


@dataclass(frozen=True, slots=True)
class Labels:
    """Node labels: ``ai_capable`` True, False, or the key to use instead of ``ai-capable``."""

    ai_capable: bool | str = _setting(checks.label_switch, default=True)
    gfd: bool = _setting(checks.boolean, default=False)
    removal: Literal["when-unused", "at-once"] = _setting(checks.choice("when-unused", "at-once"), "when-unused")


@dataclass(frozen=True, slots=True)
class Vitals:
    """The board's health, for people: ``jtop`` asks jetson-stats too, in a process of its own."""

    jtop: bool = _setting(checks.boolean, default=False)


@dataclass(frozen=True, slots=True)
class Config:
    """Everything an operator may set."""

    mode: Literal["enforce", "observe"] = _setting(checks.choice("enforce", "observe"), "enforce")
    node: Node = field(default_factory=Node)
    k3s: K3s = field(default_factory=K3s)
    reserves: Reserves = field(default_factory=Reserves)
    unified: Unified = field(default_factory=Unified)
    discrete: Discrete = field(default_factory=Discrete)
    policy: Policy = field(default_factory=Policy)
    pressure: Pressure = field(default_factory=Pressure)
    sampling: Sampling = field(default_factory=Sampling)
    serve: Serve = field(default_factory=Serve)
    labels: Labels = field(default_factory=Labels)
    vitals: Vitals = field(default_factory=Vitals)


def plain(config: Any) -> dict[str, Any]:
    """The configuration, or a section of it, as it would stand in a file: every key, sizes in bytes."""
    return {item.name: _plain(item, getattr(config, item.name)) for item in fields(config)}


def _plain(item: Field[Any], value: Any) -> Any:
    if is_dataclass(value):
        return plain(value)
    if item.metadata.get("check") is checks.duration:
        return f"{value:f}".rstrip("0").rstrip(".") + "s"
    return list(value) if isinstance(value, tuple) else value


# --- reading it ----------------------------------------------------------------------


def load(documents: Sequence[tuple[str, str]]) -> Config:
    """The configuration that YAML ``documents``, (file name, text) each, give together; later ones win key by key.

    Raises:
        ConfigError: with every problem found in any of them.
    """
    config, problems = _taken(documents)
    if problems:
        raise ConfigError(problems)
    return config


def _taken(documents: Sequence[tuple[str, str]]) -> tuple[Config, list[str]]:
    """What is right of ``documents``, and what is not."""
    problems: list[str] = []
    values: dict[str, Any] = {}
    for name, text in documents:
        parsed = _parse(name, text, problems)
        for path, value in _settings(Config, parsed, name, (), problems):
            _put(values, path, value)
    config: Config = _build(Config, values)
    names = ", ".join(name for name, _ in documents)
    problems += [f"{names}: {problem}" for problem in cross_check(config)]
    return config, problems


def read(file: Path | None, overrides: Sequence[tuple[str, str]] = ()) -> Config:
    """The configuration of ``file`` alone, or of the default file and its ``config.d`` when None.

    Without any file the defaults hold; a file that was named must exist. ``overrides`` are
    further documents, such as what flags of the command line say.

    Raises:
        ConfigError: unreadable or wrong.
    """
    config, problems = looked_at(file, overrides)
    if problems:
        raise ConfigError(problems)
    return config


def looked_at(file: Path | None, overrides: Sequence[tuple[str, str]] = ()) -> tuple[Config, list[str]]:
    """As :func:`read`, for those who only want to find the agent: what is right, and every problem."""
    paths = [file] if file is not None else installed_files()
    documents = []
    problems = []
    for path in paths:
        try:
            documents.append((str(path), path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")
    config, wrong = _taken([*documents, *overrides])
    return config, [*problems, *wrong]


def installed_files() -> list[Path]:
    """The configuration files of this machine, in the order in which they count."""
    return [path for path in [DEFAULT_FILE] if path.exists()] + sorted(
        DEFAULT_FILE.with_name("config.d").glob("*.yaml")
    )


def cross_check(config: Config) -> list[str]:
    """Problems that only show when several settings are seen together."""
    problems = []
    sampling, pressure = config.sampling, config.pressure
    if sampling.fast > sampling.interval:
        problems.append("sampling.fast: must not be above sampling.interval")
    if sampling.max_age <= sampling.interval:
        problems.append("sampling.max_age: must be above sampling.interval, or every reading is stale")
    if pressure.floor is not None and pressure.critical is not None and pressure.critical > pressure.floor:
        problems.append("pressure.critical: must not be above pressure.floor")
    host = config.serve.bind.rpartition(":")[0].strip("[]")
    if not (_loopback(host) or config.serve.tls or config.serve.token_file or config.serve.insecure):
        problems.append(
            f"serve.bind: {config.serve.bind} is reachable from other machines; set serve.tls or serve.token_file, "
            "or serve.insecure: true if that is wanted"
        )
    return problems


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a key that is set twice: YAML would silently take the last, and ``mode`` may stand far above."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 (as inherited)
        """The mapping.

        Raises:
            yaml.YAMLError: a key stands in it twice.
        """
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"{twice} is set twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _parse(name: str, text: str, problems: list[str]) -> Mapping[str, Any]:
    try:
        parsed = yaml.load(text, _UniqueKeys)  # noqa: S506 (a safe loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a date such as 2026-13-45 is a ValueError
        problems.append(f"{name}: not valid YAML: {' '.join(str(error).split())}")
        return {}
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        problems.append(f"{name}: expected settings as KEY: VALUE")
        return {}
    return parsed


def _settings(
    section: type, values: Mapping[Any, Any], name: str, path: tuple[str, ...], problems: list[str]
) -> list[tuple[tuple[str, ...], Any]]:
    known = {item.name: item for item in fields(section)}
    found: list[tuple[tuple[str, ...], Any]] = []
    for key, value in values.items():
        where = ".".join((*path, str(key)))
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.0)
            problems.append(f"{name}: unknown key {where}; the nearest known key is {'.'.join((*path, near[0]))}")
        elif (inner := _section(known[key])) is not None:
            if isinstance(value, dict):
                found += _settings(inner, value, name, (*path, key), problems)
            elif value is not None:
                problems.append(f"{name}: {where}: expected settings below it, got {value!r}")
        else:
            try:
                found.append(((*path, key), known[key].metadata["check"](value)))
            except ValueError as error:
                problems.append(f"{name}: {where}: {error}, got {value!r}")
    return found


def _section(item: Field[Any]) -> type | None:
    """The type of the settings below a key; None for a key that holds a value itself."""
    factory: object = item.default_factory
    return factory if isinstance(factory, type) else None


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        values = values.setdefault(key, {})
    values[path[-1]] = value


def _build(section: type, values: Mapping[str, Any]) -> Any:
    inner = {item.name: item.default_factory for item in fields(section)}
    return section(
        **{
            key: _build(cast("type", inner[key]), value) if isinstance(value, dict) else value
            for key, value in values.items()
        }
    )

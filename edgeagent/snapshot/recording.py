"""A snapshot as a series of samples: what each source said at each time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import yaml

from edgeagent import config as configuration
from edgeagent.errors import InputError
from edgeagent.snapshot import archive

if TYPE_CHECKING:
    from pathlib import Path

    from edgeagent.config import Config
    from edgeagent.snapshot.archive import Entry

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One complete fresh sample of all sources. None: the snapshot does not have that source."""

    at: float
    host: Mapping[str, Entry]
    """Paths below the host's root."""
    nvml: bytes | None
    """The text of nvml.json; None: no NVML library."""
    lists: Mapping[str, Any]
    """Cluster objects by file name without ``.json``: node, pods, runtimeclasses …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A snapshot: its own data and its samples in order of time."""

    name: str
    node: str | None
    arch: str
    page_size: int
    taken: float
    """Unix time of the first sample."""
    config: Config
    series: bool
    """It has frames: one document per frame; else it is one sample at 0."""
    samples: tuple[Sample, ...]

    def wall(self, at: float) -> float:
        """Unix time of a sample."""
        return self.taken + at - self.samples[0].at


def read(path: Path) -> Recording:
    """The recording at ``path``.

    Raises:
        InputError: with every problem that was found.
    """
    entries = archive.load(path)
    about = _yaml(path, entries, "snapshot.yaml")
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        message = f"{path}/snapshot.yaml: expected format: {FORMAT}"
        raise InputError(message)
    frames = _frames(path, entries)
    settings = entries.get("config.yaml")
    config = configuration.load(
        [(f"{path}/config.yaml", _text(path, "config.yaml", settings))] if settings is not None else []
    )
    samples = (
        [_sample(path, _overlaid(path, entries, frame), at) for frame, at in frames]
        if frames
        else [_sample(path, entries, 0.0)]
    )
    return Recording(
        name=str(path),
        node=about.get("node"),
        arch=str(about.get("arch") or "unknown"),
        page_size=int(about.get("page_size") or 4096),
        taken=_taken(path, about.get("taken")),
        config=config,
        series=bool(frames),
        samples=tuple(samples),
    )


def _taken(path: Path, value: Any) -> float:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).timestamp()
    try:
        return datetime.fromisoformat(str(value).replace("Z", "+00:00")).timestamp()
    except ValueError as error:
        message = f"{path}/snapshot.yaml: taken: expected a time such as 2026-01-31T12:00:00Z, got {value!r}"
        raise InputError(message) from error


def _frames(path: Path, entries: Mapping[str, Entry]) -> list[tuple[str, float]]:
    if "frames.yaml" not in entries:
        return []
    found = _yaml(path, entries, "frames.yaml")
    problems = []
    frames = []
    for item in found if isinstance(found, list) else []:
        name, at = (item.get("frame"), item.get("at")) if isinstance(item, dict) else (None, None)
        if isinstance(name, str) and re.fullmatch(r"[\w.-]+", name) and isinstance(at, int | float):
            frames.append((name, float(at)))
        else:
            problems.append(f'{path}/frames.yaml: expected {{frame: "0000", at: 0.0}}, got {item!r}')
    if not frames and not problems:
        problems.append(f"{path}/frames.yaml: expected a list of frames")
    if any(later[1] <= earlier[1] for earlier, later in pairwise(frames)):
        problems.append(f"{path}/frames.yaml: times must rise strictly")
    if problems:
        raise InputError(problems)
    return frames


def _overlaid(path: Path, entries: Mapping[str, Entry], frame: str) -> dict[str, Entry]:
    """The base with what differs in ``frame``; frames do not accumulate."""
    prefix = f"frames/{frame}/"
    changes = {name.removeprefix(prefix): entry for name, entry in entries.items() if name.startswith(prefix)}
    removed = _text(path, f"{prefix}removed.txt", changes.pop("removed.txt", b"") or b"").splitlines()
    gone = {name.strip().strip("/") for name in removed if name.strip()}
    kept = {name: entry for name, entry in entries.items() if not _below(name, gone)}
    for name, entry in changes.items():
        if entry is not None:
            kept = (
                {other: old for other, old in kept.items() if not other.startswith(name + "/")}
                if name not in kept
                else kept
            )
        kept[name] = entry
    return kept


def _below(name: str, gone: set[str]) -> bool:
    parts = name.split("/")
    return any("/".join(parts[:count]) in gone for count in range(1, len(parts) + 1))


def _sample(path: Path, entries: Mapping[str, Entry], at: float) -> Sample:
    nvml = entries.get("nvml.json")
    names = [name for name in entries if re.fullmatch(r"cluster/[a-z]+\.json", name)]
    return Sample(
        at=at,
        host={name.removeprefix("host/"): entry for name, entry in entries.items() if name.startswith("host/")},
        nvml=nvml if isinstance(nvml, bytes) else None,
        lists={name.removeprefix("cluster/").removesuffix(".json"): _json(path, entries, name) for name in names},
    )


def pairs(recording: Recording) -> Iterator[tuple[Sample, float]]:
    """Each sample with its Unix time."""
    for sample in recording.samples:
        yield sample, recording.wall(sample.at)


def _text(path: Path, name: str, entry: Entry) -> str:
    if not isinstance(entry, bytes):
        message = f"{path}/{name}: expected a file"
        raise InputError(message)
    try:
        return entry.decode()
    except UnicodeDecodeError as error:
        message = f"{path}/{name}: is not UTF-8: {error}"
        raise InputError(message) from error


def _yaml(path: Path, entries: Mapping[str, Entry], name: str) -> Any:
    try:
        return yaml.safe_load(_text(path, name, entries[name]))
    except yaml.YAMLError as error:
        message = f"{path}/{name}: not valid YAML: {' '.join(str(error).split())}"
        raise InputError(message) from error


def _json(path: Path, entries: Mapping[str, Entry], name: str) -> Any:
    try:
        return json.loads(_text(path, name, entries[name]))
    except ValueError as error:
        message = f"{path}/{name}: not valid JSON: {error}"
        raise InputError(message) from error

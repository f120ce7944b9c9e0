"""A snapshot as a series of samples: what each source said at each time."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import yaml

from edgeagent import config as configuration
from edgeagent.errors import InputError
from edgeagent.snapshot import archive, lists, sources

if TYPE_CHECKING:
    from pathlib import Path

    from edgeagent.config import Config
    from edgeagent.host.files import Entry

FORMAT = 1
_CHECKS: Mapping[str, Callable[[str, Any], object]] = {
    "node": sources.node,
    "pods": sources.items,
    **{name: partial(sources.items, kind=kind) for name, kind in lists.KINDS.items()},
}
"""What is checked before anything is told; other lists are not read."""


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
    return understood(path, archive.load(path))


def understood(path: Path, entries: Mapping[str, Entry]) -> Recording:
    """The recording that ``entries`` are, by their path in the snapshot; ``path`` is for messages.

    Raises:
        InputError: with every problem that was found.
    """
    base, changes = _split(entries)
    problems: list[str] = []
    about: dict[str, Any] = {}
    frames: list[tuple[str, float]] = []
    settings = configuration.Config()
    with _noted(problems):
        about = _about(path, base)
    with _noted(problems):
        frames = _frames(path, base)
    with _noted(problems):
        settings = _config(path, base)
    samples = []
    for name, at in frames or [("", 0.0)]:
        changed = changes.get(name, {})
        places = {one: f"frames/{name}/{one}" for one in changed}
        gone: frozenset[str] = frozenset()
        with _noted(problems):
            gone = _gone(f"{path}/frames/{name}/removed.txt", changed)
        samples.append(_sample(path, _overlaid(base, changed, gone), places, at, problems))
    if problems:
        # What is wrong in the base is wrong in every frame.
        raise InputError(list(dict.fromkeys(problems)))
    return Recording(
        name=str(path),
        node=about["node"],
        arch=about["arch"] or "unknown",
        page_size=about["page_size"] or 4096,
        taken=about["taken"],
        config=settings,
        series=bool(frames),
        samples=tuple(samples),
    )


@contextmanager
def _noted(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        problems += error.problems


def _split(entries: Mapping[str, Entry]) -> tuple[dict[str, Entry], dict[str, dict[str, Entry]]]:
    """The base, and what differs by frame name."""
    base: dict[str, Entry] = {}
    changes: dict[str, dict[str, Entry]] = {}
    for name, entry in entries.items():
        if name.startswith("frames/"):
            frame, _, below = name.removeprefix("frames/").partition("/")
            if below:
                changes.setdefault(frame, {})[below] = entry
        else:
            base[name] = entry
    return base, changes


def _about(path: Path, entries: Mapping[str, Entry]) -> dict[str, Any]:
    """``node``, ``arch``, ``page_size`` (None where they are not said) and ``taken`` in Unix seconds."""
    about = _yaml(f"{path}/snapshot.yaml", entries["snapshot.yaml"])
    if not isinstance(about, dict):
        raise InputError(f"{path}/snapshot.yaml: expected format: {FORMAT}")
    problems: list[str] = []
    found: dict[str, Any] = {}
    if about.get("format") != FORMAT:
        problems.append(f"{path}/snapshot.yaml: expected format: {FORMAT}, got {about.get('format')!r}")
    for key in ("node", "arch"):
        value = about.get(key)
        if value is not None and not isinstance(value, str | int):
            problems.append(f"{path}/snapshot.yaml: {key}: expected a text, got {value!r}")
        found[key] = None if value is None else str(value)
    size = found["page_size"] = about.get("page_size")
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size <= 0):
        problems.append(f"{path}/snapshot.yaml: page_size: expected bytes, got {size!r}")
    with _noted(problems):
        found["taken"] = _taken(path, about.get("taken"))
    if problems:
        raise InputError(problems)
    return found


def _taken(path: Path, value: Any) -> float:
    try:
        # Also where it stands in quotes: before 3.11 Python reads no fraction of nine digits.
        moment = yaml.safe_load(value) if isinstance(value, str) else value
    except (yaml.YAMLError, ValueError):
        moment = None
    if not isinstance(moment, datetime):
        raise InputError(f"{path}/snapshot.yaml: taken: expected a time such as 2026-01-31T12:00:00Z, got {value!r}")
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def _frames(path: Path, entries: Mapping[str, Entry]) -> list[tuple[str, float]]:
    if "frames.yaml" not in entries:
        return []
    found = _yaml(f"{path}/frames.yaml", entries["frames.yaml"])
    problems = []
    frames = []
    for item in found if isinstance(found, list) else []:
        name, at = (item.get("frame"), item.get("at")) if isinstance(item, dict) else (None, None)
        time = _seconds(at)
        if isinstance(name, str) and re.fullmatch(r"[\w.-]+", name) and time is not None:
            frames.append((name, time))
        else:
            problems.append(f'{path}/frames.yaml: expected {{frame: "0000", at: 0.0}}, got {item!r}')
    if not frames and not problems:
        problems.append(f"{path}/frames.yaml: expected a list of frames")
    if any(later[1] <= earlier[1] for earlier, later in pairwise(frames)):
        problems.append(f"{path}/frames.yaml: times must rise strictly")
    if problems:
        raise InputError(problems)
    return frames


def _seconds(value: Any) -> float | None:
    plausible = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if plausible else None


def _config(path: Path, entries: Mapping[str, Entry]) -> Config:
    if "config.yaml" not in entries:
        return configuration.Config()
    place = f"{path}/config.yaml"
    return configuration.load([(place, _text(place, entries["config.yaml"]))])


def _gone(place: str, changes: Mapping[str, Entry]) -> frozenset[str]:
    """The paths that do not exist in a frame."""
    removed = _text(place, changes["removed.txt"]) if "removed.txt" in changes else ""
    return frozenset(name.strip().strip("/") for name in removed.splitlines() if name.strip())


def _overlaid(base: Mapping[str, Entry], changes: Mapping[str, Entry], gone: frozenset[str]) -> dict[str, Entry]:
    """The base with what differs in a frame; frames do not accumulate."""
    if not changes:
        return dict(base)
    # A change takes the place of whatever stands at its path, below it, or in its way.
    replaced = gone | {name for name, entry in changes.items() if entry is not None}
    folders = {parent for name in changes for parent in archive.above(name)}
    kept = {
        name: entry
        for name, entry in base.items()
        if replaced.isdisjoint((name, *archive.above(name))) and not (entry is not None and name in folders)
    }
    return {**kept, **{name: entry for name, entry in changes.items() if name != "removed.txt"}}


def _sample(
    path: Path, entries: Mapping[str, Entry], places: Mapping[str, str], at: float, problems: list[str]
) -> Sample:
    """The sample that ``entries`` are. ``places``: where those lie that are not the base's; ``problems`` grows."""
    nvml: bytes | None = None
    lists: dict[str, Any] = {}
    for name in sorted(name for name in entries if not name.startswith("host/")):
        place = f"{path}/{places.get(name, name)}"
        with _noted(problems):
            if name == "nvml.json":
                nvml = _bytes(place, entries[name])
                sources.nvml(place, nvml)
            elif match := re.fullmatch(r"cluster/([a-z]+)\.json", name):
                lists[match[1]] = document = _json(place, entries[name])
                if match[1] in _CHECKS:
                    _CHECKS[match[1]](place, document)
    host = {name.removeprefix("host/"): entry for name, entry in entries.items() if name.startswith("host/")}
    return Sample(at=at, host=host, nvml=nvml, lists=lists)


def _bytes(place: str, entry: Entry) -> bytes:
    if not isinstance(entry, bytes):
        raise InputError(f"{place}: expected a file")
    return entry


def _text(place: str, entry: Entry) -> str:
    try:
        return _bytes(place, entry).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: is not UTF-8: {error}") from error


def _yaml(place: str, entry: Entry) -> Any:
    try:
        return yaml.safe_load(_text(place, entry))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a date such as 2026-13-45 is a ValueError
        raise InputError(f"{place}: not valid YAML: {' '.join(str(error).split())}") from error


def _json(place: str, entry: Entry) -> Any:
    try:
        return json.loads(_text(place, entry))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not valid JSON: {error}") from error

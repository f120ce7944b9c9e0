"""Records the real board: what the readers read in one sample or several, redacted, as a snapshot."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import yaml

from edgeagent import __version__
from edgeagent.cluster import node as nodes
from edgeagent.errors import InputError
from edgeagent.host.files import RootFiles
from edgeagent.host.reader import nvml_source
from edgeagent.snapshot import config_yaml, nvml_json, objects_json, reduce, taking, verify, writing
from edgeagent.snapshot.identity import identity
from edgeagent.snapshot.recording import FORMAT
from edgeagent.snapshot.redact import NODE, Redactor

if TYPE_CHECKING:
    from pathlib import Path

    from edgeagent.config import Config
    from edgeagent.facts import Nvml
    from edgeagent.snapshot.archive import Entry
    from edgeagent.snapshot.taking import Sample

_NOT_ANSWERED = {"library": "present", "init": 999}
"""NVML as it is recorded where it gave no answer at all: NVML_ERROR_UNKNOWN of nvml.h."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a board is read."""

    host_root: Path
    nvml_replay: Path | None = None
    kubeconfig: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What was written."""

    files: int
    bytes: int
    unread: tuple[str, ...]
    """What could not be read, one line each."""
    differing: tuple[str, ...]
    """Parts of the explain document that say other things of the snapshot than of the board; there should be none."""


def record(target: Path, config: Config, source: Source, *, frames: int = 1, every: float = 0.0) -> Recorded:
    """Writes a snapshot of the board to ``target``, a folder or a ``.tar.gz``: one sample, or ``frames`` of them.

    ``every``: seconds from one sample to the next.

    Raises:
        InputError: ``target`` exists or cannot be written, or the board cannot be found. Nothing is left behind.
        ClusterError: the API server could not be asked.
    """
    writing.check(target)
    if not source.host_root.is_dir():
        raise InputError(f"{source.host_root}: is no directory")
    files = RootFiles(source.host_root)
    try:
        nvml = nvml_source(source.nvml_replay, time.monotonic)
        samples = asyncio.run(
            taking.samples(files, nvml, config, source.kubeconfig, [every * number for number in range(frames)])
        )
        redactor = _redactor(files, config, samples)
    finally:
        files.close()
    entries = _snapshot(redactor, config, samples)
    differing = verify.differences(taking.facts(config, samples[0]), samples[0].at, target, entries)
    writing.write(target, entries, samples[0].wall)
    contents = [entry for entry in entries.values() if isinstance(entry, bytes)]
    return Recorded(
        files=len(contents),
        bytes=sum(map(len, contents)),
        unread=tuple(taking.unread(samples)),
        differing=tuple(differing),
    )


def _redactor(files: RootFiles, config: Config, samples: list[Sample]) -> Redactor:
    first = samples[0]
    found = nodes.parse(first.node) if first.node is not None else None
    people = (os.environ.get(name) for name in ("SUDO_USER", "USER", "LOGNAME"))
    return Redactor(
        identity(
            files,
            hosts=[found.name if found else None, config.node.name, first.host.kubelet.node_name, socket.gethostname()],
            users=people,
            serials=[found.machine_id if found else None],
            gpus=_gpus(samples),
            uuids=[found.uid if found else None],
        )
    )


def _gpus(samples: list[Sample]) -> Iterator[str]:
    for sample in samples:
        for device in sample.host.nvml.value.devices if sample.host.nvml.value else ():
            told = (device.uuid, *(instance.uuid for instance in device.mig))
            yield from (uuid for uuid in told if uuid)


def _snapshot(redactor: Redactor, config: Config, samples: list[Sample]) -> dict[str, Entry]:
    first = samples[0]
    taken = datetime.fromtimestamp(first.wall, timezone.utc).isoformat(timespec="milliseconds")
    about = {
        "format": FORMAT,
        "taken": taken.replace("+00:00", "Z"),
        "node": NODE,
        "agent": __version__,
        "arch": first.host.files.arch,
        "page_size": first.host.files.page_size,
    }
    base = _sources(redactor, config, first)
    entries: dict[str, Entry] = {"snapshot.yaml": _yaml(about), **base}
    settings = config_yaml.document(config, redactor.text)
    if settings:
        entries["config.yaml"] = _yaml(settings)
    if len(samples) > 1:
        times = [
            {"frame": f"{number:04}", "at": round(sample.at - first.at, 6)} for number, sample in enumerate(samples)
        ]
        entries["frames.yaml"] = _yaml(times)
        for number, sample in enumerate(samples[1:], 1):
            entries |= _frame(f"frames/{number:04}", base, _sources(redactor, config, sample))
    return entries


def _sources(redactor: Redactor, config: Config, sample: Sample) -> dict[str, Entry]:
    """What the sources said in one sample, by path in the snapshot."""
    entries: dict[str, Entry] = {}
    for path, found in sample.noted.entries(reduce.listed).items():
        kept: Entry = None
        if isinstance(found, str):
            kept = reduce.link(redactor, path, found)
            if kept is None:
                continue
        elif found is not None:
            kept = reduce.content(redactor, path, found)
        entries[f"host/{reduce.path(redactor, path)}"] = kept
    nvml = _nvml(redactor, sample.host.nvml.value)
    if nvml["library"] == "present":
        entries["nvml.json"] = _json(nvml)
    if sample.node is not None:
        node = objects_json.node_object(redactor, sample.node, sample.bound, config.labels)
        entries["cluster/node.json"] = _json({"apiVersion": "v1", "kind": "Node", **node})
        items = [objects_json.pod(redactor, pod) for pod in sample.pods]
        entries["cluster/pods.json"] = _json({"apiVersion": "v1", "kind": "PodList", "items": items})
    return entries


def _nvml(redactor: Redactor, found: Nvml | None) -> dict[str, Any]:
    if found is None:
        return _NOT_ANSWERED
    document = nvml_json.document(found)
    for device in document.get("devices", ()):
        for one in (device, *device.get("mig", {}).get("instances", ())):
            if isinstance(one.get("uuid"), str):
                one["uuid"] = redactor.uuid(one["uuid"])
    return document


def _frame(folder: str, base: Mapping[str, Entry], now: Mapping[str, Entry]) -> dict[str, Entry]:
    """What differs from the base; frames do not build on each other."""
    changed = {f"{folder}/{name}": entry for name, entry in now.items() if name not in base or base[name] != entry}
    removed = [name for name in base if name not in now]
    return {**changed, f"{folder}/removed.txt": "".join(f"{name}\n" for name in removed).encode()}


def _yaml(value: Any) -> bytes:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).encode()


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()

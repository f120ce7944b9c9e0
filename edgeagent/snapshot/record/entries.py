"""The files of a snapshot, from samples of a board: what is kept of each source, by its path in the snapshot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import yaml

from edgeagent import __version__
from edgeagent.snapshot import lists
from edgeagent.snapshot.record import config_yaml, nvml_json, objects_json, reduce
from edgeagent.snapshot.record.redact import NODE
from edgeagent.snapshot.recording import FORMAT

if TYPE_CHECKING:
    from edgeagent.config import Config
    from edgeagent.facts import Nvml
    from edgeagent.host.files import Entry
    from edgeagent.snapshot.record.redact import Redactor
    from edgeagent.snapshot.record.taking import Sample


def entries(redactor: Redactor, config: Config, samples: Sequence[Sample]) -> dict[str, Entry]:
    """The whole snapshot: the first sample, and what differs from it in each of several."""
    first = samples[0]
    base = _sources(redactor, config, first)
    found: dict[str, Entry] = {"snapshot.yaml": _yaml(_about(first)), **base}
    settings = config_yaml.document(config, redactor.text)
    if settings:
        found["config.yaml"] = _yaml(settings)
    if len(samples) > 1:
        found["frames.yaml"] = _yaml(
            [{"frame": f"{number:04}", "at": round(sample.at - first.at, 6)} for number, sample in enumerate(samples)]
        )
        for number, sample in enumerate(samples[1:], 1):
            found |= _frame(f"frames/{number:04}", base, _sources(redactor, config, sample))
    return found


def _about(sample: Sample) -> dict[str, Any]:
    taken = datetime.fromtimestamp(sample.wall, timezone.utc).isoformat(timespec="milliseconds")
    return {
        "format": FORMAT,
        "taken": taken.replace("+00:00", "Z"),
        "node": NODE,
        "agent": __version__,
        "arch": sample.host.files.arch,
        "page_size": sample.host.files.page_size,
    }


def _sources(redactor: Redactor, config: Config, sample: Sample) -> dict[str, Entry]:
    """What the sources said in one sample."""
    found = _host(redactor, sample.noted.entries(reduce.listed))
    nvml = _nvml(redactor, sample.host.nvml.value)
    if nvml["library"] == "present":
        found["nvml.json"] = _json(nvml)
    if sample.node is not None:
        node = objects_json.node_object(redactor, sample.node, sample.bound, config.labels)
        found["cluster/node.json"] = _json({"apiVersion": "v1", "kind": "Node", **node})
        items = [objects_json.pod(redactor, pod) for pod in sample.pods]
        items += objects_json.waiting(redactor, sample.lists["pods"].items or ())
        found["cluster/pods.json"] = _json({"apiVersion": "v1", "kind": "PodList", "items": items})
        for name, kind in lists.KINDS.items():
            listed = sample.lists[name].items
            if listed is not None:
                kept = list(objects_json.listed(redactor, name, listed))
                found[f"cluster/{name}.json"] = _json({"kind": kind, "items": kept})
    return found


def _host(redactor: Redactor, noted: Mapping[str, Entry]) -> dict[str, Entry]:
    """What is kept of the host's files; a link of which nothing is kept is left out."""
    found: dict[str, Entry] = {}
    for path, entry in noted.items():
        kept: Entry = None
        if isinstance(entry, str):
            kept = reduce.link(redactor, path, entry)
            if kept is None:
                continue
        elif entry is not None:
            kept = reduce.content(redactor, path, entry)
        found[f"host/{reduce.path(redactor, path)}"] = kept
    return found


def _nvml(redactor: Redactor, sample: Nvml | None) -> dict[str, Any]:
    document = nvml_json.document(sample)
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

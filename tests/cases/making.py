"""Parts of snapshots, and what ``edgeagent explain`` says of a whole one.

The parts are plain values, as ``tests.unit.snapshot.making.write`` takes them: a path below the snapshot and its
content. Sizes are bytes unless the name says otherwise.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema

from edgeagent import cli
from tests.unit.snapshot.making import write

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
KEY = "edgeagent.dev/gpu-memory"
UID = "11111111-2222-3333-4444-000000000001"
NODE = "edge-07"
TAKEN = "2026-01-31T12:00:00Z"
NOT_SUPPORTED = 3
SCHEMA = jsonschema.Draft202012Validator(
    json.loads((Path(__file__).parents[2] / "docs/reference/explain.schema.json").read_text())
)


# What is asked


def explain(capsys: pytest.CaptureFixture[str], folder: Path, files: dict[str, Any] | None = None) -> list[Any]:
    """The documents that ``explain`` prints: one, or one per frame. Files given are written first."""
    if files is not None:
        write(folder, {"snapshot.yaml": about(), **files})
    assert cli.main(["explain", str(folder), "--format", "json"]) == 0
    out = capsys.readouterr().out
    documents = [json.loads(line) for line in out.splitlines()] if out.startswith('{"') else [json.loads(out)]
    for document in documents:
        SCHEMA.validate(document)
    return documents


def about(**keys: Any) -> dict[str, Any]:
    """``snapshot.yaml`` of this folder's boards, which are aarch64 unless told otherwise."""
    return {"format": 1, "taken": TAKEN, "node": NODE, "arch": "aarch64", "page_size": 4096, **keys}


def conditions(document: Any) -> dict[str, str]:
    """The status of each condition by its type."""
    return {condition["type"]: condition["status"] for condition in document["node"]["conditions"]}


def reserves(document: Any, pool: int = 0) -> dict[str, tuple[int, str]]:
    """Bytes and origin of each reserve of a pool, by name."""
    return {line["name"]: (line["bytes"], line["origin"]) for line in document["pools"][pool]["reserves"]}


def gpu(document: Any, key: str = KEY) -> str | None:
    """What the node's capacity should say under this key; None without the key."""
    found: str | None = document["node"]["capacity"].get(key)
    return found


# The board


def meminfo(total_kib: int, **rows: int) -> str:
    """``/proc/meminfo`` of a quiet board in KiB; rows given replace or add, e.g. ``**{"Active(file)": 0}``."""
    quiet = {
        "MemTotal": total_kib, "MemFree": total_kib // 2, "MemAvailable": total_kib * 3 // 4, "Buffers": 40000,
        "Cached": 500000, "SwapCached": 0, "Active(anon)": 0, "Inactive(anon)": 0, "Active(file)": 0,
        "Inactive(file)": 0, "SwapTotal": 0, "SwapFree": 0, "AnonPages": 0, "Shmem": 0, "SReclaimable": 0,
        "SUnreclaim": 0, "KernelStack": 0, "PageTables": 0,
    }  # fmt: skip
    return "".join(f"{row + ':':<16}{kib:>8} kB\n" for row, kib in {**quiet, **rows}.items())


def device(name: str, uuid: str, total: int | None = None, reserved: int = 0, **fields: Any) -> dict[str, Any]:
    """One entry of ``nvml.json``'s devices, all of it free; without a total both memory calls are not supported."""
    quiet = {
        "handle": 0,
        "name": name,
        "uuid": uuid,
        "memory": {"code": NOT_SUPPORTED},
        "memory_v2": {"code": NOT_SUPPORTED},
        "compute": {"code": 0, "processes": []},
        "graphics": {"code": 0, "processes": []},
        "mps": {"code": 0, "processes": []},
    }
    if total is not None:
        quiet["memory"] = {"code": 0, "total": total, "used": reserved, "free": total - reserved}
        quiet["memory_v2"] = {"code": 0, "total": total, "reserved": reserved, "used": 0, "free": total - reserved}
    return {**quiet, **fields}


def nvml(*devices: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """``nvml.json`` with these devices in index order, minor number = index unless a device says another."""
    numbered = [{"minor": index, **found} if found.get("handle") == 0 else found for index, found in enumerate(devices)]
    return {
        "library": "present",
        "init": 0,
        "driver_version": "580.82.09",
        "cuda_version": 13000,
        "count": {"code": 0, "value": len(devices)},
        "devices": numbered,
        **keys,
    }


# The cluster


def pod(
    name: str = "llm",
    *,
    limits: dict[str, str] | None = None,
    requests: dict[str, str] | None = None,
    uid: str = UID,
    container: str = "a" * 64,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """A running pod with one container ``main``; requests are the limits unless given. spec and status add keys."""
    asked = {"limits": dict(limits or {}), "requests": dict(limits or {}) if requests is None else dict(requests)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": uid, **metadata},
        "spec": {"nodeName": NODE, "containers": [{"name": "main", "resources": asked}], **(spec or {})},
        "status": {
            "phase": "Running",
            "startTime": "2026-01-31T11:00:00Z",
            "containerStatuses": [
                {
                    "name": "main",
                    "containerID": f"containerd://{container}",
                    "state": {"running": {"startedAt": "2026-01-31T11:00:05Z"}},
                }
            ],
            **(status or {}),
        },
    }


def pods(*items: dict[str, Any]) -> dict[str, Any]:
    """``cluster/pods.json``. Pods that share the default uid get one of their own."""
    for number, item in enumerate(items, start=1):
        if item["metadata"]["uid"] == UID:
            item["metadata"]["uid"] = f"{UID[:-4]}{number:04}"
    return {"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "100"}, "items": list(items)}


def node(capacity: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    """``cluster/node.json``: a Ready node, allocatable = capacity."""
    has = {"cpu": "6", "memory": "7802736Ki", "pods": "110", **(capacity or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE, "uid": "99999999-2222-3333-4444-000000000007", "labels": {}, **metadata},
        "status": {
            "capacity": has,
            "allocatable": dict(has),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}],
        },
    }


# Series


def frames(*samples: dict[str, Any], step: float = 2.0, at: Sequence[float] = ()) -> dict[str, Any]:
    """``frames.yaml`` and the files of each frame, ``step`` seconds apart, or at these seconds."""
    times = at or [number * step for number in range(len(samples))]
    files: dict[str, Any] = {
        "frames.yaml": [{"frame": f"{number:04}", "at": time} for number, time in enumerate(times)]
    }
    for number, sample in enumerate(samples):
        files |= {f"frames/{number:04}/{path}": content for path, content in sample.items()}
    return files


def stated(**reserves: str) -> dict[str, Any]:
    """``config.yaml`` with these reserves: os 1Gi, k3s 512Mi, cma and headroom 0 unless given."""
    return {"reserves": {"os": "1Gi", "k3s": "512Mi", "cma": "0", "headroom": "0", **reserves}}

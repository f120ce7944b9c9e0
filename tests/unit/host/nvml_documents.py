"""Recorded and thinkable answers of NVML, as nvml.json documents."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from edgeagent.host.nvml_replay import parse

GIB = 1024**3

MEMORY = {"code": 0, "total": 16 * GIB, "used": 9 * GIB, "free": 7 * GIB}
MEMORY_V2 = {"code": 0, "total": 16 * GIB, "reserved": GIB // 2, "used": 9 * GIB, "free": 6 * GIB + GIB // 2}

T4: dict[str, Any] = {
    "handle": 0,
    "name": "Tesla T4",
    "uuid": "GPU-00000000-0000-4000-8000-000000000001",
    "minor": 0,
    "cuda_capability": [7, 5],
    "memory": MEMORY,
    "memory_v2": MEMORY_V2,
    "compute": {
        "code": 0,
        "processes": [
            {"pid": 4242, "used": 1610612736, "gi": None, "ci": None},
            {"pid": 5151, "used": None},
            {"pid": 700, "used": 0},
        ],
    },
    "graphics": {"code": 0, "processes": [{"pid": 4242, "used": 1610612736}, {"pid": 900, "used": 52428800}]},
    "mps": {"code": 0, "processes": []},
    "mig": {"code": 3},
}
# As the driver 540.4 of JetPack 6 answers on an Orin: names, and not much else (nvml.h on SoCs; public nvidia-smi
# tables of Orin boards).
ORIN: dict[str, Any] = {
    "handle": 0,
    "name": "Orin (nvgpu)",
    "uuid": "aaaaaaaa-0000-4000-8000-000000000001",
    "minor": {"code": 3},
    "cuda_capability": [8, 7],
    "memory": {"code": 3},
    "memory_v2": {"code": 3},
    "compute": {"code": 0, "processes": []},
    "graphics": {"code": 3},
}
H100_MIG: dict[str, Any] = {
    **T4,
    "name": "NVIDIA H100 PCIe",
    "memory": {"code": 4},
    "memory_v2": {"code": 4},
    "compute": {"code": 4},
    "mig": {
        "mode": 1,
        "instances": [
            {
                "uuid": "MIG-00000000-0000-4000-8000-00000000000a",
                "memory": MEMORY,
                "memory_v2": MEMORY_V2,
                "compute": {"code": 0, "processes": [{"pid": 11, "used": 5, "gi": 1, "ci": 0}]},
                "graphics": {"code": 3},
            },
            {"uuid": {"code": 999}, "memory": {"code": 15}},
        ],
    },
}


def document(*devices: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {
        "library": "present",
        "init": 0,
        "driver_version": "580.82.09",
        "cuda_version": 13000,
        "devices": list(devices),
        **members,
    }


def without(device: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in device.items() if key not in keys}


def replayed(value: dict[str, Any]) -> Any:
    """The fields of the sample in a document, as JSON has them."""
    return json.loads(json.dumps(dataclasses.asdict(parse(json.dumps(value).encode()))))


FIELDS = [key for key in T4 if key != "handle"]

DOCUMENTS: dict[str, dict[str, Any]] = {
    "a discrete card": document(T4, count={"code": 0, "value": 1}),
    "Orin": document(ORIN),
    "MIG": document(H100_MIG),
    "MIG off": document({**T4, "mig": {"mode": 0, "instances": H100_MIG["mig"]["instances"]}}),
    "two": document(T4, ORIN),
    "the second one is lost": document(T4, {"handle": 15}, ORIN),
    "lost after its handle": document({**T4, **{key: {"code": 15} for key in FIELDS}}),
    "reset required": document({**T4, "memory_v2": {"code": 16}}),
    "fewer than before": document(T4, ORIN, count={"code": 0, "value": 1}),
    "more than can be opened": document(T4, count={"code": 0, "value": 3}),
    "no devices": document(),
    "the count fails": document(T4, count={"code": 9}),
    "library of another driver": document(T4, init=18),
    "driver not loaded": document(init=9),
    "no versions": {"library": "present", "devices": [T4]},
    "versions fail": document(T4, driver_version={"code": 999}, cuda_version={"code": 3}),
    "only a handle": document({"handle": 0}),
    "nothing at all": {"library": "present"},
    "bytes that are no text": document({**T4, "name": "\udcf8\udc9a\0rest", "uuid": "GPU-\udcff"}),
    "an empty name": document({**T4, "name": ""}),
    "a pid that cannot be": document({**T4, "compute": {"code": 0, "processes": [{"pid": 4294967295, "used": 5151}]}}),
    "sentinels as numbers": document(
        {**T4, "compute": {"code": 0, "processes": [{"pid": 1, "used": 2**64 - 1, "gi": 2**32 - 1, "ci": 0}]}}
    ),
    **{f"{key} is missing": document(without(T4, key)) for key in FIELDS},
    **{f"{key} is not supported": document({**T4, key: {"code": 3}}) for key in FIELDS},
}

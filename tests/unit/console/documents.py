"""The state of one board, every figure written down by hand.

The pool: 8192 MiB in all, reserves 768 + 512 + 256 = 1536, host parts 1024, so 8192 − 1536 − 1024 = 5632 advertised.
The bar: 1000 + (2900 + 500) + (512 + 200) + 2824 + 256 = 8192.
"""

from __future__ import annotations

import copy
from typing import Any

MIB = 1024**2
GPU = "edgeagent.dev/gpu-memory"

Json = dict[str, Any]


def pod(name: str, state: str, gpu: int | None, host: int | None, budget: int | None) -> Json:
    """A pod of the namespace shop; amounts in MiB."""
    used, allowed = _bytes(gpu), _bytes(budget)
    return {
        "namespace": "shop",
        "name": name,
        "uid": f"uid-{name}",
        "gpu_bytes": used,
        "host_bytes": _bytes(host),
        "gpu_budget_bytes": allowed,
        "total_budget_bytes": None,
        "state": state,
        "reason": "",
        "pools": [{"resource": GPU, "gpu_bytes": used, "gpu_budget_bytes": allowed}],
        "containers": [],
    }


def _bytes(mib: int | None) -> int | None:
    return None if mib is None else mib * MIB


def segment(kind: str, mib: int, name: str = "", uid: str = "") -> Json:
    return {"kind": kind, "name": name, "uid": uid, "bytes": mib * MIB}


STATE: Json = {
    "at": "2026-11-30T18:00:00.000Z",
    "node": "orin-1",
    "version": "0.1.0",
    "started": "2026-11-27T18:00:00.000Z",
    "cluster": {"complete": True, "view_age_seconds": 0.0, "error": ""},
    "config": {"digest": "0f8c2d5e", "last_reload_ok": True, "problems": []},
    "mode": "enforce",
    "observe_because": "",
    "ready": {"status": "ok", "reasons": []},
    "sample_age_seconds": 0.5,
    "floor_bytes": 128 * MIB,
    "readings": {"meminfo": {"age_seconds": 0.1, "stale": False, "why": ""}},
    "stale": [],
    "board": {
        "kind": "jetson",
        "unified": True,
        "signals": ["device-tree"],
        "product": "Orin Nano",
        "soc": "tegra234",
        "module": "p3767-0005",
        "l4t": "36.4.4",
        "jetpack": "6.2.1",
        "warnings": [],
    },
    "devices": [],
    "host": {
        "available_bytes": 900 * MIB,
        "usable_bytes": 700 * MIB,
        "system_gpu_bytes": 64 * MIB,
        "unattributed_gpu_bytes": 0,
        "leaving_bytes": 0,
        "pressure": False,
    },
    "pools": [
        {
            "resource": GPU,
            "kind": "unified",
            "total_bytes": 8192 * MIB,
            "reserves": [
                {"name": "os", "bytes": 768 * MIB, "origin": "default"},
                {"name": "k3s", "bytes": 512 * MIB, "origin": "default"},
                {"name": "headroom", "bytes": 256 * MIB, "origin": "default"},
            ],
            "host_committed_bytes": 1024 * MIB,
            "gpu_committed_bytes": 3072 * MIB,
            "advertised_bytes": 5632 * MIB,
            "overcommitted": False,
        }
    ],
    "bars": [
        {
            "resource": GPU,
            "kind": "unified",
            "total_bytes": 8192 * MIB,
            "segments": [
                segment("host", 1000),
                segment("pod-gpu", 2900, "shop/llm", "uid-llm"),
                segment("pod-host", 500, "shop/llm", "uid-llm"),
                segment("pod-gpu", 512, "shop/vision", "uid-vision"),
                segment("pod-host", 200, "shop/vision", "uid-vision"),
                segment("free", 2824),
                segment("reserve", 256, "headroom"),
            ],
        }
    ],
    "pods": [
        pod("llm", "breach", 2900, 500, 2048),
        pod("odd", "unknown", None, None, 1024),
        pod("vision", "ok", 512, 200, 1024),
    ],
    "plan": {
        "evictions": [],
        "kills": [],
        "held": [{"uid": "uid-llm", "code": "grace", "seconds_left": 9.0, "why": "over its budget for 6 of 15 s"}],
        "events": [],
    },
    "findings": [
        {
            "id": "runtime-class-missing",
            "severity": "error",
            "certainty": "certain",
            "subject": "pod shop/odd",
            "summary": "there is no RuntimeClass nvidia",
            "evidence": [],
            "remedy": "create it",
        },
        {
            "id": "cgroup-v1",
            "severity": "info",
            "certainty": "certain",
            "subject": "node orin-1",
            "summary": "cgroup v1",
            "evidence": [],
            "remedy": "",
        },
    ],
    "budgets": [],
    "neighbours": [],
    "vitals": {
        "power_mode": "15W",
        "temperatures": [{"zone": "gpu", "celsius": 61.4}, {"zone": "cv0", "celsius": None}],
        "throttled": False,
        "throttle_reasons": [],
        "fan_ratio": None,
        "source": "sysfs",
    },
    "incidents": [
        {
            "wall": "2026-11-30T17:40:00.000Z",
            "wall_plausible": True,
            "kind": "eviction",
            "pod": {"namespace": "shop", "name": "chat", "uid": "uid-chat", "owner": None},
            "reason": "Evicted: GPU memory 3.22 GiB exceeds the budget of 3.00 GiB. To run it here, raise it.",
            "outcomes": [{"t": 0.1, "outcome": "accepted", "message": ""}],
        }
    ],
    "events": [
        {
            "at": "2026-11-30T17:59:18.000Z",
            "reason": "MemoryBudgetExceeded",
            "regarding": "pod shop/llm",
            "note": "GPU memory is above the budget",
        },
        {
            "at": "2026-11-30T17:40:00.000Z",
            "reason": "MemoryBudgetEvicted",
            "regarding": "pod shop/chat",
            "note": "told again",
        },
    ],
}


def state(**changes: Any) -> Json:
    """The state, but for ``changes``."""
    return {**copy.deepcopy(STATE), **changes}


def unsampled(*reasons: tuple[str, str]) -> Json:
    """What is told before the first reading, and while the last one is too old."""
    return state(
        ready={"status": "unavailable", "reasons": [{"name": name, "message": said} for name, said in reasons]},
        floor_bytes=None,
        board=None,
        devices=[],
        host=None,
        pools=[],
        bars=[],
        pods=None,
        plan=None,
        findings=[],
    )


HOSTILE = "\x1b]0;pwned\x07\r\n\x9b31m\u202e[bold]"
_WORDS = frozenset(
    {
        *(
            "product",
            "message",
            "why",
            "note",
            "name",
            "namespace",
            "summary",
            "node",
            "version",
            "reason",
            "regarding",
        ),
        *("observe_because", "power_mode", "zone", "error", "id", "code", "jetpack"),
    }
)
"""Keys of texts that come from outside, or might."""


def poisoned(value: Any, key: str = "") -> Any:
    """The document with every such text made hostile."""
    if isinstance(value, dict):
        return {name: poisoned(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item, key) for item in value]
    return f"{HOSTILE}{value}{HOSTILE}" if key in _WORDS and isinstance(value, str) else value

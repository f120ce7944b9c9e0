"""Small snapshots on disk."""

from __future__ import annotations

import json
import tarfile
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

ABOUT = {"format": 1, "taken": "2026-01-31T12:00:00Z", "node": "orin", "arch": "aarch64"}
UID = "11111111-2222-3333-4444-000000000001"
CONTAINER = "a" * 64


def write(folder: Path, files: dict[str, Any]) -> Path:
    """Files by path: bytes and text as they are, ``.json`` and ``.yaml`` from values."""
    for name, content in {"snapshot.yaml": ABOUT, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, str):
            path.write_text(content)
        else:
            path.write_text(json.dumps(content) if name.endswith(".json") else yaml.safe_dump(content))
    return folder


def packed(folder: Path, archive: Path, top: str = "board") -> Path:
    """The folder as a ``.tar.gz`` under the name ``top``."""
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, arcname=top)
    return archive


def nvmap(*rows: tuple[str, int, int]) -> str:
    """The nvmap table of (process, pid, KiB), in the kernel's own print format."""
    lines = [f"{'CLIENT':<18} {'PROCESS':>18} {'PID':>8} {'SIZE':>11}\n"]
    lines += [f"{'user':<18} {name:>18} {pid:>8} {size:>10}K\n" for name, pid, size in rows]
    return "".join([*lines, f"{'total':<18} {'':>18} {'':>8} {sum(size for _, _, size in rows):>10}K\n"])


def process(pid: int, name: str) -> dict[str, str]:
    """A process in the pod's container."""
    stat = f"{pid} ({name}) S 1 {pid} {pid} 0 -1 4194560 " + "0 " * 8 + "20 0 1 0 88123 " + "0 " * 30 + "\n"
    return {
        f"host/proc/{pid}/stat": stat,
        f"host/proc/{pid}/comm": f"{name}\n",
        f"host/proc/{pid}/cgroup": f"0::/kubepods/burstable/pod{UID}/{CONTAINER}\n",
    }


def pod(name: str = "llm", **metadata: Any) -> dict[str, Any]:
    """A running pod with a budget of 2Gi."""
    limits = {"edgeagent.dev/gpu-memory": "2Gi"}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": UID, **metadata},
        "spec": {"nodeName": "orin", "containers": [{"name": "main", "resources": {"limits": limits}}]},
        "status": {
            "phase": "Running",
            "startTime": "2026-01-31T11:00:00Z",
            "containerStatuses": [{"name": "main", "containerID": f"containerd://{CONTAINER}"}],
        },
    }


def orin(used_mib: int) -> dict[str, Any]:
    """An Orin whose pod's process holds so many MiB."""
    return {
        "host/proc/device-tree/compatible": b"nvidia,p3767-0005\0nvidia,tegra234\0",
        "host/proc/meminfo": "MemTotal:        7802736 kB\nMemFree:         3000000 kB\nMemAvailable:    4000000 kB\n",
        "host/sys/kernel/debug/nvmap/iovmm/clients": nvmap(("llm", 4242, used_mib * 1024)),
        "cluster/pods.json": {"kind": "PodList", "items": [pod()]},
        **process(4242, "llm"),
    }

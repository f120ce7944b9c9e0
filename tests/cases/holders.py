"""Who holds memory, as parts of a snapshot: processes, GPUs that list them, nvmap tables, cgroups and pods.

What ``making`` has is taken from there. Sizes are bytes unless the name says otherwise.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.cases.making import GIB, KEY, MIB, NODE, about, device, explain, meminfo, nvml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pytest

Files = dict[str, Any]

CLIENTS = "host/sys/kernel/debug/nvmap/iovmm/clients"
TITLE = b"CLIENT                        PROCESS      PID        SIZE\n"
RECORD = 59
"""Bytes of each line of an nvmap table: 58 characters and a newline (nvmap_dev.c, R36)."""

FORK_NO_EXEC = 0x400100
"""Flags of an ordinary process in ``/proc/<pid>/stat``."""

KERNEL_THREAD = 0x00200000
"""PF_KTHREAD (include/linux/sched.h)."""

KTHREADD = {"host/proc/2/stat": "2 (kthreadd) S 0 0 0 0 -1 2129984 " + "0 " * 8 + "20 0 1 0 1 " + "0 " * 30 + "\n"}
"""The process by which a process table is known to be the host's: 2129984 = 0x208040, PF_KTHREAD is set."""

CARD_TOTAL = 24 * GIB

SYSTEM = "0::/system.slice/gdm.service"
"""The cgroup of a process that is no pod's."""

HASH = "0123456789abcdef0123456789abcdef"
MIRROR = {"kubernetes.io/config.hash": HASH, "kubernetes.io/config.mirror": HASH, "kubernetes.io/config.source": "file"}
"""Annotations of a static pod; its cgroup is named after the hash."""


class Link(str):
    """The target of a symbolic link."""

    __slots__ = ()


def uid(number: int) -> str:
    """A pod uid."""
    return f"11111111-2222-3333-4444-{number:012}"


def cid(number: int) -> str:
    """A container id: 64 hex digits."""
    return f"{number:02x}" * 32


# What is asked


def shown(capsys: pytest.CaptureFixture[str], folder: Path, *parts: Mapping[str, Any]) -> list[Any]:
    """The documents of a snapshot made of these parts; a later part's file replaces an earlier one's."""
    files: Files = {"snapshot.yaml": about()}
    for part in parts:
        files.update(part)
    for name, content in files.items():
        if isinstance(content, Link):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(content)
    return explain(capsys, folder, {name: content for name, content in files.items() if not isinstance(content, Link)})


def show(capsys: pytest.CaptureFixture[str], folder: Path, *parts: Mapping[str, Any]) -> Any:
    """The document of a snapshot that is one sample."""
    (document,) = shown(capsys, folder, *parts)
    return document


def held_gpu(document: Any) -> dict[str, int | None]:
    """GPU bytes by pod name."""
    return {one["name"]: one["gpu_bytes"] for one in document["pods"]}


def held_host(document: Any) -> dict[str, int | None]:
    """Host bytes by pod name."""
    return {one["name"]: one["host_bytes"] for one in document["pods"]}


def states(document: Any) -> dict[str, str]:
    """The state of each pod by its name."""
    return {one["name"]: one["state"] for one in document["pods"]}


def by_container(document: Any, pod_name: str, figure: str = "gpu_bytes") -> dict[str, int | None]:
    """A figure of each container of a pod."""
    (found,) = [one for one in document["pods"] if one["name"] == pod_name]
    return {one["name"]: one[figure] for one in found["containers"]}


def evicted(documents: list[Any]) -> list[list[str]]:
    """The names of the pods that each sample evicts."""
    return [[one["name"] for one in document["plan"]["evictions"]] for document in documents]


def held_codes(document: Any) -> dict[str, str]:
    """Why a pod is held, by its uid."""
    return {one["uid"]: one["code"] for one in document["plan"]["held"]}


def tells(message: str, size: int) -> bool:
    """A sentence names this size, in whatever unit, rounded by at most 2 %."""
    units = {"": 1, "K": 1024, "M": MIB, "G": GIB}
    found = re.findall(r"(\d+(?:\.\d+)?)\s*([KMG]?)i?B?\b", message)
    return any(abs(float(number) * units[unit] - size) <= size / 50 for number, unit in found)


def series(at: list[float], *changes: Mapping[str, Any]) -> Files:
    """Frames at these seconds; the changes belong to the first ones, the others are the base."""
    files: Files = {"frames.yaml": [{"frame": f"{number:04}", "at": second} for number, second in enumerate(at)]}
    for number, change in enumerate(changes):
        files |= {f"frames/{number:04}/{name}": content for name, content in change.items()}
    return files


# Processes


def task(
    pid: int,
    cgroup: str,
    *,
    name: str = "python3",
    start: int = 88123,
    state: str = "S",
    flags: int = FORK_NO_EXEC,
    memory: bool = True,
    fds: tuple[str, ...] | None = ("/dev/null",),
) -> Files:
    """``/proc/<pid>`` of a process (man 5 proc): ``start`` in ticks is field 22 of stat.

    ``memory`` False leaves VmSize out of status, as a process without an address space has it. ``fds`` None: the
    folder of descriptors is not readable.
    """
    below = f"host/proc/{pid}/"
    files: Files = {
        below + "stat": f"{pid} ({name}) {state} 1 {pid} {pid} 0 -1 {flags} " + "0 " * 8
        + f"20 0 1 0 {start} " + "0 " * 30 + "\n",
        below + "status": f"Name:\t{name}\nState:\t{state}\nPid:\t{pid}\n" + "VmSize:\t  100000 kB\n" * memory,
        below + "comm": f"{name}\n",
        below + "cgroup": cgroup if cgroup.endswith("\n") else f"{cgroup}\n",
    }  # fmt: skip
    for number, target in enumerate(fds or ()):
        files[f"{below}fd/{number}"] = Link(target)
    return files


def in_pod(pod_uid: str, container: str) -> str:
    """The cgroup line of a process in a container: v2, the kubelet's cgroupfs driver."""
    return f"0::/kubepods/burstable/pod{pod_uid}/{container}"


def pod_task(number: int, pid: int, **keys: Any) -> Files:
    """A process in pod ``number``, with a GPU's device node open unless told otherwise."""
    return task(pid, in_pod(uid(number), cid(number)), **{"fds": ("/dev/nvidia0",), **keys})


def without(pid: int) -> Files:
    """A frame in which the process is gone."""
    return {"removed.txt": f"host/proc/{pid}\n"}


# Pods


def tenant(
    name: str,
    pod_uid: str,
    containers: Mapping[str, str | None],
    *,
    limits: Mapping[str, Mapping[str, str]] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    runtime: str = "containerd",
    **metadata: Any,
) -> dict[str, Any]:
    """A running pod of this node: container ids by container name, limits (= requests) by container name."""
    asked = {key: {"limits": dict(of), "requests": dict(of)} for key, of in (limits or {}).items()}
    return {
        "metadata": {"name": name, "namespace": "ns-a", "uid": pod_uid, **metadata},
        "spec": {
            "nodeName": NODE,
            "containers": [{"name": key, "resources": asked.get(key, {})} for key in containers],
            **(spec or {}),
        },
        "status": {
            "phase": "Running",
            "startTime": "2026-01-31T11:00:00Z",
            "containerStatuses": [running(key, number, runtime) for key, number in containers.items()],
            **(status or {}),
        },
    }


def running(name: str, container: str | None, runtime: str = "containerd", **fields: Any) -> dict[str, Any]:
    """A container's status; without an id the container is still being made."""
    if container is None:
        return {"name": name, "state": {"waiting": {"reason": "ContainerCreating"}}, **fields}
    since = {"running": {"startedAt": "2026-01-31T11:00:05Z"}}
    return {"name": name, "containerID": f"{runtime}://{container}", "state": since, **fields}


def simple(number: int, name: str, budget: str | None = None, memory: str | None = None, **keys: Any) -> dict[str, Any]:
    """A pod with one container, ``main``, of this number's uid and container id."""
    limits = {key: value for key, value in ((KEY, budget), ("memory", memory)) if value is not None}
    return tenant(name, uid(number), {"main": cid(number)}, limits={"main": limits}, **keys)


def cluster(*pods: dict[str, Any]) -> Files:
    """``cluster/pods.json``."""
    return {"cluster/pods.json": {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": list(pods)}}


TWO_SMALL = cluster(simple(1, "pod-a", "4Gi"), simple(2, "pod-b", "4Gi"))


# GPUs that list processes


def entry(pid: int, used: int | None, gi: int | None = None, ci: int | None = None) -> dict[str, Any]:
    """An entry of a process list; used None is NVML's "not available"."""
    return {"pid": pid, "used": used, "gi": gi, "ci": ci}


def listed(*entries: dict[str, Any], code: int = 0) -> dict[str, Any]:
    """What a process list call answers."""
    return {"code": code, "processes": list(entries)} if code == 0 else {"code": code}


def card(*entries: dict[str, Any], total: int = CARD_TOTAL, used: int = 0, number: int = 1, **fields: Any) -> Any:
    """A discrete device; ``used`` as the driver tells it, nothing reserved."""
    memory = {"code": 0, "total": total, "used": used, "free": total - used}
    return device(
        "NVIDIA RTX A5000",
        f"GPU-bbbbbbbb-0000-4000-8000-{number:012}",
        total,
        **{"memory": memory, "memory_v2": {**memory, "reserved": 0}, "compute": listed(*entries), **fields},
    )


def cards(*devices: dict[str, Any]) -> Files:
    """An x86 machine with these cards."""
    return {
        "snapshot.yaml": about(arch="x86_64"),
        "host/proc/meminfo": meminfo(64 * 1024 * 1024),
        "nvml.json": nvml(*devices),
    }


def big(pid: int = 4242) -> Files:
    """A card on which this process holds 5 GiB."""
    return cards(card(entry(pid, 5 * GIB), used=5 * GIB))


def thor(*entries: dict[str, Any], available_kib: int | None = None, **fields: Any) -> Files:
    """A Jetson Thor (JetPack 7): NVML lists processes with their memory, the nvmap table is all zero."""
    rows = {} if available_kib is None else {"MemAvailable": available_kib}
    chip = device("NVIDIA Thor", "aaaaaaaa-0000-4000-8000-000000000001", **{"compute": listed(*entries), **fields})
    return {
        "host/proc/device-tree/compatible": b"nvidia,p3834-0008\0nvidia,tegra264\0",
        "host/proc/meminfo": meminfo(128651324, **rows),
        "nvml.json": nvml(chip),
        CLIENTS: table(),
    }


def gb10(*entries: dict[str, Any], total_kib: int = 127600748, rows: Mapping[str, int] | None = None) -> Files:
    """A GB10: one memory, no Tegra."""
    chip = device("NVIDIA GB10", "GPU-cccccccc-0000-4000-8000-000000000001", compute=listed(*entries))
    return {"host/proc/meminfo": meminfo(total_kib, **(rows or {})), "nvml.json": nvml(chip)}


def orin(clients: bytes | None, total_kib: int = 64 * 1024 * 1024, rows: Mapping[str, int] | None = None) -> Files:
    """A Jetson Orin (JetPack 6): NVML lists are empty, nvmap tells."""
    chip = device("Orin (nvgpu)", "dddddddd-0000-4000-8000-000000000001")
    found = {} if clients is None else {CLIENTS: clients}
    return {
        "host/proc/device-tree/compatible": b"nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0nvidia,tegra234\0",
        "host/proc/meminfo": meminfo(total_kib, **(rows or {})),
        "nvml.json": nvml(chip),
        **found,
    }


# nvmap


def client(comm: bytes, pid: int, size: int, unit: bytes = b"K", owner: bytes = b"user") -> bytes:
    r"""A record as the driver prints it: ``"%-18s %18s %8u %10lluK\n"`` (nvmap_dev.c), comm as it is."""
    return b"%-18s %18s %8d %10d%s\n" % (owner, comm, pid, size, unit)


def total(kib: int) -> bytes:
    """The last record of a table."""
    return b"%-18s %18s %8s %10dK\n" % (b"total", b"", b"", kib)


def table(*records: bytes, total_kib: int | None = None) -> bytes:
    """A whole table; the total is the sum of sizes in K unless given."""
    if total_kib is None:
        total_kib = sum(int(record[-RECORD:][46:57]) for record in records)
    return TITLE + b"".join(records) + total(total_kib)


def unified(*held: tuple[int, int], **keys: Any) -> Files:
    """An Orin whose processes hold so many MiB."""
    return orin(table(*(client(b"infer", pid, mib * 1024) for pid, mib in held)), **keys)


# Control groups


def memory_v2(path: str, current: int | str, stat: Mapping[str, int] | None = None) -> Files:
    """``memory.current`` and, if given, ``memory.stat`` of a v2 group below ``/sys/fs/cgroup``."""
    folder = f"host/sys/fs/cgroup{path}/"
    root = {"host/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n"}
    return root | {folder + "memory.current": f"{current}\n"} | _stat(folder, stat)


def memory_v1(path: str, usage: int, stat: Mapping[str, int] | None = None) -> Files:
    """``memory.usage_in_bytes`` and, if given, ``memory.stat`` of a v1 group below ``/sys/fs/cgroup/memory``."""
    folder = f"host/sys/fs/cgroup/memory{path}/"
    return {folder + "memory.usage_in_bytes": f"{usage}\n"} | _stat(folder, stat)


def _stat(folder: str, stat: Mapping[str, int] | None) -> Files:
    rows = "".join(f"{key} {value}\n" for key, value in (stat or {}).items())
    return {} if stat is None else {folder + "memory.stat": rows}


def cache(active: int, inactive: int, slab: int = 0) -> dict[str, int]:
    """Rows of a v2 ``memory.stat``."""
    return {
        "anon": 0, "file": active + inactive, "kernel": slab, "shmem": 0, "inactive_file": inactive,
        "active_file": active, "slab_reclaimable": slab, "slab_unreclaimable": 0,
    }  # fmt: skip

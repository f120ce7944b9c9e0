"""Random boards down to the bytes of their files, and what a document must say of each, worked out by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st

from edgeagent.config import Config, load
from edgeagent.plan import explain
from edgeagent.snapshot import replay
from edgeagent.snapshot.recording import Recording, Sample

KIB = 1024
MIB = 1024**2
GIB = 1024**3
KEY = "edgeagent.dev/gpu-memory"
NODE = "edge-07"

Family = Literal["orin", "thor", "gb10", "card"]
FAMILIES: tuple[Family, ...] = ("orin", "thor", "gb10", "card")

POD_UIDS = tuple(f"11111111-2222-3333-4444-{number:012}" for number in range(1, 5))
GONE_UID = "99999999-2222-3333-4444-000000000009"
DESKTOP = 1500
"""Pid of the process that shows the desktop."""
CARDS = tuple(f"GPU-bbbbbbbb-0000-4000-8000-{number:012}" for number in range(1, 4))


@dataclass(frozen=True)
class Holder:
    """One process with GPU memory. ``owner``: a pod's uid, ``host``, or ``vanished`` for no entry in /proc."""

    pid: int
    owner: str
    kib: int
    card: int = 0


@dataclass(frozen=True)
class Tenant:
    """One running pod. Sizes in KiB; None where its manifest says nothing."""

    uid: str
    gpu_kib: int | None
    memory_kib: int | None
    current_kib: int
    file_kib: int
    """Page cache and other reclaimable bytes in ``current_kib``."""


@dataclass(frozen=True)
class Board:
    """A board with everything that runs on it."""

    family: Family
    total_kib: int
    cma_kib: int = 0
    hugetlb_kib: int = 0
    free_kib: int = 0
    available_kib: int = 0
    cards: tuple[tuple[int, int], ...] = ()
    """(total, reserved) of each card in bytes."""
    tenants: tuple[Tenant, ...] = ()
    holders: tuple[Holder, ...] = ()
    loose_kib: int = 0
    """What the driver counts beside its rows: nvmap's total above their sum."""
    order: int = 0
    """Rotates the rows of every source; says nothing new."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Further rows of /proc/meminfo in kB."""


def container_of(uid: str) -> str:
    """The id of the only container of a pod."""
    return uid.replace("-", "")[::-1] * 2


def turned(items: Sequence[Any], places: int) -> list[Any]:
    """The same items from another one on."""
    cut = places % len(items) if items else 0
    return [*items[cut:], *items[:cut]]


# --- the board as files --------------------------------------------------------------


def document(board: Board, config: str = "") -> dict[str, Any]:
    """What ``explain`` says of the board."""
    return explain_files(files(board), arch="x86_64" if board.family == "card" else "aarch64", config=load_text(config))


def load_text(text: str) -> Config:
    """The configuration in a text."""
    return load([("config.yaml", text)] if text else [])


def explain_files(
    entries: Mapping[str, bytes], *, arch: str = "aarch64", config: Config | None = None
) -> dict[str, Any]:
    """The document of a snapshot given by its entries."""
    lists = {
        name.removeprefix("cluster/").removesuffix(".json"): json.loads(content or b"")
        for name, content in entries.items()
        if name.startswith("cluster/")
    }
    settings = config or Config()
    sample = Sample(
        at=0.0,
        host={name.removeprefix("host/"): entry for name, entry in entries.items() if name.startswith("host/")},
        nvml=entries.get("nvml.json"),
        lists=lists,
    )
    recording = Recording(
        name="generated", node=NODE, arch=arch, page_size=4096, taken=1_790_000_000.0, config=settings, series=False,
        samples=(sample,),
    )  # fmt: skip
    (answer,) = [explain.document(plan, at, settings.reserves) for at, plan in replay.plans(recording)]
    return answer


def files(board: Board) -> dict[str, bytes]:
    """Every file of the snapshot."""
    found: dict[str, str] = {
        "host/proc/meminfo": meminfo(board),
        "host/sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
        "cluster/pods.json": json.dumps({"items": turned([manifest(one) for one in board.tenants], board.order)}),
        "cluster/node.json": json.dumps({"metadata": {"name": NODE, "uid": "node-uid"}, "status": {}}),
    }
    if board.family in ("orin", "thor"):
        soc = "tegra234" if board.family == "orin" else "tegra264"
        found["host/proc/device-tree/compatible"] = f"acme,box\0nvidia,{soc}\0"
    if board.family == "orin":
        found["host/sys/kernel/debug/nvmap/iovmm/clients"] = nvmap(board)
    else:
        found["nvml.json"] = json.dumps(nvml(board))
    for holder in board.holders:
        found |= process(holder)
    for tenant in board.tenants:
        folder = f"host/sys/fs/cgroup/kubepods/burstable/pod{tenant.uid}"
        for place in (folder, f"{folder}/{container_of(tenant.uid)}"):
            found[f"{place}/memory.current"] = f"{tenant.current_kib * KIB}\n"
            found[f"{place}/memory.stat"] = (
                f"anon 0\nactive_file {tenant.file_kib * KIB}\ninactive_file 0\nslab_reclaimable 0\n"
            )
    return {name: text.encode() for name, text in found.items()}


def meminfo(board: Board) -> str:
    rows = {
        "MemTotal": board.total_kib,
        "MemFree": board.free_kib,
        "MemAvailable": board.available_kib,
        **board.rows,
        "CmaTotal": board.cma_kib,
        "CmaFree": 0,
        "Hugetlb": board.hugetlb_kib,
    }
    return "".join(f"{name}: {kib:>14} kB\n" for name, kib in turned(list(rows.items()), board.order))


def nvmap(board: Board) -> str:
    head = f"{'CLIENT':<18} {'PROCESS':>18} {'PID':>8} {'SIZE':>11}\n"
    rows = [f"{'user':<18} {'infer':>18} {one.pid:>8} {one.kib:>10}K\n" for one in board.holders]
    total = sum(one.kib for one in board.holders) + board.loose_kib
    return "".join([head, *turned(rows, board.order), f"{'total':<18} {'':>18} {'':>8} {total:>10}K\n"])


def nvml(board: Board) -> dict[str, Any]:
    if board.family == "card":
        devices = [
            _device(board, card, "NVIDIA L4", CARDS[card], {"code": 0, "total": total, "reserved": reserved})
            for card, (total, reserved) in enumerate(board.cards)
        ]
    else:
        name = "NVIDIA Thor" if board.family == "thor" else "NVIDIA GB10"
        devices = [_device(board, 0, name, CARDS[0], {"code": 3})]
    listed = turned(devices, board.order)
    return {"library": "present", "init": 0, "driver_version": "580.82.09", "cuda_version": 13000, "devices": listed}


def _device(board: Board, card: int, name: str, uuid: str, memory: dict[str, int]) -> dict[str, Any]:
    entries = [{"pid": one.pid, "used": one.kib * KIB} for one in board.holders if one.card == card]
    return {
        "handle": 0, "name": name, "uuid": uuid, "minor": card, "memory_v2": memory,
        "compute": {"code": 0, "processes": turned(entries, board.order)}, "graphics": {"code": 0, "processes": []},
    }  # fmt: skip


def process(holder: Holder) -> dict[str, str]:
    """A process in /proc, unless it has ended meanwhile."""
    if holder.owner == "vanished":
        return {}
    path = "/system.slice/gdm.service"
    if holder.owner != "host":
        path = f"/kubepods/burstable/pod{holder.owner}/{container_of(holder.owner)}"
    stat = f"{holder.pid} (infer) S 1 1 1 0 -1 4194560 " + "0 " * 8 + f"20 0 1 0 {holder.pid * 7} " + "0 " * 30 + "\n"
    return {
        f"host/proc/{holder.pid}/stat": stat,
        f"host/proc/{holder.pid}/comm": "infer\n",
        f"host/proc/{holder.pid}/status": "Name:\tinfer\nVmSize:\t    100 kB\n",
        f"host/proc/{holder.pid}/cgroup": f"0::{path}\n",
    }


def manifest(tenant: Tenant) -> dict[str, Any]:
    amounts = {}
    if tenant.gpu_kib is not None:
        amounts[KEY] = f"{tenant.gpu_kib}Ki"
    if tenant.memory_kib is not None:
        amounts["memory"] = f"{tenant.memory_kib}Ki"
    resources = {"limits": amounts, "requests": amounts}
    return {
        "metadata": {"name": f"pod-{tenant.uid[-1]}", "namespace": "apps", "uid": tenant.uid},
        "spec": {"nodeName": NODE, "containers": [{"name": "main", "resources": resources}]},
        "status": {
            "phase": "Running", "startTime": "2026-01-31T11:00:00Z",
            "containerStatuses": [{"name": "main", "containerID": f"containerd://{container_of(tenant.uid)}"}],
        },
    }  # fmt: skip


# --- what must come out, by the definitions ------------------------------------------


def pool_total(board: Board) -> int:
    """Bytes of the only pool."""
    if board.family == "card":
        return sum(total for total, _ in board.cards)
    return (board.total_kib - board.hugetlb_kib) * KIB


def reserve_lines(board: Board) -> dict[str, int]:
    """The default reserves in bytes, in their order."""
    if board.family == "card":
        return {"driver": sum(reserved for _, reserved in board.cards)}
    total = pool_total(board)
    return {
        "os": min(max(768 * MIB, math.ceil(total * 6 / 100)), 4 * GIB),
        "k3s": 512 * MIB,
        "cma": board.cma_kib * KIB,
        "headroom": max(256 * MIB, math.ceil(total * 2 / 100)),
    }


def host_part(board: Board, tenant: Tenant) -> int:
    """Host bytes that a pod books: its memory, without the GPU bytes that it was meant to cover."""
    if board.family == "card" or tenant.memory_kib is None:
        return 0
    memory, gpu = tenant.memory_kib * KIB, (tenant.gpu_kib or 0) * KIB
    return memory - gpu if memory >= gpu + 256 * MIB else memory


def advertised(board: Board) -> int:
    """Whole MiB that are left, and never less than admitted pods have."""
    booked = sum((one.gpu_kib or 0) * KIB for one in board.tenants)
    left = pool_total(board) - sum(reserve_lines(board).values()) - sum(host_part(board, one) for one in board.tenants)
    return max(0, left // MIB * MIB, -(-booked // MIB) * MIB)


def gpu_bytes(board: Board, owner: str) -> int:
    """Σ of the rows of one owner."""
    return sum(one.kib * KIB for one in board.holders if one.owner == owner)


# --- generated boards ----------------------------------------------------------------


@st.composite
def tenants(draw: st.DrawFn) -> tuple[Tenant, ...]:
    """Up to four pods; what is in their page cache is part of what their cgroup is charged."""
    found = []
    for uid in draw(st.lists(st.sampled_from(POD_UIDS), unique=True, max_size=4)):
        current = draw(st.integers(0, 4 * GIB // KIB))
        found.append(
            Tenant(
                uid=uid,
                # Below 1 MiB a limit is a forgotten suffix, which is told elsewhere.
                gpu_kib=draw(st.none() | st.just(0) | st.integers(KIB, 2 * GIB // KIB)),
                memory_kib=draw(st.none() | st.integers(KIB, 4 * GIB // KIB)),
                current_kib=current,
                file_kib=draw(st.integers(0, current)),
            )
        )
    return tuple(found)


@st.composite
def boards(draw: st.DrawFn, families: Sequence[Family] = FAMILIES) -> Board:
    """A plausible board: its parts fit into it."""
    family = draw(st.sampled_from(families))
    total = draw(st.integers(2 * GIB // KIB, 128 * GIB // KIB))
    cards = tuple(
        (size, draw(st.integers(0, size // 20)))
        for size in draw(st.lists(st.integers(2 * GIB, 96 * GIB), min_size=1, max_size=3))
    )
    given = draw(tenants())
    owners = [*(one.uid for one in given), GONE_UID, "host", "vanished"]
    pids = draw(st.lists(st.integers(DESKTOP + 1, 4_000_000), unique=True, max_size=5))
    room = min(total, *(size // KIB for size, _ in cards)) // 8
    holders = tuple(
        Holder(
            pid=pid,
            owner=draw(st.sampled_from(owners)),
            kib=draw(st.integers(1, room)),
            card=draw(st.integers(0, len(cards) - 1)) if family == "card" else 0,
        )
        for pid in pids
    )
    if family in ("orin", "thor"):
        # Without a row above 0 a Tegra's lists prove nothing: then what processes hold is unknown.
        holders += (Holder(pid=DESKTOP, owner="host", kib=MIB // KIB),)
    available = draw(st.integers(0, total))
    return Board(
        family=family,
        total_kib=total,
        cma_kib=draw(st.sampled_from([0, 262144, 524288])),
        hugetlb_kib=draw(st.sampled_from([0, 0, 524288])),
        free_kib=draw(st.integers(0, total)),
        available_kib=available,
        cards=cards if family == "card" else (),
        tenants=given,
        holders=holders,
        loose_kib=draw(st.integers(0, 1000)) if family == "orin" else 0,
        order=draw(st.integers(0, 5)),
    )

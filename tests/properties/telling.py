"""The truth of a board as the facts that an agent is given of it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from edgeagent.config import Config
from edgeagent.facts import (
    CgroupOwner,
    ClusterFacts,
    ContainerFacts,
    Facts,
    HostFacts,
    KubeletSettings,
    MemInfo,
    NodeFacts,
    NvmapRow,
    NvmapTable,
    Nvml,
    NvmlMemory,
    NvmlProcess,
    NvmlProcesses,
    PodCgroup,
    PodFacts,
    Process,
    Reading,
)
from tests.properties.life import CACHE, CMA_TOTAL, GIB, GONE, KEY, MIB, PREFIX, RULES, Memory, Pod, Sample, View, World
from tests.unit.factories import ABSENT, RUNTIME, card, card_files, config, nvml, orin_files

CARD = 24 * GIB
KEPT = 512 * MIB
"""What the driver keeps of a card."""
ORIN = orin_files(machine_id="orin", boot_id="boot")
CARDS = card_files(pci_displays=2, machine_id="cards", boot_id="boot")
KUBELET = KubeletSettings()


@lru_cache(maxsize=len(RULES))
def configured(rules: int) -> Config:
    """The configuration of this number."""
    return config(RULES[rules].yaml())


def amounts(gpu: int | None, memory: int | None, foreign: int | None = None) -> dict[str, int]:
    given = {KEY: gpu, "memory": memory, "nvidia.com/gpumem": foreign}
    return {key: amount for key, amount in given.items() if amount is not None}


@lru_cache(maxsize=4096)
def pod_facts(pod: Pod) -> PodFacts:
    """The pod as the API tells of it."""
    main = ContainerFacts(
        name="main",
        kind="regular",
        requests=amounts(pod.gpu, pod.memory if pod.asked is None else pod.asked, pod.foreign),
        limits=amounts(pod.gpu, pod.memory, pod.foreign),
        container_id=pod.container,
        former_id=pod.former,
        started_at=pod.started_at,
    )
    beside = amounts(None, pod.side or None)
    side = ContainerFacts(
        name="side",
        kind="regular",
        requests=beside,
        limits=beside,
        container_id=f"{pod.uid}-side",
        started_at=pod.side_started,
    )
    return PodFacts(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        phase=pod.phase,
        start_time=pod.start_time,
        created_at=pod.start_time,
        terminating=pod.terminating,
        grace_seconds=pod.grace,
        priority=pod.priority,
        owner=pod.owner,
        mirror=pod.mirror,
        annotations={} if pod.annotation is None else {PREFIX + "gpu-memory-limit": pod.annotation},
        containers=(main,) if pod.side is None else (main, side),
    )


def meminfo(memory: Memory) -> Reading[MemInfo]:
    if not memory.readable:
        return Reading(memory.at, None, "Input/output error")
    found = MemInfo(
        total=memory.total,
        free=memory.total - CACHE - memory.used,
        available=memory.available,
        active_file=CACHE // 2,
        inactive_file=CACHE // 4,
        s_reclaimable=CACHE // 4,
        s_unreclaim=64 * MIB,
        anon_pages=memory.held - 128 * MIB,
        shmem=48 * MIB,
        kernel_stack=8 * MIB,
        page_tables=8 * MIB,
        cma_total=CMA_TOTAL,
        cma_free=memory.cma_free,
    )
    return Reading(memory.at, found)


def host(sample: Sample, memory: Memory, *, cards: bool) -> HostFacts:
    """One sample of the board."""
    given: dict[str, Any] = _cards(sample) if cards else _orin(sample)
    processes = {
        one.pid: Process(
            pid=one.pid,
            start_ticks=one.start,
            name="nvidia-cuda-mps-server"[:15] if one.mps else "infer",
            owner=None if one.stray else CgroupOwner(one.uid, one.container),
            cgroup_readable=not one.stray,
        )
        for one in (sample.rows if sample.table in ("good", "huge", "pid") else ())
    }
    if sample.system and sample.table in ("good", "huge", "pid"):
        processes[77] = Process(pid=77, start_ticks=1, name="Xorg")
    return HostFacts(
        files=CARDS if cards else ORIN,
        meminfo=meminfo(memory),
        processes=processes,
        pods={uid: PodCgroup(host_bytes=amount, exact=exact) for uid, (amount, exact) in sample.hosts.items()},
        kubelet=KUBELET,
        runtime=RUNTIME,
        **given,
    )


def _orin(sample: Sample) -> dict[str, Any]:
    holders = len(sample.rows) + bool(sample.system)
    if sample.table in ("failed", "denied"):
        table: Reading[NvmapTable] = Reading(sample.at, None, "permission denied")
    else:
        rows = [NvmapRow("user", "infer", one.pid, one.used or 0) for one in sample.rows]
        if sample.system:
            rows.append(NvmapRow("user", "Xorg", 77, sample.system))
        if sample.table == "huge" and rows:
            rows[0] = NvmapRow("user", "infer", rows[0].pid, GONE)
        if sample.table == "pid":
            rows.append(NvmapRow("user", "infer", -1, 4096))
        table = Reading(sample.at, NvmapTable(tuple(rows), sum(row.bytes for row in rows)))
    known = Reading(sample.at, None if sample.table == "denied" else holders)
    return {"nvml": Reading(sample.at, ABSENT), "nvmap": table, "gpu_node_holders": known}


def _cards(sample: Sample) -> dict[str, Any]:
    answer: Reading[Nvml] = Reading(sample.at, None, "timed out")
    if sample.table not in ("failed", "denied"):
        listed = [
            (one.pid, GONE if sample.table == "huge" and not at else one.used) for at, one in enumerate(sample.rows)
        ]
        if sample.table == "pid":
            listed.append((-1, 4096))
        answer = Reading(sample.at, nvml(*(_card(number, listed[number::2]) for number in range(2))))
    return {
        "nvml": answer,
        "nvmap": Reading(sample.at, None, "there is none"),
        "gpu_node_holders": Reading(sample.at, len(sample.rows)),
    }


def _card(number: int, listed: list[tuple[int, int | None]]) -> Any:
    used = sum(amount or 0 for _, amount in listed if (amount or 0) < CARD)
    return card(
        f"GPU-{number}",
        minor=number,
        memory_v2=NvmlMemory(code=0, total=CARD, reserved=KEPT, used=used, free=max(0, CARD - KEPT - used)),
        compute=NvmlProcesses(0, tuple(NvmlProcess(pid, amount) for pid, amount in listed)),
    )


def node_facts(node: dict[str, Any]) -> NodeFacts:
    return NodeFacts(name="edge-1", **node)


def facts(world: World, hosted: HostFacts, view: View) -> Facts:
    """All that the agent is given now."""
    pods = None if view.pods is None else tuple(pod_facts(pod) for pod in view.pods)
    own = next((pod.uid for pod in world.pods.values() if pod.agent), None)
    return Facts(
        wall=world.wall,
        config=configured(world.rules),
        host=hosted,
        cluster=ClusterFacts(node=node_facts(view.node) if view.node else None, pods=pods, fresh_at=view.fresh_at),
        own_pod=own,
    )

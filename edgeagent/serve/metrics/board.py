"""The board: what it is, its memory, its devices."""

from __future__ import annotations

from edgeagent.memory import pools
from edgeagent.serve.metrics.families import Families, Sample, gauge


def families(sample: Sample) -> Families:
    """What the board is, and everything that is known of it as a whole."""
    board, plan = sample.plan.board, sample.plan
    names = ("kind", "product", "soc", "module", "l4t", "jetpack", "driver_version", "cuda_version")
    about = "What the board is; an empty label is unknown or does not apply."
    yield gauge("board_info", about, [([getattr(board, name) or "" for name in names], 1)], *names)
    if "memory" not in sample.stale:
        yield gauge("host_available_bytes", "MemAvailable.", [((), plan.available)])
        yield gauge("host_usable_bytes", "What GPU and host can still allocate.", [((), plan.danger.usable)])
        yield gauge("host_pressure", "1 while the board is under pressure.", [((), plan.danger.active)])
        yield gauge("host_pressure_floor_bytes", "Usable memory below which that is so.", [((), plan.danger.floor)])
    usage = plan.usage
    if "gpu" not in sample.stale:
        yield gauge("system_gpu_bytes", "GPU memory of processes that belong to no pod.", [((), usage.system_gpu)])
        yield gauge("unattributed_gpu_bytes", "GPU memory whose user is not known.", [((), usage.unattributed_gpu)])
    if not sample.stale & {"gpu", "host"}:
        yield gauge("leaving_bytes", "Memory of pods and processes on their way out.", [((), usage.leaving)])
    if "devices" not in sample.stale:
        yield from _devices(sample)


def _devices(sample: Sample) -> Families:
    named = [(device.uuid or f"#{index}", device) for index, device in enumerate(sample.plan.board.devices)]
    infos = [((name, device.name, device.memory), 1) for name, device in named]
    yield gauge("device_info", "A GPU, or a MIG instance.", infos, "device", "name", "memory")
    states = [((name, device.health), 1) for name, device in named]
    yield gauge("device_health", "1 for the health that a device has.", states, "device", "health")
    totals = [((name,), device.total_bytes) for name, device in named]
    yield gauge("device_total_bytes", "Memory of a discrete device.", totals, "device")
    usable = [((name,), pools.usable(device, sample.shown.settings)) for name, device in named]
    yield gauge("device_usable_bytes", "What of it pods may use.", usable, "device")

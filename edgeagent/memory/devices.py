"""What each NVML device is: unified or discrete, how much memory it has, and whether it is well."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from edgeagent.facts import MemoryKind, MigInstance, NvmlDevice, NvmlMemory
from edgeagent.memory.types import Device, Health

if TYPE_CHECKING:
    from edgeagent.facts import MemInfo, Nvml

NOT_SUPPORTED = 3
GPU_IS_LOST = 15
RESET_REQUIRED = 16
UNKNOWN = 999
"""What many drivers answer for a card that has fallen off the bus."""
_FAILING = (GPU_IS_LOST, RESET_REQUIRED, UNKNOWN)

# "(nvgpu)" and "NVIDIA Thor" are the names that NVIDIA's own tools tell integrated Tegra GPUs by.
_TEGRA_NAME = re.compile(r"\(nvgpu\)|NVIDIA Thor")
# Integrated parts of aarch64 machines that are no Tegra by any NVIDIA check.
_INTEGRATED_NAME = re.compile(r"\bGB10\b")
_ARM64 = ("aarch64", "arm64")
# A Tegra iGPU up to Orin has a bare UUID; everything else carries GPU- or MIG- in front.
_BARE_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def judge(
    nvml: Nvml | None, *, tegra: bool, arch: str, meminfo: MemInfo | None, override: Literal["auto", "yes", "no"]
) -> tuple[Device, ...]:
    """Every device of an NVML sample, MIG instances in place of their parent; () when NVML lists none."""
    if nvml is None:
        return ()
    alone = len(nvml.devices) == 1
    found: list[Device] = []
    for device in nvml.devices:
        integrated = _tegra_part(device, tegra=tegra, alone=alone, meminfo=meminfo)
        kind = _classify(device, tegra=integrated, arch=arch, override=override)
        if device.mig_mode == 1 and kind == "discrete":
            found += [_instance(device, instance) for instance in device.mig] or [_undivided(device)]
        else:
            found.append(_device(device, kind, tegra=integrated))
    return tuple(found)


def _tegra_part(device: NvmlDevice, *, tegra: bool, alone: bool, meminfo: MemInfo | None) -> bool:
    """This device is the SoC's own GPU. Its name proves it; on a Tegra so do weaker signs, when the name is lost."""
    if device.name and _TEGRA_NAME.search(device.name):
        return True
    if not tegra:
        return False
    if device.uuid and _BARE_UUID.fullmatch(device.uuid):
        return True
    if device.handle != 0:
        return alone
    memory = device.memory_v2 or device.memory
    total = memory.total if memory and memory.code == 0 else None
    if not total:
        return memory is None or memory.code in (0, NOT_SUPPORTED)
    # A driver that answers with the whole host memory speaks of no card of its own.
    return meminfo is not None and abs(total - meminfo.total) <= meminfo.total // 100


def _classify(device: NvmlDevice, *, tegra: bool, arch: str, override: Literal["auto", "yes", "no"]) -> MemoryKind:
    """How a device's memory relates to the host's, whatever NVML says of its size."""
    if override != "auto":
        return "unified" if override == "yes" else "discrete"
    integrated = arch in _ARM64 and bool(device.name and _INTEGRATED_NAME.search(device.name))
    return "unified" if tegra or integrated else "discrete"


def _device(device: NvmlDevice, kind: MemoryKind, *, tegra: bool) -> Device:
    name = device.name or "NVIDIA GPU"
    if device.handle != 0:
        return Device(
            uuid=device.uuid,
            name=name,
            memory=kind,
            health=_health(device.handle),
            minor=device.minor,
            tegra=tegra,
            failing=device.handle in _FAILING,
            why=f"handle by index answered {device.handle}",
        )
    if kind == "unified":
        return Device(uuid=device.uuid, name=name, memory=kind, health="ok", minor=device.minor, tegra=tegra)
    total, reserved, why = _memory(device.memory, device.memory_v2)
    return Device(
        uuid=device.uuid,
        name=name,
        memory=kind,
        health=_memory_health(device.memory, device.memory_v2) if why else "ok",
        total_bytes=total,
        reserved_bytes=reserved,
        minor=device.minor,
        failing=bool(why) and any(call.code in _FAILING for call in (device.memory, device.memory_v2) if call),
        why=why,
    )


def _instance(parent: NvmlDevice, instance: MigInstance) -> Device:
    total, reserved, why = _memory(instance.memory, instance.memory_v2)
    return Device(
        uuid=instance.uuid,
        name=f"{parent.name or 'NVIDIA GPU'} MIG",
        memory="discrete",
        health="degraded" if why else "ok",
        total_bytes=total,
        reserved_bytes=reserved,
        minor=parent.minor,
        why=why,
    )


def _undivided(parent: NvmlDevice) -> Device:
    """A card in MIG mode without an instance: nobody can use its memory."""
    name = parent.name or "NVIDIA GPU"
    why = "MIG mode is on and there is no instance"
    return Device(uuid=parent.uuid, name=name, memory="discrete", health="degraded", minor=parent.minor, why=why)


def _memory(v1: NvmlMemory | None, v2: NvmlMemory | None) -> tuple[int | None, int | None, str]:
    """(total, reserved, what is wrong). Reserved is None with the first call only: that call does not tell it."""
    for memory in (v2, v1):
        if memory is not None and memory.code == 0 and memory.total:
            reserved = memory.reserved if memory is v2 else None
            if reserved is not None and not 0 <= reserved < memory.total:
                return None, None, f"reserved {reserved} of a total of {memory.total} bytes is not plausible"
            return memory.total, reserved, ""
    codes = [str(memory.code) for memory in (v2, v1) if memory is not None]
    if "0" in codes:
        return None, None, "the memory query answered a total of 0 bytes"
    return None, None, f"the memory query answered {' and '.join(codes) or 'nothing'}"


def _memory_health(v1: NvmlMemory | None, v2: NvmlMemory | None) -> Health:
    codes = {memory.code for memory in (v1, v2) if memory is not None}
    for code in (GPU_IS_LOST, RESET_REQUIRED):
        if code in codes:
            return _health(code)
    return "degraded"


def _health(code: int) -> Health:
    if code == GPU_IS_LOST:
        return "lost"
    return "reset-required" if code == RESET_REQUIRED else "degraded"

"""What each NVML device is: unified or discrete, how much memory it has, and whether it is well."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from edgeagent.facts import MemoryKind, MigInstance, NvmlDevice, NvmlMemory
from edgeagent.facts.codes import GPU_IS_LOST, NOT_SUPPORTED, RESET_REQUIRED, SUCCESS, UNKNOWN
from edgeagent.memory.types import Device, Health

if TYPE_CHECKING:
    from edgeagent.facts import MemInfo, Nvml

NAMELESS = "NVIDIA GPU"
"""A device whose name NVML does not tell."""

MOST_BYTES = 1 << 52
"""More memory than any GPU has (4 PiB): such a figure is a fault of the driver, or a minus one."""

_FAILING = (GPU_IS_LOST, RESET_REQUIRED, UNKNOWN)

# "(nvgpu)" and "NVIDIA Thor" are the names that NVIDIA's own tools tell integrated Tegra GPUs by.
_TEGRA_NAME = re.compile(r"\(nvgpu\)|NVIDIA Thor")
# Integrated parts of aarch64 machines that are no Tegra by any NVIDIA check. No card has such a name.
_INTEGRATED_NAME = re.compile(r"\bGB10\b")
# "unknown" is a recording that does not tell, which contradicts nothing.
_ARM64 = ("aarch64", "arm64", "unknown")
# A Tegra iGPU up to Orin has a bare UUID; everything else carries GPU- or MIG- in front.
_BARE_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def judge(
    nvml: Nvml | None,
    *,
    tegra: bool,
    arch: str,
    meminfo: MemInfo | None,
    override: Literal["auto", "yes", "no"],
    asleep: Collection[str | None] = (),
) -> tuple[Device, ...]:
    """Every device of an NVML sample, MIG instances in place of their parent; () when NVML lists none.

    ``asleep``: the PCI addresses of powered-down devices, None among them if that is all there are.
    """
    if nvml is None:
        return ()
    alone = len(nvml.devices) == 1
    # A SoC has one GPU of its own: where one has proven to be it, weaker signs of another are faults of a card.
    proven = any(_proven_tegra_part(device, tegra=tegra) for device in nvml.devices)
    found: list[Device] = []
    for device in nvml.devices:
        integrated = _proven_tegra_part(device, tegra=tegra) or (
            tegra and not proven and _like_a_tegra_part(device, alone=alone, meminfo=meminfo)
        )
        kind = _classify(device, tegra=integrated, arch=arch, override=override)
        if device.mig_mode == 1 and kind == "discrete":
            found += [_instance(device, instance) for instance in device.mig] or [_undivided(device)]
        else:
            found.append(_device(device, kind, tegra=integrated, asleep=device.pci_address in asleep))
    twice = _told_twice(nvml.devices)
    return tuple(replace(one, minor=None) if one.minor in twice else one for one in found)


def _told_twice(devices: Iterable[NvmlDevice]) -> frozenset[int]:
    """Minor numbers that several cards tell: which of them has it is not known."""
    told = [device.minor for device in devices if device.minor is not None]
    return frozenset(minor for minor in told if told.count(minor) > 1)


def _proven_tegra_part(device: NvmlDevice, *, tegra: bool) -> bool:
    """The SoC's own GPU by its name or, on a Tegra, by its kind of uuid."""
    if device.name and _TEGRA_NAME.search(device.name):
        return True
    return tegra and bool(device.uuid and _BARE_UUID.fullmatch(device.uuid))


def _like_a_tegra_part(device: NvmlDevice, *, alone: bool, meminfo: MemInfo | None) -> bool:
    """Weaker signs on a Tegra, for when the name is lost."""
    if device.handle != 0:
        return alone
    memory = device.memory_v2 or device.memory
    total = memory.total if memory and memory.code == SUCCESS else None
    if not total:
        return memory is None or memory.code in (SUCCESS, NOT_SUPPORTED)
    # A driver that answers with the whole host memory speaks of no card of its own.
    return meminfo is not None and abs(total - meminfo.total) <= meminfo.total // 100


def _classify(device: NvmlDevice, *, tegra: bool, arch: str, override: Literal["auto", "yes", "no"]) -> MemoryKind:
    """How a device's memory relates to the host's, whatever NVML says of its size."""
    if override != "auto":
        return "unified" if override == "yes" else "discrete"
    integrated = arch in _ARM64 and bool(device.name and _INTEGRATED_NAME.search(device.name))
    return "unified" if tegra or integrated else "discrete"


def _device(device: NvmlDevice, kind: MemoryKind, *, tegra: bool, asleep: bool) -> Device:
    total, reserved, why = (None, None, "") if kind == "unified" else _memory(device.memory, device.memory_v2)
    health, failing, why = _state(_codes(device), device.memory, device.memory_v2, why)
    if device.handle != 0:
        health, failing = _health(device.handle), device.handle in _FAILING
        why = f"handle by index answered {device.handle}"
    if asleep:
        health, failing, why = "asleep", False, ""
    return Device(
        uuid=device.uuid,
        name=device.name or NAMELESS,
        memory=kind,
        health=health,
        total_bytes=total,
        reserved_bytes=reserved,
        minor=device.minor,
        tegra=tegra,
        failing=failing,
        why=why,
    )


def _instance(parent: NvmlDevice, instance: MigInstance) -> Device:
    total, reserved, why = _memory(instance.memory, instance.memory_v2)
    health, failing, why = _state(_codes(instance), instance.memory, instance.memory_v2, why)
    return Device(
        uuid=instance.uuid,
        name=f"{parent.name or NAMELESS} MIG",
        memory="discrete",
        health=health,
        total_bytes=total,
        reserved_bytes=reserved,
        minor=parent.minor,
        shares=None if instance.gi is None else (parent.uuid, instance.gi),
        failing=failing,
        why=why,
    )


def apart(devices: Iterable[Device]) -> tuple[Device, ...]:
    """The devices whose memories add up: of those that share one, the first that knows its size."""
    found: dict[object, Device] = {}
    for place, device in enumerate(devices):
        memory = place if device.shares is None else device.shares
        if memory not in found or found[memory].total_bytes is None:
            found[memory] = device
    return tuple(found.values())


def _undivided(parent: NvmlDevice) -> Device:
    """A card in MIG mode without an instance: nobody can use its memory."""
    name = parent.name or NAMELESS
    why = "MIG mode is on and there is no instance"
    return Device(uuid=parent.uuid, name=name, memory="discrete", health="degraded", minor=parent.minor, why=why)


def _memory(v1: NvmlMemory | None, v2: NvmlMemory | None) -> tuple[int | None, int | None, str]:
    """(total, reserved, what is wrong). Reserved is None with the first call only: that call does not tell it."""
    for memory in (v2, v1):
        if memory is not None and memory.code == SUCCESS and memory.total:
            figures = {"total": memory.total, "reserved": memory.reserved, "used": memory.used}
            for name, figure in figures.items():
                if figure is not None and figure > MOST_BYTES:
                    return None, None, f"{name} memory of {figure} bytes is not plausible"
            reserved = memory.reserved if memory is v2 else None
            if reserved is not None and not 0 <= reserved < memory.total:
                return None, None, f"reserved {reserved} of a total of {memory.total} bytes is not plausible"
            return memory.total, reserved, ""
    codes = [str(memory.code) for memory in (v2, v1) if memory is not None]
    if "0" in codes:
        return None, None, "the memory query answered a total of 0 bytes"
    return None, None, f"the memory query answered {' and '.join(codes) or 'nothing'}"


def doubtful(device: NvmlDevice) -> bool:
    """Whether used and free memory do not add up to the total, by more than 1 %.

    The first query counts what the driver keeps as used; in the second some drivers do, some do not.
    """
    for memory in (device.memory_v2, device.memory):
        if memory is None or not memory.total or memory.used is None or memory.free is None:
            continue
        rest = memory.total - memory.used - memory.free
        return not -memory.total <= 100 * rest <= memory.total + 100 * (memory.reserved or 0)
    return False


def _codes(device: NvmlDevice | MigInstance) -> frozenset[int]:
    """What all calls about the device answered."""
    calls = [device.memory, device.memory_v2, device.compute, device.graphics]
    fields: Collection[int] = ()
    if isinstance(device, NvmlDevice):
        calls.append(device.mps)
        fields = device.errors.values()
    return frozenset((*fields, *(call.code for call in calls if call is not None)))


def _state(codes: Collection[int], v1: NvmlMemory | None, v2: NvmlMemory | None, why: str) -> tuple[Health, bool, str]:
    """(health, failing, what is wrong). Any call may tell that the device is lost; ``why``: its size is not known."""
    for code in (GPU_IS_LOST, RESET_REQUIRED):
        if code in codes:
            return _health(code), True, why or f"NVML answers {code}"
    if why:
        return "degraded", any(memory.code == UNKNOWN for memory in (v1, v2) if memory is not None), why
    return "ok", False, ""


def _health(code: int) -> Health:
    if code == GPU_IS_LOST:
        return "lost"
    return "reset-required" if code == RESET_REQUIRED else "degraded"

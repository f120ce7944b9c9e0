"""``nvml.json`` from an NVML sample: what :func:`edgeagent.host.nvml_replay.parse` reads back as the same sample."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from edgeagent.facts.codes import FUNCTION_NOT_FOUND, UNKNOWN

if TYPE_CHECKING:
    from edgeagent.facts import MigInstance, Nvml, NvmlDevice, NvmlMemory, NvmlProcesses

Json = dict[str, Any]


def document(nvml: Nvml | None) -> Json:
    """The sample as JSON values; a function that the library does not have is a key that is left out.

    ``nvml`` None: it gave no answer at all, which is written as a failure to initialise.
    """
    if nvml is None:
        return {"library": "present", "init": UNKNOWN}
    if nvml.library == "absent":
        return {"library": "absent"}
    if nvml.init:
        return {"library": "present", "init": nvml.init}
    count: Json = {"code": UNKNOWN} if nvml.count is None else {"code": 0, "value": nvml.count}
    return {
        "library": "present",
        "init": 0,
        **_present(driver_version=nvml.driver_version, cuda_version=nvml.cuda_version),
        "count": count,
        "devices": [_device(device) for device in nvml.devices],
    }


def _device(device: NvmlDevice) -> Json:
    if device.handle:
        return {"handle": device.handle}
    failed = {
        {"mig_mode": "mig"}.get(name, name): {"code": code}
        for name, code in device.errors.items()
        if code != FUNCTION_NOT_FOUND
    }
    mig = None if device.mig_mode is None else {"mode": device.mig_mode, "instances": list(map(_instance, device.mig))}
    return {
        "handle": 0,
        **failed,
        **_present(
            name=device.name,
            uuid=device.uuid,
            pci_bus_id=device.pci_address,
            minor=device.minor,
            cuda_capability=list(device.cuda_capability) if device.cuda_capability else None,
            mps=_processes(device.mps),
            mig=mig,
        ),
        **_measured(device),
    }


def _instance(instance: MigInstance) -> Json:
    return {**_present(uuid=instance.uuid, gi=instance.gi), **_measured(instance)}


def _measured(device: NvmlDevice | MigInstance) -> Json:
    """What a whole device and a part of one are asked alike."""
    return _present(
        memory=_memory(device.memory),
        memory_v2=_memory(device.memory_v2),
        compute=_processes(device.compute),
        graphics=_processes(device.graphics),
    )


def _memory(memory: NvmlMemory | None) -> Json | None:
    return None if memory is None else _present(**asdict(memory))


def _processes(processes: NvmlProcesses | None) -> Json | None:
    return None if processes is None else asdict(processes)


def _present(**members: Any) -> Json:
    return {key: value for key, value in members.items() if value is not None}

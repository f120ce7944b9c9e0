"""NVML: what the driver says of its GPUs, through the ``pynvml`` binding.

Every function may fail by itself; a failed field is recorded with NVML's return code. The
process must not fork once NVML is initialised; its state does not survive that.

A card that sleeps is not asked, because every call wakes it; what it last said of itself is
said for it, without processes: a process that has memory on a card keeps it powered up. Only
one that has told nothing yet is woken, once: its size is known nowhere else.
"""

from __future__ import annotations

import _ctypes
import contextlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from edgeagent.facts import PID_MAX, MigInstance, Nvml, NvmlDevice, NvmlMemory, NvmlProcess, NvmlProcesses
from edgeagent.facts.codes import (
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    INSUFFICIENT_SIZE,
    INVALID_ARGUMENT,
    LIB_RM_VERSION_MISMATCH,
    LIBRARY_NOT_FOUND,
    NOT_FOUND,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    SUCCESS,
)
from edgeagent.facts.neighbours import DeviceActivity
from edgeagent.host.power import Power, address
from edgeagent.host.utilization import Utilization

RETRY = 30.0
"""Seconds between two tries to initialise; a driver that needs a reboot is not asked faster."""

NO_INSTANCE = 0xFFFFFFFF
"""A process outside of MIG."""

_LIST_TRIES = 3
_NOBODY = NvmlProcesses(0)
ALL = Power()
"""Every card may be asked."""


class NvmlSource(Protocol):
    """Something that gives NVML samples."""

    def sample(self, power: Power = ALL) -> Nvml:
        """One complete sample; may take as long as the driver likes. ``power`` says which cards to leave alone.

        Raises:
            ReadingError: there is none to be had.
        """
        ...

    def activity(self) -> tuple[DeviceActivity, ...]:
        """What the devices of the last sample say beside their memory; one that was left alone is left alone again."""
        ...

    def close(self) -> None:
        """Lets go of the library."""
        ...


class PynvmlSource:
    """The driver of this machine. All calls come from one thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lib: Any = None
        self._failure: Nvml | None = None
        self._restart: float | None = None
        self._last = Nvml(library="present")
        self._handles: dict[str | None, Any] = {}
        """Of the devices that were asked in the last sample, by uuid."""
        self._utilization = Utilization()
        self._settled: set[str] = set()
        """Addresses of cards that have told their size, or that NVML has told nothing of: asked again only if awake."""

    def sample(self, power: Power = ALL) -> Nvml:
        """See ``NvmlSource.sample``; initialises, and does so again at a slow pace after a failure or a lost GPU."""
        known = {device.pci_address: device for device in self._last.devices}
        lost = {device.pci_address for device in self._last.devices if _lost(device)}
        spared = [one for one in power.asleep if one in self._settled]
        spared += [one for one in power.idle if one in self._settled and one not in lost]
        if None in known:  # a GPU without an address is found only among all of them: a Tegra's own, or a lost one
            spared = []
        asked = tuple(one for one in (*power.busy, *power.idle, *power.asleep) if one not in spared)
        if spared and not asked:
            self.close()  # initialised, it would keep them from sleeping
            return self._complete(replace(self._last, devices=()), spared)
        nvml = self._sample(asked if spared else None, cards=len(asked) + len(spared))
        if nvml.init or nvml.count is None:
            return nvml
        silent = {device.pci_address for device in nvml.devices if not _told(device)}
        if None not in silent:  # else any of them may be that one
            self._settled.update(one for one in asked if one not in silent)
        return self._complete(nvml, spared)

    def _complete(self, nvml: Nvml, spared: Sequence[str]) -> Nvml:
        """``nvml`` with what the cards that were not asked last said of themselves."""
        known = {device.pci_address: device for device in self._last.devices}
        answered = {device.pci_address for device in nvml.devices}
        kept = (known[one] for one in spared if one in known and one not in answered)
        self._last = replace(nvml, devices=(*nvml.devices, *map(_unused, kept)))
        return self._last

    def _sample(self, only: Sequence[str] | None, cards: int) -> Nvml:
        """All devices, or those at the addresses ``only``, if there are no more than so many cards."""
        self._handles.clear()
        if self._restart is not None and self._clock() >= self._restart:
            self.close()
        if self._lib is None and self._failure is None:
            self._failure = self._start()
        if self._failure is not None:
            return self._later(self._failure)
        code, count = self._ask("nvmlDeviceGetCount")
        if code:
            self._failure = self._nvml(count=None)
            return self._later(self._failure)
        devices = self._by_index(count) if only is None or count > cards else self._by_address(only)
        nvml = self._nvml(count=count, devices=tuple(devices))
        return self._later(nvml) if any(map(_lost, nvml.devices)) else nvml

    def activity(self) -> tuple[DeviceActivity, ...]:
        """See ``NvmlSource.activity``."""
        return self._utilization.activity(self._ask, self._handles)

    def close(self) -> None:
        """See ``NvmlSource.close``; the next sample initialises anew."""
        self._handles.clear()
        if self._lib is not None:
            with contextlib.suppress(self._lib.NVMLError):
                self._lib.nvmlShutdown()
        self._lib = self._failure = self._restart = None

    def _later(self, nvml: Nvml) -> Nvml:
        if self._restart is None:
            self._restart = self._clock() + RETRY
        return nvml

    def _start(self) -> Nvml | None:
        """Initialises; on failure the sample that says so."""
        lib = importlib.import_module("pynvml")  # here, because it loads slowly and many nodes have no GPU
        try:
            lib.nvmlInitWithFlags(0)
        except lib.NVMLError as error:
            code = int(error.value)
            if code == LIB_RM_VERSION_MISMATCH:
                _unload(lib)
            return Nvml(library="absent" if code == LIBRARY_NOT_FOUND else "present", init=code)
        self._lib = lib
        return None

    def _nvml(self, *, count: int | None, devices: tuple[NvmlDevice, ...] = ()) -> Nvml:
        driver = self._ask("nvmlSystemGetDriverVersion")[1]
        cuda = self._ask("nvmlSystemGetCudaDriverVersion")[1]  # its newer form loads libcuda into this process
        return Nvml(library="present", driver_version=_text(driver), cuda_version=cuda, count=count, devices=devices)

    def _ask(self, name: str, *arguments: Any) -> tuple[int, Any]:
        """NVML's return code, and the value on success."""
        function = getattr(self._lib, name, None)
        if function is None:
            return FUNCTION_NOT_FOUND, None
        # The wrapped function gives a text as bytes; the wrapper fails on one that is not UTF-8.
        function = getattr(function, "__wrapped__", function)
        try:
            return 0, function(*arguments)
        except self._lib.NVMLError as error:
            return int(error.value), None

    def _by_index(self, count: int) -> Iterator[NvmlDevice]:
        for index in range(count):
            code, handle = self._ask("nvmlDeviceGetHandleByIndex", index)
            yield NvmlDevice(handle=code) if code else self._device(handle)

    def _by_address(self, addresses: Sequence[str]) -> Iterator[NvmlDevice]:
        for one in addresses:
            code, handle = self._ask("nvmlDeviceGetHandleByPciBusId", one.encode())
            if code != NOT_FOUND:  # else it is not this driver's
                yield NvmlDevice(handle=code, pci_address=one) if code else self._device(handle)

    def _device(self, handle: Any) -> NvmlDevice:
        errors: dict[str, int] = {}

        def field(key: str, function: str) -> Any:
            code, value = self._ask(function, handle)
            if code:
                errors[key] = code
            return value

        modes = field("mig_mode", "nvmlDeviceGetMigMode")
        uuid = _text(field("uuid", "nvmlDeviceGetUUID"))
        self._handles[uuid] = handle
        return NvmlDevice(
            handle=0,
            name=_text(field("name", "nvmlDeviceGetName")),
            uuid=uuid,
            pci_address=self._address(handle),
            minor=field("minor", "nvmlDeviceGetMinorNumber"),
            cuda_capability=field("cuda_capability", "nvmlDeviceGetCudaComputeCapability"),
            memory=self._memory(handle, errors, "memory"),
            memory_v2=self._memory(handle, errors, "memory_v2"),
            compute=self._processes(handle, errors, "compute"),
            graphics=self._processes(handle, errors, "graphics"),
            mps=self._processes(handle, errors, "mps"),
            mig_mode=modes[0] if modes else None,
            mig=self._instances(handle) if modes and modes[0] else (),
            errors=errors,
        )

    def _address(self, handle: Any) -> str | None:
        info = self._ask("nvmlDeviceGetPciInfo", handle)[1]
        return None if info is None else address(_text(info.busId) or "")

    def _memory(self, handle: Any, errors: dict[str, int], key: str) -> NvmlMemory | None:
        version = (self._lib.nvmlMemory_v2,) if key == "memory_v2" else ()
        code, memory = self._ask("nvmlDeviceGetMemoryInfo", handle, *version)
        if code == FUNCTION_NOT_FOUND:
            errors[key] = code
            return None
        if code:
            return NvmlMemory(code=code)
        reserved = memory.reserved if version else None
        return NvmlMemory(code=0, total=memory.total, reserved=reserved, used=memory.used, free=memory.free)

    def _processes(self, handle: Any, errors: dict[str, int], key: str) -> NvmlProcesses | None:
        kind = {"compute": "Compute", "graphics": "Graphics", "mps": "MPSCompute"}[key]
        newer = self._list(f"nvmlDeviceGet{kind}RunningProcesses_v3", handle)
        # Some 535 drivers fill longer records than they declare: pids that cannot be. Their
        # older call is right; it is also the only one before 510.
        if newer.code == FUNCTION_NOT_FOUND or not _plausible(newer):
            older = self._list(f"nvmlDeviceGet{kind}RunningProcesses_v2", handle)
            if older.code == SUCCESS and _plausible(older):
                return older
        if newer.code == FUNCTION_NOT_FOUND:
            errors[key] = newer.code
            return None
        return newer

    def _list(self, function: str, handle: Any) -> NvmlProcesses:
        code, entries = self._ask(function, handle)
        for _ in range(_LIST_TRIES - 1):
            if code != INSUFFICIENT_SIZE:  # else the list grew between its two calls
                break
            code, entries = self._ask(function, handle)
        return NvmlProcesses(code, tuple(_process(entry) for entry in entries or ()))

    def _instances(self, handle: Any) -> tuple[MigInstance, ...]:
        code, most = self._ask("nvmlDeviceGetMaxMigDeviceCount", handle)
        instances = []
        for index in range(0 if code else most):
            code, instance = self._ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
            if code in (INVALID_ARGUMENT, NOT_FOUND):  # a place without an instance
                continue
            if code:
                instances.append(MigInstance(uuid=None, memory=NvmlMemory(code=code)))
                continue
            errors: dict[str, int] = {}
            uuid = self._ask("nvmlDeviceGetUUID", instance)[1]
            instances.append(
                MigInstance(
                    uuid=_text(uuid),
                    gi=self._ask("nvmlDeviceGetGpuInstanceId", instance)[1],
                    memory=self._memory(instance, errors, "memory"),
                    memory_v2=self._memory(instance, errors, "memory_v2"),
                    compute=self._processes(instance, errors, "compute"),
                    graphics=self._processes(instance, errors, "graphics"),
                )
            )
        return tuple(instances)


def _text(value: bytes | str | None) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _process(entry: Any) -> NvmlProcess:
    gi, ci = (
        None if instance == NO_INSTANCE else instance for instance in (entry.gpuInstanceId, entry.computeInstanceId)
    )
    return NvmlProcess(entry.pid, entry.usedGpuMemory, gi, ci)


def _plausible(processes: NvmlProcesses) -> bool:
    return all(0 < process.pid <= PID_MAX for process in processes.processes)


def _lost(device: NvmlDevice) -> bool:
    codes = {device.handle, *device.errors.values()}
    calls = (device.memory, device.memory_v2, device.compute, device.graphics, device.mps)
    codes.update(call.code for call in calls if call)
    return not codes.isdisjoint({GPU_IS_LOST, RESET_REQUIRED})


def _told(device: NvmlDevice) -> bool:
    """The size of the device is known, or that it has none of its own."""
    sizes = (device.memory, device.memory_v2)
    known = any(one and (one.total if one.code == SUCCESS else one.code == NOT_SUPPORTED) for one in sizes)
    return device.handle == 0 and (device.mig_mode == 1 or known)


def _unused(device: NvmlDevice) -> NvmlDevice:
    """The device as nobody uses it."""
    mig = tuple(replace(instance, compute=_NOBODY, graphics=_NOBODY) for instance in device.mig)
    return replace(device, compute=_NOBODY, graphics=_NOBODY, mps=_NOBODY, mig=mig)


def _unload(lib: Any) -> None:
    """Lets go of the mapped library, so that the next initialisation loads the file that is there by then.

    After an upgrade of the driver the mapped file is the old one; the binding would keep it,
    and every function of it that was ever called, until the end of the process.
    """
    mapped, lib.nvmlLib = lib.nvmlLib, None
    lib._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001 (the binding has no public way)
    if mapped is not None:
        _ctypes.dlclose(mapped._handle)  # noqa: SLF001 (else the loader hands out the same file again)

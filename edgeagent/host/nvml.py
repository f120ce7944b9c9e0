"""NVML: what the driver says of its GPUs, through the ``pynvml`` binding, in a thread of its own.

Every function may fail by itself, and a whole driver may hang: a failed field is recorded
with NVML's return code, a hang is a reading without a value. The process must not fork
once NVML is initialised; its state does not survive that.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from edgeagent.errors import ReadingError
from edgeagent.facts import PID_MAX, MigInstance, Nvml, NvmlDevice, NvmlMemory, NvmlProcess, NvmlProcesses, Reading

# nvml.h, nvmlReturn_t
INVALID_ARGUMENT = 2
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16

RETRY = 30.0
"""Seconds between two tries to initialise; a driver that needs a reboot is not asked faster."""

TIMEOUT = 2.0
"""Seconds after which a sample that has not come counts as stalled."""

NO_INSTANCE = 0xFFFFFFFF
"""A process outside of MIG."""

_LIST_TRIES = 3


class NvmlSource(Protocol):
    """Something that gives NVML samples."""

    def sample(self) -> Nvml:
        """One complete sample; may take as long as the driver likes.

        Raises:
            ReadingError: there is none to be had.
        """
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

    def sample(self) -> Nvml:
        """See ``NvmlSource.sample``; initialises, and does so again at a slow pace after a failure or a lost GPU."""
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
        nvml = self._nvml(count=count, devices=tuple(self._device(index) for index in range(count)))
        return self._later(nvml) if any(map(_lost, nvml.devices)) else nvml

    def close(self) -> None:
        """See ``NvmlSource.close``; the next sample initialises anew."""
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

    def _device(self, index: int) -> NvmlDevice:
        code, handle = self._ask("nvmlDeviceGetHandleByIndex", index)
        if code:
            return NvmlDevice(handle=code)
        errors: dict[str, int] = {}

        def field(key: str, function: str) -> Any:
            code, value = self._ask(function, handle)
            if code:
                errors[key] = code
            return value

        modes = field("mig_mode", "nvmlDeviceGetMigMode")
        return NvmlDevice(
            handle=0,
            name=_text(field("name", "nvmlDeviceGetName")),
            uuid=_text(field("uuid", "nvmlDeviceGetUUID")),
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
            if older.code == 0 and _plausible(older):
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
    codes.update(memory.code for memory in (device.memory, device.memory_v2) if memory)
    return not codes.isdisjoint({GPU_IS_LOST, RESET_REQUIRED})


@dataclass(frozen=True, slots=True)
class _Call:
    at: float
    answer: asyncio.Future[Nvml]


class NvmlWorker:
    """Runs a source in one daemon thread, so that a driver that hangs stops nothing but itself."""

    def __init__(self, source: NvmlSource, clock: Callable[[], float], timeout: float = TIMEOUT) -> None:
        self._source = source
        self._clock = clock
        self._timeout = timeout
        self._jobs: queue.SimpleQueue[Future[Nvml] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._call: _Call | None = None

    async def sample(self) -> Reading[Nvml]:
        """A sample, or a reading without value once one has been under way for longer than the time-out.

        A call that is late is not repeated: its answer belongs to the first sample after it,
        with the time at which it was asked for.
        """
        call = self._call = self._call or self._ask()
        await asyncio.wait({call.answer}, timeout=max(0.0, call.at + self._timeout - self._clock()))
        if not call.answer.done():
            now = self._clock()
            return Reading(now, None, f"nvml stalled {now - call.at:.0f} s", waiting_since=call.at)
        if self._call is call:
            self._call = None
        try:
            return Reading(call.at, call.answer.result())
        except ReadingError as error:
            return Reading(call.at, None, str(error))

    def close(self) -> None:
        """Ends the thread after the call it is in, without waiting for it."""
        if self._thread:
            self._jobs.put(None)

    def _ask(self) -> _Call:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="nvml", daemon=True)
            self._thread.start()
        job: Future[Nvml] = Future()
        call = _Call(self._clock(), asyncio.wrap_future(job))
        self._jobs.put(job)
        return call

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job.set_result(self._source.sample())
            except Exception as error:  # noqa: BLE001 (raised where the answer is awaited)
                job.set_exception(error)
        self._source.close()

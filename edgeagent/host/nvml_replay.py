"""NVML samples from a file: a board that was recorded, or one that a test drives.

The format is one JSON object: ``library`` and ``init``, ``driver_version``,
``cuda_version``, ``count``, and ``devices`` with ``handle``, ``name``, ``uuid``,
``pci_bus_id``, ``minor``, ``cuda_capability``, ``memory``, ``memory_v2``, ``compute``, ``graphics``,
``mps``, ``mig``, ``utilization``, ``process_utilization``. A field that is missing stands for a
function that the library does not have; ``{"code": N}`` for one that returned N. What else a
recording says is not read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgeagent.errors import ReadingError
from edgeagent.facts import MigInstance, Nvml, NvmlDevice, NvmlMemory, NvmlProcess, NvmlProcesses
from edgeagent.facts.codes import FUNCTION_NOT_FOUND, LIBRARY_NOT_FOUND, NOT_FOUND
from edgeagent.facts.neighbours import DeviceActivity
from edgeagent.host.nvml import ALL, NO_INSTANCE
from edgeagent.host.power import Power, address
from edgeagent.host.utilization import by_pid

log = logging.getLogger(__name__)

_U32 = (1 << 32) - 1
_U64 = (1 << 64) - 1
_MOST_DEVICES = 1024


class ReplaySource:
    """Reads the file anew for every sample; no file stands for a machine without the library."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.exists():
            log.warning("%s is not there: taken for a machine without the NVML library", path)

    def sample(self, power: Power = ALL) -> Nvml:  # noqa: ARG002 (a file wakes no card)
        """The sample that the file holds by now.

        Raises:
            ReadingError: the file is not readable or malformed.
        """
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return ABSENT
        except OSError as error:
            raise ReadingError(f"{self._path}: {error.strerror}") from error
        return parse(content)

    def activity(self) -> tuple[DeviceActivity, ...]:
        """What ``utilization`` and ``process_utilization`` of the devices in the file say."""
        try:
            document = json.loads(self._path.read_bytes())
            return tuple(map(_activity, document.get("devices", ())))
        except (OSError, ValueError, TypeError, AttributeError, KeyError):
            return ()  # a file that is malformed is told of by the sample

    def close(self) -> None:
        """Holds nothing open."""


def _activity(device: Mapping[str, Any]) -> DeviceActivity:
    rates, samples = device.get("utilization", {}), device.get("process_utilization")
    ran = None if samples is None or samples.get("code", 0) else samples.get("samples", ())
    return DeviceActivity(
        uuid=device.get("uuid"),
        minor=device.get("minor"),
        busy=rates["gpu"] / 100 if "gpu" in rates else None,
        processes=None if ran is None else by_pid((one["pid"], one["sm"]) for one in ran),
    )


ABSENT = Nvml(library="absent", init=LIBRARY_NOT_FOUND)
"""A machine without the NVML library."""


class MalformedError(ReadingError):
    """A document that is no NVML sample.

    Attributes:
        problems: what is wrong with it, one sentence each that names the place in the document.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(f"nvml.json: {'; '.join(self.problems)}")


def parse(content: bytes) -> Nvml:
    """The sample in a JSON document.

    Raises:
        MalformedError: with every problem that was found.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise MalformedError([f"not JSON: {error}"]) from error
    problems: list[str] = []
    found = _sample(_Object(document, "", problems))
    if problems:
        raise MalformedError(problems)
    return found


def _sample(top: _Object) -> Nvml:
    library = top.members.get("library")
    if top.right and library not in ("present", "absent"):
        top.malformed("library", "neither present nor absent")
    if library == "absent":
        return ABSENT
    init = top.number("init", _U32, default=0)
    if init:
        return Nvml(library="present", init=init)
    devices = top.objects("devices")
    count = _count(top, len(devices))
    listed = [_device(device) for device in devices[: count or 0]]
    unlisted = [NvmlDevice(handle=NOT_FOUND)] * ((count or 0) - len(listed))
    return Nvml(
        library="present",
        driver_version=top.text("driver_version", {}),
        cuda_version=top.integer("cuda_version", {}),
        count=count,
        devices=(*listed, *unlisted),
    )


class _Object:
    """An object of the document, with its place in it for messages.

    What is malformed becomes a problem, and a value that nobody gets to see in its place.
    """

    def __init__(self, value: Any, place: str, problems: list[str]) -> None:
        self.right = isinstance(value, dict)
        """It is an object; else it has no members."""
        self.members: dict[str, Any] = value if isinstance(value, dict) else {}
        self._place = place
        self._problems = problems
        if not self.right:
            problems.append(f"{place or 'the document'} is not an object")

    def malformed(self, key: str, how: str) -> None:
        self._problems.append(f"{self._at(key)} is {how}")

    def number(self, key: str, most: int, *, default: int | None = None, otherwise: int = 0) -> int:
        value = self.members.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most:
            return value
        self.malformed(key, f"not a whole number from 0 to {most}")
        return otherwise

    def optional(self, key: str, most: int) -> int | None:
        """A number; null says that there is none."""
        return None if self.members.get(key) is None else self.number(key, most)

    def available(self, key: str, most: int) -> int | None:
        """A number for which the highest one says, too, that there is none."""
        value = self.optional(key, most)
        return None if value == most else value

    def object(self, key: str) -> _Object | None:
        """An object; None where it is none, or not there."""
        found = _Object(self.members[key], self._at(key), self._problems) if key in self.members else None
        return found if found and found.right else None

    def objects(self, key: str) -> list[_Object]:
        values = self.members.get(key, [])
        if not isinstance(values, list):
            self.malformed(key, "not a list")
            return []
        found = (_Object(value, f"{self._at(key)}[{index}]", self._problems) for index, value in enumerate(values))
        return [one for one in found if one.right]

    def code(self) -> int:
        # One that is malformed is no success: what is not there then is no second problem.
        return self.number("code", _U32, default=0, otherwise=_U32)

    def failed(self, key: str, errors: dict[str, int], name: str | None = None) -> bool:
        """Whether the function of ``key`` is missing or failed; its code is then in ``errors``."""
        code = FUNCTION_NOT_FOUND
        if key in self.members:
            value = self.members[key]
            code = _Object(value, self._at(key), self._problems).code() if isinstance(value, dict) else 0
        if code:
            errors[name or key] = code
        return bool(code)

    def text(self, key: str, errors: dict[str, int]) -> str | None:
        """A text as C has it: up to a NUL, and any bytes, which JSON spells as the surrogates of PEP 383."""
        if self.failed(key, errors):
            return None
        value = self.members[key]
        try:
            return str.partition(value, "\0")[0].encode(errors="surrogateescape").decode(errors="replace")
        except (TypeError, UnicodeEncodeError):
            self.malformed(key, "not a text")
            return None

    def integer(self, key: str, errors: dict[str, int]) -> int | None:
        return None if self.failed(key, errors) else self.number(key, _U32)

    def _at(self, key: str) -> str:
        return f"{self._place}.{key}" if self._place else key


def _count(top: _Object, listed: int) -> int | None:
    if "count" not in top.members:
        return listed
    count = top.object("count")
    return None if count is None or count.code() else count.number("value", _MOST_DEVICES)


def _device(source: _Object) -> NvmlDevice:
    handle = source.number("handle", _U32, default=0)
    if handle:
        return NvmlDevice(handle=handle)
    errors: dict[str, int] = {}
    mig = None if source.failed("mig", errors, "mig_mode") else source.object("mig")
    mode = mig.number("mode", _U32) if mig else None
    return NvmlDevice(
        handle=0,
        name=source.text("name", errors),
        uuid=source.text("uuid", errors),
        pci_address=address(source.text("pci_bus_id", {}) or ""),
        minor=source.integer("minor", errors),
        cuda_capability=_capability(source, errors),
        memory=_memory(source, "memory", errors),
        memory_v2=_memory(source, "memory_v2", errors),
        compute=_processes(source, "compute", errors),
        graphics=_processes(source, "graphics", errors),
        mps=_processes(source, "mps", errors),
        mig_mode=mode,
        mig=tuple(map(_instance, mig.objects("instances"))) if mig and mode else (),
        errors=errors,
    )


def _capability(source: _Object, errors: dict[str, int]) -> tuple[int, int] | None:
    if source.failed("cuda_capability", errors):
        return None
    match source.members["cuda_capability"]:
        case [int(major), int(minor)]:
            return major, minor
    source.malformed("cuda_capability", "not a pair of whole numbers")
    return None


def _memory(source: _Object, key: str, errors: dict[str, int]) -> NvmlMemory | None:
    memory = source.object(key)
    code = memory.code() if memory else FUNCTION_NOT_FOUND
    if memory is None or code == FUNCTION_NOT_FOUND:
        errors[key] = code
        return None
    if code:
        return NvmlMemory(code=code)
    return NvmlMemory(
        code=0,
        total=memory.number("total", _U64),
        reserved=memory.number("reserved", _U64) if key == "memory_v2" else None,
        used=memory.optional("used", _U64),
        free=memory.optional("free", _U64),
    )


def _processes(source: _Object, key: str, errors: dict[str, int]) -> NvmlProcesses | None:
    processes = source.object(key)
    code = processes.code() if processes else FUNCTION_NOT_FOUND
    if processes is None or code == FUNCTION_NOT_FOUND:
        errors[key] = code
        return None
    return NvmlProcesses(code, () if code else tuple(map(_process, processes.objects("processes"))))


def _process(source: _Object) -> NvmlProcess:
    return NvmlProcess(
        source.number("pid", _U32),
        source.available("used", most=_U64),
        source.available("gi", most=NO_INSTANCE),
        source.available("ci", most=NO_INSTANCE),
    )


def _instance(source: _Object) -> MigInstance:
    errors: dict[str, int] = {}
    return MigInstance(
        uuid=source.text("uuid", errors),
        gi=source.available("gi", most=NO_INSTANCE),
        memory=_memory(source, "memory", errors),
        memory_v2=_memory(source, "memory_v2", errors),
        compute=_processes(source, "compute", errors),
        graphics=_processes(source, "graphics", errors),
    )

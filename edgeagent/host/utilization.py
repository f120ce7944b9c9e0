"""What NVML says of devices beside their memory: how busy, by whom, how hot, and what holds their clocks back.

Meanings and codes: nvml.h. The driver keeps samples of each process in a ring and gives those that are newer than a
time stamp, its own. On a Tegra, and on a card that is divided by MIG, it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from edgeagent.facts.codes import NOT_FOUND, SUCCESS
from edgeagent.facts.neighbours import DeviceActivity

Ask = Callable[..., tuple[int, Any]]
"""(function, arguments …) -> NVML's return code, and the value on success."""

_PERCENT = 100
_SENSOR = 0
"""NVML_TEMPERATURE_GPU."""
_REASONS = {
    0x04: "power-cap",
    0x08: "hardware-slowdown",
    0x20: "thermal",
    0x40: "hardware-thermal",
    0x80: "power-brake",
}
"""nvmlClocksEventReason…; the others are what was asked for: idle, a setting, the display."""


class Utilization:
    """Asks device by device, and remembers how far each one's samples of processes were read."""

    def __init__(self) -> None:
        self._seen: dict[str | None, int] = {}

    def activity(self, ask: Ask, handles: Mapping[str | None, Any]) -> tuple[DeviceActivity, ...]:
        """What each device of ``handles``, by uuid, says by now."""
        self._seen = {uuid: stamp for uuid, stamp in self._seen.items() if uuid in handles}
        return tuple(self._device(ask, uuid, handle) for uuid, handle in handles.items())

    def _device(self, ask: Ask, uuid: str | None, handle: Any) -> DeviceActivity:
        rates = ask("nvmlDeviceGetUtilizationRates", handle)[1]
        reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)[1]
        celsius = ask("nvmlDeviceGetTemperature", handle, _SENSOR)[1]
        return DeviceActivity(
            uuid=uuid,
            minor=ask("nvmlDeviceGetMinorNumber", handle)[1],
            busy=None if rates is None or rates.gpu > _PERCENT else rates.gpu / _PERCENT,
            processes=self._processes(ask, uuid, handle),
            celsius=None if celsius is None else float(celsius),
            held_back=None if reasons is None else held_back(reasons),
        )

    def _processes(self, ask: Ask, uuid: str | None, handle: Any) -> dict[int, float] | None:
        """None at the first reading, which only tells from when on to count, and where the driver does not tell."""
        code, samples = ask("nvmlDeviceGetProcessUtilization", handle, self._seen.get(uuid, 0))
        if code not in (SUCCESS, NOT_FOUND):
            return None
        samples = samples or ()  # NOT_FOUND: nobody ran anything
        first = uuid not in self._seen
        newest = max((sample.timeStamp for sample in samples), default=0)
        self._seen[uuid] = max(self._seen.get(uuid, 0), newest)
        return None if first else by_pid((sample.pid, sample.smUtil) for sample in samples)


def by_pid(samples: Iterable[tuple[int, int]]) -> dict[int, float]:
    """The mean of each pid's percentages, as a ratio. One above 100 is garbage that some drivers give."""
    found: dict[int, list[int]] = {}
    for pid, percent in samples:
        if percent <= _PERCENT:
            found.setdefault(pid, []).append(percent)
    return {pid: sum(percents) / len(percents) / _PERCENT for pid, percents in found.items()}


def held_back(reasons: int) -> tuple[str, ...]:
    """The names of those of NVML's clock event reasons that hold back what was asked for."""
    return tuple(name for bit, name in _REASONS.items() if reasons & bit)

"""The board's health, from what its files, its driver and jetson-stats say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgeagent.facts.vitals import BoardReadings, Vitals

if TYPE_CHECKING:
    from edgeagent.facts.neighbours import DeviceActivity

TEGRA = "tegra"
"""Stands for the UUID of a GPU that has none."""


@dataclass(frozen=True, slots=True)
class Jtop:
    """What jetson-stats said."""

    power_mode: str | None = None
    temperatures: Mapping[str, float] = field(default_factory=dict)
    fan: float | None = None


def vitals(
    at: float,
    now: BoardReadings,
    before: BoardReadings | None,
    devices: tuple[DeviceActivity, ...],
    jtop: Jtop | None = None,
) -> Vitals:
    """What is told at monotonic second ``at``. Files count first, jetson-stats where they say nothing."""
    jtop = jtop or Jtop()
    reasons = tuple(dict.fromkeys(_reasons(now, before, devices)))
    files = dict(now.temperatures)
    added = {zone: celsius for zone, celsius in jtop.temperatures.items() if zone not in files}
    own = {device.uuid or TEGRA: device.busy for device in devices}
    busy = {uuid: one for uuid, one in {TEGRA: now.gpu_busy, **own}.items() if one is not None}
    return Vitals(
        at=at,
        power_mode=now.power_mode or jtop.power_mode,
        temperatures=(*files.items(), *_hot(devices), *added.items()),
        throttled=bool(reasons) if _tells(now, before, devices) else None,
        throttle_reasons=reasons,
        fan_ratio=now.fan if now.fan is not None else jtop.fan,
        busy=busy,
        source=", ".join(["files", *(["nvml"] if devices else []), *(["jtop"] if jtop != Jtop() else [])]),
    )


def _hot(devices: tuple[DeviceActivity, ...]) -> Iterator[tuple[str, float]]:
    for index, device in enumerate(devices):
        if device.celsius is not None:
            yield f"nvidia{index if device.minor is None else device.minor}", device.celsius


def _tells(now: BoardReadings, before: BoardReadings | None, devices: Iterable[DeviceActivity]) -> bool:
    """Whether anything is there by which throttling would be seen."""
    alarms = bool(before and before.over_current is not None and now.over_current is not None)
    return now.cooling is not None or alarms or any(device.held_back is not None for device in devices)


def _reasons(now: BoardReadings, before: BoardReadings | None, devices: Iterable[DeviceActivity]) -> Iterator[str]:
    for kind, state in now.cooling or ():
        if state > 0:
            yield re.sub(r"-?(?:cpu)?\d+$", "", kind)  # one for all cores
    earlier = dict(before.over_current or ()) if before else {}
    for alarm, events in now.over_current or ():
        if events > earlier.get(alarm, events):
            yield f"over-current-{alarm}"
    for device in devices:
        yield from (f"gpu-{reason}" for reason in device.held_back or ())

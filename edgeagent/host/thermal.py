"""Heat, what is slowed down against it, alarms of the supply and the fan, from sysfs.

Documentation/ABI/testing/sysfs-class-thermal and sysfs-class-hwmon of the Linux kernel. ``ocN_event_cnt`` and
``ocN_throt_en`` are those of NVIDIA's driver ``tegra23x-oc-event``; ``load`` is that of nvgpu, in thousandths.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from edgeagent.facts.vitals import BoardReadings
from edgeagent.host.files import names
from edgeagent.host.powermode import power_mode

if TYPE_CHECKING:
    from edgeagent.host.files import Files

_THERMAL = "sys/class/thermal"
_HWMON = "sys/class/hwmon"
_DEVFREQ = "sys/class/devfreq"
_OLD_FAN = "sys/devices/pwm-fan/cur_pwm"
"""The fan of L4T before 35."""
_COLDEST, _HOTTEST = -50.0, 150.0
"""Degrees outside of which a zone tells nothing: −256 is a unit of a Tegra that is powered down."""
_SLOWS = re.compile(
    r".*-throttle-alert|(?:thermal-)?(?:cpufreq|devfreq)\b.*|(?:thermal-)?cpuidle\b.*|Processor|intel_powerclamp|(?:cpu|gpu)-balanced"
)
"""Cooling devices that slow a processor down. A fan is none, nor is a display that is dimmed."""
_FULL_PWM = 255
_PWM = re.compile(r"pwm\d+")
_EVENTS = re.compile(r"(oc\d+)_event_cnt")
_MOST = 64
"""Entries of a folder that are looked at."""


def readings(files: Files) -> BoardReadings:
    """What the board says of its health by now."""
    fans, over_current = _hwmon(files)
    return BoardReadings(
        power_mode=power_mode(files),
        temperatures=_temperatures(files),
        cooling=_cooling(files),
        over_current=over_current,
        fan=max(fans, default=None),
        gpu_busy=_gpu_busy(files),
    )


def _temperatures(files: Files) -> tuple[tuple[str, float | None], ...]:
    found: dict[str, float | None] = {}
    for zone in _numbered(files, _THERMAL, "thermal_zone"):
        name = _text(files, f"{zone}/type") or zone.rpartition("/")[2]
        if name.startswith("PMIC"):  # a fixed 100 degrees, whatever the board does
            continue
        milli = _integer(files, f"{zone}/temp")
        degrees = None if milli is None else milli / 1000
        plausible = degrees is not None and _COLDEST <= degrees <= _HOTTEST
        unique = name if name not in found else f"{name}-{zone.rpartition('thermal_zone')[2]}"
        found[unique] = degrees if plausible else None
    return tuple(found.items())


def _cooling(files: Files) -> tuple[tuple[str, int], ...] | None:
    found = []
    for device in _numbered(files, _THERMAL, "cooling_device"):
        kind, state = _text(files, f"{device}/type"), _integer(files, f"{device}/cur_state")
        if kind and state is not None and _SLOWS.fullmatch(kind):
            found.append((kind, state))
    return tuple(found) or None


def _hwmon(files: Files) -> tuple[list[float], tuple[tuple[str, int], ...] | None]:
    """How fast each fan is driven, and the events of each alarm that slows the board down."""
    fans: list[float] = []
    events: list[tuple[str, int]] = []
    for monitor in _numbered(files, _HWMON, "hwmon"):
        for name in names(files, monitor)[: 16 * _MOST]:
            alarm = _EVENTS.fullmatch(name)
            if _PWM.fullmatch(name):
                fans += _fan(_integer(files, f"{monitor}/{name}"))
            elif alarm and _integer(files, f"{monitor}/{alarm[1]}_throt_en") != 0:
                count = _integer(files, f"{monitor}/{name}")
                events += [] if count is None else [(alarm[1], count)]
    return fans + _fan(_integer(files, _OLD_FAN)), tuple(events) or None


def _fan(pwm: int | None) -> list[float]:
    return [] if pwm is None or not 0 <= pwm <= _FULL_PWM else [pwm / _FULL_PWM]


def _gpu_busy(files: Files) -> float | None:
    for entry in names(files, _DEVFREQ)[:_MOST]:
        load = _integer(files, f"{_DEVFREQ}/{entry}/device/load")
        if load is not None and 0 <= load <= 1000:  # noqa: PLR2004 (thousandths)
            return load / 1000
    return None


def _numbered(files: Files, folder: str, prefix: str) -> list[str]:
    """The paths of the entries ``prefix`` with a number, in the order of the numbers."""
    numbers = sorted(
        int(name.removeprefix(prefix))
        for name in names(files, folder)
        if name.startswith(prefix) and name.removeprefix(prefix).isdecimal()
    )
    return [f"{folder}/{prefix}{number}" for number in numbers[:_MOST]]


def _integer(files: Files, path: str) -> int | None:
    text = _text(files, path)
    return int(text) if text and re.fullmatch(r"-?\d{1,12}", text) else None


def _text(files: Files, path: str) -> str | None:
    """The one line of a file; None where it cannot be read, as that of a unit which is powered down."""
    try:
        return files.read(path, limit=4096).decode(errors="replace").strip()
    except OSError:
        return None

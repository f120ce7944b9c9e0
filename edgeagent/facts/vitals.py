"""How the board itself is: power mode, heat, throttling. For people alone, no decision rests on any of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgeagent.facts.neighbours import MAX_AGE


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardReadings:
    """What the files of a board say of its health at one time. None: there is no such file."""

    power_mode: str | None = None
    temperatures: tuple[tuple[str, float | None], ...] = ()
    """(zone, degrees Celsius), in the order of the zones. None: a zone that is switched off or tells no temperature."""
    cooling: tuple[tuple[str, int], ...] | None = None
    """(type, state) of the devices that slow something down; a state above 0 does."""
    over_current: tuple[tuple[str, int], ...] | None = None
    """(name, events since boot) of the alarms of the supply that slow the board down."""
    fan: float | None = None
    """From 0 to 1, of the fan that turns fastest."""
    gpu_busy: float | None = None
    """Share of the time that a Tegra's own GPU is busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """The board's health. None is unknown or not supported."""

    at: float
    """Monotonic second of the reading."""
    power_mode: str | None = None
    temperatures: tuple[tuple[str, float | None], ...] = ()
    throttled: bool | None = None
    throttle_reasons: tuple[str, ...] = ()
    fan_ratio: float | None = None
    busy: Mapping[str, float] = field(default_factory=dict)
    """Share of the time in which a device is busy, by uuid; ``tegra`` without one."""
    source: str = "files"
    """Where it was read: ``files``, ``nvml``, ``jtop``, with commas between them."""

    def stale(self, now: float) -> bool:
        """Whether it is too old to be told."""
        return now - self.at > MAX_AGE

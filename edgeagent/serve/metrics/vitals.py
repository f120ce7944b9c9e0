"""How the board is: heat, throttling, power mode, fan, how busy its devices are."""

from __future__ import annotations

from edgeagent.serve.metrics.families import Families, Moment, gauge


def families(moment: Moment) -> Families:
    """The board's health; nothing when it was read too long ago."""
    vitals = moment.shown.vitals
    if vitals is None or vitals.stale(moment.now):
        return
    zones = [((zone,), celsius) for zone, celsius in vitals.temperatures]
    yield gauge("temperature_celsius", "Temperature of a part of the board.", zones, "zone")
    mode = [((vitals.power_mode,), 1)] if vitals.power_mode else []
    yield gauge("power_mode_info", "The power mode that is set.", mode, "mode")
    yield gauge("board_throttled", "1 while something slows the board down.", [((), vitals.throttled)])
    reasons = [((reason,), 1) for reason in vitals.throttle_reasons]
    yield gauge("board_throttle_reason", "1 for what slows the board down.", reasons, "reason")
    yield gauge("fan_ratio", "How fast the fan is driven, from 0 to 1.", [((), vitals.fan_ratio)])
    busy = [((uuid,), ratio) for uuid, ratio in vitals.busy.items()]
    yield gauge("device_utilization_ratio", "Share of the time in which a device is busy.", busy, "device")

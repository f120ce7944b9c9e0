"""What the board still is when a reading fails: a hiccup changes nothing, three readings in a row prove a loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgeagent.facts import Reading
from edgeagent.memory.devices import NAMELESS
from edgeagent.memory.types import Board, BoardKind, Device
from edgeagent.plan.state import Doubt, Hardware, Known

if TYPE_CHECKING:
    from edgeagent.facts import HostFacts, MemInfo

PROOF = 3
"""Readings in a row that prove that something is gone."""
SOC = "soc"
"""The identity of a SoC's own GPU: it has one, whether or not NVML names it."""


def believed(before: Hardware, reading: Reading[MemInfo]) -> tuple[Hardware, Reading[MemInfo]]:
    """The reading of /proc/meminfo, or an unknown one in its place while its MemTotal is doubtful.

    MemTotal stays as it was at boot but for memory that is plugged in or out. More than 1 %
    off, it counts only once several readings in a row agree.
    """
    value, known = reading.value, before.meminfo
    if value is None:
        return before, reading
    if known is None or abs(value.total - known.total) * 100 <= known.total:
        return replace(before, doubt=None), reading
    doubt = before.doubt
    if doubt is None or doubt.total != value.total:
        doubt = Doubt(value.total, 1, reading.at)
    elif reading.at > doubt.at:
        doubt = Doubt(value.total, doubt.readings + 1, reading.at)
    if doubt.readings >= PROOF:
        return replace(before, doubt=None), reading
    why = f"MemTotal of {value.total} bytes is not that of this board, {known.total}"
    return replace(before, doubt=doubt), Reading(reading.at, None, why)


def remember(before: Hardware, board: Board, host: HostFacts) -> Hardware:
    """The hardware after one more verdict. The same sample seen twice counts once."""
    meminfo = host.meminfo.value
    kept = before if meminfo is None else replace(before, meminfo=meminfo)
    if before.sampled_at is not None and host.attributed_at <= before.sampled_at:
        return kept
    kept = replace(kept, sampled_at=host.attributed_at)
    if _all_asleep(board):
        return replace(kept, devices=tuple(_slept(known) for known in before.devices))
    if not board.readable or board.kind == "unknown":
        return kept
    if board.kind == "none" and before.devices:
        devices = tuple(_missed(known, None) for known in before.devices)
        return replace(kept, absent=before.absent + 1, devices=devices)
    devices = _merge(before.devices, board.devices, listed=lists_all(host))
    return replace(kept, board=board, absent=before.absent + 1 if board.kind == "none" else 0, devices=devices)


def seen(hardware: Hardware, now_board: Board) -> Board:
    """The board to show: the present verdict, with lost devices still listed and figures that failed from memory."""
    verdict = hardware.board
    if verdict is None or not hardware.devices or hardware.absent >= PROOF:
        return now_board
    if _all_asleep(now_board):
        devices = tuple(known.device for known in hardware.devices)
        return replace(verdict, devices=devices, warnings=now_board.warnings, signals=now_board.signals)
    if not now_board.readable or now_board.kind == "unknown":
        # A driver that answers with an error is broken, one that gives no answer is unknown.
        bad = next((device for device in now_board.devices if device.health not in ("ok", "asleep")), None)
        health, why = (bad.health, bad.why) if bad else ("unknown", "the driver does not answer")
        devices = tuple(replace(known.device, health=health, why=why) for known in hardware.devices)
        return replace(verdict, devices=devices, warnings=now_board.warnings, readable=False, signals=now_board.signals)
    devices = tuple(known.device for known in hardware.devices)
    base = now_board if now_board.kind != "none" else verdict
    kind = _kind(base, now_board, devices)
    return replace(base, devices=devices, kind=kind, unified=any(d.memory == "unified" for d in devices))


def gone(hardware: Hardware) -> bool:
    """Enough readings in a row proved that there is no GPU, or that every GPU is lost."""
    if not hardware.devices:
        return hardware.board is not None and hardware.board.kind == "none"
    return hardware.absent >= PROOF or all(known.misses >= PROOF for known in hardware.devices)


def identity(device: Device) -> str | None:
    """What a device is known by from reading to reading, and from run to run; None: it does not tell."""
    return SOC if device.tegra else device.uuid


def lists_all(host: HostFacts) -> bool:
    """NVML answered, so a device that it does not list is missing; without it only a Tegra's own GPU is known."""
    answer = host.nvml.value
    return answer is not None and answer.library == "present" and answer.init == 0


def lost(hardware: Hardware, devices: Sequence[Device]) -> bool:
    """Whether every one of ``devices`` is proven lost; never of none."""
    alive = {device.uuid for device in counted(hardware)}
    return bool(hardware.devices) and bool(devices) and all(device.uuid not in alive for device in devices)


def counted(hardware: Hardware) -> tuple[Device, ...]:
    """Devices that belong to the sum: all but those that are proven lost."""
    return tuple(known.device for known in hardware.devices if known.misses < PROOF)


def _kind(base: Board, now_board: Board, devices: tuple[Device, ...]) -> BoardKind:
    memories = {device.memory for device in devices}
    # A lost card does not turn a mixed board into a Jetson: keys would change their meaning.
    if len(memories) > 1:
        return "mixed"
    if memories == {device.memory for device in now_board.devices} or "discrete" in memories:
        return base.kind
    return "jetson" if any(device.tegra for device in devices) else "unified"


def _all_asleep(board: Board) -> bool:
    """No device was asked because each of them sleeps: they are as they were, and that is known."""
    return not board.readable and bool(board.devices) and all(device.health == "asleep" for device in board.devices)


def _merge(before: tuple[Known, ...], now: tuple[Device, ...], *, listed: bool) -> tuple[Known, ...]:
    """Devices by identity; a failing handle tells no uuid and stands for one of those that did not answer."""
    answered = {name: device for device in now if (name := identity(device)) is not None}
    nameless = [device for device in now if identity(device) is None]
    merged = []
    placeholders = []
    for known in before:
        name = identity(known.device)
        device = answered.pop(name, None) if name is not None else None
        if device is None and known.device.uuid is not None:  # its name, which told that it is the SoC's, is lost
            device = answered.pop(known.device.uuid, None)
        if name is None:
            placeholders.append(known)
        elif device is not None:
            merged.append(_met(known, device))
        else:
            merged.append(_missed(known, nameless.pop(0) if nameless else None) if listed else _unsure(known))
    rest = [*answered.values(), *nameless]
    # A device whose handle failed from the start has no uuid yet: what is new now is that one.
    merged += [_met(known, rest.pop(0)) if rest else _missed(known, None) for known in placeholders]
    merged += [Known(device, 1 if device.failing else 0) for device in rest]
    return tuple(sorted(merged, key=lambda known: known.device.uuid or ""))


def _met(known: Known, now: Device) -> Known:
    if now.failing:
        return _missed(known, now)
    return Known(_kept(known.device, now))


def _kept(before: Device, now: Device) -> Device:
    """``now``, with what it last told while a query fails: its sizes, its names, what the name tells, its numbers."""
    if now.uuid is None and before.uuid is not None:
        now = replace(now, uuid=before.uuid, name=before.name)
    if now.minor is None:
        now = replace(now, minor=before.minor)
    if now.name == NAMELESS:
        now = replace(now, name=before.name)
        if before.memory == "unified" and now.memory == "discrete":
            # Only its name tells that it is no card; the size that it does not tell is no fault.
            now = replace(now, memory="unified", tegra=before.tegra, health="ok", why="")
    if now.memory == "unified" or now.total_bytes is not None:
        return now
    return replace(now, total_bytes=before.total_bytes, reserved_bytes=before.reserved_bytes)


def _missed(known: Known, now: Device | None) -> Known:
    """One more reading in which the device could not be used; ``now`` is what answered in its place, if anything."""
    if now and now.health == "asleep":
        return _slept(known)
    health, why = (now.health, now.why) if now else ("lost", "the device does not answer")
    return Known(replace(known.device, health=health, why=why), known.misses + 1)


def _slept(known: Known) -> Known:
    """A reading that did not ask the device, and need not."""
    return Known(replace(known.device, health="asleep", why=""))


def _unsure(known: Known) -> Known:
    return Known(replace(known.device, health="unknown", why="the driver does not answer"), known.misses)

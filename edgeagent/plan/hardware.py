"""What the board still is when a reading fails: a hiccup changes nothing, three readings in a row prove a loss."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgeagent.memory.types import Board, BoardKind, Device
from edgeagent.plan.state import Hardware, Known

if TYPE_CHECKING:
    from edgeagent.facts import HostFacts

PROOF = 3
"""Readings in a row that prove that something is gone."""


def remember(before: Hardware, board: Board, host: HostFacts) -> Hardware:
    """The hardware after one more verdict. The same sample seen twice counts once."""
    meminfo = host.meminfo.value
    kept = before
    if meminfo is not None:
        kept = replace(kept, meminfo=meminfo, meminfo_at=host.meminfo.at)
    if before.sampled_at is not None and host.attributed_at <= before.sampled_at:
        return kept
    kept = replace(kept, sampled_at=host.attributed_at)
    if not board.readable or board.kind == "unknown":
        return kept
    if board.kind == "none" and before.devices:
        return replace(kept, absent=before.absent + 1, devices=tuple(_missed(known) for known in before.devices))
    return replace(kept, board=board, absent=before.absent + 1 if board.kind == "none" else 0, devices=_merge(before.devices, board.devices))


def seen(hardware: Hardware, now_board: Board) -> Board:
    """The board to show: the present verdict, with lost devices still listed and figures that failed taken from memory."""
    verdict = hardware.board
    if gone(hardware) or verdict is None or not hardware.devices:
        return now_board
    if not now_board.readable or now_board.kind == "unknown":
        devices = tuple(replace(known.device, health="unknown", why="the driver does not answer") for known in hardware.devices)
        return replace(verdict, devices=devices, warnings=now_board.warnings, readable=False, signals=now_board.signals)
    devices = tuple(_shown(known) for known in hardware.devices)
    base = now_board if now_board.kind != "none" else verdict
    return replace(base, devices=devices, kind=_kind(base.kind, devices), unified=any(d.memory == "unified" for d in devices))


def gone(hardware: Hardware) -> bool:
    """Enough readings in a row proved that there is no GPU, or that every GPU is lost."""
    if not hardware.devices:
        return hardware.board is not None and hardware.board.kind == "none"
    return hardware.absent >= PROOF or all(known.misses >= PROOF for known in hardware.devices)


def counted(hardware: Hardware) -> tuple[Device, ...]:
    """Devices that belong to the sum: all but those that are proven lost."""
    return tuple(known.device for known in hardware.devices if known.misses < PROOF)


def _kind(kind: BoardKind, devices: tuple[Device, ...]) -> BoardKind:
    # A lost card does not turn a mixed board into a Jetson: keys would change their meaning.
    return "mixed" if len({device.memory for device in devices}) > 1 else kind


def _merge(before: tuple[Known, ...], now: tuple[Device, ...]) -> tuple[Known, ...]:
    """Devices by uuid; a failing handle tells no uuid and stands for one of those that did not answer."""
    answered = {device.uuid: device for device in now if device.uuid is not None}
    nameless = [device for device in now if device.uuid is None]
    merged = []
    for known in before:
        uuid = known.device.uuid
        device = answered.pop(uuid, None) if uuid is not None else (nameless.pop(0) if nameless else None)
        if device is None:
            nameless = nameless[1:]
            merged.append(_missed(known))
        elif device.health == "lost":
            merged.append(_missed(known))
        else:
            merged.append(Known(_kept(known.device, device)))
    merged += [Known(device, 1 if device.health == "lost" else 0) for device in (*answered.values(), *nameless)]
    return tuple(sorted(merged, key=lambda known: known.device.uuid or ""))


def _kept(before: Device, now: Device) -> Device:
    """``now``, with the sizes it last told while its memory query fails."""
    if now.memory == "unified" or now.total_bytes is not None:
        return now
    return replace(now, total_bytes=before.total_bytes, reserved_bytes=before.reserved_bytes)


def _missed(known: Known) -> Known:
    return Known(known.device, known.misses + 1)


def _shown(known: Known) -> Device:
    return replace(known.device, health="lost", why="the device does not answer") if known.misses else known.device

"""NVIDIA cards that sleep, or would if nobody looked.

A card with runtime power management is powered down some seconds after its last user has let
go of it. Every NVML call powers it up again, and NVML that is merely initialised counts as a
user. So each is asked once, for its size; then one that sleeps is not asked, and one that
nobody holds is let go of.

Files: Documentation/ABI/testing/sysfs-devices-power and sysfs-bus-pci of the Linux kernel;
/proc/driver/nvidia/gpus/*/power: the chapter on runtime D3 in the README of NVIDIA's driver.
None of them powers up a card when it is read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from edgeagent.host.files import Files, names

PCI = "sys/bus/pci/devices"
_NVIDIA = "0x10de"
_DISPLAY = "0x03"
_ADDRESS = re.compile(r"([0-9a-f]+):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)
_MANAGED = re.compile(r"^Runtime D3 status:\s*Enabled\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Power:
    """PCI addresses of NVIDIA's display devices."""

    busy: tuple[str, ...] = ()
    """Powered up, and in use or never powered down."""
    idle: tuple[str, ...] = ()
    """Powered up, until it is seen that nobody uses it."""
    asleep: tuple[str, ...] = ()


def address(text: str) -> str | None:
    """A PCI address as sysfs spells it; NVML writes the domain with eight digits. None: it is not one."""
    match = _ADDRESS.fullmatch(text.strip())
    return f"{int(match[1], 16):04x}:{match[2]}:{match[3]}.{match[4]}".lower() if match else None


def displays(files: Files) -> tuple[str, ...]:
    """Addresses of the display devices that NVIDIA made."""
    return tuple(name for name in names(files, PCI) if _display(files, f"{PCI}/{name}"))


def asleep(files: Files, addresses: Sequence[str]) -> tuple[str, ...]:
    """Those of ``addresses`` that are powered down by NVIDIA's driver; without it nobody could wake them."""
    return tuple(one for one in addresses if _suspended(files, f"{PCI}/{one}") and _nvidia(files, f"{PCI}/{one}"))


def managed(files: Files, device: str) -> bool:
    """Whether the driver powers the device down when it has no user."""
    return bool(_MANAGED.search(_text(files, f"proc/driver/nvidia/gpus/{device}/power")))


def _display(files: Files, device: str) -> bool:
    return _text(files, f"{device}/vendor") == _NVIDIA and _text(files, f"{device}/class").startswith(_DISPLAY)


def _suspended(files: Files, device: str) -> bool:
    return (
        _text(files, f"{device}/power/runtime_status") == "suspended"
        or _text(files, f"{device}/power_state") == "D3cold"
    )


def _nvidia(files: Files, device: str) -> bool:
    """Not so of a card that is bound to another driver, as one that is kept for virtual machines."""
    try:
        driver = files.link(f"{device}/driver")
    except OSError:
        return True  # a recording need not have it
    return driver is None or driver.rpartition("/")[2] == "nvidia"


def _text(files: Files, path: str) -> str:
    try:
        return files.read(path).decode(errors="replace").strip()
    except OSError:
        return ""

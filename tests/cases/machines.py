"""Machines to be told apart: boards without anything on them, what stands on their PCI bus, and their devices."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.cases.making import MIB, about, device, meminfo, stated

Capture = pytest.CaptureFixture[str]

COMPATIBLE = "host/proc/device-tree/compatible"
MODEL = "host/proc/device-tree/model"
FAMILY = "host/sys/devices/soc0/family"
RELEASE = "host/etc/nv_tegra_release"
ORIN_NANO = b"nvidia,p3768-0000+p3767-0005\0nvidia,p3767-0005\0nvidia,tegra234\0"
THOR = b"nvidia,p4071-0000+p3834-0008\0nvidia,p3834-0008\0nvidia,tegra264\0"
R36 = "# R36 (release), REVISION: 4.7, GCID: 41062509, BOARD: generic, EABI: aarch64, DATE: Thu Sep 18 2025\n"
ORIN_UUID = "aaaaaaaa-0000-4000-8000-000000000001"  # an Orin's iGPU has no "GPU-" in front
SMALL = 7802368
OFFER = "6083Mi"
"""7802368 kB = 7619.5 MiB, less os 1024 and k3s 512 = 6083.5, down to whole MiB."""
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
OWN = "edgeagent.dev/"


def board(total_kib: int = SMALL, /, **files: Any) -> dict[str, Any]:
    """A machine with the reserves os 1 GiB and k3s 512 MiB."""
    return {"host/proc/meminfo": meminfo(total_kib), "config.yaml": stated(), **files}


def on_x86() -> dict[str, Any]:
    return {"snapshot.yaml": about(arch="x86_64")}


def pci(address: str, vendor: str, kind: str) -> dict[str, Any]:
    """One function on the PCI bus; ``kind`` is its class."""
    where = f"host/sys/bus/pci/devices/{address}"
    return {f"{where}/vendor": f"{vendor}\n", f"{where}/class": f"{kind}\n"}


NVIDIA_CARD = pci("0000:01:00.0", "0x10de", "0x030000")
INTEL_GRAPHICS = pci("0000:00:02.0", "0x8086", "0x030000")


def card(number: int, total_mib: int = 24576, reserved_mib: int = 512, **fields: Any) -> dict[str, Any]:
    return device("NVIDIA RTX A5000", card_uuid(number), total_mib * MIB, reserved_mib * MIB, **fields)


def card_uuid(number: int) -> str:
    return f"GPU-bbbbbbbb-0000-4000-8000-{number:012}"


IGX_ORIN = (
    b"nvidia,p3740-0002+p3701-0008\0nvidia,p3701-0008\0nvidia,tegra234\0",
    64347136,
    device("Orin (nvgpu)", ORIN_UUID),
    device("NVIDIA RTX 6000 Ada Generation", "GPU-bbbbbbbb-0000-4000-8000-000000000003", 49140 * MIB, 624 * MIB),
)

GB10_KIB = 127600748
GB10_OFFER = "119490Mi"
"""127600748 kB = 124610.1 MiB, less os 4096 and k3s 1024 = 119490.1."""
GB10_UUID = "GPU-aaaaaaaa-0000-4000-8000-000000000010"


def gb10(**fields: Any) -> dict[str, Any]:
    return device("NVIDIA GB10", GB10_UUID, **{"pci_bus_id": "0000000F:01:00.0", **fields})


def instance(number: int, total_mib: int | None, reserved_mib: int = 0) -> dict[str, Any]:
    found = device("", f"MIG-cccccccc-0000-4000-8000-{number:012}", total_mib and total_mib * MIB, reserved_mib * MIB)
    return {key: found[key] for key in ("uuid", "memory", "memory_v2", "compute", "graphics")}

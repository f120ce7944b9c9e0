"""What the files of a board say about its hardware. A text that does not decode loses nothing but its bad bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from edgeagent.facts import BoardFiles
from edgeagent.host import power
from edgeagent.host.files import Files, names, there
from edgeagent.host.powermode import power_mode

_DEVICE_TREE = "proc/device-tree"
_DEVFREQ = "sys/class/devfreq"
_NUMA = "sys/devices/system/node"

_GPU_NODES = frozenset({"gv11b", "gp10b", "ga10b", "gb10b", "gpu"})
"""Device-tree names of Tegra GPUs. ``gpu`` is what other makers call theirs, too."""
_THOR_GPU = "gpu-gpc-0"
"""Thor's GPU is a PCI device and has no device-tree node; this is its entry's own name."""

# The first row names the maker's kernel module, for open modules the architecture, the version, the build.
_DRIVER = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")
_LIBRARY = re.compile(r"libnvidia-ml\.so\.(\d+(?:\.\d+)+)")
_LIBRARY_FOLDERS = (
    *(
        f"usr/lib/{arch}-linux-gnu{below}"
        for arch in ("x86_64", "aarch64")
        for below in ("", "/nvidia/current", "/nvidia")  # Ubuntu; Debian; JetPack
    ),
    "usr/lib64",  # Fedora, SUSE
    "usr/lib",  # Arch
)
_NODE_TOTAL = re.compile(rb"^Node \d+ MemTotal:\s+(\d{1,15}) kB$", re.MULTILINE)


def probe(files: Files, *, arch: str | None = None, page_size: int | None = None) -> BoardFiles:
    """Reads what the board says.

    ``arch`` and ``page_size`` belong to a recorded board; without them they are this machine's.
    """
    displays = power.displays(files)
    driver = _driver(files)
    return BoardFiles(
        arch=arch or os.uname().machine,
        compatible=tuple(entry for entry in (_text(files, f"{_DEVICE_TREE}/compatible") or "").split("\0") if entry),
        model=_line(files, f"{_DEVICE_TREE}/model"),
        soc_family=_line(files, "sys/devices/soc0/family"),
        l4t_release=_line(files, "etc/nv_tegra_release"),
        devfreq=tuple(_devfreq(files)),
        nvmap=_nvmap(files),
        pci_listed=bool(names(files, power.PCI)),
        pci_displays=len(displays),
        pci_asleep=power.asleep(files, displays),
        proc_driver=driver,
        proc_gpus=len(names(files, "proc/driver/nvidia/gpus")),
        nvml_library=None if driver is None else _library(files),
        kernel=_line(files, "proc/sys/kernel/osrelease") or None,
        wsl="microsoft" in (_line(files, "proc/sys/kernel/osrelease") or "").lower() or there(files, "dev/dxg"),
        cpuless_numa_bytes=_cpuless(files),
        page_size=page_size or os.sysconf("SC_PAGE_SIZE"),
        machine_id=_line(files, "etc/machine-id") or _line(files, "var/lib/dbus/machine-id") or None,
        boot_id=_line(files, "proc/sys/kernel/random/boot_id") or None,
        product=_line(files, "sys/class/dmi/id/product_name"),
        power_mode=power_mode(files),
    )


def _nvmap(files: Files) -> bool:
    """The memory driver of a Tegra. On kernels before 4.15 it has rows in meminfo (nvmap_dev.c)."""
    if there(files, "dev/nvmap") or there(files, "sys/kernel/debug/nvmap"):
        return True
    return b"\nNvMapMem" in (_bytes(files, "proc/meminfo") or b"")


def _devfreq(files: Files) -> Iterator[str]:
    for entry in names(files, _DEVFREQ):
        if entry == _THOR_GPU:
            yield entry
            continue
        node = f"{_DEVFREQ}/{entry}/device/of_node"
        name = _line(files, f"{node}/name")
        maker = _text(files, f"{node}/compatible")
        if name in _GPU_NODES and (name != "gpu" or maker is None or "nvidia," in maker):
            yield name


def _driver(files: Files) -> str | None:
    text = _text(files, "proc/driver/nvidia/version")
    if text is None:
        return None
    match = _DRIVER.search(text)
    return match[1] if match else ""


def _library(files: Files) -> str | None:
    """The version of the NVML library that programs get: of the file that its soname links to, else of the newest."""
    for folder in _LIBRARY_FOLDERS:
        try:
            linked = files.link(f"{folder}/libnvidia-ml.so.1")
        except OSError:
            linked = None
        match = _LIBRARY.fullmatch((linked or "").rpartition("/")[2])
        if match:
            return match[1]
        found = [match[1] for name in names(files, folder) if (match := _LIBRARY.fullmatch(name))]
        if found:
            return max(found, key=lambda version: [int(part) for part in version.split(".")])
    return None


def _cpuless(files: Files) -> int:
    """Bytes of the NUMA nodes without a CPU; 0 where no node has one, which says nothing about any."""
    cpuless, with_cpu = 0, False
    for name in names(files, _NUMA):
        cpus = _line(files, f"{_NUMA}/{name}/cpulist")
        if cpus:
            with_cpu = True
        elif cpus is not None:
            match = _NODE_TOTAL.search(_bytes(files, f"{_NUMA}/{name}/meminfo") or b"")
            cpuless += int(match[1]) * 1024 if match else 0
    return cpuless if with_cpu else 0


def _bytes(files: Files, path: str) -> bytes | None:
    try:
        return files.read(path)
    except OSError:
        return None


def _text(files: Files, path: str) -> str | None:
    content = _bytes(files, path)
    return None if content is None else content.decode(errors="replace")


def _line(files: Files, path: str) -> str | None:
    """The first line or, in the device tree, the text before the closing NUL."""
    text = _text(files, path)
    return None if text is None else re.split(r"[\n\0]", text, maxsplit=1)[0].strip()

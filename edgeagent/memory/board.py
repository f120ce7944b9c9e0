"""What kind of board this is: independent signals, a verdict per device, no single switch.

"Jetson", "unified" and "has NVML" are three independent properties. A Tegra is recognised by
any one of its signals; a device is judged by itself, because one board can carry an integrated
and a discrete GPU at once, and NVML and CUDA count them in different orders.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from edgeagent.facts.codes import DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH, LIBRARY_NOT_FOUND
from edgeagent.memory.devices import NAMELESS, doubtful, judge
from edgeagent.memory.types import Board, BoardKind, Device, Health

if TYPE_CHECKING:
    from edgeagent.facts import BoardFiles, MemInfo, Nvml, Reading

# What a module is, by the first four digits of its part number (NVIDIA's board ids).
_MODULES = frozenset(
    ["p2180", "p2888", "p3310", "p3448", "p3489", "p3636", "p3668", "p3701", "p3767", "p3834", "p3904"]
)
_PART = re.compile(r"p\d{4}-\d{4}")
_L4T = re.compile(r"# R(\d+) \(release\), REVISION: (\d+(?:\.\d+)*)")

# JetPack by L4T release, from NVIDIA's release notes; a trailing .0 is dropped first.
_JETPACK = {
    "32.4.3": "4.4", "32.4.4": "4.4.1", "32.5": "4.5", "32.5.1": "4.5.1", "32.5.2": "4.5.1", "32.6.1": "4.6",
    "32.7.1": "4.6.1", "32.7.2": "4.6.2", "32.7.3": "4.6.3", "32.7.4": "4.6.4", "32.7.5": "4.6.5", "32.7.6": "4.6.6",
    "35.1": "5.0.2", "35.2.1": "5.1", "35.3.1": "5.1.1", "35.4.1": "5.1.2", "35.5": "5.1.3", "35.6": "5.1.4",
    "35.6.1": "5.1.5", "36.3": "6.0", "36.4": "6.1", "36.4.2": "6.1", "36.4.3": "6.2", "36.4.4": "6.2.1",
    "36.4.7": "6.2.1", "36.5": "6.2.2", "38.2": "7.0", "38.2.1": "7.0", "38.4": "7.1", "39.2": "7.2",
}  # fmt: skip
_CUDA_ARCH = {"tegra210": "5.3", "tegra186": "6.2", "tegra194": "7.2", "tegra234": "8.7", "tegra264": "11.0"}

# Set only by NVIDIA's Tegra kernels and root file systems; any one of them is enough.
_TEGRA_SIGNALS = ("device-tree", "soc0", "l4t-release", "nvmap")


def detect(
    files: BoardFiles, nvml: Reading[Nvml], meminfo: MemInfo | None, override: Literal["auto", "yes", "no"] = "auto"
) -> Board:
    """The verdict on this board. ``override`` is ``unified.detect``: yes and no overrule the signs of a device."""
    signals = _signals(files, nvml.value)
    tegra = any(signal in _TEGRA_SIGNALS for signal in signals)
    asleep = frozenset() if tegra else _asleep(files)
    judged = judge(nvml.value, tegra=tegra, arch=files.arch, meminfo=meminfo, override=override, asleep=asleep)
    tegra = tegra or any(device.tegra for device in judged)
    if tegra and not judged:
        judged = (_bare_igpu(files, nvml),)
    if not tegra and _expects_nvml(files) and not _driver_alone(files, nvml.value):
        judged += _unlisted(files, nvml, judged)
    # NVML's order is another after a restart, and CUDA's another again.
    judged = tuple(sorted(judged, key=lambda device: device.uuid or ""))
    soc = _soc(files)
    answer = nvml.value
    arch = _cuda_arch(answer)
    l4t = _l4t(files)
    readable = _readable(files, nvml, tegra=tegra)
    kind = _kind(files, judged, tegra=tegra, known=readable)
    return Board(
        kind=kind,
        unified=None if kind == "unknown" else any(device.memory == "unified" for device in judged),
        signals=signals,
        product=_product(files, judged, tegra=tegra),
        soc=soc,
        module=_module(files) if tegra else None,
        l4t=l4t,
        jetpack=_JETPACK.get(re.sub(r"(\.0)+$", "", l4t)) if l4t else None,
        power_mode=files.power_mode if tegra else None,
        driver_version=(answer.driver_version if answer else None) or files.proc_driver,
        cuda_version=_cuda_version(answer),
        cuda_arch=arch or _CUDA_ARCH.get(soc or ""),
        warnings=_warnings(files, nvml, signals, judged, tegra=tegra, readable=readable),
        devices=judged,
        readable=readable,
    )


def _signals(files: BoardFiles, nvml: Nvml | None) -> tuple[str, ...]:
    seen = {
        "device-tree": any(re.fullmatch(r"nvidia,tegra\w*", entry) for entry in files.compatible),
        "soc0": (files.soc_family or "").strip().lower().startswith("tegra"),
        "l4t-release": bool(_L4T.match(files.l4t_release or "")),
        "nvml": nvml is not None and bool(nvml.devices),
        "devfreq": bool(files.devfreq),
        "nvmap": files.nvmap,
        "pci": files.pci_displays > 0,
        "proc-driver": files.proc_driver is not None or files.proc_gpus > 0,
        "wsl": files.wsl,
    }
    return tuple(name for name, present in seen.items() if present)


def _kind(files: BoardFiles, devices: tuple[Device, ...], *, tegra: bool, known: bool) -> BoardKind:
    memories = {device.memory for device in devices}
    if len(memories) > 1:
        return "mixed"
    if not devices:
        return "unknown" if not known else "none"
    if "unified" in memories:
        return "jetson" if tegra else "unified"
    return "wsl" if files.wsl else "discrete"


def _expects_nvml(files: BoardFiles) -> bool:
    """NVIDIA hardware or its driver is there, so NVML ought to answer."""
    return files.pci_displays > 0 or files.proc_gpus > 0 or files.proc_driver is not None


def _driver_alone(files: BoardFiles, nvml: Nvml | None) -> bool:
    """A loaded driver is all that can be seen: of a card, or of a Jetson up to JetPack 5, which has no NVML.

    On x86_64 there is no Jetson.
    """
    seen = files.pci_listed or files.pci_displays or nvml is None or nvml.library == "present"
    return _expects_nvml(files) and not seen and files.arch != "x86_64"


def _asleep(files: BoardFiles) -> frozenset[str | None]:
    """Addresses of the devices that are powered down; if all are, so is one whose address NVML did not tell.

    Not to be asked on a Tegra: what its own GPU holds stays in the board's memory while it is powered down.
    """
    everything = files.pci_asleep and len(files.pci_asleep) == files.pci_displays
    return frozenset((*files.pci_asleep, None) if everything else files.pci_asleep)


def _readable(files: BoardFiles, nvml: Reading[Nvml], *, tegra: bool) -> bool:
    if nvml.value is None:
        return False
    if nvml.value.library == "present" and nvml.value.init == 0:
        return nvml.value.count is not None
    # A JetPack up to 5 has no NVML, and a machine without NVIDIA hardware needs none: an image may have brought
    # the library, which then finds no driver. That alone proves nothing, nor does it in a WSL guest.
    driverless = nvml.value.init == DRIVER_NOT_LOADED and files.pci_listed and not files.wsl
    missing = nvml.value.library == "absent" or driverless
    return tegra or (missing and not _expects_nvml(files))


def _bare_igpu(files: BoardFiles, nvml: Reading[Nvml]) -> Device:
    """The integrated GPU of a Tegra that NVML does not list: normal up to JetPack 5, and no fault by itself."""
    answer = nvml.value
    health: Health = "ok"
    why = ""
    if answer is None:
        health, why = "unknown", nvml.why or "NVML gave no answer"
    elif answer.library == "present" and answer.init != 0:
        health, why = "degraded", _refused(files, answer.init)
    return Device(
        uuid=None,
        name=_soc(files) or "Tegra integrated GPU",
        memory="unified",
        health=health,
        tegra=True,
        why=why,
    )


def _unlisted(files: BoardFiles, nvml: Reading[Nvml], listed: tuple[Device, ...]) -> tuple[Device, ...]:
    """Cards that PCI or the kernel driver shows but NVML does not list: there, of unknown size.

    Those that are powered down were not asked. While NVML answers, others are not its driver's.
    """
    answer = nvml.value
    asleep = 0
    if answer is not None and answer.init in (0, LIBRARY_NOT_FOUND):
        more = len(files.pci_asleep) - sum(device.health == "asleep" for device in listed)
        asleep = max(0, min(more, files.pci_displays - len(listed)))
    health: Health
    lone = Device(uuid=None, name=NAMELESS, memory="discrete", health="asleep")
    found = (lone,) * asleep
    if answer is not None and answer.library == "present" and answer.init == 0:
        return found
    if answer is None:
        health, why = "unknown", nvml.why or "NVML gave no answer"
    elif answer.library == "absent":
        health, why = "degraded", "the NVML library is missing"
    else:
        health, why = "degraded", _refused(files, answer.init)
    silent = max(files.pci_displays, files.proc_gpus, 1) - asleep
    return (*found, *(replace(lone, health=health, why=why),) * silent)


def _refused(files: BoardFiles, code: int) -> str:
    if code != LIB_RM_VERSION_MISMATCH:
        return f"nvmlInit answered {code}"
    return (
        f"nvmlInit answered {code}: the kernel module has version {files.proc_driver or 'unknown'}, the library "
        f"{files.nvml_library or 'unknown'}; reboot, or load the module anew"
    )


def _soc(files: BoardFiles) -> str | None:
    return next((match[1] for entry in files.compatible if (match := re.fullmatch(r"nvidia,(tegra\d+)", entry))), None)


def _module(files: BoardFiles) -> str | None:
    parts = [part for entry in files.compatible for part in _PART.findall(entry)]
    known = [part for part in parts if part[:5] in _MODULES]
    return next(iter((*known, *parts)), None)


def _l4t(files: BoardFiles) -> str | None:
    match = _L4T.match(files.l4t_release or "")
    return f"{match[1]}.{match[2]}" if match else None


def _cuda_version(nvml: Nvml | None) -> str | None:
    if nvml is None or not nvml.cuda_version:
        return None
    return f"{nvml.cuda_version // 1000}.{nvml.cuda_version % 1000 // 10}"


def _cuda_arch(nvml: Nvml | None) -> str | None:
    told = sorted(
        (device.uuid or "", device.cuda_capability)
        for device in (nvml.devices if nvml else ())
        if device.cuda_capability is not None
    )
    return f"{told[0][1][0]}.{told[0][1][1]}" if told else None


def _product(files: BoardFiles, devices: tuple[Device, ...], *, tegra: bool) -> str | None:
    names = sorted((device.name for device in devices), key=lambda name: name == NAMELESS)
    if tegra:
        return files.model or (names[0] if names else None)
    return names[0] if names else files.product or files.model


def _warnings(
    files: BoardFiles,
    nvml: Reading[Nvml],
    signals: tuple[str, ...],
    devices: tuple[Device, ...],
    *,
    tegra: bool,
    readable: bool,
) -> tuple[str, ...]:
    found = []
    if nvml.value is None:
        found.append(f"NVML is not readable: {nvml.why or 'no answer'}")
    elif nvml.value.library == "present" and nvml.value.init != 0 and (tegra or not readable):
        found.append(_refused(files, nvml.value.init))
    elif not tegra and _driver_alone(files, nvml.value):
        found.append("an NVIDIA driver is loaded, but neither the PCI bus nor the NVML library tells of which GPU")
    elif nvml.value.library == "absent" and not tegra and _expects_nvml(files) and None not in _asleep(files):
        found.append("NVIDIA hardware is there but the NVML library is missing")
    if tegra and files.compatible and "device-tree" not in signals:
        found.append("the device tree names no nvidia,tegra SoC although other signals say Tegra")
    if tegra and files.soc_family and "soc0" not in signals:
        found.append(f"the SoC family is {files.soc_family} although other signals say Tegra")
    discrete = {device.uuid for device in devices if device.memory == "discrete"}
    found += [
        f"used and free memory of {device.name or NAMELESS} do not add up to its total"
        for device in (nvml.value.devices if nvml.value else ())
        if device.uuid in discrete and doubtful(device)
    ]
    return tuple(found)

"""NVIDIA's device nodes, the mode that the driver gives them, and the sockets of device plugins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.facts.diagnosis import DeviceNode, DeviceParams
from edgeagent.host.files import names

if TYPE_CHECKING:
    from edgeagent.host.files import Files

_PARAMS = "proc/driver/nvidia/params"
_ROW = re.compile(r"^(\w+): (\d+)$", re.MULTILINE)
_PLUGINS = "var/lib/kubelet/device-plugins"
_KUBELET = "kubelet.sock"
_NVGPU = "nvgpu"
_ALWAYS = "null"
_OWNED = re.compile(r"uid=(\d{1,10}) gid=(\d{1,10}) mode=([0-7]{1,4})")
_NODE = re.compile(r"nvidia.*|nvmap|nvgpu|nvhost-(?:.*-)?gpu")


def nodes(files: Files) -> tuple[str, ...]:
    """Names below ``/dev``."""
    return tuple(name for name in names(files, "dev") if _NODE.fullmatch(name))


def owned(files: Files) -> Iterator[DeviceNode]:
    """Those whose owner and mode can be told, with what is below ``/dev/nvgpu`` (one folder for each GPU)."""
    below = (
        f"{_NVGPU}/{gpu}/{name}"
        for gpu in names(files, f"dev/{_NVGPU}")
        for name in names(files, f"dev/{_NVGPU}/{gpu}")
    )
    for name in (*nodes(files), *below):
        try:
            match = _OWNED.fullmatch(files.device(f"dev/{name}"))
        except OSError:
            continue
        if match:
            yield DeviceNode(path=f"/dev/{name}", uid=int(match[1]), gid=int(match[2]), mode=int(match[3], 8))


def listed(files: Files) -> bool:
    """Whether all of ``/dev`` is seen: every system has a null device."""
    return _ALWAYS in names(files, "dev")


def params(files: Files) -> DeviceParams | None:
    """The driver's own settings for the nodes that it makes; None without such a driver."""
    try:
        rows = dict(_ROW.findall(files.read(_PARAMS).decode(errors="replace")))
    except OSError:
        return None
    try:
        return DeviceParams(
            uid=int(rows["DeviceFileUID"]),
            gid=int(rows["DeviceFileGID"]),
            mode=int(rows["DeviceFileMode"]),
            modify=rows["ModifyDeviceFiles"] != "0",
        )
    except KeyError:
        return None


def plugin_sockets(files: Files) -> tuple[str, ...] | None:
    """Sockets by which device plugins have registered with the kubelet, its own left out; None: not readable."""
    try:
        found = files.names(_PLUGINS)
    except OSError:
        return None
    return tuple(name for name in found if name.endswith(".sock") and name != _KUBELET)

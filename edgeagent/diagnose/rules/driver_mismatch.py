"""The driver in the kernel and the libraries that programs get are of different versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.diagnose.rule import Rule
from edgeagent.facts.codes import LIB_RM_VERSION_MISMATCH, SUCCESS

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import Finding

_KERNELS = {32: "4.9", 34: "5.10", 35: "5.10", 36: "5.15", 38: "6.8", 39: "6.8"}
"""The kernel of each release of Jetson Linux (its release notes)."""
_DRIVERS = {36: 540, 38: 580, 39: 595}
"""The branch of its GPU driver. Up to 35 the driver has the number of the release itself."""
_OWN_NUMBER = range(32, 36)
_MAKERS = re.compile(r"(\d+\.\d+)\.\d.*-tegra")
"""A kernel that NVIDIA has built. Others may go with any release."""


def look(seen: Collected) -> Iterator[Finding]:
    """NVML's own answer first, then what the files say, then a Jetson's release beside its kernel."""
    nvml, files = seen.facts.host.nvml.value, seen.facts.host.files
    module, library = files.proc_driver or "", files.nvml_library or ""
    differ = bool(module and library) and _number(module) != _number(library)
    if nvml is not None and nvml.library == "present" and nvml.init == LIB_RM_VERSION_MISMATCH:
        yield _refused(seen, module, library) if differ or not (module and library) else _old_copy(seen, module)
    elif differ and seen.has_gpu:
        answers = nvml is not None and nvml.library == "present" and nvml.init == SUCCESS
        # A driver that the GPU operator brings has libraries of its own, and older ones may lie around.
        if not answers or _number(library) > _number(module):
            yield _waiting(seen, module, library, answers=answers)
    yield from _jetson(seen)


def _number(version: str) -> tuple[int, ...]:
    parts = [int(part) for part in version.split(".")]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def _rows(module: str, library: str) -> tuple[str, str]:
    return (
        f"/proc/driver/nvidia/version: kernel module {module or 'of unknown version'}",
        f"libnvidia-ml.so: {library or 'version not found'}",
    )


def _refused(seen: Collected, module: str, library: str) -> Finding:
    return RULE.finding(
        seen.node_subject,
        f"The loaded kernel module has version {module or 'unknown'}, the driver's libraries have "
        f"{library or 'another one'}: no program can begin to use the GPU. Those that already do go on.",
        evidence=(f"nvmlInit: {LIB_RM_VERSION_MISMATCH}", *_rows(module, library)),
        remedy=_reload(seen),
    )


def _old_copy(seen: Collected, version: str) -> Finding:
    """As in a container that was made before an upgrade: what it was given then is what it has."""
    return RULE.finding(
        seen.node_subject,
        f"The kernel module and the host's libraries both have version {version}, but NVML as the agent has it is of "
        "another one: so it is in every container that was made before the driver changed.",
        evidence=(f"nvmlInit: {LIB_RM_VERSION_MISMATCH}", *_rows(version, version)),
        remedy="Make anew what has the old libraries. Of the agent in a pod (another one: sudo systemctl restart "
        "edgeagent):\nkubectl get pods -A -l app.kubernetes.io/name=edgeagent "
        "--field-selector "
        f"spec.nodeName={_node(seen)}\n"
        "kubectl delete pods -A -l app.kubernetes.io/name=edgeagent --field-selector "
        f"spec.nodeName={_node(seen)}",
    )


def _waiting(seen: Collected, module: str, library: str, *, answers: bool) -> Finding:
    return RULE.finding(
        seen.node_subject,
        f"The loaded kernel module has version {module}, the libraries on the disk {library}, as after an upgrade "
        "without a restart: containers that start from now on cannot use the GPU.",
        evidence=_rows(module, library),
        remedy=_reload(seen),
        severity="warning" if answers else "error",
        certainty="suspected",
    )


def _node(seen: Collected) -> str:
    return seen.node.name if seen.node else "NODE"


def _reload(seen: Collected) -> str:
    node = _node(seen)
    return (
        "Restart the node, which loads the module that belongs to the libraries:\n"
        f"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data\n"
        "sudo reboot\n"
        f"kubectl uncordon {node}\n"
        "Or, once nothing holds the GPU any more, load it anew:\n"
        "sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia && sudo modprobe nvidia_uvm\n"
        "So that the next upgrade is made by hand:\n"
        "sudo apt-mark hold $(dpkg-query -W -f '${Package} ' 'libnvidia-*' 'nvidia-driver-*' 'nvidia-dkms-*')"
    )


def _jetson(seen: Collected) -> Iterator[Finding]:
    """A release's kernel and driver come with it; an upgrade that was not finished leaves those of another one."""
    board, files = seen.plan.board, seen.facts.host.files
    if board.kind != "jetson" or not board.l4t:
        return
    release = _number(board.l4t)
    rows = [f"/etc/nv_tegra_release: {board.l4t}"]
    kernel = _MAKERS.fullmatch(files.kernel or "")
    wanted = _KERNELS.get(release[0])
    if kernel and wanted and kernel[1] != wanted:
        rows.append(f"/proc/sys/kernel/osrelease: {files.kernel}, release {release[0]} has {wanted}")
    driver = _number(files.proc_driver or "") if files.proc_driver else ()
    branch = _DRIVERS.get(release[0])
    if driver and branch and driver[0] != branch:
        rows.append(f"/proc/driver/nvidia/version: {files.proc_driver}, release {release[0]} has {branch}")
    if driver and release[0] in _OWN_NUMBER and driver[:2] != release[:2]:
        rows.append(f"/proc/driver/nvidia/version: {files.proc_driver}, release {board.l4t} has the same number")
    if rows[1:]:
        yield RULE.finding(
            seen.node_subject,
            f"The system is of Jetson Linux {board.l4t}, but the kernel that runs, or its GPU driver, is of another "
            "release: CUDA fails, or finds no device.",
            evidence=rows,
            remedy="Restart first: an upgrade may wait for it. If that does not help, install the release's own kernel "
            "again:\nsudo apt-get update\n"
            "sudo apt-get install --reinstall nvidia-l4t-core nvidia-l4t-kernel nvidia-l4t-kernel-dtbs "
            "nvidia-l4t-initrd\nsudo reboot",
            severity="warning",
            certainty="suspected",
        )


RULE = Rule(
    id="driver-mismatch",
    title="Kernel module and libraries of the driver differ",
    severity="error",
    looks_at="what `nvmlInit` answers (18 is `NVML_ERROR_LIB_RM_VERSION_MISMATCH`), the version in "
    "`/proc/driver/nvidia/version` and that of the host's `libnvidia-ml.so`; on a Jetson `/etc/nv_tegra_release` "
    "beside the kernel that runs. Certain where NVML says so itself, a suspicion where only files do",
    matters="A package was upgraded, often unattended, and the old module is still loaded. What runs goes on; what "
    "starts cannot use the GPU, and a restart of pods makes it worse. A Jetson's libraries need the kernel of their "
    "own release.",
    remedy="Restart the node, or end what uses the GPU and load the module anew. Until then let run what runs.",
    look=look,
)
RULES = (RULE,)

"""GPU device nodes are missing, or a container's user may not open them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.diagnose import injection, manifests
from edgeagent.diagnose.collected import pod_subject
from edgeagent.diagnose.rule import Rule
from edgeagent.facts import PREFIX
from edgeagent.facts.diagnosis import DeviceNode

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import ContainerFacts, Finding, PodFacts

_NEEDED = re.compile(
    r"/dev/(?:nvmap|nvhost-(?:as-|ctrl-|tsg-)?gpu|nvgpu/[^/]+/(?:as|channel|ctrl|tsg)|nvidia\d+|nvidiactl|nvidia-uvm)"
)
"""What a CUDA program opens. Others, as for a debugger or the display, may be closed to it."""
_MADE_BY_DRIVER = re.compile(r"nvidia\d+|nvidiactl")
_TEGRA = re.compile(r"nvgpu|nvhost-.*")
_READ_WRITE = 6
_GROUP = 3
_OWNER = 6
_SHOWN = 3
_VIDEO = 44
_USUAL = DeviceNode(path="/dev/nvmap", uid=0, gid=_VIDEO, mode=0o660)
"""As Jetson Linux' own rules have it (99-tegra-devices.rules of nvidia-l4t-init); 44 is Ubuntu's group video."""


def look(seen: Collected) -> Iterator[Finding]:
    """The nodes of the board first, then containers that run as somebody else than root."""
    if not seen.has_gpu:
        return
    yield from _absent(seen)
    nodes, usual = _nodes(seen)
    for view in seen.plan.pods:
        for container in injection.lasting(view.pod) if not view.pod.terminating else ():
            denied = [node for node in nodes if not _open_to(node, view.pod, container)]
            if denied and _wants(seen, view.pod, container) and not injection.holds(seen, view, container):
                yield _denied(seen, view.pod, container, denied, usual=usual)


# --- nodes that are not there -----------------------------------------------------------------------


def _absent(seen: Collected) -> Iterator[Finding]:
    """A folder that may not be the whole of ``/dev`` proves nothing by what is not in it."""
    host, files, names = seen.host, seen.facts.host.files, seen.host.device_nodes
    if host.csv is not None and seen.plan.board.kind in ("jetson", "mixed"):
        has_gpu_nodes = any(_TEGRA.fullmatch(name) for name in names)
        if "nvmap" not in names and (host.devices_listed or has_gpu_nodes):
            yield _tegra_lacks(seen, "/dev/nvmap")
        elif host.devices_listed and not has_gpu_nodes and not any(map(_MADE_BY_DRIVER.fullmatch, names)):
            yield _tegra_lacks(seen, "/dev/nvhost-gpu and /dev/nvgpu")
    elif host.devices_listed and files.proc_driver and not any(map(_MADE_BY_DRIVER.fullmatch, names)):
        yield RULE.finding(
            seen.node_subject,
            "The driver is loaded, but there is no /dev/nvidia0: no container can be given a GPU.",
            evidence=(f"/proc/driver/nvidia/version: {files.proc_driver}", f"/dev: {_listed(names)}"),
            remedy="Make the nodes, which nvidia-persistenced does at every start too:\n"
            "sudo nvidia-modprobe -c=0 -u\nsudo systemctl enable --now nvidia-persistenced",
            severity="warning",
            certainty="suspected",
        )


def _tegra_lacks(seen: Collected, path: str) -> Finding:
    return RULE.finding(
        seen.node_subject,
        f"There is no {path}, which every program on a Jetson's GPU opens: its kernel module is not loaded.",
        evidence=(f"/dev: {_listed(seen.host.device_nodes)}",),
        remedy="Load the modules. If one is not found, kernel and system are of different releases:\n"
        "sudo modprobe nvmap\nsudo modprobe nvgpu\nsudo udevadm trigger\nuname -r; head -n 1 /etc/nv_tegra_release",
        certainty="certain" if seen.host.devices_listed else "suspected",
    )


def _listed(names: tuple[str, ...]) -> str:
    return f"of NVIDIA's {', '.join(names) or 'nothing'}"


# --- nodes that are closed --------------------------------------------------------------------------


def _nodes(seen: Collected) -> tuple[list[DeviceNode], bool]:
    """Those that a program needs, and whether they are only as they usually are."""
    nodes = [node for node in seen.host.nodes if _NEEDED.fullmatch(node.path)]
    params = seen.host.device_params
    if params and params.modify and not any(_MADE_BY_DRIVER.fullmatch(node.path[5:]) for node in nodes):
        nodes.append(DeviceNode(path="/dev/nvidia0", uid=params.uid, gid=params.gid, mode=params.mode))
    if nodes or seen.plan.board.kind != "jetson":
        return nodes, False
    return [_USUAL], True


def _open_to(node: DeviceNode, pod: PodFacts, container: ContainerFacts) -> bool:
    """Whether the kernel lets the container's user read and write it; True where its user is not known."""
    if not container.user:
        return True
    if container.user == node.uid:
        return _grants(node.mode >> _OWNER)
    # Without a group in the manifest the image says which, or it is root's.
    if node.gid in (container.group or 0, *pod.groups):
        return _grants(node.mode >> _GROUP)
    return _grants(node.mode)


def _grants(bits: int) -> bool:
    return bits & _READ_WRITE == _READ_WRITE


def _wants(seen: Collected, pod: PodFacts, container: ContainerFacts) -> bool:
    """It is to get a device, and not in a way of which nothing is known here."""
    if injection.barred(seen, pod, container):
        return False
    by_class = pod.runtime_class is not None and injection.handler(seen, pod) in seen.host.containerd.nvidia
    asks = injection.asked(container, PREFIX, injection.BY_PLUGIN)
    return bool(asks) or injection.given_by_variable(container) or by_class


def _denied(
    seen: Collected, pod: PodFacts, container: ContainerFacts, denied: list[DeviceNode], *, usual: bool
) -> Finding:
    groups = sorted({node.gid for node in denied if _grants(node.mode >> _GROUP) and node.gid})
    hopeless = [node for node in denied if node.gid not in groups]
    first = (hopeless or denied)[0]
    # The image may put its user into groups that the manifest does not name.
    certain = not usual and bool(hopeless or pod.strict_groups)
    in_groups = ", ".join(str(one) for one in dict.fromkeys((container.group or 0, *pod.groups)))
    return RULE.finding(
        pod_subject(pod),
        f"Container {container.name} runs as user {container.user}, who may not open {first.path}"
        + (f" and {len(denied) - 1} more." if denied[1:] else "."),
        evidence=(
            f"container {container.name}: runAsUser {container.user}, groups {in_groups}",
            *(_row(node, usual=usual) for node in denied[:_SHOWN]),
        ),
        remedy=_opened(seen, hopeless) if hopeless else _joined(pod, container, groups),
        severity="warning" if usual else "error",
        certainty="certain" if certain else "suspected",
        pod=pod,
    )


def _row(node: DeviceNode, *, usual: bool) -> str:
    told = f"{node.path}: mode {node.mode:04o}, owner {node.uid}, group {node.gid}"
    return f"{told} (not read: as Jetson Linux sets it)" if usual else told


def _joined(pod: PodFacts, container: ContainerFacts, groups: list[int]) -> str:
    context = {"securityContext": {"supplementalGroups": sorted({*pod.groups, *groups})}}
    named = ", ".join(map(str, groups))
    return f"Put the container into the group {named}:\n{manifests.changed(pod, container, spec=context, fields={})}"


def _opened(seen: Collected, nodes: list[DeviceNode]) -> str:
    """No group would help: the node itself is to be changed."""
    if any(not _MADE_BY_DRIVER.fullmatch(node.path[5:]) for node in nodes) and seen.host.csv is not None:
        return (
            "Let the nodes be as Jetson Linux has them, for the group video (44). Now, and with its own rules again "
            "from the next start on:\n"
            f"sudo chgrp video {' '.join(node.path for node in nodes)}\n"
            f"sudo chmod 0660 {' '.join(node.path for node in nodes)}\n"
            "sudo apt-get install --reinstall nvidia-l4t-init\n"
            "Then put the container into it: securityContext: {supplementalGroups: [44]}"
        )
    return (
        "Let the driver make its nodes for everybody, as it does where nothing is set:\n"
        "echo 'options nvidia NVreg_DeviceFileMode=0666' | sudo tee /etc/modprobe.d/nvidia-device-files.conf\n"
        "sudo reboot"
    )


RULE = Rule(
    id="device-node-permission",
    title="GPU device nodes are missing, or closed to a container's user",
    severity="error",
    looks_at="owner, group and mode of `/dev/nvmap`, `/dev/nvhost-*gpu`, `/dev/nvgpu/*/*` and `/dev/nvidia*`, else "
    "`/proc/driver/nvidia/params`; `runAsUser`, `runAsGroup`, `fsGroup` and `supplementalGroups` of containers that "
    "are to get the GPU and hold none of its nodes. A suspicion where the image may name more groups",
    matters="A container gets the nodes with the owner and mode that they have on the host. On a Jetson they belong to "
    "the group `video`. Somebody who is neither root nor in it gets *permission denied*, and CUDA says only that there "
    "is no device.",
    remedy="Put the pod into the group of the nodes, by its number:\n"
    "spec:\n"
    "  securityContext:\n"
    "    supplementalGroups: [44]",
    look=look,
)
RULES = (RULE,)

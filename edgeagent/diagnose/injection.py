"""How a container comes by a GPU: does it ask for one, can it get one as things are set up, has it got one?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeagent.diagnose import advice, manifests
from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY, PREFIX
from edgeagent.quantity import MIB

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import ContainerFacts, PodFacts
    from edgeagent.plan.breaches import PodView

BY_PLUGIN = "nvidia.com/"
VARIABLE = "NVIDIA_VISIBLE_DEVICES"
_NONE = ("", "void", "none")
"""Values of the variable for which NVIDIA's runtime gives a container no device."""
_BY_NAME = ("cdi.k8s.io/", "nvidia.cdi.k8s.io/")
"""Annotations that name devices for containerd, or for NVIDIA's NRI plug-in: no runtime is needed for them."""
_OF_PLUGIN = "k8s.device-plugin.nvidia.com/"
"""Kind of the devices that NVIDIA's device plugin describes where it gives them out by name."""


# --- does it ask? ----------------------------------------------------------------------


def asked(container: ContainerFacts, *domains: str) -> dict[str, int]:
    """The resources of these domains that a container asks for, with their amounts.

    0 is left out, and so is GPU memory below 1 MiB: there the suffix was forgotten, which is another finding.
    """
    amounts = {**container.requests, **container.limits}
    return {
        key: amount
        for key, amount in sorted(amounts.items())
        if key.startswith(domains) and amount >= (MIB if key.startswith((GPU_MEMORY, IGPU_MEMORY)) else 1)
    }


def lasting(pod: PodFacts) -> list[ContainerFacts]:
    """The containers that run as long as the pod does."""
    return [one for one in pod.containers if one.kind in ("regular", "sidecar")]


def given_by_variable(container: ContainerFacts) -> bool:
    """Its manifest names devices for NVIDIA's runtime."""
    return container.visible_devices is not None and container.visible_devices not in _NONE


def for_gpu(pod: PodFacts | None, *names: str) -> bool:
    """A class or a handler of one of these names is for the GPU, as far as can be told: by its name, or by its pod.

    A pod under another one, such as kata or gVisor, is there to be kept apart: it must not run under NVIDIA's.
    """
    asks = pod is not None and any(asked(one, PREFIX, BY_PLUGIN) or given_by_variable(one) for one in pod.containers)
    return asks or any(name.startswith("nvidia") for name in names)


# --- can it get one? -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Barred:
    """Why a container gets no device, whatever is in its image: by the configuration alone."""

    why: str
    evidence: tuple[str, ...]
    by_runtime: bool
    """It runs under another runtime than NVIDIA's; False: the variable says that it gets none."""


def barred(seen: Collected, pod: PodFacts, container: ContainerFacts) -> Barred | None:
    """None: it may get one, or that cannot be told."""
    if container.other_ways or any(key.startswith(_BY_NAME) for key in pod.annotations) or _by_others(container):
        return None
    by_plugin = bool(asked(container, BY_PLUGIN))
    if by_plugin and any(spec.problem or spec.kind.startswith(_OF_PLUGIN) for spec in seen.host.cdi):
        return None
    used, name = seen.host.containerd, handler(seen, pod)
    if name is None:
        return None
    if name not in used.nvidia:
        return Barred(_other_runtime(pod, name), tuple(_runtime_rows(seen, pod)), by_runtime=True)
    if container.visible_devices in _NONE and not by_plugin:
        row = f"container {container.name}: {VARIABLE}={container.visible_devices}"
        return Barred(
            f"its manifest sets {VARIABLE} to {container.visible_devices or 'nothing'}", (row,), by_runtime=False
        )
    return None


def handler(seen: Collected, pod: PodFacts) -> str | None:
    """The runtime of containerd that the pod runs under; None where that cannot be told, or it cannot start."""
    used, classes = seen.host.containerd, seen.cluster.runtime_classes.items
    if used.problem or not used.pods:
        return None
    if pod.runtime_class is None:
        name = used.default or "runc"
        return name if used.has(name) else None
    if classes is None:
        # K3s' classes have the names of their handlers. Of any other nothing is known without the list.
        return pod.runtime_class if pod.runtime_class in used.nvidia else None
    found = next((one.handler for one in classes if one.name == pod.runtime_class), None)
    return found if found and used.has(found) else None


def _by_others(container: ContainerFacts) -> bool:
    """It asks for a resource that is neither ours nor NVIDIA's: what that one's device plugin gives is not known."""
    return any("/" in key and not key.startswith((PREFIX, BY_PLUGIN)) for key in container.limits)


def _other_runtime(pod: PodFacts, name: str) -> str:
    if pod.runtime_class is None:
        return f"the pod names no RuntimeClass, and containerd's default runtime is {name}"
    return f"the pod's RuntimeClass {pod.runtime_class} leads to the runtime {name}, which is not NVIDIA's"


def _runtime_rows(seen: Collected, pod: PodFacts) -> Iterator[str]:
    used = seen.host.containerd
    yield f"spec.runtimeClassName: {pod.runtime_class or 'not set'}"
    if pod.runtime_class is None:
        yield f"{used.path}: default_runtime_name {used.default or 'not set, which is runc'}"
    yield f"{used.path}: runtimes {', '.join(sorted(used.runtimes)) or 'none'}"


def remedy(seen: Collected, pod: PodFacts, container: ContainerFacts, *, by_runtime: bool) -> str:
    """What makes NVIDIA's runtime give the container a device; the first line is a sentence."""
    fields = {} if asked(container, BY_PLUGIN) else {"env": [{"name": VARIABLE, "value": "all"}]}
    if not by_runtime:
        told = manifests.changed(pod, container, spec={}, fields=fields)
        return f"Let the container have the GPU: set {VARIABLE} to all.\n{told}"
    name, missing = _gpu_class(seen)
    first = f"Let the pod run under NVIDIA's runtime: name the RuntimeClass {name}."
    lines = [first]
    if not _usable(seen):
        lines += [f"The node has no such runtime yet. {advice.configure(seen)}", "Then:"]
    if missing:
        lines.append(advice.runtime_class(name, missing))
    lines.append(manifests.changed(pod, container, spec={"runtimeClassName": name}, fields=fields))
    return "\n".join(lines)


def _usable(seen: Collected) -> list[str]:
    """NVIDIA's runtimes that are installed, the plain one first."""
    used = seen.host.containerd
    return sorted((name for name in used.nvidia if used.runtimes[name][1]), key=lambda name: (name != "nvidia", name))


def _gpu_class(seen: Collected) -> tuple[str, str]:
    """(RuntimeClass that leads to NVIDIA's runtime, handler to make it with or "" if it is there)."""
    names, classes = _usable(seen) or ["nvidia"], seen.cluster.runtime_classes.items
    for name in names:
        fitting = sorted(one.name for one in classes or () if one.handler == name)
        if fitting:
            return (name if name in fitting else fitting[0]), ""
    taken = {one.name for one in classes or ()}
    free = names[0] if names[0] not in taken else f"{names[0]}-gpu"
    return free, "" if classes is None else names[0]


# --- has it got one? -------------------------------------------------------------------


def holds(seen: Collected, view: PodView, container: ContainerFacts) -> bool | None:
    """A process of it uses a GPU, or holds a device node open. None: cannot tell."""
    own = (container.container_id, None)
    holders = seen.host.holders
    if any(
        one.container_id == container.container_id or (one.pod_uid == view.pod.cgroup_uid and one.container_id is None)
        for one in holders.processes
    ):
        return True
    for pid, _ in view.use.processes:
        process = seen.facts.host.processes.get(pid)
        if process is None or (process.owner.container_id if process.owner else process.container_id) in own:
            return True
    if holders.problem or container.container_id in holders.closed or container.container_id not in holders.seen:
        return None
    return False

"""Effective requests and limits of a pod, as the scheduler and the kubelet count them.

Containers and sidecars (init containers with restartPolicy Always) run together; an init
container runs beside the sidecars declared before it only. The pod needs the larger of the
two, plus its overhead. Pod-level resources replace the sum for the resources they name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from edgeagent.quantity import MIB

if TYPE_CHECKING:
    from edgeagent.facts import ContainerFacts, PodFacts

MEMORY = "memory"
WHOLE_BOARD_MARGIN = 256 * MIB
"""A memory figure that exceeds the GPU figure by this much can have been meant for the whole board."""

Side = Literal["requests", "limits"]


def effective(pod: PodFacts, amount: Callable[[ContainerFacts], int]) -> int:
    """The scheduler's sum of ``amount`` over the pod's containers, without overhead and pod-level resources."""
    together = 0
    peak = 0
    for container in pod.containers:
        if container.kind == "sidecar":
            together += amount(container)
        elif container.kind == "init":
            peak = max(peak, together + amount(container))
    together += sum(amount(container) for container in pod.containers if container.kind == "regular")
    return max(together, peak)


def total(pod: PodFacts, key: str, side: Side) -> int:
    """What the pod asks for of resource ``key``, in its unit (bytes for memory)."""
    level = pod.pod_requests if side == "requests" else pod.pod_limits
    amount = level[key] if key in level else effective(pod, lambda container: _of(container, side).get(key, 0))
    return amount + pod.overhead.get(key, 0)


def host_part(memory: int, gpu: int) -> int:
    """The host share of a ``memory`` figure that stands beside ``gpu`` bytes of GPU memory on a unified board.

    Users size a pod against the whole board, so a figure that covers its GPU bytes and a
    margin contains them. A smaller figure cannot have meant both, and counts whole.
    """
    return memory - gpu if memory >= gpu + WHOLE_BOARD_MARGIN else memory


def host_parts(pod: PodFacts, key: str, pod_gpu: int | None, side: Side) -> int:
    """Σ host parts of the pod's memory figures, container by container.

    ``pod_gpu`` is the gpu figure when it belongs to the pod and not to its containers (an
    annotation): then the reading is made once, on the pod's sums.
    """
    level = pod.pod_requests if side == "requests" else pod.pod_limits
    overhead = pod.overhead.get(MEMORY, 0)
    if pod_gpu is not None or MEMORY in level:
        gpu = pod_gpu if pod_gpu is not None else total(pod, key, side)
        memory = total(pod, MEMORY, side) - overhead
        return host_part(memory, gpu) + overhead

    def part(container: ContainerFacts) -> int:
        amounts = _of(container, side)
        return host_part(amounts[MEMORY], amounts.get(key, 0)) if MEMORY in amounts else 0

    return effective(pod, part) + overhead


def memory_limited(pod: PodFacts) -> bool:
    """Every container that runs with the pod has a memory limit, so the pod's host bytes have a bound."""
    if MEMORY in pod.pod_limits:
        return True
    running = [container for container in pod.containers if container.kind in ("regular", "sidecar")]
    return bool(running) and all(MEMORY in container.limits for container in running)


def under_requested(pod: PodFacts, key: str, pod_gpu: int | None) -> tuple[str, ...]:
    """Names of containers, or of the pod, whose memory request is too small to be the whole-board one.

    ``pod_gpu`` as for :func:`host_parts`.
    """
    if pod_gpu is not None or MEMORY in pod.pod_requests:
        memory = total(pod, MEMORY, "requests") - pod.overhead.get(MEMORY, 0)
        gpu = pod_gpu if pod_gpu is not None else total(pod, key, "requests")
        return (pod.name,) if gpu > 0 and 0 < memory < gpu + WHOLE_BOARD_MARGIN else ()
    return tuple(
        container.name
        for container in pod.containers
        for gpu, memory in [(container.requests.get(key, 0), container.requests.get(MEMORY))]
        if gpu > 0 and memory is not None and memory < gpu + WHOLE_BOARD_MARGIN
    )


def _of(container: ContainerFacts, side: Side) -> Mapping[str, int]:
    return container.requests if side == "requests" else container.limits

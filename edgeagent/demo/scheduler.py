"""The part of the scheduler that the demo needs: a node's labels, and requests against what is allocatable.

Memory and extended resources only. Every pod on the node counts until its object is gone, terminating or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from edgeagent import quantity
from edgeagent.demo.registry import Registry, condition
from edgeagent.demo.store import NODES, PODS, Object

_FINISHED = ("Succeeded", "Failed")
_NO_SELECTOR = "node(s) didn't match Pod's node affinity/selector"


async def run(registry: Registry) -> None:
    """Look at every waiting pod after every change, until cancelled."""
    store = registry.store
    while True:
        seen = store.version
        schedule(registry)
        await store.newer_than(seen)


def schedule(registry: Registry) -> None:
    """Bind each waiting pod, oldest first, to the first node that has room, or say on the pod why there is none."""
    nodes = registry.store.all(NODES)
    for pod in registry.store.all(PODS):
        if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            continue
        obstacles = {node["metadata"]["name"]: list(_obstacles(registry, pod, node)) for node in nodes}
        free = next((name for name, found in obstacles.items() if not found), None)
        if free is not None:
            registry.bind(pod, free)
        else:
            message = _message(obstacles)
            registry.set_condition(pod, condition("PodScheduled", "False", "Unschedulable", message))


def _obstacles(registry: Registry, pod: Object, node: Object) -> Iterator[str]:
    labels = node["metadata"].get("labels", {})
    if any(labels.get(key) != value for key, value in pod["spec"].get("nodeSelector", {}).items()):
        yield _NO_SELECTOR
        return
    booked: Counter[str] = Counter()
    for other in registry.store.all(PODS):
        here = other["spec"].get("nodeName") == node["metadata"]["name"]
        if here and other["status"]["phase"] not in _FINISHED:
            booked.update(_requests(other))
    allocatable = node["status"]["allocatable"]
    for resource, wanted in sorted(_requests(pod).items()):
        if wanted > quantity.parse(allocatable.get(resource, "0")) - booked[resource]:
            yield f"Insufficient {resource}"


def _requests(pod: Object) -> Counter[str]:
    together: Counter[str] = Counter()
    for container in pod["spec"]["containers"]:
        for resource, amount in container["resources"]["requests"].items():
            if resource == "memory" or "/" in resource:
                together[resource] += quantity.parse(amount)
    return together


def _message(obstacles: Mapping[str, list[str]]) -> str:
    """In the words of the real scheduler."""
    nodes = f"0/{len(obstacles)} nodes are available"
    counted = Counter(reason for found in obstacles.values() for reason in found)
    if not counted:
        return "no nodes available to schedule pods"
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counted.items()))
    unhelpful = sum(found == [_NO_SELECTOR] for found in obstacles.values())
    tried = len(obstacles) - unhelpful
    outcome = [f"{tried} No preemption victims found for incoming pod"] if tried else []
    outcome += [f"{unhelpful} Preemption is not helpful for scheduling"] if unhelpful else []
    return f"{nodes}: {reasons}. preemption: {nodes}: {', '.join(outcome)}."

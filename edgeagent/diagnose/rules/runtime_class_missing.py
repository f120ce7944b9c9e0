"""A pod names a RuntimeClass that the cluster does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.diagnose import advice, injection
from edgeagent.diagnose.collected import pod_subject
from edgeagent.diagnose.rule import Rule

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import ClusterSeen, Collected
    from edgeagent.facts import Finding, PodFacts
    from edgeagent.facts.diagnosis import ClusterLook, EventFacts

NVIDIA = "nvidia"
_NOT_FOUND = re.compile(r'(?:RuntimeClass|runtimeclasses?\.node\.k8s\.io) \\?"([\w.-]+)\\?" not found', re.IGNORECASE)
"""As the API server says it when it refuses a pod, and the kubelet when it cannot start one."""
_TOLD_AGAIN = 1000.0 + 100.0
"""Seconds within which a controller that still fails has said so again: its longest wait (see ``_at_once``), and some
for the event to come."""
_SURE = 120.0
"""Seconds for which an event is taken for what is so now."""


def look(seen: Collected) -> Iterator[Finding]:
    """Pods that name a class, makers of pods that are refused for it, and whether a class for the GPU exists."""
    used = seen.host.containerd
    usable = tuple(name for name in used.nvidia if used.runtimes[name][1])
    yield from _named(seen.cluster, tuple(seen.everyone()), seen.node_subject, usable, seen.facts.wall)
    if seen.cluster.runtime_classes.items is not None:
        yield from _none_for_gpu(seen, usable)


def across(seen: ClusterSeen) -> Iterator[Finding]:
    """Pods of all nodes."""
    yield from _named(seen.cluster, tuple(seen.everyone()), "cluster", None, seen.wall)


def _named(
    cluster: ClusterLook, pods: tuple[PodFacts, ...], asker: str, usable: tuple[str, ...] | None, wall: float | None
) -> Iterator[Finding]:
    """Classes that pods and their makers name.

    ``asker``: what it is about where nothing can be told. ``usable``: handlers for the GPU that this node has; None:
    no node was looked at. ``wall``: Unix time of now; None: not known.
    """
    listed = cluster.runtime_classes
    if listed.items is None:
        stuck = [pod for pod in pods if pod.runtime_class and not started(pod)]
        if stuck:
            named = ", ".join(sorted({pod.runtime_class or "" for pod in stuck}))
            yield RULE.cannot_tell(asker, f"Whether the RuntimeClass {named} exists", listed)
        return
    there = {one.name for one in listed.items}
    for pod in pods:
        if pod.runtime_class and pod.runtime_class not in there:
            yield _of_pod(cluster, pod, pod.runtime_class, usable)
    yield from _refused(cluster, there, usable, wall)


def started(pod: PodFacts) -> bool:
    """A container of it runs, or ran: its class and handler were there then."""
    return any(one.started_at is not None or one.ended is not None or one.container_id for one in pod.containers)


def _of_pod(cluster: ClusterLook, pod: PodFacts, name: str, usable: tuple[str, ...] | None) -> Finding:
    runs = started(pod)
    follows = "it runs on, but is not started again once it ends" if runs else "it is not started"
    return RULE.finding(
        pod_subject(pod),
        f"The pod names the RuntimeClass {name}, which does not exist: {follows}.",
        evidence=(f"spec.runtimeClassName: {name}", _listed(cluster)),
        remedy=_remedy(name, cluster, usable, pod),
        severity="warning" if runs else "error",
        pod=pod,
    )


def _refused(
    cluster: ClusterLook, there: set[str], usable: tuple[str, ...] | None, wall: float | None
) -> Iterator[Finding]:
    """Those whose pods are not even made: only an event tells.

    It stands for an hour, whatever has been mended since; a controller that still fails says so again.
    """
    told: dict[tuple[str, str], EventFacts] = {}
    for event in cluster.events.items or ():
        match = _NOT_FOUND.search(event.note) if event.kind != "Pod" else None
        if match and match[1] not in there and (_age(event, wall) or 0.0) <= _TOLD_AGAIN:
            told[f"{event.kind.lower()} {event.namespace}/{event.name}", match[1]] = event
    for (subject, name), event in told.items():
        yield RULE.finding(
            subject,
            f"Its pods are refused because the RuntimeClass {name} does not exist.",
            evidence=(f"event: {event.note}", _listed(cluster)),
            remedy=f"{_remedy(name, cluster, usable)}\n{_at_once(event)}",
            certainty="certain" if _is_new(event, wall) else "suspected",
        )


def _age(event: EventFacts, wall: float | None) -> float | None:
    """Seconds since it was last seen; None: not known."""
    return None if wall is None or event.last is None else wall - event.last


def _is_new(event: EventFacts, wall: float | None) -> bool:
    age = _age(event, wall)
    return age is not None and age <= _SURE


def _none_for_gpu(seen: Collected, usable: tuple[str, ...]) -> Iterator[Finding]:
    """A runtime for the GPU that no pod can ask for."""
    used, classes = seen.host.containerd, seen.cluster.runtime_classes.items or ()
    by_cdi = any(spec.kind.startswith("nvidia.com/") for spec in seen.host.cdi)
    if not seen.has_gpu or not usable or used.default in usable or by_cdi or seen.host.external == "docker":
        return
    handlers = {one.name: one.handler for one in classes}
    if not used.has(handlers.get(NVIDIA, "runc")):
        return  # it is there, and leads nowhere: runtime-handler-unknown tells that
    if not any(handler in usable for handler in handlers.values()):
        free = f"{usable[0]}-gpu" if usable[0] in handlers else usable[0]
        yield RULE.finding(
            seen.node_subject,
            f"containerd has the runtime {usable[0]}, but no RuntimeClass leads to it, so no pod can ask for it.",
            evidence=(f"{used.path}: runtimes {', '.join(sorted(used.runtimes))}", _listed(seen.cluster)),
            remedy=_remedy(free, seen.cluster, usable),
            severity="warning",
        )


def _listed(cluster: ClusterLook) -> str:
    names = sorted(one.name for one in cluster.runtime_classes.items or ())
    return f"runtimeclasses: {', '.join(names) or 'none'}"


def _remedy(name: str, cluster: ClusterLook, usable: tuple[str, ...] | None, pod: PodFacts | None = None) -> str:
    """``pod``: the one that names the class; None: it is not known, as none was made."""
    if not injection.for_gpu(pod, name):
        return (
            f"Correct the name {name} in the manifest, or make a RuntimeClass of this name with the handler that it "
            "is meant for, once containerd has that on the nodes."
        )
    unseen = ""
    if usable is None:
        handler = _likely(name, cluster)
        unseen = " Whether a node's containerd has the handler below is told there, by sudo edgeagent doctor."
    else:
        handler = name if name in usable or not usable else usable[0]
    return (
        "K3s makes the classes of NVIDIA's itself since 1.29 (and 1.25.16 to 1.28.5), unless its manifest runtimes is "
        f"disabled.{unseen} To make this one:\n{advice.runtime_class(name, handler)}"
    )


def _likely(name: str, cluster: ClusterLook) -> str:
    """A handler that nodes may have whose containerd was not looked at. A class can be called anything."""
    if name == NVIDIA or name.startswith(f"{NVIDIA}-"):
        return name
    others = (one.handler for one in cluster.runtime_classes.items or ())
    return next((handler for handler in others if handler.startswith(NVIDIA)), NVIDIA)


def _at_once(event: EventFacts) -> str:
    """A change of the object has its controller try now.

    It waits longer after each failure, up to 1000 s (client-go's workqueue.DefaultTypedControllerRateLimiter).
    """
    return (
        f"Its controller tries again within 17 minutes. At once:\nkubectl -n {event.namespace} annotate "
        f'{event.kind.lower()} {event.name} retried-at="$(date +%s)" --overwrite'
    )


RULE = Rule(
    id="runtime-class-missing",
    title="The RuntimeClass does not exist",
    severity="error",
    looks_at="`spec.runtimeClassName` of pods, all RuntimeClasses, events of ReplicaSets and others that make pods, "
    "if they are not older than the longest that such a one waits to try again (1000 s), "
    "and whether a class leads to the NVIDIA runtime that containerd has",
    matters="The API server refuses new pods that name it, and a Deployment shows no pod at all. A pod that was made "
    "before the class went stays in `ContainerCreating`.",
    remedy="Make the RuntimeClass: see the lines in the finding.",
    look=look,
    across=across,
)
RULES = (RULE,)

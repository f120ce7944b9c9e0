"""A RuntimeClass leads to a handler that this node's containerd does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgeagent.diagnose import advice, injection
from edgeagent.diagnose.collected import pod_subject
from edgeagent.diagnose.placement import unmet
from edgeagent.diagnose.rule import Rule
from edgeagent.diagnose.rules.runtime_class_missing import started

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import ClusterSeen, Collected
    from edgeagent.facts import Finding, PodFacts
    from edgeagent.facts.diagnosis import ClusterLook, RuntimeClassFacts

NVIDIA = "nvidia"
"""The class that is looked at without a pod. Others may be meant for other nodes: K3s makes several everywhere."""
_NO_RUNTIME = re.compile(r'no runtime for \\?"([^"\\]+)\\?" is configured')
"""As containerd says it when it is to start a pod."""


def look(seen: Collected) -> Iterator[Finding]:
    """Pods of this node first, then the class that GPU pods name, then what containerd itself says."""
    used, classes = seen.host.containerd, seen.cluster.runtime_classes.items or ()
    by_name = {one.name: one for one in classes}
    proven = used.pods and not used.problem
    told = set()
    for pod in seen.pods:
        found = by_name.get(pod.runtime_class or "")
        if found and proven and not used.has(found.handler):
            told.add(pod.uid)
            yield _of_pod(seen, pod, found)
    yield from _by_events(seen.cluster, [pod for pod in seen.pods if pod.uid not in told], has_gpu=seen.has_gpu)
    found = by_name.get(NVIDIA)
    if seen.has_gpu and proven and found and _meant_for(seen, found) and not used.has(found.handler):
        yield RULE.finding(
            f"runtimeclass {found.name}",
            f"The RuntimeClass {found.name} exists in the cluster, but this node cannot run its pods: containerd here "
            f"has no handler {found.handler}.",
            evidence=_evidence(seen, found),
            remedy=_remedy(seen, found),
        )


def across(seen: ClusterSeen) -> Iterator[Finding]:
    """What containerd has said on any node."""
    for node, pods in sorted(seen.bound.items()):
        there = f"What containerd lacks is told on the node {node}, and how it comes by it:\nsudo edgeagent doctor"
        yield from _by_events(seen.cluster, pods, remedy=there)


def _of_pod(seen: Collected, pod: PodFacts, found: RuntimeClassFacts) -> Finding:
    for_gpu = seen.has_gpu and injection.for_gpu(pod, found.name, found.handler)
    one = RULE.finding(
        pod_subject(pod),
        f"The pod's RuntimeClass {found.name} leads to the handler {found.handler}, which containerd does not have "
        "on this node" + ("; it runs on, but cannot be started again." if started(pod) else ", so it cannot start."),
        evidence=_evidence(seen, found),
        remedy=_remedy(seen, found) if for_gpu else _elsewhere(found.handler),
        severity="warning" if started(pod) else "error",
        pod=pod,
    )
    return one if for_gpu else replace(one, condition="")


def _elsewhere(handler: str) -> str:
    """For a pod that wants to be kept apart, and no GPU, and for a node without one."""
    return f"Give containerd the handler {handler} on this node, or let the pod run on a node that has it."


def _meant_for(seen: Collected, found: RuntimeClassFacts) -> bool:
    """Its pods may come to this node; where its labels are not known, only a class for all nodes is."""
    if seen.node is None:
        return not found.placement.selector
    return not any(lack.startswith("label ") for lack in unmet(found.placement, seen.node))


def _by_events(
    cluster: ClusterLook, among: Sequence[PodFacts], *, remedy: str = "", has_gpu: bool = True
) -> Iterator[Finding]:
    """Where containerd's configuration cannot be read, it has said so itself."""
    pods = {pod.uid: pod for pod in among if not started(pod)}
    for event in cluster.events.items or ():
        match = _NO_RUNTIME.search(event.note)
        pod = pods.pop(event.uid, None) if match else None
        if match and pod:
            for_gpu = has_gpu and injection.for_gpu(pod, match[1], pod.runtime_class or "")
            one = RULE.finding(
                pod_subject(pod),
                f"containerd has no handler {match[1]} on the pod's node, so it cannot start.",
                evidence=(f"event: {event.note}",),
                remedy=remedy if for_gpu else _elsewhere(match[1]),
                pod=pod,
            )
            yield one if for_gpu else replace(one, condition="")


def _evidence(seen: Collected, found: RuntimeClassFacts) -> tuple[str, ...]:
    used = seen.host.containerd
    return (
        f"runtimeclass {found.name}: handler {found.handler}",
        f"{used.path}: runtimes {', '.join(sorted(used.runtimes)) or 'none'}",
    )


def _remedy(seen: Collected, found: RuntimeClassFacts) -> str:
    usable = [name for name in seen.host.containerd.nvidia if seen.host.containerd.runtimes[name][1]]
    if usable and found.handler not in usable:
        return (
            f"A handler cannot be changed. Delete the class and make it anew with the handler {usable[0]}:\n"
            f"kubectl delete runtimeclass {found.name}\n{advice.runtime_class(found.name, usable[0])}"
        )
    return advice.configure(seen)


RULE = Rule(
    id="runtime-handler-unknown",
    title="The RuntimeClass's handler is unknown on this node",
    severity="error",
    looks_at="the handler of every RuntimeClass that a pod of this node names, and of the class `nvidia` where its "
    "scheduling does not exclude the node, beside the runtimes in the configuration that containerd reads; events of "
    "pods that cannot start",
    matters="The pod is bound to the node and stays in `ContainerCreating`: its sandbox cannot be made.",
    remedy="Let containerd have the handler on this node (see `runtime-missing`), or make the class with a handler "
    "that the node has. A class that is not for the GPU, such as kata or gVisor, is none to be made anew: its pods "
    "would no longer be kept apart.",
    look=look,
    across=across,
    condition=True,
)
RULES = (RULE,)

"""A pod waits for a GPU that another pod holds by number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.diagnose import advice, plugins
from edgeagent.diagnose.collected import pod_subject
from edgeagent.diagnose.placement import only_here, unmet
from edgeagent.diagnose.rule import Rule
from edgeagent.facts import GPU_MEMORY
from edgeagent.memory import requests

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import ClusterSeen, Collected
    from edgeagent.facts import Finding, NodeFacts, PodFacts

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Taken:
    """A resource of a device plugin of which too much is held on a node."""

    key: str
    asked: int
    offered: int
    holders: tuple[tuple[PodFacts, int], ...]
    """Most first."""

    @property
    def left(self) -> int:
        return self.offered - sum(amount for _, amount in self.holders)

    @property
    def leaving(self) -> int:
        """What pods hold that are on their way out."""
        return sum(amount for pod, amount in self.holders if pod.terminating)

    @property
    def named(self) -> str:
        more = len(self.holders) - _MOST_NAMED
        told = [f"{pod.key} ({amount}{', is ending' if pod.terminating else ''})" for pod, amount in self.holders]
        return ", ".join(told[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def look(seen: Collected) -> Iterator[Finding]:
    """Pods that may run here."""
    if not seen.has_gpu or seen.node is None:
        return
    listed = seen.cluster.waiting
    if listed.items is None:
        full = [
            key for key, amount in plugins.offered(seen.node).items() if _taken(seen.pods, key, 1, amount).left <= 0
        ]
        if full and listed.right:
            yield RULE.cannot_tell(
                seen.node_subject, f"All of {', '.join(full)} is held; whether pods wait for it", listed
            )
        return
    for pod in listed.items:
        taken = _short(seen.node, seen.pods, pod)
        if taken:
            found = _finding(seen.node, pod, taken, _way_out(seen, pod, taken))
            # Where others may take it, each full node would say the same at the pod, and none of them is ill.
            yield found if found.severity == "info" or only_here(pod) else replace(found, severity="warning", event="")


def across(seen: ClusterSeen) -> Iterator[Finding]:
    """Pods that find nothing free on any node that they may run on; told of the one where least is missing."""
    for pod in seen.cluster.waiting.items or ():
        nodes = [node for node in seen.nodes if plugins.asks(pod) and not unmet(pod.placement, node)]
        offers = [node for node in nodes if set(plugins.asks(pod)) <= set(plugins.offered(node))]
        short = [(_short(node, seen.bound.get(node.name, ()), pod), node) for node in offers]
        if short and all(taken for taken, _ in short):
            taken, node = min(((one, on) for one, on in short if one), key=lambda pair: pair[0].asked - pair[0].left)
            yield _finding(node, pod, taken, RULE.remedy)


def _short(node: NodeFacts, bound: Sequence[PodFacts], pod: PodFacts) -> _Taken | None:
    """What the pod waits for on the node; None where that is something else, or more than the node ever has."""
    if pod.terminating or unmet(pod.placement, node):
        return None
    offered = plugins.offered(node)
    wanted = plugins.asks(pod)
    if any(amount > offered.get(key, 0) for key, amount in wanted.items()):
        return None
    # A scheduler that names something else alone has tried: a volume, a gate. It counts what is held by itself.
    told = pod.unschedulable
    found = (_taken(bound, key, wanted[key], offered[key]) for key in wanted if told is None or key in told)
    return next((taken for taken in found if taken.left < taken.asked), None)


def _taken(bound: Sequence[PodFacts], key: str, asked: int, offered: int) -> _Taken:
    held = [(pod, requests.total(pod, key, "requests")) for pod in bound]
    holders = sorted(((pod, amount) for pod, amount in held if amount), key=lambda one: (-one[1], one[0].key))
    return _Taken(key, asked, offered, tuple(holders))


def _finding(node: NodeFacts, pod: PodFacts, taken: _Taken, remedy: str) -> Finding:
    soon = taken.left + taken.leaving >= taken.asked
    return RULE.finding(
        pod_subject(pod),
        f"The pod waits for {taken.asked} of {taken.key} on node {node.name}, which has {taken.offered}: held by "
        f"{taken.named}." + (" It gets one when that has ended." if soon else ""),
        evidence=(
            f"node {node.name} status.allocatable.{taken.key}: {taken.offered}",
            *(f"{pod_subject(holder)} requests {taken.key}: {amount}" for holder, amount in taken.holders),
            f"{pod_subject(pod)} requests {taken.key}: {taken.asked}",
            *((f"scheduler: {pod.unschedulable}",) if pod.unschedulable else ()),
        ),
        remedy=remedy,
        severity="info" if soon else "error",
        pod=pod,
    )


def _way_out(seen: Collected, pod: PodFacts, taken: _Taken) -> str:
    """A share for each by memory, where the node has any to offer."""
    holder = taken.holders[0][0]
    end = f"kubectl -n {quote(holder.namespace)} delete pod {quote(holder.name)}"
    text = seen.plan.node.capacity.get(GPU_MEMORY)
    offered = quantity.parse(text) if text else 0
    free = offered - sum(requests.total(one, GPU_MEMORY, "requests") for one in seen.pods)
    share = min(offered // (len(taken.holders) + 1), free)
    if share < quantity.MIB:
        return f"A GPU asked for by number has one holder. To end the one that holds it:\n{end}"
    return (
        f"Ask for GPU memory in place of {taken.key}, which has one holder for each. In {pod.key}, and likewise in "
        f"{taken.named.partition(' ')[0]} with a share of its own:\n"
        f"{advice.by_memory(seen, pod, quantity.mib(share))}\n"
        f"Or end the pod that holds it:\n{end}"
    )


RULE = Rule(
    id="gpu-held-by-other",
    title="Another pod holds the GPU",
    severity="error",
    looks_at="pods that are bound to no node, ask for `nvidia.com/gpu` or its kind and may run here; what the node "
    "offers of it, and the requests of its live pods. Nothing where the scheduler has said what a pod waits for and "
    "names something else alone; a warning where the pod may go to other nodes too",
    matters="A GPU that is asked for by number belongs to one pod, however little of it that pod uses. The next one "
    "stays `Pending`, and the scheduler does not say who holds it.",
    remedy="Let both pods ask for GPU memory in place of a GPU, and give them the GPU by the RuntimeClass:\n"
    "runtimeClassName: nvidia\n"
    "containers:\n"
    "  - name: main\n"
    "    env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]\n"
    "    resources: {limits: {edgeagent.dev/gpu-memory: 2Gi}}",
    look=look,
    across=across,
    event="GPUHeldByOther",
)
RULES = (RULE,)

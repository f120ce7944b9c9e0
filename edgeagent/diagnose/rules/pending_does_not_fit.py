"""A pod waits for GPU memory that this node does not have, or not now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.diagnose import manifests
from edgeagent.diagnose.collected import pod_subject
from edgeagent.diagnose.placement import only_here, unmet
from edgeagent.diagnose.rule import Rule
from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY, PREFIX
from edgeagent.memory import requests

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import ClusterSeen, Collected
    from edgeagent.facts import Finding, NodeFacts, PodFacts


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the node that a pod is short of, in bytes or units."""

    key: str
    asked: int
    allocatable: int
    booked: int

    @property
    def left(self) -> int:
        return self.allocatable - self.booked

    @property
    def short(self) -> int:
        return self.asked - self.left

    @property
    def never(self) -> bool:
        """Not even an empty node has so much."""
        return self.asked > self.allocatable

    @property
    def most(self) -> int:
        """So much can be asked for, in whole MiB; 0 where that is below half of what was, and so no longer the same."""
        most = quantity.floor_mib(self.left) if self.in_bytes else self.left
        return most if most * 2 >= self.asked else 0

    @property
    def in_bytes(self) -> bool:
        return self.key == requests.MEMORY or self.key.startswith((GPU_MEMORY, IGPU_MEMORY))

    def figure(self, amount: int) -> str:
        """For people: the exact one stands in the evidence."""
        if not self.in_bytes:
            return str(amount)
        return f"{amount} bytes" if 0 < amount < quantity.MIB else quantity.human(amount)

    def quantity(self, amount: int) -> str:
        """For a manifest."""
        return quantity.mib(amount) if self.in_bytes else str(amount)


def look(seen: Collected) -> Iterator[Finding]:
    """Pods that may run here and ask for a resource of ours."""
    if not seen.has_gpu or seen.node is None:
        return
    listed = seen.cluster.waiting
    if listed.items is None:
        if listed.right:
            yield RULE.cannot_tell(seen.node_subject, "Whether pods wait for GPU memory", listed)
        return
    # What the node lacks of its own is what capacity-missing says.
    owed = frozenset(seen.plan.node.capacity) - frozenset(seen.node.allocatable)
    for pod in listed.items:
        if not unmet(pod.placement, seen.node) and _asks(pod):
            lines = _short(seen.node, seen.pods, pod, owed)
            if lines:
                found = _finding(seen.node, seen.pods, pod, lines)
                # Where others may take it, each of them would say the same at the pod, and none of them is ill.
                yield found if only_here(pod) else replace(found, severity="warning", event="")


def across(seen: ClusterSeen) -> Iterator[Finding]:
    """Pods that fit on none of the nodes that they may run on, told of the one that lacks least."""
    for pod in seen.cluster.waiting.items or ():
        nodes = [node for node in seen.nodes if not unmet(pod.placement, node)] if _asks(pod) else []
        offers = [node for node in nodes if any(key in node.allocatable for key in _keys(pod))]
        short = [(_short(node, seen.bound.get(node.name, ()), pod), node) for node in offers or nodes]
        if short and all(lines for lines, _ in short):
            lines, node = min(short, key=lambda one: (max(line.short for line in one[0]), one[1].name))
            yield _finding(node, seen.bound.get(node.name, ()), pod, lines)


def _keys(pod: PodFacts) -> set[str]:
    """The resources of ours that it asks for."""
    return {key for container in pod.containers for key in container.requests if key.startswith(PREFIX)}


def _asks(pod: PodFacts) -> bool:
    return bool(_keys(pod)) and not pod.terminating


def _short(
    node: NodeFacts, bound: Sequence[PodFacts], pod: PodFacts, leave: frozenset[str] = frozenset()
) -> list[_Line]:
    """The lines of ``node`` that the pod is short of; ``leave``: keys that are not judged."""
    lines = []
    for key in sorted(_keys(pod) | {requests.MEMORY}):
        told = node.allocatable.get(key)
        offered = _amount(told or "0")
        if key in leave or offered is None or (told is None and key == requests.MEMORY):
            continue
        booked = sum(requests.total(one, key, "requests") for one in bound)
        lines.append(_Line(key, requests.total(pod, key, "requests"), offered, booked))
    return [line for line in lines if line.asked and line.short > 0]


def _amount(text: str) -> int | None:
    """None: it is no quantity, so nothing is known of the line."""
    try:
        return quantity.parse(text)
    except ValueError:
        return None


def _finding(node: NodeFacts, bound: Sequence[PodFacts], pod: PodFacts, lines: list[_Line]) -> Finding:
    never = any(line.never for line in lines)
    name, who = f"node {node.name}", pod_subject(pod)
    told = "; ".join(
        f"it asks for {line.figure(line.asked)} of {line.key}, {name} has {line.figure(line.allocatable)} and "
        f"{line.figure(line.booked)} are booked: {line.figure(line.short)} short"
        for line in lines
    )
    return RULE.finding(
        who,
        f"The pod cannot be scheduled on {name}: {told}." + (" Not even empty would it fit." if never else ""),
        evidence=(
            *(f"{name} status.allocatable.{line.key}: {line.allocatable}" for line in lines),
            *(f"{name} requests of its live pods, {line.key}: {line.booked}" for line in lines),
            *(f"{who} requests {line.key}: {line.asked}, {line.short} more than is left" for line in lines),
            *((f"scheduler: {pod.unschedulable}",) if pod.unschedulable else ()),
        ),
        remedy=_remedy(name, bound, pod, lines),
        severity="error" if never else "warning",
        pod=pod,
    )


def _remedy(name: str, bound: Sequence[PodFacts], pod: PodFacts, lines: Sequence[_Line]) -> str:
    worst = max(lines, key=lambda line: (line.never, line.short))
    if not worst.allocatable:
        return f"{worst.key} is not offered by {name}; ask for one that is, or run the pod on another node."
    other = "run it on a larger node" if worst.never else f"end or shrink what holds {_held(bound, worst)}"
    if not all(line.most for line in lines):
        return f"{other[0].upper()}{other[1:]}."
    less = " and ".join(
        f"{line.quantity(_whole(line))} less of {line.key}, {line.quantity(line.most)} at most" for line in lines
    )
    return f"Ask for {less}, or {other}.{_lowered(pod, lines)}"


def _whole(line: _Line) -> int:
    return quantity.ceil_mib(line.short) if line.in_bytes else line.short


def _held(bound: Sequence[PodFacts], line: _Line) -> str:
    held = sorted(((requests.total(one, line.key, "requests"), one.key) for one in bound), reverse=True)
    named = ", ".join(f"{key} ({line.figure(amount)})" for amount, key in held[:3] if amount)
    return f"{line.key}: {named}"


def _lowered(pod: PodFacts, lines: Sequence[_Line]) -> str:
    """The command that asks for as much as is left; none where several share what is asked for."""
    keys = {line.key for line in lines}
    asking = [one for one in pod.containers if keys & set(one.requests)]
    amounts = {line.key: line.asked for line in lines}
    if len(asking) != 1 or any(asking[0].requests.get(key) != amount for key, amount in amounts.items()):
        return ""
    most = {line.key: line.quantity(line.most) for line in lines}
    # A limit above the request was chosen to be so.
    limits = {key: text for key, text in most.items() if asking[0].limits.get(key) == amounts[key]}
    fields = {"resources": {"requests": most, **({"limits": limits} if limits else {})}}
    return f"\n{manifests.changed(pod, asking[0], spec={}, fields=fields)}"


RULE = Rule(
    id="pending-does-not-fit",
    title="A pod that waits does not fit",
    severity="error",
    looks_at="pods that are bound to no node, ask for a resource of edgeagent's and may run here by selector, affinity "
    "and taints; `status.allocatable` of the node and the requests of its live pods, line by line. A warning where the "
    "pod would fit on the node if it were empty, and, without an event, where the scheduler has other nodes for it",
    matters="The pod stays `Pending`, and the scheduler's own words say neither by how much nor because of whom.",
    remedy="Ask for less, end or shrink what holds the memory, or run the pod on a larger node: the finding says by "
    "how many bytes.",
    look=look,
    across=across,
)
RULES = (RULE,)

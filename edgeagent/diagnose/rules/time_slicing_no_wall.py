"""A device plugin gives one GPU out several times, and nothing keeps the pods on it apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.diagnose import plugins
from edgeagent.diagnose.rule import Rule
from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY
from edgeagent.memory.budgets import LIMIT_ANNOTATION
from edgeagent.plan import owners

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import ClusterSeen, Collected
    from edgeagent.facts import Finding, NodeFacts, PodFacts
    from edgeagent.plan.breaches import PodView

_SHARED = re.compile(r"nvidia\.com/(?:gpu(?:\.shared)?|mig-.+\.shared)")
"""What a whole GPU is given out as; an instance only where its replicas have a name of their own."""
_WALLS = re.compile(r"mps-control-daemon|hami-device-plugin|projecthami/hami\b")
"""Pods of those who bound the memory of each that shares."""
_STRATEGY = "nvidia.com/gpu.sharing-strategy"
_REPLICAS = "nvidia.com/gpu.replicas"
_COUNT = "nvidia.com/gpu.count"
"""Labels of NVIDIA's GPU feature discovery."""
_MOST_NAMED = 5


def look(seen: Collected) -> Iterator[Finding]:
    """Nothing where each pod that shares has a budget that is enforced."""
    if not seen.has_gpu or seen.node is None:
        return
    devices = len(seen.plan.board.devices)
    offered = _replicas(seen.node, devices)
    if not offered or _walled(seen.node, seen.pods, seen):
        return
    sharing = [view for view in seen.plan.pods if any(map(_SHARED.fullmatch, plugins.asks(view.pod)))]
    free = [view for view in sharing if seen.plan.observe or not _budgeted(view)]
    policy = seen.facts.config.policy.default_budget
    if not free and (sharing or (policy is not None and not seen.plan.observe)):
        return
    gpus = f"{devices} {'GPU' if devices == 1 else 'GPUs'}" if devices else "the GPU"
    yield RULE.finding(
        seen.node_subject,
        f"The device plugin gives out {gpus} as {sum(offered.values())} of {', '.join(offered)}, with no wall between "
        f"their memory: {_count(len(sharing))} {gpus if devices else 'it'}{_without(free, len(sharing))}."
        + (f" edgeagent only observes: {seen.plan.observe}." if seen.plan.observe else ""),
        evidence=(*_evidence(seen.node, offered), f"GPUs of this board: {devices}"),
        remedy=_remedy(seen, [view.pod for view in free], max(1, len(sharing))),
    )


def across(seen: ClusterSeen) -> Iterator[Finding]:
    """By what NVIDIA's feature discovery says of each node."""
    for node in seen.nodes:
        devices = node.labels.get(_COUNT, "")
        offered = _replicas(node, int(devices) if devices.isdecimal() else 0)
        bound = seen.bound.get(node.name, ())
        sharing = [pod for pod in bound if any(map(_SHARED.fullmatch, plugins.asks(pod)))]
        free = [pod for pod in sharing if not _limited(pod)]
        if offered and not _walled(node, bound, None) and (free or not sharing):
            yield RULE.finding(
                f"node {node.name}",
                f"The device plugin gives out its GPUs as {sum(offered.values())} of {', '.join(offered)}, with no "
                f"wall between their memory: {_count(len(sharing))} them.",
                evidence=_evidence(node, offered),
            )


def _replicas(node: NodeFacts, devices: int) -> dict[str, int]:
    """Resources of which there are more than GPUs; {} for none. ``devices`` 0: that is not known."""
    offered = {key: amount for key, amount in plugins.offered(node).items() if _SHARED.fullmatch(key)}
    replicas = node.labels.get(_REPLICAS, "")
    told = node.labels.get(_STRATEGY) == "time-slicing" and replicas.isdecimal() and int(replicas) > 1
    more = 0 < devices < sum(offered.values())
    return {key: amount for key, amount in offered.items() if told or more or key.endswith(".shared")}


def _walled(node: NodeFacts, bound: tuple[PodFacts, ...], seen: Collected | None) -> bool:
    """Something else keeps them apart: MPS with its limits, or another project that shares the GPU's memory out."""
    if node.labels.get(_STRATEGY) == "mps" or owners.other_owner(node):
        return True
    names = (text for pod in bound for text in (pod.name, *(one.image for one in pod.containers)))
    if any(_WALLS.search(text) for text in names):
        return True
    return seen is not None and any(view.use.mps for view in seen.plan.pods)


def _budgeted(view: PodView) -> bool:
    return any(budget.gpu is not None for budget in view.budgets.values())


def _limited(pod: PodFacts) -> bool:
    keys = {key for one in pod.containers for key in one.limits}
    return LIMIT_ANNOTATION in pod.annotations or any(key.startswith((GPU_MEMORY, IGPU_MEMORY)) for key in keys)


def _count(number: int) -> str:
    return f"{number} {'pod shares' if number == 1 else 'pods share'}"


def _without(free: list[PodView], sharing: int) -> str:
    if not free:
        return ""
    names = ", ".join(view.pod.key for view in free[:_MOST_NAMED])
    more = f" and {len(free) - _MOST_NAMED} more" if len(free) > _MOST_NAMED else ""
    whose = "" if len(free) == sharing else f", {len(free)} of them"
    return f"{whose} without a budget that is enforced: {names}{more}"


def _evidence(node: NodeFacts, offered: dict[str, int]) -> tuple[str, ...]:
    labels = (key for key in (_STRATEGY, _REPLICAS, _COUNT) if key in node.labels)
    return (
        *(f"node status.allocatable.{key}: {amount}" for key, amount in offered.items()),
        *(f"label {key}: {node.labels[key]}" for key in labels),
    )


def _remedy(seen: Collected, free: list[PodFacts], sharing: int) -> str:
    pool = next(iter(seen.plan.pools), None)
    if not free or pool is None or pool.total <= pool.reserved:
        return RULE.remedy
    share = quantity.mib((pool.total - pool.reserved) // sharing)
    lines = (
        f"kubectl -n {quote(pod.namespace)} annotate pod {quote(pod.name)} {LIMIT_ANNOTATION}={share}" for pod in free
    )
    return (
        f"Give each pod a budget, for instance an equal share; in its manifest as a limit of "
        f"{pool.resource}, for the pod that runs:\n" + "\n".join(lines)
    )


RULE = Rule(
    id="time-slicing-no-wall",
    title="GPUs shared without a wall between the pods",
    severity="info",
    looks_at="how many `nvidia.com/gpu` (or `.shared`) the node offers beside how many GPUs the board has, the labels "
    "of GPU feature discovery, and the GPU memory budgets of the pods that ask for them. Not told of MPS, nor where "
    "another project shares out the memory",
    matters="Replicas of time-slicing share the GPU's time. Each pod can take all of its memory: the first that does "
    "ends the others' allocations, and on a unified board the whole board (NVIDIA/k8s-device-plugin, README).",
    remedy="Give each pod that shares a budget, which edgeagent enforces: a limit of `edgeagent.dev/gpu-memory` in "
    "its manifest, or for a pod that runs\n"
    "kubectl annotate pod POD edgeagent.dev/gpu-memory-limit=2Gi",
    look=look,
    across=across,
    event="",
)
RULES = (RULE,)

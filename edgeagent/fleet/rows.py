"""From the objects of nodes and pods to the rows of the fleet."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from edgeagent import quantity
from edgeagent.cluster import node as cluster_node
from edgeagent.cluster import objects
from edgeagent.facts import GPU_MEMORY, PREFIX, NodeFacts
from edgeagent.fleet import pods as fleet_pods
from edgeagent.fleet import signs
from edgeagent.fleet.types import Agent, Fleet, NodeRow, PodSeen, PoolRow
from edgeagent.plan import labels

_PRODUCT = PREFIX + "gpu.product"
_TOTAL_MIB = PREFIX + "gpu.memory-mib"


def fleet(nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]], *, everything: bool) -> Fleet:
    """The rows by name. ``everything``: nodes that carry no key of edgeagent's too."""
    seen, unread = _pods(pods)
    bound: dict[str, list[PodSeen]] = defaultdict(list)
    for pod in seen:
        bound[pod.node].append(pod)
    rows, others = [], 0
    for obj in nodes:
        try:
            row = _row(obj, bound)
        except objects.ObjectError:
            unread += 1
            continue
        if row.ours or everything:
            rows.append(row)
        else:
            others += 1
    waiting = [pod.waiting for pod in seen if pod.waiting is not None]
    return Fleet(
        nodes=tuple(sorted(rows, key=lambda row: row.name)),
        others=others,
        waiting=tuple(sorted(waiting, key=lambda one: (one.created or 0.0, one.namespace, one.name))),
        unread=unread,
    )


def _pods(objs: Iterable[Mapping[str, Any]]) -> tuple[list[PodSeen], int]:
    """Those that have not finished, and how many are not understood."""
    seen, unread = [], 0
    for obj in objs:
        try:
            pod = fleet_pods.seen(obj)
        except objects.ObjectError:
            unread += 1
            continue
        if pod is not None:
            seen.append(pod)
            unread += pod.facts is None
    return seen, unread


def _row(obj: Mapping[str, Any], bound: Mapping[str, list[PodSeen]]) -> NodeRow:
    found = cluster_node.parse(obj)
    pods = bound.get(found.name, [])
    kind = found.labels.get(labels.KIND)
    why = signs.mode(found)
    return NodeRow(
        name=found.name,
        ours=signs.ours(found),
        kind=kind,
        product=found.labels.get(_PRODUCT),
        pools=_pools(found, pods),
        problems=tuple(signs.problems(found)),
        judged=signs.judged(found, kind),
        schedulable=objects.read(
            "node", obj, lambda known: not objects.mapping(known.get("spec")).get("unschedulable")
        ),
        mode="observe" if why else None,
        mode_why=why,
        agent=_agent(pods),
        wrote=objects.read("node", obj, lambda known: signs.wrote(known["metadata"])),
    )


def _pools(found: NodeFacts, pods: Sequence[PodSeen]) -> tuple[PoolRow, ...]:
    """The pools that the node has, and those that its pods hold though it has them no more."""
    committed: Counter[str] = Counter()
    for pod in pods:
        committed.update(pod.asks)
    known = all(pod.facts is not None for pod in pods)
    keys = {key for key in (*found.capacity, *found.allocatable, *committed) if signs.is_pool(key)}
    return tuple(
        PoolRow(
            resource=key,
            total=_total(found) if key == GPU_MEMORY else None,
            advertised=_amount(found.capacity.get(key)),
            allocatable=_amount(found.allocatable.get(key)),
            committed=committed[key] if known else None,
        )
        for key in sorted(keys)
    )


def _total(found: NodeFacts) -> int | None:
    """The label is about the pool behind ``gpu-memory``; with a pool for each card it is the sum of all."""
    text = found.labels.get(_TOTAL_MIB, "")
    return int(text) * quantity.MIB if text.isascii() and text.isdecimal() else None


def _amount(text: str | None) -> int | None:
    try:
        return None if text is None else quantity.parse(text)
    except ValueError:
        return None


def _agent(pods: Iterable[PodSeen]) -> Agent | None:
    """While a pod is replaced there are two: the one that goes is not the node's agent any more."""
    agents = [(pod.facts.terminating, pod.agent) for pod in pods if pod.facts is not None and pod.agent is not None]
    return min(agents, key=lambda one: (one[0], -(one[1].started or 0.0), one[1].pod))[1] if agents else None

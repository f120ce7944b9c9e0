"""What an uninstall takes off the node: exactly the keys that are listed as the agent's, and none that a pod needs.

A key of capacity that is absent is not checked when a kubelet starts again, so its removal ends no pod; a label that
is absent ends every running pod that requires it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from edgeagent.facts import GPU_MEMORY, GPU_MILLI, IGPU_MEMORY, PREFIX
from edgeagent.memory import requests
from edgeagent.plan import conditions, labels
from edgeagent.plan.node import KUBERNETES, OWNED_KEYS, own_capacity, own_labels
from edgeagent.plan.types import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Request

if TYPE_CHECKING:
    from edgeagent.facts import NodeFacts, PodFacts

PARTS = ("capacity", "conditions", "labels")
_PATCH = {MERGE_PATCH: "merge", STRATEGIC_MERGE_PATCH: "strategic"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The writes that take the agent's keys off a node, in their order, and what stays."""

    requests: tuple[Request, ...] = ()
    problem: str = ""
    """Why nothing is removed: it is not known what is the agent's."""
    needed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Labels that stay because admitted live pods require them, each with those pods; () where pods are not known."""
    foreign: tuple[str, ...] = ()
    """Keys that are listed as the agent's and that it never writes: they stay, and stay listed."""
    holders: tuple[str, ...] = ()
    """Live pods that have booked some of the capacity that goes. They run on."""
    doubtful: tuple[str, ...] = ()
    """Labels without the prefix that may be the agent's, where that is not listed: they stay."""


class _Keys(NamedTuple):
    """Keys by part of the annotation."""

    capacity: frozenset[str]
    conditions: frozenset[str]
    labels: frozenset[str]


def removal(node: NodeFacts, pods: Sequence[PodFacts] | None, *, force: bool) -> Removal:
    """What to take off ``node``. ``pods``: those bound to it; None: not known.

    ``force`` removes labels that pods require too, and where it is not known what is the agent's, all that bears its
    prefix.
    """
    told, wrong = _told(node)
    if told is not None:
        return _of(node, told, pods, force=force)
    if not wrong and not (own_capacity(node) or own_labels(node) or _types(node)):
        # Nothing that the agent writes: what else bears the prefix is someone else's.
        return Removal()
    guess = _prefixed(node)
    if force:
        doubtful = {labels.AI_CAPABLE} & node.labels.keys()
        return replace(_of(node, guess, pods, force=True), doubtful=tuple(doubtful))
    why = wrong or f"the annotation {OWNED_KEYS}, which lists what is the agent's, is not there"
    names = ", ".join(sorted(frozenset().union(*guess)))
    return Removal(problem=f"{why}; nothing is removed by guess" + (f". On the node are {names}" if names else ""))


def _of(node: NodeFacts, told: _Keys, pods: Sequence[PodFacts] | None, *, force: bool) -> Removal:
    """The removal of the keys that are ``told``, those of Kubernetes excepted, whatever is told."""
    ours = _Keys(
        frozenset(key for key in told.capacity if key.startswith(PREFIX)),
        told.conditions & frozenset(conditions.TYPES),
        frozenset(key for key in told.labels if not KUBERNETES.search(key.rpartition("/")[0])),
    )
    foreign = _Keys(*(named - own for named, own in zip(told, ours, strict=True)))
    needed = {} if force else _needed(ours.labels & node.labels.keys(), pods)
    going = ours._replace(labels=ours.labels - needed.keys())
    left = {
        "capacity": sorted(foreign.capacity),
        "conditions": sorted(foreign.conditions),
        "labels": sorted({*foreign.labels, *needed}),
    }
    return Removal(
        requests=_writes(node, going, left),
        needed=needed,
        foreign=tuple(sorted(frozenset().union(*foreign))),
        holders=tuple(_holders(pods or (), going.capacity & {*node.capacity, *node.allocatable})),
    )


def blind(name: str, ai_key: str | None) -> tuple[Request, ...]:
    """The writes that would take everything off a node that cannot be asked what is there.

    To remove a key that is not there is no error. Resources of single cards, whose names carry a number, are missing.
    """
    capacity = dict.fromkeys((GPU_MEMORY, IGPU_MEMORY, GPU_MILLI))
    named = dict.fromkeys((*labels.DESCRIBED, *((ai_key,) if ai_key else ())))
    return (
        _request(name, {"status": {"capacity": capacity, "allocatable": capacity}}),
        _conditions_request(name, conditions.TYPES),
        _request(name, {"metadata": {"labels": named}}),
        _request(name, {"metadata": {"annotations": {OWNED_KEYS: None}}}),
    )


def rest(name: str, found: Removal) -> tuple[Request, ...]:
    """The writes that take off the node ``name`` what ``found`` has left for pods, once none needs it any more."""
    if not found.needed:
        return ()
    named = _request(name, {"metadata": {"labels": dict.fromkeys(sorted(found.needed))}})
    listed = _request(name, {"metadata": {"annotations": {OWNED_KEYS: None}}})
    return (named,) if found.foreign else (named, listed)


def command(request: Request) -> str:
    """The kubectl command line that makes the same write."""
    name = request.path.split("/")[-2]
    body = shlex.quote(json.dumps(request.body, separators=(",", ":")))
    kind = _PATCH[request.content_type]
    return f"kubectl patch node {name} --subresource=status --type={kind} -p {body}"


def _told(node: NodeFacts) -> tuple[_Keys | None, str]:
    """(keys by part, why there are none). Neither where there is no annotation."""
    text = node.annotations.get(OWNED_KEYS)
    if text is None:
        return None, ""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    # Another version may list more; what it means by that is not known here.
    if not isinstance(told, dict) or told.keys() != set(PARTS) or not all(map(_texts, told.values())):
        return None, f"the annotation {OWNED_KEYS} is not as this agent writes it: {text[:100]!r}"
    return _Keys(*(frozenset(told[part]) for part in PARTS)), ""


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _prefixed(node: NodeFacts) -> _Keys:
    """What is on the node by its name."""
    return _Keys(
        frozenset(key for key in (*node.capacity, *node.allocatable) if key.startswith(PREFIX)),
        frozenset(_types(node)),
        frozenset(key for key in node.labels if key.startswith(PREFIX)),
    )


def _types(node: NodeFacts) -> set[str]:
    return {str(item.get("type")) for item in node.conditions} & set(conditions.TYPES)


def _needed(going: frozenset[str], pods: Sequence[PodFacts] | None) -> dict[str, tuple[str, ...]]:
    if pods is None:
        return dict.fromkeys(sorted(going), ())
    required = labels.required(pods)
    return {key: tuple(sorted(required[key])) for key in sorted(going) if key in required}


def _holders(pods: Iterable[PodFacts], keys: frozenset[str]) -> list[str]:
    return sorted(pod.key for pod in pods if pod.live and any(requests.total(pod, key, "requests") for key in keys))


def _writes(node: NodeFacts, going: _Keys, left: Mapping[str, Sequence[str]]) -> tuple[Request, ...]:
    """The annotation last: until all else is gone, it says what is still there."""
    found = []
    status = {
        name: dict.fromkeys(sorted(going.capacity & present.keys()))
        for name, present in (("capacity", node.capacity), ("allocatable", node.allocatable))
        if going.capacity & present.keys()
    }
    if status:
        found.append(_request(node.name, {"status": status}))
    if going.conditions & _types(node):
        found.append(_conditions_request(node.name, sorted(going.conditions & _types(node))))
    if going.labels & node.labels.keys():
        found.append(
            _request(node.name, {"metadata": {"labels": dict.fromkeys(sorted(going.labels & node.labels.keys()))}})
        )
    annotation = json.dumps(left, separators=(",", ":"), sort_keys=True) if any(left.values()) else None
    if node.annotations.get(OWNED_KEYS) != annotation:
        found.append(_request(node.name, {"metadata": {"annotations": {OWNED_KEYS: annotation}}}))
    return tuple(found)


def _request(name: str, body: Mapping[str, Any]) -> Request:
    return Request(method="PATCH", path=f"/api/v1/nodes/{name}/status", content_type=MERGE_PATCH, body=body)


def _conditions_request(name: str, types: Iterable[str]) -> Request:
    # A merge-patch would replace the whole list, the kubelet's Ready with it.
    body = {"status": {"conditions": [{"type": kind, "$patch": "delete"} for kind in types]}}
    return Request(method="PATCH", path=f"/api/v1/nodes/{name}/status", content_type=STRATEGIC_MERGE_PATCH, body=body)

"""What a pod means for the fleet: what it holds, what it waits for, and whether it is an agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgeagent.cluster import objects
from edgeagent.cluster import pods as cluster_pods
from edgeagent.facts import PodFacts
from edgeagent.fleet.signs import is_pool
from edgeagent.fleet.types import Agent, PodSeen, Waiting
from edgeagent.memory import requests

_NAME_LABEL = "app.kubernetes.io/name"
_AGENT = "edgeagent"
"""The name of the program, of its container and, as a label, of its pods: deploy/base/daemonset.yaml."""


def seen(obj: Mapping[str, Any]) -> PodSeen | None:
    """What is to know of one pod; None if it has finished.

    Raises:
        ObjectError: it cannot even be told which node it is on.
    """
    node = objects.read("pod", obj, _node)
    try:
        facts = cluster_pods.parse(obj)
        return objects.read("pod", obj, lambda known: _seen(known, node, facts)) if facts.live else None
    except objects.ObjectError:
        return PodSeen(node, None, {}, None, None)


def _node(obj: Mapping[str, Any]) -> str:
    return str(objects.mapping(obj["spec"]).get("nodeName") or "")


def _seen(obj: Mapping[str, Any], node: str, facts: PodFacts) -> PodSeen:
    asks = _asks(facts)
    waits = bool(asks) and not node and not facts.terminating
    return PodSeen(
        node, facts, asks, _agent(obj, facts) if node else None, _waiting(obj, facts, asks) if waits else None
    )


def _asks(facts: PodFacts) -> dict[str, int]:
    named = {*facts.pod_requests, *facts.overhead, *(key for one in facts.containers for key in one.requests)}
    amounts = {key: requests.total(facts, key, "requests") for key in sorted(named) if is_pool(key)}
    return {key: amount for key, amount in amounts.items() if amount}


def _condition(obj: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    conditions = objects.sequence(objects.mapping(obj.get("status")).get("conditions"))
    return next((one for one in map(objects.mapping, conditions) if one.get("type") == kind), {})


def _waiting(obj: Mapping[str, Any], facts: PodFacts, asks: Mapping[str, int]) -> Waiting:
    said = _condition(obj, "PodScheduled")
    told = said.get("status") == "False"
    return Waiting(
        namespace=facts.namespace,
        name=facts.name,
        asks=asks,
        created=facts.created_at,
        since=objects.unix_time(said.get("lastTransitionTime")) if told else None,
        reason=str(said.get("reason") or "") or None if told else None,
        message=str(said.get("message") or "") or None if told else None,
    )


def _agent(obj: Mapping[str, Any], facts: PodFacts) -> Agent | None:
    labels = objects.strings(obj["metadata"].get("labels"))
    if labels.get(_NAME_LABEL) != _AGENT or facts.owner is None or facts.owner[0] != "DaemonSet":
        return None
    container = next((one for one in objects.sequence(obj["spec"]["containers"]) if one.get("name") == _AGENT), None)
    if container is None:
        return None
    image = str(container.get("image") or "")
    ready = _condition(obj, "Ready").get("status")
    return Agent(
        pod=facts.key,
        image=image,
        version=tag(image),
        ready={"True": True, "False": False}.get(str(ready)),
        started=next(one.started_at for one in facts.containers if one.name == _AGENT),
    )


def tag(image: str) -> str | None:
    """The tag of ``registry:5000/name:tag@sha256:…``; None if it has none."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2] or None

"""What ``doctor --cluster`` looks at: all nodes, all pods, and the lists of a diagnosis, over the official client."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from edgeagent.cluster import lists, looking, node, objects, pods
from edgeagent.diagnose.collected import ClusterSeen
from edgeagent.errors import ClusterError
from edgeagent.facts.diagnosis import ClusterLook, Listed

if TYPE_CHECKING:
    from edgeagent.facts import PodFacts
    from edgeagent.fleet.api import Api

T = TypeVar("T")


def look(api: Api) -> ClusterSeen:
    """Everything, in some requests one after the other.

    Raises:
        ClusterError: nodes or pods could not be listed; without them there is nothing to be said.
    """
    nodes, everything = api.everything(None)
    return ClusterSeen(
        nodes=tuple(lists.understood(nodes.items, node.parse)),
        bound=_bound(everything.items),
        cluster=ClusterLook(
            runtime_classes=_listed(api, looking.RUNTIME_CLASSES, [{}], lists.runtime_class),
            daemon_sets=_listed(api, looking.DAEMON_SETS, [{}], lists.daemon_set),
            events=_listed(
                api,
                looking.EVENTS,
                [{"fieldSelector": f"type=Warning,reason={one}"} for one in looking.REASONS],
                lists.event,
            ),
            waiting=Listed(items=tuple(lists.waiting(everything.items))),
        ),
        wall=time.time(),
    )


def _bound(items: Iterable[dict[str, Any]]) -> dict[str, tuple[PodFacts, ...]]:
    found: dict[str, list[PodFacts]] = defaultdict(list)
    for item in items:
        name = objects.mapping(item.get("spec")).get("nodeName")
        if isinstance(name, str) and name:
            found[name] += (pod for pod in lists.understood([item], pods.parse) if pod.live)
    return {name: tuple(sorted(listed, key=lambda pod: pod.key)) for name, listed in found.items()}


def _listed(api: Api, what: tuple[str, str], queries: Iterable[dict[str, str]], parse: Callable[[Any], T]) -> Listed[T]:
    path, right = what
    found: list[T] = []
    try:
        for query in queries:
            found += lists.understood(api.listed(path, query).items, parse)
    except ClusterError as error:
        return looking.refused(error, right)
    return Listed(items=tuple(found))

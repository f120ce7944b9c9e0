"""The lists for a diagnosis in a sample of a snapshot. Absent is *cannot tell*, empty is *none*."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from edgeagent.cluster import lists
from edgeagent.facts.diagnosis import ClusterLook, Listed, unlisted
from edgeagent.snapshot import sources

T = TypeVar("T")

KINDS = {"runtimeclasses": "RuntimeClassList", "daemonsets": "DaemonSetList", "events": "EventList"}
"""By file name without ``.json``."""


def cluster_look(folder: str, found: Mapping[str, Any]) -> ClusterLook:
    """``found``: objects by file name without ``.json``; ``folder`` is for messages.

    Raises:
        InputError: one of them is no list.
    """

    def listed(name: str, parse: Callable[[Any], T]) -> Listed[T]:
        place = f"{folder}/{name}.json"
        if name not in found:
            return unlisted(f"cluster/{name}.json is not in the snapshot")
        return Listed(items=tuple(lists.understood(sources.items(place, found[name], KINDS[name]), parse)))

    pods = f"{folder}/pods.json"
    return ClusterLook(
        runtime_classes=listed("runtimeclasses", lists.runtime_class),
        daemon_sets=listed("daemonsets", lists.daemon_set),
        events=listed("events", lists.event),
        waiting=Listed(items=tuple(lists.waiting(sources.items(pods, found["pods"]))))
        if "pods" in found
        else unlisted("cluster/pods.json is not in the snapshot"),
    )

"""Lists of the cluster that only a diagnosis needs: what is kept of each kind of object."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from edgeagent.cluster import objects, pods
from edgeagent.cluster.placement import placement, tolerations
from edgeagent.facts import Placement, PodFacts
from edgeagent.facts.diagnosis import DaemonSetFacts, EventFacts, RuntimeClassFacts

log = logging.getLogger(__name__)

T = TypeVar("T")

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""Names of objects (RFC 1123): remedies put them into commands, and a recording may be a stranger's."""
_HANDLER = re.compile(r"[\w.-]+", re.ASCII)
"""Wider than what an API server takes: one in capitals is to be told of."""


def runtime_class(obj: Mapping[str, Any]) -> RuntimeClassFacts:
    """One node.k8s.io/v1 RuntimeClass.

    Raises:
        ObjectError: its shape is not that of one.
    """
    return objects.read("runtimeclass", obj, _runtime_class)


def daemon_set(obj: Mapping[str, Any]) -> DaemonSetFacts:
    """One apps/v1 DaemonSet.

    Raises:
        ObjectError: its shape is not that of one.
    """
    return objects.read("daemonset", obj, _daemon_set)


def event(obj: Mapping[str, Any]) -> EventFacts:
    """One event, of v1 or of events.k8s.io/v1.

    Raises:
        ObjectError: its shape is not that of one.
    """
    return objects.read("event", obj, _event)


def waiting(items: Iterable[Any]) -> Iterator[PodFacts]:
    """Those pods that are bound to no node yet, and have not ended."""
    yield from (pod for pod in understood(filter(_unbound, items), pods.parse) if pod.live)


def _unbound(item: Any) -> bool:
    spec = item.get("spec") if isinstance(item, Mapping) else None
    return isinstance(spec, Mapping) and not spec.get("nodeName")


def understood(items: Iterable[Any], parse: Callable[[Any], T]) -> Iterator[T]:
    """What ``parse`` makes of each object; one that is not understood does not hide the others."""
    for item in items:
        try:
            yield parse(item)
        except objects.ObjectError as error:
            log.warning("left out of the diagnosis: %s", error)


def _named(value: Any, form: re.Pattern[str] = _NAME) -> str:
    name = objects.text(value)
    if not form.fullmatch(name):
        raise ValueError(f"no API server takes the name {name[:64]!r}")
    return name


def _runtime_class(obj: Mapping[str, Any]) -> RuntimeClassFacts:
    scheduling = objects.mapping(obj.get("scheduling"))
    return RuntimeClassFacts(
        name=_named(obj["metadata"]["name"]),
        handler=_named(obj["handler"], _HANDLER) if obj.get("handler") else "",
        placement=Placement(
            selector=objects.strings(scheduling.get("nodeSelector")),
            tolerations=tolerations(scheduling.get("tolerations")),
        ),
    )


def _daemon_set(obj: Mapping[str, Any]) -> DaemonSetFacts:
    metadata, template = obj["metadata"], obj["spec"]["template"]
    spec = objects.mapping(template.get("spec"))
    listed = [*objects.sequence(spec.get("containers")), *objects.sequence(spec.get("initContainers"))]
    wanted = objects.mapping(obj.get("status")).get("desiredNumberScheduled")
    return DaemonSetFacts(
        namespace=_named(metadata["namespace"]),
        name=_named(metadata["name"]),
        images=tuple(str(container.get("image") or "") for container in listed),
        labels=objects.strings(objects.mapping(template.get("metadata")).get("labels")),
        placement=placement(spec),
        runtime_class=spec.get("runtimeClassName") or None,
        wanted=None if wanted is None else int(wanted),
    )


def _event(obj: Mapping[str, Any]) -> EventFacts:
    about = objects.mapping(obj.get("regarding") or obj.get("involvedObject"))
    series = objects.mapping(obj.get("series"))
    times = (
        series.get("lastObservedTime"),
        obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp"),
        obj.get("eventTime"),
        obj["metadata"].get("creationTimestamp"),
    )
    return EventFacts(
        reason=str(obj.get("reason") or ""),
        note=str(obj.get("note") or obj.get("message") or ""),
        kind=str(about.get("kind") or ""),
        namespace=str(about.get("namespace") or ""),
        name=str(about.get("name") or ""),
        uid=str(about.get("uid") or ""),
        last=next((moment for text in times if (moment := objects.unix_time(text)) is not None), None),
    )

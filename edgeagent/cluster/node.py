"""A v1 Node, reduced to what decisions need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgeagent.cluster import objects
from edgeagent.cluster.placement import taints
from edgeagent.facts import PREFIX, NodeFacts


def parse(obj: Mapping[str, Any]) -> NodeFacts:
    """The facts of one node, as the API server or a recording has it.

    Raises:
        ObjectError: its shape is not that of a node.
    """
    return objects.read("node", obj, _node)


def _node(obj: Mapping[str, Any]) -> NodeFacts:
    metadata, status = obj["metadata"], objects.mapping(obj.get("status"))
    return NodeFacts(
        name=objects.text(metadata["name"]),
        uid=str(metadata.get("uid") or ""),
        capacity=_quantities(status.get("capacity")),
        allocatable=_quantities(status.get("allocatable")),
        labels=objects.strings(metadata.get("labels")),
        annotations=objects.strings(metadata.get("annotations")),
        # Others write conditions too; one without a name is none of ours and says nothing.
        conditions=tuple(
            dict(condition)
            for condition in map(objects.mapping, objects.sequence(status.get("conditions")))
            if isinstance(condition.get("type"), str)
        ),
        machine_id=objects.mapping(status.get("nodeInfo")).get("machineID") or None,
        version=str(metadata.get("resourceVersion") or ""),
        managers=_managers(metadata.get("managedFields")),
        taints=objects.lenient(lambda: taints(objects.mapping(obj.get("spec")).get("taints")), ()),
        kubelet_version=objects.mapping(status.get("nodeInfo")).get("kubeletVersion") or None,
    )


def _quantities(value: Any) -> dict[str, str]:
    return {key: str(amount) for key, amount in objects.mapping(value).items()}


def _managers(managed_fields: Any) -> dict[str, str]:
    """Who last set each of our capacity keys: of several owners of a field, the one that wrote last."""
    found: dict[str, str] = {}
    entries = [objects.mapping(entry) for entry in objects.sequence(managed_fields)]
    for entry in sorted(entries, key=lambda entry: str(entry.get("time") or "")):
        status = objects.mapping(objects.mapping(entry.get("fieldsV1")).get("f:status"))
        for field in objects.mapping(status.get("f:capacity")):
            key = field.removeprefix("f:")
            if key.startswith(PREFIX):
                found[key] = str(entry.get("manager") or "")
    return found

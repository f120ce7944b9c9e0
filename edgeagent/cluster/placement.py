"""Where a pod may run: the parts of a pod's spec, and of a template of pods, that the scheduler compares with nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edgeagent.cluster import objects
from edgeagent.facts import Placement, Taint, Term


def placement(spec: Mapping[str, Any]) -> Placement:
    """The placement that a PodSpec asks for."""
    affinity = objects.mapping(objects.mapping(spec.get("affinity")).get("nodeAffinity"))
    required = objects.mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    return Placement(
        selector=objects.strings(spec.get("nodeSelector")),
        terms=tuple(tuple(_terms(term)) or (_NOWHERE,) for term in objects.sequence(required.get("nodeSelectorTerms"))),
        tolerations=tolerations(spec.get("tolerations")),
    )


def tolerations(value: Any) -> tuple[Taint, ...]:
    """Tolerations, as a pod or a RuntimeClass has them."""
    return tuple(
        Taint(
            key=str(one.get("key") or ""),
            value=str(one.get("value") or ""),
            effect=str(one.get("effect") or ""),
            operator=str(one.get("operator") or "Equal"),
        )
        for one in map(objects.mapping, objects.sequence(value))
    )


def taints(value: Any) -> tuple[Taint, ...]:
    """Taints of a node."""
    return tuple(
        Taint(key=objects.text(one["key"]), value=str(one.get("value") or ""), effect=str(one.get("effect") or ""))
        for one in map(objects.mapping, objects.sequence(value))
    )


_NOWHERE = Term("metadata.name", "In", field=True)
"""What an empty term comes to: it matches no node (NodeSelectorTerm of the Kubernetes API)."""


def _terms(term: Mapping[str, Any]) -> Iterator[Term]:
    for name in ("matchExpressions", "matchFields"):
        for expression in objects.sequence(term.get(name)):
            yield Term(
                objects.text(expression["key"]),
                str(expression.get("operator") or ""),
                tuple(str(value) for value in objects.sequence(expression.get("values"))),
                field=name == "matchFields",
            )

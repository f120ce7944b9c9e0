"""Whether a pod may run on a node, as the scheduler judges it: nodeSelector, required affinity, taints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeagent.facts import NodeFacts, Placement, PodFacts, Taint, Term

_HARD = ("NoSchedule", "NoExecute")
_HOST_NAME = "kubernetes.io/hostname"


def only_here(pod: PodFacts) -> bool:
    """No other node is there for a pod that waits, as far as is known: the scheduler counts the nodes."""
    told = pod.unschedulable
    return told is None or told.startswith("0/1 ") or _HOST_NAME in pod.placement.selector


def unmet(placement: Placement, node: NodeFacts) -> tuple[str, ...]:
    """What keeps a pod away from the node, each as the label or taint that it is about; () if nothing does."""
    return (*_selector(placement, node), *_affinity(placement, node), *_taints(placement, node))


def _selector(placement: Placement, node: NodeFacts) -> Iterator[str]:
    for key, value in sorted(placement.selector.items()):
        if node.labels.get(key) != value:
            yield f"label {key}={value}"


def _affinity(placement: Placement, node: NodeFacts) -> Iterator[str]:
    lacking = unheld(placement, node)
    if lacking:
        kind = "" if any(term.field for group in lacking for term in group) else "label "
        yield kind + " or ".join(" and ".join(_words(term) for term in group) for group in lacking)


def _taints(placement: Placement, node: NodeFacts) -> Iterator[str]:
    for taint in untolerated(placement, node):
        value = f"={taint.value}" if taint.value else ""
        yield f"toleration of {taint.key}{value}:{taint.effect}"


def unheld(placement: Placement, node: NodeFacts) -> tuple[tuple[Term, ...], ...]:
    """Of each alternative of the required affinity what does not hold; () if one of them holds as a whole."""
    lacking = tuple(tuple(term for term in group if not _holds(term, node)) for group in placement.terms)
    return lacking if all(lacking) else ()


def untolerated(placement: Placement, node: NodeFacts) -> tuple[Taint, ...]:
    """The taints of the node that the pod does not put up with."""
    hard = (taint for taint in node.taints if taint.effect in _HARD)
    return tuple(taint for taint in hard if not any(_tolerates(one, taint) for one in placement.tolerations))


def _holds(term: Term, node: NodeFacts) -> bool:
    value = node.name if term.field else node.labels.get(term.key)
    if term.operator == "Exists":
        return value is not None
    if term.operator == "DoesNotExist":
        return value is None
    if term.operator == "In":
        return value in term.values
    if term.operator == "NotIn":
        return value not in term.values
    try:
        number, bound = int(value or ""), int(term.values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if term.operator == "Gt" else number < bound


def _words(term: Term) -> str:
    if term.operator == "Exists":
        return term.key
    if term.operator == "DoesNotExist":
        return f"no {term.key}"
    if term.operator == "In" and len(term.values) == 1:
        return f"{term.key}={term.values[0]}"
    return f"{term.key} {term.operator} {','.join(term.values)}"


def _tolerates(toleration: Taint, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.key == taint.key and toleration.value == taint.value

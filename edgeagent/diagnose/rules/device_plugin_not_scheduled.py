"""There is a device plugin, and its DaemonSet wants no pod on this node."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from shlex import quote
from typing import TYPE_CHECKING

from edgeagent.diagnose import plugins
from edgeagent.diagnose.placement import unheld, untolerated
from edgeagent.diagnose.rule import Rule
from edgeagent.plan import labels

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import ClusterSeen, Collected
    from edgeagent.facts import Finding, NodeFacts, Placement, PodFacts, Severity, Term
    from edgeagent.facts.diagnosis import ClusterLook, DaemonSetFacts

_FIXED = ("kubernetes.io/", "beta.kubernetes.io/", "node.kubernetes.io/", "topology.kubernetes.io/", "metadata.name")
"""Labels by which Kubernetes itself says what a node is, and its name: none to be set by hand."""
_FOUND = "feature.node.kubernetes.io/"
"""Labels that node-feature-discovery sets, and takes away again."""
_PRESENT = "nvidia.com/gpu.present"
"""The one that the chart's affinity leaves to people (NVIDIA/k8s-device-plugin, values.yaml)."""
_NO = ("false", "no", "off")
_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
"""A number that Gt and Lt compare with: it fits into 64 bits."""


def look(seen: Collected) -> Iterator[Finding]:
    """This node, which has a GPU."""
    if seen.has_gpu and seen.node is not None:
        yield from _on(seen.cluster, seen.node, seen.pods)


def across(seen: ClusterSeen) -> Iterator[Finding]:
    """Every node whose label says that it has a GPU."""
    for node in seen.nodes:
        if node.labels.get(labels.KIND, "none") != "none":
            yield from _on(seen.cluster, node, seen.bound.get(node.name, ()))


def _on(cluster: ClusterLook, node: NodeFacts, bound: Sequence[PodFacts]) -> Iterator[Finding]:
    """Nothing where one of the plugins may run here, or does, or something offers what it would."""
    lacks = [(one, plugins.unmet_by(one, node)) for one in plugins.sets(cluster)]
    if not lacks or not all(lack for _, lack in lacks) or plugins.offered(node) or any(plugins.pods(bound, cluster)):
        return
    lacks.sort(key=lambda pair: (len(pair[1]), pair[0].namespace, pair[0].name))
    waiting = (pod for pod in cluster.waiting.items or () if plugins.wanted_here(pod, node))
    asking = {**plugins.asking(waiting), **plugins.asking(bound)}
    nearest, lack = lacks[0]
    yield RULE.finding(
        f"node {node.name}",
        f"The device plugin {_name(nearest)} does not come to this node, which has a GPU: it needs {_words(lack)}."
        + (f" {', '.join(asking)} cannot get a GPU here." if asking else ""),
        evidence=(
            *(f"daemonset {_name(one)}: needs {_words(lack)}" for one, lack in lacks),
            *(
                f"daemonset {_name(one)} status.desiredNumberScheduled: {one.wanted}"
                for one, _ in lacks
                if one.wanted is not None
            ),
            *plugins.told(node),
            *(f"pod {key} asks for {asked}" for key, asked in asking.items()),
        ),
        remedy=_remedy(nearest, node),
        severity=_severity([one for one, _ in lacks], node, asked=bool(asking)),
    )


def _name(one: DaemonSetFacts) -> str:
    return f"{one.namespace}/{one.name}"


def _words(lack: Sequence[str]) -> str:
    return ", and ".join(lack)


def _severity(sets: Sequence[DaemonSetFacts], node: NodeFacts, *, asked: bool) -> Severity:
    """A plugin that serves other nodes may be kept away from this one on purpose, unless a pod asks for it here."""
    if asked:
        return "error"
    refused = any(node.labels.get(key, "").lower() in _NO for one in sets for key in _keys(one.placement))
    return "info" if refused or any(one.wanted != 0 for one in sets) else "warning"


def _keys(placement: Placement) -> Iterator[str]:
    yield from placement.selector
    yield from (term.key for group in placement.terms for term in group)


def _remedy(one: DaemonSetFacts, node: NodeFacts) -> str:
    wanted, fixed = _labels(one.placement, node)
    if fixed:
        return (
            f"Leave {_name(one)} to the nodes that it is for: {', '.join(fixed)} says what a node is, and is not set "
            "by hand. Run the device plugin here by a second DaemonSet, from another release of the chart or a copy by "
            "another name, whose nodeSelector, affinity and tolerations let it come to this node."
        )
    lines = []
    if wanted:
        pairs = (quote(f"{key}-" if text is None else f"{key}={text}") for key, text in wanted.items())
        change = "--overwrite " if any(key in node.labels for key in wanted) else ""
        lines += [f"kubectl label {change}node {node.name} {' '.join(pairs)}"]
    patch = _patch(one, node)
    if patch:
        lines += [f"kubectl -n {one.namespace} patch daemonset {one.name} --type json -p {quote(json.dumps(patch))}"]
    told = "\nWhat a chart or an operator made it changes back; set the same in its values." if patch else ""
    return "Let the device plugin come to this node:\n" + "\n".join(lines) + told


def _labels(placement: Placement, node: NodeFacts) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """Labels to set (None: to take away), and those that are wanted and cannot be set."""
    wanted: dict[str, str | None] = {
        key: text for key, text in placement.selector.items() if node.labels.get(key) != text
    }
    lacking = unheld(placement, node)
    if lacking:
        wanted |= _settled(min(lacking, key=_effort))
    fixed = tuple(key for key in wanted if key.startswith(_FIXED))
    return {key: text for key, text in sorted(wanted.items()) if key not in fixed}, fixed


def _effort(group: Sequence[Term]) -> tuple[bool, bool, bool, int]:
    """By which of several alternatives is chosen: the least of them."""
    keys = [term.key for term in group]
    return (
        any(key.startswith(_FIXED) for key in keys),
        any(key.startswith(_FOUND) for key in keys),
        _PRESENT not in keys,
        len(keys),
    )


def _settled(group: Sequence[Term]) -> Mapping[str, str | None]:
    """Labels with which all of these hold."""
    return {term.key: _value(term) for term in group}


def _value(term: Term) -> str | None:
    if term.operator == "In" and term.values:
        return term.values[0]
    if term.operator in ("Gt", "Lt") and term.values and _WHOLE.fullmatch(term.values[0]):
        return str(int(term.values[0]) + (1 if term.operator == "Gt" else -1))
    return "true" if term.operator == "Exists" else None


def _patch(one: DaemonSetFacts, node: NodeFacts) -> list[dict[str, object]]:
    """What is to be changed of the DaemonSet itself: tolerations. What it asks of nodes stays, for those it runs on."""
    path = "/spec/template/spec/tolerations"
    taints = untolerated(plugins.placement(one), node)
    wanted = [
        {key: text for key, text in asdict(taint).items() if text}
        for taint in taints
    ]  # fmt: skip
    if wanted and one.placement.tolerations:
        return [{"op": "add", "path": f"{path}/-", "value": taint} for taint in wanted]
    return [{"op": "add", "path": path, "value": wanted}] if wanted else []


RULE = Rule(
    id="device-plugin-not-scheduled",
    title="The device plugin does not come to this node",
    severity="error",
    looks_at="DaemonSets that are device plugins for NVIDIA's GPUs by image, name or label: nodeSelector, required "
    "affinity and tolerations of their pods beside the labels and taints of the node. An error where a pod asks for "
    "`nvidia.com/gpu` here, a warning where the DaemonSet wants no pod anywhere, a note where it serves other nodes",
    matters="A DaemonSet that wants 0 pods reports no error. The node has a GPU and offers none: the affinity of "
    "NVIDIA's chart names labels that node-feature-discovery sets by PCI class, and a Jetson has no such device.",
    remedy="Set the label that it waits for, mostly:\nkubectl label node NODE nvidia.com/gpu.present=true",
    look=look,
    across=across,
)
RULES = (RULE,)

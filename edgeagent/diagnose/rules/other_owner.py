"""Another project shares out the memory of this node's GPU as well."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.diagnose.rule import Rule
from edgeagent.plan import labels, owners
from edgeagent.plan.node import MODE

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import ClusterSeen, Collected
    from edgeagent.facts import Finding, NodeFacts, PodFacts, Severity

_RESOURCES = {
    r"aliyun\.com/gpu-mem": "gpushare",
    r"volcano\.sh/(?:v?gpu-memory|vgpu-number)": "volcano",
    r"tencent\.com/vcuda-memory": "gpu-manager",
    r"nvidia\.com/gpumem": "HAMi",
    r"nvidia\.com/gpu-\d+gb": "nos",
    r"nvshare\.com/gpu": "nvshare",
    r"cnvrg\.io/metagpu": "metagpu",
    r"kube-share/gpu-mem": "kube-share",
}
"""What each project has a node offer."""
_PODS = {
    r"hami-device-plugin|projecthami/hami\b": "HAMi",
    r"gpushare-device-plugin": "gpushare",
    r"volcano-(?:v?gpu-)?device-plugin": "volcano",
    r"nvshare-device-plugin": "nvshare",
    r"^(?:kai-resource|runai)-reservation/": "KAI",
}
"""By what its pods on the node are known: image, or namespace and name."""


def look(seen: Collected) -> Iterator[Finding]:
    """This node."""
    if seen.has_gpu and seen.node is not None:
        asked = seen.facts.config.mode == "observe" or seen.node.annotations.get(MODE) == "observe"
        yield from _on(seen.node, seen.pods, calm=asked)


def across(seen: ClusterSeen) -> Iterator[Finding]:
    """Every node whose label says that it has a GPU."""
    for node in seen.nodes:
        if node.labels.get(labels.KIND, "none") != "none":
            bound = seen.bound.get(node.name, ())
            yield from _on(node, bound, calm=node.annotations.get(MODE) == "observe")


def _on(node: NodeFacts, bound: Sequence[PodFacts], *, calm: bool) -> Iterator[Finding]:
    """``calm``: edgeagent was told to observe here, so nothing is given out twice."""
    owner = owners.other_owner(node)
    severity: Severity = "info" if calm else RULE.severity
    if owner:
        yield RULE.finding(
            f"node {node.name}",
            f"{owner} owns the GPU memory of this node: edgeagent only observes here, evicts nobody, and offers no "
            "more than the pods that run have asked for.",
            evidence=(f"node {node.name}: {_mark(owner)}",),
            remedy=_one_owner(node, owner),
            severity=severity,
        )
        return
    for name, evidence, sure in _marks(node, bound):
        yield RULE.finding(
            f"node {node.name}",
            f"{name} shares out the GPU of this node too, and edgeagent does not know of what it gives: "
            "the same memory is given out twice.",
            evidence=evidence,
            remedy=f"Let one of them do it. Take {name} away from this node, or calm edgeagent:\n"
            f"kubectl annotate node {node.name} {MODE}=observe",
            severity=severity,
            certainty="certain" if sure else "suspected",
        )


def _mark(owner: str) -> str:
    """``label gpu=on`` of ``HAMi (label gpu=on)``."""
    return owner.partition("(")[2].removesuffix(")")


def _one_owner(node: NodeFacts, owner: str) -> str:
    name, kind, mark = owner.partition(" ")[0], *_mark(owner).split(" ", 1)
    if kind != "label":
        return (
            f"Let one of them do it: take {name} away from this node, which ends its condition {mark}, or edgeagent:\n"
            "edgeagent uninstall"
        )
    return (
        f"Let one of them do it. Where {name} is not in use on this node, take its label away:\n"
        f"kubectl label node {node.name} {mark.partition('=')[0]}-"
    )


def _marks(node: NodeFacts, bound: Sequence[PodFacts]) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    """(project, evidence, whether the node itself says so) of each that is seen."""
    found: dict[str, list[str]] = {}
    sure = set()
    for key, text in sorted(node.allocatable.items()):
        name = next((name for pattern, name in _RESOURCES.items() if re.fullmatch(pattern, key)), None)
        if name and not quantity.equal(text, "0"):
            found.setdefault(name, []).append(f"node status.allocatable.{key}: {text}")
            sure.add(name)
    for pod in bound:
        for text in (pod.key, *(one.image for one in pod.containers)):
            name = next((name for pattern, name in _PODS.items() if re.search(pattern, text)), None)
            if name:
                found.setdefault(name, []).append(f"pod {pod.key}: {text}")
                break
    for name, evidence in found.items():
        yield name, tuple(evidence), name in sure


RULE = Rule(
    id="other-owner",
    title="Another owner of the GPU's memory",
    severity="warning",
    looks_at="labels, conditions and `status.allocatable` of the node, and its pods, for the marks of HAMi, KAI, "
    "gpushare, KubeShare, nos, volcano and others that share out GPU memory. A note where edgeagent was told to "
    "observe",
    matters="Two owners each give away the whole of it. Beside one that it knows by the node's labels or conditions "
    "edgeagent only observes; beside any other it would evict pods that keep to what the other one allowed.",
    remedy=f"Let one of them do it: take the other away from the node, or\nkubectl annotate node NODE {MODE}=observe",
    look=look,
    across=across,
)
RULES = (RULE,)

"""NVIDIA's device plugin and its kind: who is one, what it gives out, and who asks for that.

It has no fixed name: there are a chart, plain manifests, NVIDIA's operator and clouds, and anybody may rename them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.diagnose.placement import unmet
from edgeagent.facts import Taint
from edgeagent.memory import requests

if TYPE_CHECKING:
    from edgeagent.facts import NodeFacts, Placement, PodFacts
    from edgeagent.facts.diagnosis import ClusterLook, DaemonSetFacts

KEY = "nvidia.com/gpu"
_COUNTED = re.compile(r"nvidia\.com/(?:gpu(?:[.-].+)?|mig-.+)")
"""Whole GPUs, shared ones, renamed ones and instances. ``nvidia.com/gpumem`` and the like are not a plugin's."""
_PLUGIN = re.compile(r"k8s-device-plugin|(?:nvidia|nvdp|hami|nos)[\w.-]*-device-plugin")
_ANOTHER_MAKER = re.compile(r"rocm|amd|intel|habana|xilinx|ascend|iluvatar|cambricon")
_BESIDE = re.compile(r"gpu-feature-discovery|mps-control|validator|dcgm")
"""What is installed beside the plugin, some of it from the same image."""
_DAEMONS = tuple(
    Taint(key=f"node.kubernetes.io/{key}", operator="Exists")
    for key in (
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
        "network-unavailable",
    )
)
"""What every pod of a DaemonSet tolerates (kubernetes, pkg/controller/daemon/util, AddOrUpdateDaemonPodTolerations)."""


def is_device(key: str) -> bool:
    """Whether a resource is one that such a plugin gives out."""
    return _COUNTED.fullmatch(key) is not None


def asks(pod: PodFacts) -> dict[str, int]:
    """How many of a device plugin's resources the pod asks for, by key; what is 0 is left out."""
    keys = {key for one in pod.containers for key in one.requests} | set(pod.pod_requests)
    amounts = {key: requests.total(pod, key, "requests") for key in sorted(keys) if is_device(key)}
    return {key: amount for key, amount in amounts.items() if amount > 0}


def offered(node: NodeFacts) -> dict[str, int]:
    """How many of each the node has to give; what is 0, or no number, is left out."""
    amounts = {key: _amount(text) for key, text in node.allocatable.items() if is_device(key)}
    return {key: amount for key, amount in sorted(amounts.items()) if amount > 0}


def _amount(text: str) -> int:
    try:
        return quantity.parse(text)
    except ValueError:
        return 0


def told(node: NodeFacts) -> tuple[str, ...]:
    """What the node says of them, as evidence."""
    rows = {key: text for key, text in sorted(node.allocatable.items()) if is_device(key)}
    return tuple(f"node status.allocatable.{key}: {text}" for key, text in (rows or {KEY: "absent"}).items())


def sets(cluster: ClusterLook) -> tuple[DaemonSetFacts, ...]:
    """The DaemonSets of plugins; () too where they were not listed."""
    return tuple(
        one
        for one in cluster.daemon_sets.items or ()
        if not _BESIDE.search(one.name) and _named((one.name, *one.images, *one.labels.values()))
    )


def pods(bound: Iterable[PodFacts], cluster: ClusterLook) -> Iterator[PodFacts]:
    """The plugins' pods among ``bound``."""
    made = {(one.namespace, "DaemonSet", one.name) for one in sets(cluster)}
    for pod in bound:
        by_set = pod.owner is not None and (pod.namespace, *pod.owner) in made
        images = (one.image for one in pod.containers)
        if by_set or (not _BESIDE.search(pod.name) and _named((pod.name, *images))):
            yield pod


def _named(texts: Iterable[str]) -> bool:
    return any(_PLUGIN.search(text) and not _ANOTHER_MAKER.search(text) for text in texts)


def sockets(names: Iterable[str]) -> tuple[str, ...]:
    """Those in the kubelet's folder that are NVIDIA's."""
    return tuple(name for name in names if name.startswith("nvidia"))


def placement(one: DaemonSetFacts) -> Placement:
    """Where the pods of a DaemonSet may run, with what all of them tolerate."""
    return replace(one.placement, tolerations=(*one.placement.tolerations, *_DAEMONS))


def unmet_by(one: DaemonSetFacts, node: NodeFacts) -> tuple[str, ...]:
    """What keeps the pods of a DaemonSet away from the node, as :func:`unmet` has it."""
    return unmet(placement(one), node)


def wanted_here(pod: PodFacts, node: NodeFacts) -> bool:
    """The pod may run on the node, or could if the labels were there that come with a plugin."""
    return not pod.terminating and all(lack.startswith("label nvidia.com/") for lack in unmet(pod.placement, node))


def asking(pods: Iterable[PodFacts]) -> Mapping[str, str]:
    """``amount of key`` by the key of each pod that asks for any."""
    amounts = {pod.key: asks(pod) for pod in pods}
    return {
        key: ", ".join(f"{amount} {resource}" for resource, amount in found.items())
        for key, found in amounts.items()
        if found
    }

"""Parts of snapshots that have to do with a device plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgeagent.facts import Placement
from edgeagent.facts.diagnosis import ClusterLook, Listed, RuntimeClassFacts
from tests.cases.making import NODE, node, pod
from tests.diagnose.making import OFFER

if TYPE_CHECKING:
    import pytest

GPU = "nvidia.com/gpu"
KEY = "edgeagent.dev/gpu-memory"
IMAGE = "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"
DAEMON_SETS = "cluster/daemonsets.json"
CHART = [
    [{"key": "feature.node.kubernetes.io/pci-10de.present", "operator": "In", "values": ["true"]}],
    [{"key": "feature.node.kubernetes.io/cpu-model.vendor_id", "operator": "In", "values": ["NVIDIA"]}],
    [{"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]}],
]
"""The affinity of NVIDIA's chart."""


def daemon_sets(*items: dict[str, Any]) -> dict[str, Any]:
    """``cluster/daemonsets.json``."""
    return {"kind": "DaemonSetList", "items": list(items)}


def daemon_set(
    name: str = "nvidia-device-plugin-daemonset", image: str = IMAGE, *, wanted: int | None = 0, **spec: Any
) -> dict[str, Any]:
    """A DaemonSet as NVIDIA's plain manifest has it; ``spec`` is that of its pods."""
    return {
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"template": {"spec": {"containers": [{"name": "ctr", "image": image}], **spec}}},
        "status": {} if wanted is None else {"desiredNumberScheduled": wanted},
    }


def affinity(terms: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """A required node affinity: one of the terms has to hold."""
    required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def plugin(
    name: str = "nvidia-device-plugin-daemonset",
    image: str = IMAGE,
    *,
    spec: dict[str, Any] | None = None,
    state: dict[str, Any] | None = None,
    **status: Any,
) -> dict[str, Any]:
    """The plugin's pod on this node, made by its DaemonSet ``name``; it runs unless ``state`` says something else."""
    made_by = [{"kind": "DaemonSet", "name": name, "controller": True}]
    found = pod(f"{name}-x7k2p", container="b" * 64, ownerReferences=made_by, namespace="kube-system")
    found["spec"] = {"nodeName": NODE, "containers": [{"name": "ctr", "image": image}], **(spec or {})}
    running = {"running": {"startedAt": "2026-01-31T11:00:05Z"}}
    found["status"]["containerStatuses"] = [
        {"name": "ctr", "containerID": f"containerd://{'b' * 64}", "state": state or running, **status}
    ]
    return found


def offering(gpus: str | None = "1", **metadata: Any) -> dict[str, Any]:
    """This node with the agent's capacity and so many GPUs; None: it does not name them."""
    return node({KEY: OFFER, **({} if gpus is None else {GPU: gpus})}, **metadata)


def refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot is looked at as with the kubelet's credential, which may list neither DaemonSets nor unbound pods."""

    def no(what: str) -> Listed[Any]:
        return Listed(items=None, why=f"the API server does not let these credentials {what}", right=what)

    look = ClusterLook(
        runtime_classes=Listed(items=(RuntimeClassFacts(name="nvidia", handler="nvidia", placement=Placement()),)),
        daemon_sets=no("list daemonsets.apps in all namespaces"),
        events=no("list events in all namespaces"),
        waiting=no("list pods in all namespaces"),
    )
    monkeypatch.setattr("edgeagent.snapshot.replay.cluster_look", lambda *_: look)

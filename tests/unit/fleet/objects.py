"""Nodes and pods as the API server has them; each maker gives a healthy default."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from edgeagent.facts import GPU_MEMORY

NOW = 1_796_061_600.0
"""2026-11-30T18:00:00Z."""
HEALTHY = {
    "Ready": ("True", "KubeletReady"),
    "GPUMemoryPressure": ("False", "MemoryAboveFloor"),
    "GPUUnavailable": ("False", "DevicesHealthy"),
    "GPURuntimeMisconfigured": ("False", "RuntimeConfigured"),
}
LABELS = {
    "edgeagent.dev/gpu.kind": "jetson",
    "edgeagent.dev/gpu.product": "Orin-Nano",
    "edgeagent.dev/gpu.memory-mib": "7619",
}


def node(
    name: str = "orin-1",
    *,
    capacity: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    conditions: Mapping[str, tuple[str, str]] | None = None,
    managed: Sequence[Mapping[str, str]] = (),
    **spec: Any,
) -> dict[str, Any]:
    """An Orin Nano that advertises 5827 MiB."""
    given = {GPU_MEMORY: "5827Mi"} if capacity is None else dict(capacity)
    stated = {**HEALTHY, **(conditions or {})}
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": dict(LABELS if labels is None else labels),
            "annotations": dict(annotations or {}),
            "managedFields": list(managed),
        },
        "spec": spec,
        "status": {
            "capacity": given,
            "allocatable": dict(given if allocatable is None else allocatable),
            "conditions": [
                {"type": kind, "status": status, "reason": reason}
                for kind, (status, reason) in stated.items()
                if status
            ],
        },
    }


def bare(name: str = "plain", **given: Any) -> dict[str, Any]:
    """A node that edgeagent has never written to but what is ``given``."""
    without = dict.fromkeys(tuple(HEALTHY)[1:], ("", "")) | given.pop("conditions", {})
    return node(name, **{"capacity": {"cpu": "4"}, "labels": {}, "conditions": without, **given})


def pod(
    name: str = "a",
    on: str = "",
    gpu: str | None = "1Gi",
    *,
    key: str = GPU_MEMORY,
    phase: str = "Pending",
    **more: Any,
) -> dict[str, Any]:
    """A pod of one container that asks for ``gpu``; ``more`` goes into its metadata."""
    limits = {} if gpu is None else {key: gpu}
    return {
        "metadata": {
            "namespace": "shop",
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-11-30T17:00:00Z",
            **more,
        },
        "spec": {"nodeName": on, "containers": [{"name": "main", "image": "m", "resources": {"limits": limits}}]},
        "status": {"phase": phase},
    }


def refused(name: str, message: str, **given: Any) -> dict[str, Any]:
    """A pod that the scheduler found no node for, ten minutes before :data:`NOW`."""
    found = pod(name, **given)
    found["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": "2026-11-30T17:50:00Z",
        }
    ]
    return found


def agent(
    on: str,
    image: str = "edgeagent:0.1.0",
    *,
    name: str = "edgeagent-x",
    ready: str = "True",
    started: str = "2026-11-30T16:00:00Z",
    **more: Any,
) -> dict[str, Any]:
    """The DaemonSet's pod."""
    owner = {"kind": "DaemonSet", "name": "edgeagent", "controller": True}
    found = pod(
        name, on, None, phase="Running", labels={"app.kubernetes.io/name": "edgeagent"}, ownerReferences=[owner], **more
    )
    found["spec"]["containers"][0] |= {"name": "edgeagent", "image": image}
    running = {"running": {"startedAt": started}}
    found["status"] |= {
        "containerStatuses": [{"name": "edgeagent", "state": running}],
        "conditions": [{"type": "Ready", "status": ready}],
    }
    return found


def owned(*labels: str) -> dict[str, str]:
    """The annotation that lists what is edgeagent's."""
    return {"edgeagent.dev/owned-keys": json.dumps({"capacity": [], "conditions": [], "labels": list(labels)})}

"""Nodes and pods made by hand, and the kubelet's part played for them.

``api`` is the admin's ``CoreV1Api`` of the official client (``ControlPlane.api``).
"""

from __future__ import annotations

import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from kubernetes import client

from tests.cluster import loadimage
from tests.controlplane.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GPU_MEMORY = "edgeagent.dev/gpu-memory"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"


def create_node(
    api: Any,
    name: str,
    *,
    memory: str = "8Gi",
    labels: Mapping[str, str] | None = None,
    machine_id: str = "",
) -> Any:
    """Create a Ready node that has no kubelet, and wait until the scheduler may use it; returns it."""
    now, resources = _now(), {"cpu": "8", "memory": memory, "pods": "110"}
    info = dict.fromkeys(_NODE_INFO, "none") | {"machineID": machine_id or uuid.uuid4().hex}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "made by hand"}
    status = {
        "capacity": resources,
        "allocatable": resources,
        "nodeInfo": info,
        "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": name}],
        "conditions": [ready | {"lastHeartbeatTime": now, "lastTransitionTime": now}],
    }
    api.create_node({"metadata": {"name": name, "labels": dict(labels or {})}, "status": status})
    return wait_for(f"node {name} without taints", lambda: _untainted(api, name))


def pod(
    name: str,
    *,
    namespace: str = "default",
    node: str | None = None,
    limits: Mapping[str, str] | None = None,
    selector: Mapping[str, str] | None = None,
    args: Sequence[str] = (),
    grace: int = 30,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A bare pod of one container ``main``, to be edited at will; with ``node`` it is bound without the scheduler.

    It also runs on a live node: ``args`` are those of image/load.c. ``limits`` are its requests as well.
    """
    container: dict[str, Any] = {"name": "main", "image": loadimage.NAME, "imagePullPolicy": "Never", "args": [*args]}
    container["resources"] = {"limits": dict(limits or {})}
    spec = {
        "containers": [container],
        "hostNetwork": True,  # a live node has no network plug-in
        "nodeName": node,
        "nodeSelector": dict(selector or {}),
        "terminationGracePeriodSeconds": grace,
    }
    metadata = {"name": name, "namespace": namespace, "annotations": dict(annotations or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def create_pod(api: Any, manifest: dict[str, Any]) -> Any:
    return api.create_namespaced_pod(manifest["metadata"]["namespace"], manifest)


def get_pod(api: Any, pod: Any) -> Any:
    """The pod as it is now, None when it or its like of the same uid is gone."""
    try:
        now = api.read_namespaced_pod(pod.metadata.name, pod.metadata.namespace)
    except client.ApiException as error:
        if error.status == 404:
            return None
        raise
    return now if now.metadata.uid == pod.metadata.uid else None


def wait_pod(api: Any, pod: Any, phase: str, *, seconds: float = 60.0) -> Any:
    """Wait until the pod is in a phase and return it."""

    def look() -> Any:
        now = get_pod(api, pod)
        return now if now and now.status.phase == phase else None

    return wait_for(f"pod {pod.metadata.name} {phase}", look, seconds=seconds)


def wait_gone(api: Any, pod: Any, *, seconds: float = 60.0) -> None:
    """Wait until the pod's object is gone, which a live kubelet allows only after its processes are."""
    wait_for(f"pod {pod.metadata.name} gone", lambda: get_pod(api, pod) is None, seconds=seconds)


def play_start(api: Any, pod: Any, *, container_id: str = "") -> Any:
    """Play the kubelet: all containers of a bound pod run from now on. Returns the pod."""
    now = _now()
    containers = [
        {
            "name": container.name,
            "image": container.image,
            "imageID": container.image,
            "containerID": f"containerd://{container_id or uuid.uuid4().hex * 2}",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for container in pod.spec.containers
    ]
    status = {
        "phase": "Running",
        "startTime": now,
        "podIP": "192.0.2.1",
        "podIPs": [{"ip": "192.0.2.1"}],
        "containerStatuses": containers,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in _RUNNING],
    }
    return api.patch_namespaced_pod_status(
        pod.metadata.name,
        pod.metadata.namespace,
        {"status": status},
        _content_type=STRATEGIC_MERGE_PATCH,
    )


def play_end(api: Any, pod: Any) -> None:
    """Play the kubelet: the processes of this pod are gone, so its object goes too."""
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}}
    api.delete_namespaced_pod(pod.metadata.name, pod.metadata.namespace, body=options)


def patch_node_status(api: Any, node: str, body: dict[str, Any]) -> Any:
    """Merge-patch a node's status and metadata in one request."""
    return api.patch_node_status(node, body, _content_type=MERGE_PATCH)


def evict(api: Any, pod: Any, *, grace: int | None = None) -> None:
    """Evict this very pod (uid precondition).

    Raises:
        client.ApiException: refused; ``status`` is the HTTP code.
    """
    where = {"name": pod.metadata.name, "namespace": pod.metadata.namespace}
    options = {"preconditions": {"uid": pod.metadata.uid}, "gracePeriodSeconds": grace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": where, "deleteOptions": options}
    api.create_namespaced_pod_eviction(**where, body=body)


_NODE_INFO = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "operatingSystem",
    "osImage",
    "systemUUID",
)
_RUNNING = ("PodScheduled", "Initialized", "ContainersReady", "Ready")


def _untainted(api: Any, name: str) -> Any:
    node = api.read_node(name)
    return None if node.spec.taints else node


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

"""The script's hands: plain calls to an API server, as an operator and the kubelet make them, and waiting with a limit.

Nothing here knows which API server answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from edgeagent.cluster.client import Client
from edgeagent.errors import AnswerError
from edgeagent.facts import GPU_MEMORY
from edgeagent.plan.types import STRATEGIC_MERGE_PATCH
from edgeagent.reconcile import stamps

T = TypeVar("T")

_LOOK_EVERY = 0.05
_NOT_FOUND = 404
_GONE = (404, 409)
_EVENTS = "/apis/events.k8s.io/v1"
_RUNNING = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
# A Node has to say all of these; the script's node has no kubelet that could.
_NODE_INFO = ("bootID", "containerRuntimeVersion", "kubeProxyVersion", "kubeletVersion", "systemUUID")


class StepError(Exception):
    """A step of the script did not come to its end; the text says what was awaited."""


async def until(what: str, look: Callable[[], Awaitable[T | None]], seconds: float) -> T:
    """Call ``look`` until it gives something.

    Raises:
        StepError: nothing within ``seconds``.
    """
    end = time.monotonic() + seconds
    while True:
        found = await look()
        if found is not None:
            return found
        if time.monotonic() > end:
            raise StepError(f"not within {seconds:.0f} s: {what}")
        await asyncio.sleep(_LOOK_EVERY)


@dataclass(frozen=True, slots=True)
class Cluster:
    """An API server, seen from one namespace. Methods raise ClusterError for what it does not answer or refuses."""

    client: Client
    namespace: str
    _made: dict[str, str] = field(default_factory=dict)
    """UIDs of what was created here, by path: nothing else may be taken away again."""

    async def register(self, name: str, *, memory: str, machine_id: str) -> None:
        """Create a Ready node, as K3s does at its first start. K3s reserves nothing: all of it is allocatable."""
        now = stamps.seconds(time.time())
        amounts = {"cpu": "6", "memory": memory, "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "played by the demo"}
        info = dict.fromkeys(_NODE_INFO, "demo") | {
            "architecture": "arm64",
            "kernelVersion": "5.15.148-tegra",
            "machineID": machine_id,
            "operatingSystem": "linux",
            "osImage": "Ubuntu 22.04.5 LTS",
        }
        status = {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}],
            "nodeInfo": info,
        }
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
        await self._create("/api/v1/nodes", body)

    async def node(self, name: str) -> dict[str, Any]:
        """The node as it is now."""
        return await self.client.request("GET", f"/api/v1/nodes/{name}")

    async def run(self, name: str, *, memory: str, gpu_memory: str, selector: Mapping[str, str]) -> dict[str, Any]:
        """Create a pod of one container; its requests are these limits."""
        limits = {GPU_MEMORY: gpu_memory, "memory": memory}
        spec = {
            "nodeSelector": dict(selector),
            "containers": [{"name": "model", "image": f"example.com/{name}:1", "resources": {"limits": limits}}],
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        return await self._create(self._pods(), body)

    async def pod(self, name: str) -> dict[str, Any] | None:
        """The pod as it is now; None when it is gone."""
        try:
            return await self.client.request("GET", self._pods(name))
        except AnswerError as error:
            if error.code != _NOT_FOUND:
                raise
            return None

    async def play_start(self, name: str, container_id: str) -> None:
        """What the kubelet says when the container of a pod has started."""
        now = stamps.seconds(time.time())
        container = {
            "name": "model",
            "image": f"example.com/{name}:1",
            "imageID": "",
            "containerID": f"containerd://{container_id}",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        status = {
            "phase": "Running",
            "startTime": now,
            "containerStatuses": [container],
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in _RUNNING],
        }
        path = f"{self._pods(name)}/status"
        await self.client.request("PATCH", path, body={"status": status}, content_type=STRATEGIC_MERGE_PATCH)

    async def play_end(self, name: str, uid: str) -> None:
        """What the kubelet does when the processes of a terminating pod are gone."""
        await self._delete(self._pods(name), uid)

    async def clear(self) -> None:
        """Take away what was created here, the last first, where it still is."""
        while self._made:
            path, uid = self._made.popitem()
            await self._delete(path, uid)

    async def note(self, uid: str, reason: str) -> str | None:
        """The text of the first event of that reason about a pod."""
        listed = await self.client.request("GET", f"{_EVENTS}/namespaces/{self.namespace}/events")
        for event in listed["items"]:
            if event["regarding"].get("uid") == uid and event["reason"] == reason:
                return str(event["note"])
        return None

    def _pods(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods" + (f"/{name}" if name else "")

    async def _create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        created = await self.client.request("POST", path, body=body)
        metadata = created["metadata"]
        self._made[f"{path}/{metadata['name']}"] = metadata["uid"]
        return created

    async def _delete(self, path: str, uid: str) -> None:
        """At once, if it is there and still the same."""
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        try:
            await self.client.request("DELETE", path, body=options)
        except AnswerError as error:
            if error.code not in _GONE:
                raise

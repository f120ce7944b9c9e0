"""What a client of the demo's API server may ask, and what of the answers matters.

``answers.json`` holds what a kube-apiserver 1.37.2 with its scheduler and controllers answered;
``python -m tests.unit.demo.record`` writes it anew. Two tests hold the conversation: here the demo's own server has to
give the same answers, in tests/cluster the real one still has to.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeagent.demo.stage import Cluster, until
from edgeagent.errors import AnswerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgeagent.cluster.client import Client

ANSWERS = Path(__file__).with_name("answers.json")
NODE = "talking"
GPU = "edgeagent.dev/gpu-memory"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
NODE_STATUS = f"/api/v1/nodes/{NODE}/status"
SELECTOR = {"talking": "true"}
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EVENT_TIME = "2026-11-30T10:00:00.000000Z"


def expected() -> dict[str, Any]:
    """The recorded answers."""
    found: dict[str, Any] = json.loads(ANSWERS.read_text())
    return found


class Conversation:
    """One conversation in a namespace that nobody else uses."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.answers: dict[str, Any] = {}
        self._client = client
        self._namespace = namespace
        self._cluster = Cluster(client, namespace)
        self._pods = f"/api/v1/namespaces/{namespace}/pods"

    async def hold(self) -> dict[str, Any]:
        """All of it; the answers by what was asked."""
        await self._about_nodes()
        before = await self._client.request("GET", "/api/v1/pods")
        await self._about_scheduling()
        await self._about_evictions()
        await self._about_watching(before["metadata"]["resourceVersion"])
        await self._about_events()
        await self._about_nothing()
        await self._ask("a node is deleted", "DELETE", f"/api/v1/nodes/{NODE}")
        await self._ask("it is gone", "GET", f"/api/v1/nodes/{NODE}")
        return self.answers

    async def _about_nodes(self) -> None:
        await self._cluster.register(NODE, memory="8Gi", machine_id="0123456789abcdef0123456789abcdef")
        await until("a node without taints", self._untainted, 30)
        amounts = {GPU: "6144Mi", "example.com/x": "2", "example.com/y": "5827Mi"}
        patch = {"metadata": {"labels": SELECTOR}, "status": {"capacity": amounts, "allocatable": amounts}}
        await self._ask("capacity, in whole MiB, and a label", "PATCH", NODE_STATUS, patch)
        gone = {"example.com/x": None, "example.com/y": None}
        await self._ask("null removes", "PATCH", NODE_STATUS, {"status": {"capacity": gone, "allocatable": gone}})
        await self._ask("again: nothing changes", "PATCH", NODE_STATUS, {"status": {"capacity": gone}})
        said = {"type": "X", "status": "False", "reason": "R", "message": "m"}
        await self._ask("a condition", "PATCH", NODE_STATUS, _conditions(said), STRATEGIC)
        await self._ask("a part of it", "PATCH", NODE_STATUS, _conditions({"type": "X", "reason": "S"}), STRATEGIC)
        dropped = _conditions({"type": "X", "$patch": "delete"})
        await self._ask("a condition is dropped", "PATCH", NODE_STATUS, dropped, STRATEGIC)
        await self._ask("a node that is not there", "PATCH", "/api/v1/nodes/nobody/status", {"status": {}})
        again = {"metadata": {"name": NODE}}
        await self._ask("the same node again", "POST", "/api/v1/nodes", again, "application/json")

    async def _about_scheduling(self) -> None:
        for name, gpu, selector in (("a", "2048Mi", SELECTOR), ("b", "5Gi", SELECTOR), ("c", "1Gi", {"not": "there"})):
            created = await self._cluster.run(name, memory="1Gi", gpu_memory=gpu, selector=selector)
            self.answers[f"pod {name} as created"] = essence(created)
            await until(f"pod {name} scheduled or not", functools.partial(self._scheduled, name), 30)
            await self._ask(f"pod {name} as scheduled", "GET", f"{self._pods}/{name}")
        await self._ask("the same pod again", "POST", self._pods, _pod("a"), "application/json")
        await self._cluster.play_start("a", "a" * 64)
        await self._ask("pod a as started", "GET", f"{self._pods}/a")

    async def _about_evictions(self) -> None:
        pod = await self._client.request("GET", f"{self._pods}/a")
        uid = pod["metadata"]["uid"]
        await self._evict("of another uid", "a", uid="another")
        await self._evict("of nobody", "nobody", uid=uid)
        await self._evict("with another name in it", "a", uid=uid, said="b")
        await self._evict("of a", "a", uid=uid)
        await self._ask("pod a as evicted", "GET", f"{self._pods}/a")
        await self._evict("of a again, with less grace", "a", uid=uid, grace=5)
        await self._ask("pod a with less grace", "GET", f"{self._pods}/a")
        await self._evict("of a again, with more grace", "a", uid=uid, grace=25)
        await self._ask("pod a with no more grace", "GET", f"{self._pods}/a")
        another = {"gracePeriodSeconds": 0, "preconditions": {"uid": "another"}}
        await self._ask("deletion of another uid", "DELETE", f"{self._pods}/a", another, "application/json")
        await self._ask("deletion at once", "DELETE", f"{self._pods}/a", {"gracePeriodSeconds": 0}, "application/json")
        await self._ask("pod a is gone", "GET", f"{self._pods}/a")
        waiting = await self._client.request("GET", f"{self._pods}/c")
        await self._evict("of a pod without a node", "c", uid=waiting["metadata"]["uid"])
        await self._ask("pod c is gone", "GET", f"{self._pods}/c")

    async def _about_watching(self, version: str) -> None:
        """All changes of the node's pods since ``version``, each kind of change once in a row."""
        params = {"fieldSelector": f"spec.nodeName={NODE}", "watch": "1", "resourceVersion": version}
        seen: list[str] = []
        async with self._client.watch("/api/v1/pods", {**params, "timeoutSeconds": "30"}, longest=30) as stream:
            async for event in stream:
                told = f"{event['type']} {event['object']['metadata']['name']}"
                if told not in seen[-1:]:
                    seen.append(told)
                if told == "DELETED a":
                    break
        self.answers["what a watch of the node's pods tells"] = seen

    async def _about_events(self) -> None:
        events = f"/apis/events.k8s.io/v1/namespaces/{self._namespace}/events"
        body = {
            "metadata": {"name": "a.1"},
            "eventTime": _EVENT_TIME,
            "type": "Warning",
            "reason": "MemoryBudgetExceeded",
            "action": "MemoryBudgetExceeded",
            "note": "It is over.",
            "regarding": {"apiVersion": "v1", "kind": "Pod", "name": "a", "namespace": self._namespace, "uid": "u"},
            "reportingController": "edgeagent.dev/edgeagent",
            "reportingInstance": NODE,
        }
        await self._ask("an event", "POST", events, body, "application/json")
        await self._ask("the same event again", "POST", events, body, "application/json")
        series = {"series": {"count": 2, "lastObservedTime": _EVENT_TIME}}
        await self._ask("it becomes a series", "PATCH", f"{events}/a.1", series)
        await self._ask("an event that is not there", "PATCH", f"{events}/a.2", series)

    async def _about_nothing(self) -> None:
        await self._ask("a kind that is not there", "GET", f"/api/v1/namespaces/{self._namespace}/things")
        await self._ask("a method that is not there", "PUT", self._pods, {}, "application/json")
        await self._ask("a field that nobody selects by", "GET", "/api/v1/nodes", params={"fieldSelector": "spec.x=y"})
        await self._ask("a patch in no known format", "PATCH", NODE_STATUS, {}, "text/plain")

    async def _ask(
        self,
        what: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        content_type: str = MERGE,
        params: Mapping[str, str] | None = None,
    ) -> None:
        try:
            answer = await self._client.request(method, path, body=body, content_type=content_type, params=params)
            self.answers[what] = essence(answer)
        except AnswerError as error:
            message = _UID.sub("<uid>", error.message)
            self.answers[what] = {"code": error.code, "reason": error.reason, "message": message}

    async def _evict(self, what: str, name: str, *, uid: str, grace: int | None = None, said: str = "") -> None:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": said or name, "namespace": self._namespace},
            "deleteOptions": {"preconditions": {"uid": uid}, "gracePeriodSeconds": grace},
        }
        await self._ask(f"eviction {what}", "POST", f"{self._pods}/{name}/eviction", body, "application/json")

    async def _untainted(self) -> bool | None:
        node = await self._cluster.node(NODE)
        return not node.get("spec", {}).get("taints") or None

    async def _scheduled(self, name: str) -> bool | None:
        pod = await self._client.request("GET", f"{self._pods}/{name}")
        return "conditions" in pod["status"] or None


def essence(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What of an object both sides have to have in common: no uids, no times, no defaults that nobody here reads."""
    if answer["kind"] == "Status":
        return {key: answer[key] for key in ("kind", "status", "code") if key in answer}
    metadata, status = answer["metadata"], answer.get("status") or {}
    told = ("kind", "apiVersion", "reason", "note", "series")
    kept: dict[str, Any] = {key: answer[key] for key in told if key in answer}
    kept["metadata"] = {
        key: metadata[key] for key in ("name", "labels", "deletionGracePeriodSeconds") if metadata.get(key) is not None
    }
    kept["metadata"]["terminating"] = "deletionTimestamp" in metadata
    kept["status"] = {key: status[key] for key in ("phase", "capacity", "allocatable") if key in status}
    kept["status"]["conditions"] = {
        condition["type"]: [condition["status"], condition.get("reason"), condition.get("message")]
        for condition in sorted(status.get("conditions", []), key=lambda condition: str(condition["type"]))
    }
    if answer["kind"] == "Pod":
        spec = answer["spec"]
        kept["spec"] = {
            "nodeName": spec.get("nodeName"),
            "terminationGracePeriodSeconds": spec["terminationGracePeriodSeconds"],
            "resources": [container["resources"] for container in spec["containers"]],
        }
        kept["status"]["containers"] = [one["containerID"] for one in status.get("containerStatuses", [])]
    return kept


def _conditions(*said: Mapping[str, str]) -> dict[str, Any]:
    return {"status": {"conditions": list(said)}}


def _pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "model", "image": "example.com/x:1"}]}}

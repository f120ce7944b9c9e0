"""What the demo's API server does with nodes, pods and events: as the real one, as far as the agent can tell.

Its answers were compared with those of a kube-apiserver 1.37.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from edgeagent.demo import patches, refusals
from edgeagent.demo.store import NODES, PODS, Kind, Object, Store
from edgeagent.reconcile import stamps

_GRACE = 30
_FINISHED = ("Succeeded", "Failed")


class Registry:
    """Reads and writes of one store. Every method raises RefusalError for what the real server would refuse."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """One object."""
        found = self.store.find(kind, namespace, name)
        if found is None:
            raise refusals.not_found(kind, name)
        return found

    def create(self, kind: Kind, namespace: str, body: Mapping[str, Any]) -> Object:
        """A new object, with what the server itself fills in. A node keeps the status it comes with, a pod does not."""
        given = body.get("metadata") or {}
        name = given.get("name")
        if not name:
            raise refusals.bad_request("name is required")
        if self.store.find(kind, namespace, name) is not None:
            raise refusals.already_exists(kind, name)
        metadata = {**given, "uid": str(uuid.uuid4()), "creationTimestamp": stamps.seconds(time.time())}
        if namespace:
            metadata["namespace"] = namespace
        new = {**body, "metadata": metadata}
        if kind is PODS:
            new = {**new, "spec": _defaulted(body.get("spec") or {}), "status": {"phase": "Pending"}}
        return self.store.put(kind, _canonical(kind, new))

    def patch(self, kind: Kind, namespace: str, name: str, patch: Mapping[str, Any], form: str) -> Object:
        """The whole object, as events are patched; ``form`` is the patch's content type."""
        before = self.get(kind, namespace, name)
        return self.store.put(kind, patches.patched(before, patch, form))

    def patch_status(self, kind: Kind, namespace: str, name: str, patch: Mapping[str, Any], form: str) -> Object:
        """Status, labels and annotations; what else stands in the patch is ignored, as the status subresource does."""
        before = self.get(kind, namespace, name)
        wanted = patches.patched(before, patch, form)
        metadata = dict(before["metadata"])
        for part in ("labels", "annotations"):
            metadata.pop(part, None)
            if wanted["metadata"].get(part):
                metadata[part] = wanted["metadata"][part]
        return self.store.put(kind, _canonical(kind, {**before, "metadata": metadata, "status": wanted["status"]}))

    def evict(self, namespace: str, name: str, body: Mapping[str, Any]) -> Object:
        """Graceful deletion through the eviction API; there are no disruption budgets here."""
        if (body.get("metadata") or {}).get("name") != name:
            raise refusals.bad_request("name in URL does not match name in Eviction object")
        pod = self.get(PODS, namespace, name)
        options = body.get("deleteOptions") or {}
        _check_uid(PODS, pod, options)
        said = condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")
        self._end(self.set_condition(pod, said), options.get("gracePeriodSeconds"))
        return {**_SUCCESS, "code": int(HTTPStatus.CREATED)}

    def delete(self, kind: Kind, namespace: str, name: str, options: Mapping[str, Any]) -> Object:
        """A pod with grace, anything else at once."""
        found = self.get(kind, namespace, name)
        _check_uid(kind, found, options)
        if kind is PODS:
            return self._end(found, options.get("gracePeriodSeconds"))
        self.store.remove(kind, found)
        return {**_SUCCESS, "details": {"name": name, "kind": kind.plural, "uid": found["metadata"]["uid"]}}

    def bind(self, pod: Object, node: str) -> Object:
        """Give a pod its node: what the scheduler does in a request of its own."""
        bound = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        return self.set_condition(bound, condition("PodScheduled", "True"))

    def set_condition(self, pod: Object, said: Mapping[str, Any]) -> Object:
        """The pod with a condition; one that says the same already keeps its time."""
        kept = pod["status"].get("conditions", [])
        same = next((one for one in kept if one["type"] == said["type"]), None)
        if same is None or any(same.get(key) != said[key] for key in said if key != "lastTransitionTime"):
            kept = [*(one for one in kept if one["type"] != said["type"]), said]
        return self.store.put(PODS, {**pod, "status": {**pod["status"], "conditions": kept}})

    def _end(self, pod: Object, wanted: int | None) -> Object:
        """Mark a pod as terminating, or take it out where nothing runs any more; a grace only ever gets shorter."""
        metadata, spec = pod["metadata"], pod["spec"]
        grace = spec["terminationGracePeriodSeconds"] if wanted is None else wanted
        if not spec.get("nodeName") or pod["status"]["phase"] in _FINISHED:
            grace = 0
        before = metadata.get("deletionGracePeriodSeconds")
        if before is not None and grace and before <= grace:
            return pod
        terminating = {
            **metadata,
            "deletionTimestamp": stamps.seconds(time.time() + grace),
            "deletionGracePeriodSeconds": grace,
        }
        ended = {**pod, "metadata": terminating}
        return self.store.put(PODS, ended) if grace else self.store.remove(PODS, ended)


_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, Any]:
    """A pod's condition as of now."""
    now = stamps.seconds(time.time())
    said = {"reason": reason, "message": message} if reason else {}
    return {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": now, **said}


def _check_uid(kind: Kind, found: Object, options: Mapping[str, Any]) -> None:
    wanted = (options.get("preconditions") or {}).get("uid")
    metadata = found["metadata"]
    if wanted is not None and wanted != metadata["uid"]:
        raise refusals.other_uid(kind, metadata["name"], wanted, metadata["uid"])


def _defaulted(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that an omission stands for: requests are the limits, the grace is 30 s."""
    containers = [
        {**container, "resources": _resources(container.get("resources") or {})} for container in spec["containers"]
    ]
    grace = spec.get("terminationGracePeriodSeconds", _GRACE)
    return {"priority": 0, **spec, "containers": containers, "terminationGracePeriodSeconds": grace}


def _resources(given: Mapping[str, Any]) -> dict[str, Any]:
    limits = patches.canonical(given.get("limits") or {})
    return {"limits": limits, "requests": limits | patches.canonical(given.get("requests") or {})}


def _canonical(kind: Kind, item: Object) -> Object:
    if kind is not NODES:
        return item
    status = dict(item.get("status") or {})
    for part in ("capacity", "allocatable"):
        status[part] = patches.canonical(status.get(part) or {})
    return {**item, "status": status}

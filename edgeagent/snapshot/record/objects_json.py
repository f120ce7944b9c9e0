"""What is kept of a node and its pods: the fields that are read, and of those that may hold anything the known keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from edgeagent.cluster import injection, lists, pods
from edgeagent.cluster import node as nodes
from edgeagent.cluster.objects import ObjectError
from edgeagent.facts import PREFIX, NodeFacts
from edgeagent.plan import labels, node, owners
from edgeagent.snapshot.record.redact import NODE

if TYPE_CHECKING:
    from edgeagent.config import Labels
    from edgeagent.facts import PodFacts
    from edgeagent.snapshot.record.redact import Redactor

Json = dict[str, Any]

_HOST_NAME = "kubernetes.io/hostname"
_STATIC = "kubernetes.io/config."
"""Annotations of static pods: by the hash of its manifest such a pod is known on the node."""
_NODE_FIELD = "metadata.name"
_KNOWN_LABELS = (PREFIX, "nvidia.com/", "kubernetes.io/arch", "kubernetes.io/os", _HOST_NAME)
_CONDITION = ("type", "status", "reason")
_WORDS = frozenset({"phase", "restartPolicy", "kind", "type", "status", "reason", "operation"})
_TIMES = frozenset({"creationTimestamp", "deletionTimestamp", "startTime", "startedAt", "time"})
"""Fields whose values Kubernetes itself gives: words of a fixed set, and times."""
_LISTS: Mapping[str, Callable[[Any], object]] = {
    "runtimeclasses": lists.runtime_class,
    "daemonsets": lists.daemon_set,
    "events": lists.event,
}
_TELLING = re.compile(
    r'(?:RuntimeClass|runtimeclasses?\.node\.k8s\.io) "[^"]+" not found|no runtime for "[^"]+" is configured'
    r"|unresolvable CDI devices [\w.-]+/[\w.-]+=[\w.:-]*\w(?:, [\w.-]+/[\w.-]+=[\w.:-]*\w)*"
)
"""What is kept of the words of events and states, which may name anything: what rules look for."""
_NVIDIA_IMAGE = re.compile(r"nvidia|device-plugin|l4t|jetpack|tegra|cuda|\br3[2-9]\.\d|\bjp\d|\bcu\d\d")
_OPEN = frozenset(
    {"labels", "annotations", "nodeSelector", "requests", "limits", "allocatedResources", "overhead"}
    | {"capacity", "allocatable", "f:capacity"}
)
"""Objects whose keys are anybody's; everywhere else a key is a field of Kubernetes' own."""


def pod(redactor: Redactor, found: Mapping[str, Any], *, bound: bool = True) -> Json:
    """A pod of this node, or one that waits for a node.

    Raises:
        ObjectError: its shape is not that of a pod.
    """
    noted = _Noted(found)
    facts = pods.parse(noted)
    kept = noted.told()
    metadata = kept["metadata"]
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {
        key: text for key, text in annotations.items() if key in facts.annotations or key.startswith(_STATIC)
    }
    if bound:
        kept["spec"]["nodeName"] = NODE
    (kept.get("status") or {}).pop("podIP", None)  # nothing is decided by it
    devices = _device_volumes(kept["spec"])
    for container in _containers(kept["spec"]):
        _without_environment(container)
        mounts = [one for one in container.pop("volumeMounts", None) or () if one.get("name") in devices]
        container.update({"volumeMounts": mounts} if mounts else {})
        image = _known_image(str(container.pop("image", None) or ""))
        container.update({"image": image} if image else {})
    redacted: Json = _redacted(redactor, kept)
    selector = kept["spec"].get("nodeSelector") or {}
    if not bound and _HOST_NAME in selector:
        redacted["spec"]["nodeSelector"][_HOST_NAME] = _node_name(redactor, str(selector[_HOST_NAME]))
    return redacted


def waiting(redactor: Redactor, items: Iterable[Mapping[str, Any]]) -> Iterator[Json]:
    """Of the pods that wait for a node those that ask for a device or name a RuntimeClass."""
    for item in items:
        for facts in lists.waiting([item]):
            if facts.runtime_class or any("/" in key for one in facts.containers for key in one.requests):
                yield pod(redactor, item, bound=False)


def listed(redactor: Redactor, plural: str, items: Iterable[Mapping[str, Any]]) -> Iterator[Json]:
    """Objects that a diagnosis looks at; one that is not understood there is left out."""
    for item in items:
        noted = _Noted(item)
        try:
            _LISTS[plural](noted)
        except ObjectError:
            continue
        kept = noted.told()
        if plural == "daemonsets":
            for container in _containers(kept["spec"]["template"]["spec"]):
                container["image"] = _known_image(str(container.get("image") or ""))
        note = str(kept.pop("note", None) or kept.pop("message", None) or "")
        told: Json = _redacted(redactor, kept)
        if plural == "events":
            told["message"] = redactor.text(_telling(note))
        yield told


def _telling(note: Any) -> str:
    return "; ".join(_TELLING.findall(str(note)))


def _containers(spec: Json) -> Iterator[Json]:
    for listed in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(listed) or ()


def _device_volumes(spec: Json) -> set[str]:
    """The names of volumes of the host's devices; takes out all others, whose paths may say anything."""
    kept = [one for one in spec.pop("volumes", None) or () if injection.is_device(one)]
    spec.update({"volumes": kept} if kept else {})
    return {one["name"] for one in kept if "name" in one}


def _known_image(image: str) -> str:
    """Name and tag of an image of NVIDIA's, or built on one; the registry, and all of any other, may be anybody's."""
    name = image.rpartition("/")[2]
    return name if _NVIDIA_IMAGE.search(name) else ""


def _without_environment(container: Json) -> None:
    """Takes out all variables but the one that says which GPUs the container gets."""
    kept = [one for one in container.pop("env", None) or () if one.get("name") == pods.VISIBLE_DEVICES]
    if kept:
        container["env"] = kept


def node_object(redactor: Redactor, found: Mapping[str, Any], bound: Iterable[PodFacts], settings: Labels) -> Json:
    """The node. ``bound``: its pods, whose selectors name labels that matter.

    Raises:
        ObjectError: its shape is not that of a node.
    """
    noted = _Noted(found)
    facts = nodes.parse(noted)
    kept = noted.told()
    metadata, status = kept["metadata"], kept.setdefault("status", {})
    metadata["name"] = NODE
    metadata["annotations"] = {key: text for key, text in facts.annotations.items() if key.startswith(PREFIX)}
    wanted = {
        *node.owned(facts, "labels"),
        labels.ai_key(settings),
        *(key for one in bound for key in one.required_labels),
    }
    metadata["labels"] = {key: text for key, text in facts.labels.items() if key in wanted or _is_known(key, text)}
    status["conditions"] = [
        {key: condition[key] for key in _CONDITION if key in condition} for condition in facts.conditions
    ]
    redacted: Json = _redacted(redactor, kept)
    return redacted


def _is_known(key: str, text: str) -> bool:
    """A label of ours or of NVIDIA's, or the mark of another project that owns the GPU's memory."""
    return (
        key.startswith(_KNOWN_LABELS) or owners.other_owner(NodeFacts(name="", uid="", labels={key: text})) is not None
    )


def _redacted(redactor: Redactor, value: Any, key: str = "") -> Any:
    if isinstance(value, Mapping):
        rename = redactor.text if key in _OPEN else str
        # The scheduler's words are kept. Others' may be the end of a container's log, or name a registry.
        silent = key not in _OPEN and value.get("type") != "PodScheduled"
        told = {name: _telling(below) if silent and name == "message" else below for name, below in value.items()}
        if value.get("key") in (_HOST_NAME, _NODE_FIELD):  # a requirement of node affinity
            told["values"] = [_node_name(redactor, str(one)) for one in value.get("values") or ()]
        return {
            rename(name): _redacted(redactor, below, name)
            for name, below in told.items()
            if not (silent and name == "message" and not below)
        }
    if isinstance(value, list):
        return [_redacted(redactor, below, key) for below in value]
    if not isinstance(value, str) or key in _WORDS or key in _TIMES:
        return value
    return NODE if key in ("nodeName", _HOST_NAME) else redactor.text(value)


def _node_name(redactor: Redactor, name: str) -> str:
    """This node's new name, or one for all others: where a pod may run is kept."""
    return NODE if redactor.text(name).partition(".")[0] == NODE else "another-node"


class _Noted(Mapping[str, Any]):
    """An object that notes what it is asked for."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self._found = found
        self._told: Json = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self._told:
            self._told[key] = _noting(self._found[key])
        return self._told[key]

    def __iter__(self) -> Iterator[str]:
        for key in self._found:
            self[key]
            yield key

    def __len__(self) -> int:
        return len(self._found)

    def told(self) -> Json:
        """What was asked for, in the order of the object."""
        return {key: _plain(self._told[key]) for key in self._found if key in self._told}


def _noting(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _Noted(value)
    return [_noting(item) for item in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, _Noted):
        return value.told()
    return [_plain(item) for item in value] if isinstance(value, list) else value

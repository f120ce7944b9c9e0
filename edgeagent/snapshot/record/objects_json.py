"""What is kept of a node and its pods: the fields that are read, and of those that may hold anything the known keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from edgeagent.cluster import node as nodes
from edgeagent.cluster import pods
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
_KNOWN_LABELS = (PREFIX, "nvidia.com/", "kubernetes.io/arch", "kubernetes.io/os", _HOST_NAME)
_CONDITION = ("type", "status", "reason")
_WORDS = frozenset({"phase", "restartPolicy", "kind", "type", "status", "reason", "operation"})
_TIMES = frozenset({"creationTimestamp", "deletionTimestamp", "startTime", "startedAt", "time"})
"""Fields whose values Kubernetes itself gives: words of a fixed set, and times."""
_OPEN = frozenset(
    {"labels", "annotations", "nodeSelector", "requests", "limits", "allocatedResources", "overhead"}
    | {"capacity", "allocatable", "f:capacity"}
)
"""Objects whose keys are anybody's; everywhere else a key is a field of Kubernetes' own."""


def pod(redactor: Redactor, found: Mapping[str, Any]) -> Json:
    """A pod of this node.

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
    kept["spec"]["nodeName"] = NODE
    redacted: Json = _redacted(redactor, kept)
    return redacted


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
        return {rename(name): _redacted(redactor, below, name) for name, below in value.items()}
    if isinstance(value, list):
        return [_redacted(redactor, below, key) for below in value]
    if not isinstance(value, str) or key in _WORDS or key in _TIMES:
        return value
    return NODE if key in ("nodeName", _HOST_NAME) else redactor.text(value)


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

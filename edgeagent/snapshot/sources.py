"""What the files of a sample say: each is understood, or named with what is wrong in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgeagent.cluster import node as nodes
from edgeagent.cluster.objects import ObjectError
from edgeagent.errors import InputError
from edgeagent.host import nvml_replay

if TYPE_CHECKING:
    from edgeagent.facts import NodeFacts, Nvml


def nvml(place: str, content: bytes) -> Nvml:
    """The sample in an nvml.json; ``place`` is the path of the file, for messages.

    Raises:
        InputError: with every problem that was found.
    """
    try:
        return nvml_replay.parse(content)
    except nvml_replay.MalformedError as error:
        raise InputError([f"{place}: {problem}" for problem in error.problems]) from error


def node(place: str, document: Any) -> NodeFacts:
    """The facts in a node.json.

    Raises:
        InputError: it is no Node.
    """
    try:
        return nodes.parse(document)
    except ObjectError as error:
        raise InputError(f"{place}: {error}") from error


def items(place: str, document: Any, kind: str = "PodList") -> list[Any]:
    """The objects of a list such as pods.json; Go writes an empty list as null.

    Raises:
        InputError: it is no list.
    """
    found = document.get("items", 0) if isinstance(document, dict) else 0
    if found is None:
        return []
    if not isinstance(found, list):
        raise InputError(f"{place}: expected a {kind}")
    return found

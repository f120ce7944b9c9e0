"""As which user and in which groups the containers of a pod run, as far as its manifest says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgeagent.cluster import objects


def ids(spec: Mapping[str, Any], container: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """(user, group) of a container; None: the image says. What the container itself says counts more than the pod."""
    own, whole = _context(container), _context(spec)
    return _first(own, whole, "runAsUser"), _first(own, whole, "runAsGroup")


def groups(spec: Mapping[str, Any]) -> tuple[int, ...]:
    """The groups that every container of the pod is in beside its own."""
    context = _context(spec)
    listed = [*objects.sequence(context.get("supplementalGroups")), context.get("fsGroup")]
    return tuple(dict.fromkeys(int(one) for one in listed if one is not None))


def strict(spec: Mapping[str, Any]) -> bool:
    """What the image says of the user's groups is left out."""
    return _context(spec).get("supplementalGroupsPolicy") == "Strict"


def _context(part: Mapping[str, Any]) -> Mapping[str, Any]:
    return objects.mapping(part.get("securityContext"))


def _first(own: Mapping[str, Any], whole: Mapping[str, Any], key: str) -> int | None:
    found = own.get(key) if own.get(key) is not None else whole.get(key)
    return None if found is None else int(found)

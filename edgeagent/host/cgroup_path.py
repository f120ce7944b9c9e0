"""The pod and the container that a cgroup path names, in every dialect that is in use.

The kubelet names a pod's cgroup ``pod<uid>`` (cgroupfs driver) or
``kubepods-burstable-pod<uid>.slice`` with underscores for dashes (systemd driver); the
runtime puts the container below as its bare id, as ``cri-containerd-<id>.scope``, or
beside it as ``<slice>:cri-containerd:<id>``. Around that stand whatever holds the kubelet
itself: a docker container, a user's slice.
"""

from __future__ import annotations

import re

from edgeagent.facts import CgroupOwner

# A uid is a UUID, or 32 hex digits (the configuration's hash) for a static pod. A static
# pod's manifest may choose another one; it is recognised where only a pod can stand.
_UID = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_QOS = r"(?:-(?:burstable|besteffort|guaranteed))?"
_SLICE = re.compile(rf"(?:.*-)?kubepods{_QOS}-pod(?P<uid>[^/:]+)\.slice(?::(?P<colon>.*))?")
_PLAIN = re.compile(rf"pod(?P<uid>{_UID})", re.IGNORECASE)
_CHOSEN = re.compile(r"pod(?P<uid>[A-Za-z0-9][A-Za-z0-9._-]*)")
_ABOVE_PODS = re.compile(r"(?:.*-)?(?:kubepods|burstable|besteffort|guaranteed)(?:\.slice)?")
_CONTAINER = re.compile(r"(?:(?:cri-containerd|crio|docker)-|.*:)?([0-9a-f]{64})(?:\.scope)?")
_DELETED = " (deleted)"

KUBEPODS = re.compile(r"(?:.*-)?kubepods(?:\.slice)?")
"""The name of the cgroup that all pods of a kubelet are in."""


def owner_of(path: str) -> CgroupOwner | None:
    """The pod, and the container where the path goes on to one; None for a path outside of all pods.

    Of several pods on one path the outermost counts: what stands below a container may
    have been named by the container itself.
    """
    steps = path.removesuffix(_DELETED).split("/")
    for above, step, below in zip(["", *steps], steps, [*steps[1:], ""]):  # noqa: B905 (one longer on purpose)
        match = _SLICE.fullmatch(step) or _PLAIN.fullmatch(step)
        if not match and _ABOVE_PODS.fullmatch(above):
            match = _CHOSEN.fullmatch(step)
        if match:
            beside = match.groupdict().get("colon")
            return CgroupOwner(match["uid"].replace("_", "-"), container_id(beside or below))
    return None


def container_id(name: str) -> str | None:
    """The container that one step of a path names; None for another cgroup, a monitor process (conmon) included."""
    match = _CONTAINER.fullmatch(name)
    return match[1] if match else None


def owner(content: bytes) -> CgroupOwner | None:
    """The owner that ``/proc/<pid>/cgroup`` names; None for a process outside of all pods.

    The hierarchy that memory is counted in is asked first, the others after it: with
    cgroup v1 a process may stand at the root of some.
    """
    found = (owner_of(path) for path in _paths(content))
    return next((one for one in found if one), None)


def container(content: bytes) -> str | None:
    """The container id in which a path of ``/proc/<pid>/cgroup`` ends; None where none does."""
    return next((found for path in _paths(content) if (found := container_id(path.rpartition("/")[2]))), None)


def readable(content: bytes) -> bool:
    """Whether ``/proc/<pid>/cgroup`` tells anything: a path starts at the root (cgroups(7))."""
    return any(path.startswith("/") for path in _paths(content))


def _paths(content: bytes) -> list[str]:
    """The paths of all hierarchies, the one of the memory controller first (cgroups(7)).

    The kernel allows any character but a newline in a name.
    """
    first: list[str] = []
    others: list[str] = []
    for row in content.decode(errors="surrogateescape").split("\n"):
        hierarchy, _, rest = row.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon and hierarchy.isdigit():
            (first if "memory" in controllers.split(",") else others).append(path)
    return first + others

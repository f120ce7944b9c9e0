"""The pod and the container that a cgroup path names, in every dialect that is in use.

The kubelet names a pod's cgroup ``pod<uid>`` (cgroupfs driver) or
``kubepods-burstable-pod<uid>.slice`` with underscores for dashes (systemd driver); the
runtime puts the container below as its bare id, as ``cri-containerd-<id>.scope``, or
beside it as ``<slice>:cri-containerd:<id>``. Around that stand whatever holds the kubelet
itself: a docker container, a user's slice.
"""

from __future__ import annotations

import functools
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
_REMEMBERED = 256
"""Texts of which is known what they name: a process that holds GPU memory seldom changes its cgroup."""

_UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]{1,255}\.(?:slice|service|scope)")
"""systemd.unit(5). Nothing else that may stand in the name of a cgroup can pass for one."""
_USER = re.compile(r"user-\d+\.slice")
_USER_MANAGER = re.compile(r"user@\d+\.service")
"""Has units of its own below; what other services and scopes have there was named by themselves."""

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


@functools.lru_cache(_REMEMBERED)
def owner(content: bytes) -> CgroupOwner | None:
    """The owner that ``/proc/<pid>/cgroup`` names; None for a process outside of all pods.

    The hierarchy that memory is counted in is asked first, the others after it: with
    cgroup v1 a process may stand at the root of some.
    """
    found = (owner_of(path) for path in _paths(content))
    return next((one for one in found if one), None)


@functools.lru_cache(_REMEMBERED)
def container(content: bytes) -> str | None:
    """The container id in which a path of ``/proc/<pid>/cgroup`` ends; None where none does."""
    return next((found for path in _paths(content) if (found := container_id(path.rpartition("/")[2]))), None)


@functools.lru_cache(_REMEMBERED)
def readable(content: bytes) -> bool:
    """Whether ``/proc/<pid>/cgroup`` tells anything: a path starts at the root (cgroups(7))."""
    return any(path.startswith("/") for path in _paths(content))


def among_pods(content: bytes) -> bool:
    """Whether a path of ``/proc/<pid>/cgroup`` is that of all pods, or lies below it."""
    return any(KUBEPODS.fullmatch(step) for path in _paths(content) for step in path.split("/"))


def unit(content: bytes) -> str:
    """The systemd unit that ``/proc/<pid>/cgroup`` names; "" where none is. A user's own names the user's slice too."""
    found = [named for path in _paths(content) if (named := _unit_of(path))]
    name, user = next((one for one in found if not one[0].endswith(".slice")), found[0] if found else ("", ""))
    return f"{name} of {user}" if user not in ("", name) else name


def _unit_of(path: str) -> tuple[str, str] | None:
    """(unit, slice of the user or "") of one path: the innermost that systemd itself has named."""
    name = user = ""
    for step in path.removesuffix(_DELETED).split("/"):
        if step in ("", ".."):
            continue
        if not _UNIT.fullmatch(step):
            break
        name = step
        user = user or (step if _USER.fullmatch(step) else "")
        if not step.endswith(".slice") and not _USER_MANAGER.fullmatch(step):
            break
    return (name, user) if name else None


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

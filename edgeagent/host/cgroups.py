"""Host memory of pods, from their cgroups.

Where pods lie depends on the cgroup version, the cgroup driver and on what the kubelet
itself runs in, so that the places are found by a walk. They are kept between samples: a
walk over a whole hierarchy costs more than everything else in a sample.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from edgeagent import quantity
from edgeagent.facts import PodCgroup
from edgeagent.host.cgroup_path import KUBEPODS, container_id, owner_of
from edgeagent.host.files import Files

_MOUNT = "sys/fs/cgroup"
_DEPTH = 9
"""Steps below a hierarchy's root down to which pods are looked for; a rootless K3s has them 7 below."""
_FOLDERS = 5000
"""Cgroups that one walk looks into at most."""
_WALK_EVERY = 30.0
"""Seconds between two walks for a pod that is not found."""
_WALK_ANYWAY = 300.0
"""Seconds after which a walk is due all the same: a container may have come to lie beside its pod's cgroup."""
_CONTAINERS_EVERY = 8.0
"""Seconds after which the figures of single containers are read again. Only the pod's own figure leads to decisions,
and to add one of these files up costs the kernel more than all the rest of a reading."""
_NUMBER = re.compile(rb"(\d{1,19})\n?")


class _Version(NamedTuple):
    """What a cgroup version calls the memory in use and the parts of it that can be reclaimed."""

    usage: str
    reclaimable: tuple[bytes, ...]
    """Rows of memory.stat, as they begin."""


# v1's own rows leave out the cgroups below, which is where a pod's containers are.
_V1 = _Version("memory.usage_in_bytes", (b"\ntotal_active_file ", b"\ntotal_inactive_file "))
_V2 = _Version("memory.current", (b"\nactive_file ", b"\ninactive_file ", b"\nslab_reclaimable "))


class _Start(NamedTuple):
    """How deep to look below a directory, and the version of its hierarchy."""

    depth: int
    version: _Version


class _Figure(NamedTuple):
    bytes: int | None
    exact: bool


@dataclass(slots=True)
class _Place:
    """One directory that holds memory of a pod: the pod's own, or a container's beside it."""

    path: str
    version: _Version
    container: str | None
    stamp: object = None
    containers: dict[str, str] = field(default_factory=dict)
    """Paths of the containers below, by id."""
    figures: dict[str, int | None] = field(default_factory=dict)
    """Their bytes when they were last read."""
    due: float = 0.0
    """When to read them again."""


class PodCgroups:
    """Finds the cgroups of pods and reads their memory."""

    def __init__(self, files: Files, clock: Callable[[], float]) -> None:
        self._files = files
        self._clock = clock
        self._places: dict[str, dict[str, _Place]] = {}
        self._homes: dict[str, _Start] = {}
        self._walked: float | None = None

    def sample(self, wanted: Collection[str]) -> dict[str, PodCgroup]:
        """The memory of each pod in ``wanted`` (uids as the cgroup spells them) whose cgroup is found."""
        for uid in set(self._places).difference(wanted):
            del self._places[uid]
        self._find(wanted)
        pods = self._read()
        if len(pods) < len(self._places):
            self._places = {uid: places for uid, places in self._places.items() if uid in pods}
            self._find(wanted)
            pods = self._read()
        return pods

    # --- where they are ---

    def _find(self, wanted: Collection[str]) -> None:
        missing = {uid for uid in wanted if uid not in self._places}
        if missing:
            self._search(dict(self._homes), missing)
            missing.difference_update(self._places)
        pause = _WALK_EVERY if missing else _WALK_ANYWAY
        if wanted and (self._walked is None or self._clock() - self._walked >= pause):
            self._walked = self._clock()
            self._places.clear()
            self._homes.clear()
            self._search(self._hierarchies(), wanted)

    def _hierarchies(self) -> dict[str, _Start]:
        """The roots of the hierarchies that count memory: one, or two where v1 and v2 are mounted side by side."""
        if self._controllers(_MOUNT) is not None:
            return {_MOUNT: _Start(_DEPTH, _V2)}
        found = {}
        if self._names(f"{_MOUNT}/memory"):
            found[f"{_MOUNT}/memory"] = _Start(_DEPTH, _V1)
        if "memory" in (self._controllers(f"{_MOUNT}/unified") or ()):
            found[f"{_MOUNT}/unified"] = _Start(_DEPTH, _V2)
        return found or {_MOUNT: _Start(_DEPTH, _V2)}

    def _controllers(self, root: str) -> list[str] | None:
        try:
            return self._files.read(f"{root}/cgroup.controllers").decode(errors="replace").split()
        except OSError:
            return None

    def _search(self, starts: dict[str, _Start], uids: Collection[str]) -> None:
        """Notes the places of ``uids`` at or below ``starts``, breadth first, and where any pods are."""
        queue = deque(starts.items())
        for _ in range(_FOLDERS):
            if not queue:
                return
            path, (depth, version) = queue.popleft()
            for name in self._names(path):
                below = f"{path}/{name}"
                found = owner_of("/".join(below.split("/")[-2:]))
                if found:
                    self._homes.setdefault(path, _Start(1, version))
                    if found.pod_uid in uids:
                        places = self._places.setdefault(found.pod_uid, {})
                        places.setdefault(below, _Place(below, version, found.container_id))
                    continue
                if KUBEPODS.fullmatch(name):
                    self._homes[below] = _Start(2, version)
                if depth > 1:
                    queue.append((below, _Start(depth - 1, version)))

    def _names(self, path: str) -> tuple[str, ...]:
        try:
            return self._files.folders(path)
        except OSError:  # gone, or not ours to look into: nothing to be found there
            return ()

    # --- what they hold ---

    def _read(self) -> dict[str, PodCgroup]:
        pods = {}
        for uid, places in self._places.items():
            for place in places.values():
                self._refresh(place)
            if all(place.stamp is not None for place in places.values()):
                pods[uid] = self._pod(list(places.values()))
        return pods

    def _refresh(self, place: _Place) -> None:
        """Notes whether the place is still there, and lists its containers where that list may have changed."""
        try:
            stamp = self._files.stamp(place.path)
        except OSError:  # there, but not ours to look into: its figures will be unknown
            stamp = ()
        if stamp != place.stamp and place.container is None:
            ids = {name: container_id(name) for name in self._names(place.path)}
            place.containers = {one: f"{place.path}/{name}" for name, one in ids.items() if one}
            place.due = self._clock()
        place.stamp = stamp

    def _pod(self, places: list[_Place]) -> PodCgroup:
        figures = [self._figure(place.path, place.version) for place in places]
        containers: dict[str, int | None] = {}
        for place, figure in zip(places, figures, strict=True):
            if place.container:
                containers[place.container] = figure.bytes
            if self._clock() >= place.due:
                place.figures = {one: self._figure(at, place.version).bytes for one, at in place.containers.items()}
                place.due = self._clock() + _CONTAINERS_EVERY
            containers |= place.figures
        own = next((place for place in places if place.container is None), None)
        beside = {place.container: place.path for place in places if place.container}
        return PodCgroup(
            host_bytes=quantity.total(figure.bytes for figure in figures),
            exact=all(figure.exact for figure in figures),
            containers=containers,
            path=own.path if own else "",
            container_paths=beside | own.containers if own else beside,
        )

    def _figure(self, path: str, version: _Version) -> _Figure:
        try:
            usage = _NUMBER.fullmatch(self._files.read(f"{path}/{version.usage}"))
        except OSError:
            usage = None
        if not usage:
            return _Figure(None, exact=False)
        try:
            reclaimable = _rows(self._files.read(f"{path}/memory.stat"), version.reclaimable)
        except OSError:
            reclaimable = None
        if reclaimable is None:
            return _Figure(int(usage[1]), exact=False)
        left = int(usage[1]) - reclaimable
        # The two files are read one after the other; what does not fit together says nothing.
        return _Figure(left, exact=True) if left >= 0 else _Figure(None, exact=False)


def _rows(stat: bytes, keys: tuple[bytes, ...]) -> int | None:
    """The sum of some rows of memory.stat; None where one is missing."""
    text = b"\n" + stat
    together = 0
    for key in keys:
        start = text.find(key)
        number = text[start + len(key) :].partition(b"\n")[0] if start >= 0 else b""
        if not _NUMBER.fullmatch(number):
            return None
        together += int(number)
    return together

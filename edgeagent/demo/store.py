"""The objects of the demo's API server: in memory, with resource versions and the log that watches read.

An object that is in the store is never changed in place; every write puts a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

Object: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of objects."""

    plural: str
    name: str
    api_version: str

    @property
    def resource(self) -> str:
        """The plural with its API group, as messages have it."""
        group, slash, _ = self.api_version.partition("/")
        return f"{self.plural}.{group}" if slash else self.plural


NODES = Kind("nodes", "Node", "v1")
PODS = Kind("pods", "Pod", "v1")
EVENTS = Kind("events", "Event", "events.k8s.io/v1")


@dataclass(frozen=True, slots=True)
class Change:
    """One write: ``before`` is None for a new object, ``after`` carries the new version, also where it is gone."""

    version: int
    kind: Kind
    before: Object | None
    after: Object
    gone: bool = False


class Store:
    """All objects of all kinds, under one counter of versions."""

    def __init__(self) -> None:
        self.version = 1
        self._objects: dict[tuple[Kind, str, str], Object] = {}
        self._log: list[Change] = []
        self._changed = asyncio.Event()

    def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """The object; ``namespace`` is empty for nodes."""
        return self._objects.get((kind, namespace, name))

    def all(self, kind: Kind) -> list[Object]:
        """The objects of a kind, oldest first."""
        return [found for (of, _, _), found in self._objects.items() if of is kind]

    def put(self, kind: Kind, new: Object) -> Object:
        """Create or replace an object, and return it with its version; one that is as it was is left alone."""
        key = _key(kind, new)
        before = self._objects.get(key)
        if before == new:
            return before
        return self._log_change(kind, before, new)

    def remove(self, kind: Kind, old: Object) -> Object:
        """Take an object out, and return it with the version of its removal."""
        return self._log_change(kind, old, old, gone=True)

    def changes(self, kind: Kind, version: int) -> Iterator[Change]:
        """The changes of a kind that came after ``version``."""
        # Versions count up by one from the first change, so that they say where in the log to begin.
        return (change for change in self._log[max(0, version - 1) :] if change.kind is kind)

    async def newer_than(self, version: int) -> None:
        """Wait for a change after ``version``."""
        while self.version <= version:
            await self._changed.wait()

    def _log_change(self, kind: Kind, before: Object | None, new: Object, *, gone: bool = False) -> Object:
        self.version += 1
        metadata = {**new["metadata"], "resourceVersion": str(self.version)}
        after = {"kind": kind.name, "apiVersion": kind.api_version, **new, "metadata": metadata}
        if gone:
            del self._objects[_key(kind, new)]
        else:
            self._objects[_key(kind, new)] = after
        self._log.append(Change(self.version, kind, before, after, gone))
        self._changed.set()
        self._changed = asyncio.Event()
        return after


def _key(kind: Kind, item: Object) -> tuple[Kind, str, str]:
    metadata = item["metadata"]
    return kind, metadata.get("namespace", ""), metadata["name"]

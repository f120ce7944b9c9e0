"""A view of nodes and pods that keeps up with the API server."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

from edgeagent.errors import ClusterError
from edgeagent.fleet.api import Api, Kind, Listed

_PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds from one failure in a row to the next attempt."""


class View:
    """Lists first, then watches, each kind in a thread of its own, until it is closed as a context.

    A thread that waits for the server then ends with the process.
    """

    def __init__(self, api: Api, selector: str | None) -> None:
        """List all.

        Raises:
            ClusterError: the first list did not work; later failures are told by :meth:`trouble`.
        """
        self._api = api
        self._selectors: dict[Kind, str | None] = {"nodes": selector, "pods": None}
        self._objects: dict[Kind, dict[str, dict[str, Any]]] = {}
        self._troubles: dict[Kind, str] = {}
        self._changed = threading.Condition()
        self._news = False
        self._closed = threading.Event()
        lists = dict[Kind, Listed](zip(("nodes", "pods"), api.everything(selector), strict=True))
        for kind, listed in lists.items():
            self._take(kind, listed)
            threading.Thread(target=self._follow, args=(kind, listed.version), daemon=True).start()

    def __enter__(self) -> View:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closed.set()

    def look(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str]:
        """Nodes, pods, and what keeps the view from being current, "" for nothing."""
        with self._changed:
            return (
                list(self._objects["nodes"].values()),
                list(self._objects["pods"].values()),
                "; ".join(sorted(set(self._troubles.values()))),
            )

    def wait(self, seconds: float) -> None:
        """Wait until something has changed since the last wait, ``seconds`` at most."""
        with self._changed:
            self._changed.wait_for(lambda: self._news, seconds)
            self._news = False

    def _follow(self, kind: Kind, version: str) -> None:
        failures = 0
        while not self._closed.is_set():
            try:
                if not version:
                    version = self._take(kind, self._api.list(kind, self._selectors[kind]))
                for event in self._api.watch(kind, version, self._selectors[kind]):
                    failures = 0
                    self._apply(kind, event)
                # A server that ends every watch at once must not be asked without end.
                self._closed.wait(_PAUSES[0])
            except ClusterError as error:
                self._tell(kind, str(error))
                self._closed.wait(_PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1
            # The server ends every watch sooner or later. A new list costs one answer, and is right for sure.
            version = ""

    def _take(self, kind: Kind, listed: Listed) -> str:
        with self._changed:
            self._objects[kind] = {obj["metadata"]["uid"]: obj for obj in listed.items}
            self._troubles.pop(kind, None)
            self._notify()
        return listed.version

    def _apply(self, kind: Kind, event: dict[str, Any]) -> None:
        if event["type"] == "BOOKMARK":
            return
        obj = event["object"]
        with self._changed:
            if event["type"] == "DELETED":
                self._objects[kind].pop(obj["metadata"]["uid"], None)
            else:
                self._objects[kind][obj["metadata"]["uid"]] = obj
            self._notify()

    def _tell(self, kind: Kind, trouble: str) -> None:
        with self._changed:
            self._troubles[kind] = trouble
            self._notify()

    def _notify(self) -> None:
        self._news = True
        self._changed.notify_all()

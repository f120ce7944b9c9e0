"""What a list says that the API server gives, refuses, or does not answer, and what a rule makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from edgeagent.cluster import looking
from edgeagent.cluster.client import Client
from edgeagent.errors import AnswerError, UnreachableError

NODE_RIGHTS = {looking.RUNTIME_CLASSES[0]}
"""A kubelet's credential may list RuntimeClasses, and none of the others (system:node, Node authorizer)."""


class Server:
    """A client whose server lets these paths be listed, in pages of one object."""

    def __init__(self, allowed: set[str], items: Mapping[str, list[Any]] | None = None) -> None:
        self.asked: list[tuple[str, str]] = []
        self._allowed = allowed
        self._items = items or {}

    async def request(self, method: str, path: str, *, params: Mapping[str, str], background: bool) -> dict[str, Any]:
        assert method == "GET"
        assert background  # an eviction does not wait because a list is to wait
        self.asked.append((path, params.get("fieldSelector", "")))
        if path not in self._allowed:
            raise AnswerError(403, reason="Forbidden", message="system:node:edge-07 cannot list it")
        items = self._items.get(path, [])
        at = int(params.get("continue", "0"))
        more = {"continue": str(at + 1)} if at + 1 < len(items) else {}
        return {"items": items[at : at + 1], "metadata": more}


async def look(server: object) -> Any:
    return await looking.look(cast("Client", server))


@pytest.mark.asyncio
async def test_a_nodes_credential_sees_classes_and_the_missing_rights_are_named() -> None:
    nvidia = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
    found = await look(Server(NODE_RIGHTS, {looking.RUNTIME_CLASSES[0]: [nvidia]}))
    assert [one.name for one in found.runtime_classes.items] == ["nvidia"]
    for listed, right in (
        (found.daemon_sets, "list daemonsets.apps in all namespaces"),
        (found.events, "list events in all namespaces"),
        (found.waiting, "list pods in all namespaces"),
    ):
        assert (listed.items, listed.right) == (None, right)


@pytest.mark.asyncio
async def test_with_all_rights_every_list_is_answered_page_by_page() -> None:
    paths = {path for path, _ in (looking.RUNTIME_CLASSES, looking.DAEMON_SETS, looking.EVENTS, looking.PODS)}
    classes = [{"metadata": {"name": name}, "handler": name} for name in ("a", "b", "c")]
    # No API server takes such names; a recording may hold them, and remedies put them into commands.
    strange = [{"metadata": {"name": "a; reboot"}, "handler": "a"}, {"metadata": {"name": "d"}, "handler": "\nEOF\nd"}]
    server = Server(paths, {looking.RUNTIME_CLASSES[0]: [*classes, {"odd": 1}, *strange]})
    found = await look(server)
    assert [one.name for one in found.runtime_classes.items] == ["a", "b", "c"]
    assert (found.daemon_sets.items, found.events.items, found.waiting.items) == ((), (), ())
    assert (looking.PODS[0], "spec.nodeName=,status.phase=Pending") in server.asked


@pytest.mark.asyncio
async def test_an_outage_is_no_missing_right() -> None:
    class Away:
        async def request(self, *_: object, **__: object) -> dict[str, Any]:
            raise UnreachableError("GET: no route to host")

    found = await look(Away())
    assert (found.waiting.items, found.waiting.right) == (None, "")
    assert "no route to host" in found.waiting.why

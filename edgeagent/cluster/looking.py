"""Asks the API server for the lists that only a diagnosis needs. A list that is refused names the right it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from edgeagent.cluster import lists
from edgeagent.errors import ClusterError
from edgeagent.facts.diagnosis import ClusterLook, Listed

if TYPE_CHECKING:
    from edgeagent.cluster.client import Client

T = TypeVar("T")
Object = Mapping[str, Any]

PAGE = 250
MOST_PAGES = 8
"""Of a list that is longer the rest is left: a diagnosis is no reason to read a whole fleet's pods."""
FORBIDDEN = 403
REASONS = ("FailedCreate", "FailedCreatePodSandBox")
"""Of the events that are read: a pod that is not made, a pod that is not started."""
RUNTIME_CLASSES = ("/apis/node.k8s.io/v1/runtimeclasses", "list runtimeclasses.node.k8s.io")
DAEMON_SETS = ("/apis/apps/v1/daemonsets", "list daemonsets.apps in all namespaces")
EVENTS = ("/api/v1/events", "list events in all namespaces")
PODS = ("/api/v1/pods", "list pods in all namespaces")
WAITING = "spec.nodeName=,status.phase=Pending"


async def look(
    client: Client, *, leave: Container[str] = (), ready: Callable[[], Awaitable[object]] | None = None
) -> ClusterLook:
    """All lists, one after the other.

    ``leave``: rights that are known to be missing: their lists count as refused, and are not asked for. ``ready``: is
    waited for before each list.
    """
    return understood(await ask(client, leave=leave, ready=ready))


async def ask(
    client: Client, *, leave: Container[str] = (), ready: Callable[[], Awaitable[object]] | None = None
) -> dict[str, Listed[Object]]:
    """As :func:`look`: the objects, by the plural of their kind; ``pods`` are those that wait for a node."""
    asked: dict[str, tuple[tuple[str, str], Iterable[str | None]]] = {
        "runtimeclasses": (RUNTIME_CLASSES, (None,)),
        "daemonsets": (DAEMON_SETS, (None,)),
        "events": (EVENTS, [f"type=Warning,reason={one}" for one in REASONS]),
        "pods": (PODS, (WAITING,)),
    }
    found: dict[str, Listed[Object]] = {}
    for kind, (what, selectors) in asked.items():
        if what[1] in leave:
            found[kind] = _forbidden(what[1])
            continue
        if ready is not None:
            await ready()
        found[kind] = await _listed(client, what, selectors)
    return found


def missing(found: ClusterLook) -> frozenset[str]:
    """The rights for want of which lists were not made."""
    lists_made = (found.runtime_classes, found.daemon_sets, found.events, found.waiting)
    return frozenset(listed.right for listed in lists_made if listed.right)


def understood(asked: Mapping[str, Listed[Object]]) -> ClusterLook:
    """What the objects say."""
    return ClusterLook(
        runtime_classes=_parsed(asked["runtimeclasses"], _each(lists.runtime_class)),
        daemon_sets=_parsed(asked["daemonsets"], _each(lists.daemon_set)),
        events=_parsed(asked["events"], _each(lists.event)),
        waiting=_parsed(asked["pods"], lists.waiting),
    )


def _parsed(listed: Listed[Object], parse: Callable[[Iterable[Any]], Iterable[T]]) -> Listed[T]:
    items = None if listed.items is None else tuple(parse(listed.items))
    return Listed(items=items, why=listed.why, right=listed.right)


def refused(error: ClusterError, right: str) -> Listed[T]:
    """The list that could not be made."""
    if getattr(error, "code", None) == FORBIDDEN:
        return _forbidden(right)
    return Listed(items=None, why=str(error))


def _forbidden(right: str) -> Listed[T]:
    return Listed(items=None, why=f"the API server does not let these credentials {right}", right=right)


def _each(parse: Callable[[Any], T]) -> Callable[[Iterable[Any]], Iterable[T]]:
    return lambda items: lists.understood(items, parse)


async def _listed(client: Client, what: tuple[str, str], selectors: Iterable[str | None]) -> Listed[Object]:
    path, right = what
    found: list[Object] = []
    try:
        for selector in selectors:
            query = {"limit": str(PAGE), **({"fieldSelector": selector} if selector else {})}
            for _ in range(MOST_PAGES):
                page = await client.request("GET", path, params=query, background=True)
                found += page.get("items") or []
                more = _metadata(page).get("continue")
                if not more:
                    break
                query["continue"] = str(more)
    except ClusterError as error:
        return refused(error, right)
    return Listed(items=tuple(found))


def _metadata(page: Mapping[str, Any]) -> Mapping[str, Any]:
    found = page.get("metadata")
    return found if isinstance(found, Mapping) else {}

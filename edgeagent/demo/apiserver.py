"""A small API server over HTTP on 127.0.0.1: the end points that the agent calls, answered as the real one does.

It asks for no credentials; a bearer token only tells who asked. It has no admission and no
disruption budgets, and everything is gone with the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeAlias

from aiohttp import web

from edgeagent.demo import refusals, scheduler
from edgeagent.demo.refusals import RefusalError
from edgeagent.demo.registry import Registry
from edgeagent.demo.store import EVENTS, NODES, PODS, Change, Kind, Object, Store

BOOKMARK_SECONDS = 60.0
_LONGEST_WATCH = 1800.0
_TRUE = ("1", "true")

Selector: TypeAlias = "dict[str, str]"
Handler: TypeAlias = "Callable[[web.Request], Awaitable[web.StreamResponse]]"

_FIELDS: dict[Kind, Mapping[str, Callable[[Object], str]]] = {
    NODES: {"metadata.name": lambda item: str(item["metadata"]["name"])},
    PODS: {
        "metadata.name": lambda item: str(item["metadata"]["name"]),
        "metadata.namespace": lambda item: str(item["metadata"]["namespace"]),
        "spec.nodeName": lambda item: str(item["spec"].get("nodeName", "")),
        "status.phase": lambda item: str(item.get("status", {}).get("phase", "Pending")),
    },
    EVENTS: {
        "metadata.name": lambda item: str(item["metadata"]["name"]),
        "metadata.namespace": lambda item: str(item["metadata"]["namespace"]),
    },
}


@dataclass(slots=True)
class Request:
    """A request that the server received, in the order of arrival. ``status`` is 0 until it was answered."""

    at: float
    """Monotonic second of its arrival."""
    user: str
    """The bearer token."""
    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    status: int = 0


_NVIDIA = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
_FIXED: dict[str, Object] = {
    path: {"kind": f"{kind}List", "apiVersion": version, "metadata": {"resourceVersion": "1"}, "items": items}
    for path, kind, version, items in (
        ("/apis/node.k8s.io/v1/runtimeclasses", "RuntimeClass", "node.k8s.io/v1", [_NVIDIA]),
        ("/apis/apps/v1/daemonsets", "DaemonSet", "apps/v1", []),
        ("/api/v1/events", "Event", "v1", []),
    )
}
"""What a diagnosis lists, and nobody changes in the demo. RuntimeClasses are as K3s makes them."""


class ApiServer:
    """The running server, as an async context manager."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.url = ""
        self._registry = Registry(Store())
        self._runner = web.AppRunner(_Routes(self._registry).app(self._recorded), access_log=None, shutdown_timeout=0.1)
        self._scheduler: asyncio.Task[None] | None = None

    async def __aenter__(self) -> ApiServer:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0]
        self.url = f"http://{host}:{port}"
        self._scheduler = asyncio.create_task(scheduler.run(self._registry), name="scheduler")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._scheduler is not None:
            self._scheduler.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._scheduler
        await self._runner.cleanup()

    @web.middleware
    async def _recorded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        text = await request.text()
        user = request.headers.get("Authorization", "").removeprefix("Bearer ")
        record = Request(time.monotonic(), user, request.method, request.path, dict(request.query), text)
        self.requests.append(record)
        try:
            record.body = json.loads(text) if text else None
            answer = await handler(request)
        except RefusalError as refusal:
            answer = _answer(refusal.status, refusal.code)
        except web.HTTPMethodNotAllowed:
            answer = _refused(refusals.no_such_method())
        except web.HTTPNotFound:
            answer = _refused(refusals.no_such_place())
        except ValueError as error:  # not JSON, not a number, not a quantity
            answer = _refused(refusals.bad_request(str(error)))
        record.status = answer.status
        return answer


class _Routes:
    """From paths to the registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def app(self, middleware: Any) -> web.Application:
        app = web.Application(middlewares=[middleware])
        core, within = "/api/v1", "/api/v1/namespaces/{namespace}"
        events = "/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        app.add_routes(
            [
                *self._kind(NODES, f"{core}/nodes"),
                *self._kind(PODS, f"{within}/pods"),
                *self._kind(EVENTS, events),
                web.get(f"{core}/pods", functools.partial(self._list, kind=PODS)),
                web.patch(f"{core}/nodes/{{name}}/status", functools.partial(self._patch_status, kind=NODES)),
                web.patch(f"{within}/pods/{{name}}/status", functools.partial(self._patch_status, kind=PODS)),
                web.patch(f"{events}/{{name}}", functools.partial(self._patch, kind=EVENTS)),
                web.post(f"{within}/pods/{{name}}/eviction", self._evict),
                *(web.get(path, functools.partial(_fixed, listed=listed)) for path, listed in _FIXED.items()),
            ]
        )
        return app

    def _kind(self, kind: Kind, path: str) -> list[web.RouteDef]:
        """What every kind has."""
        return [
            web.get(path, functools.partial(self._list, kind=kind)),
            web.post(path, functools.partial(self._create, kind=kind)),
            web.get(f"{path}/{{name}}", functools.partial(self._get, kind=kind)),
            web.delete(f"{path}/{{name}}", functools.partial(self._delete, kind=kind)),
        ]

    async def _get(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        return _answer(self._registry.get(kind, *_place(request)))

    async def _create(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        created = self._registry.create(kind, _namespace(request), await request.json())
        return _answer(created, HTTPStatus.CREATED)

    async def _patch(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        return _answer(self._registry.patch(kind, *_place(request), await request.json(), request.content_type))

    async def _patch_status(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        patch, form = await request.json(), request.content_type
        return _answer(self._registry.patch_status(kind, *_place(request), patch, form))

    async def _delete(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        # Kept by the middleware, which has read it: there need not be any.
        text = await request.text()
        return _answer(self._registry.delete(kind, *_place(request), json.loads(text) if text else {}))

    async def _evict(self, request: web.Request) -> web.StreamResponse:
        return _answer(self._registry.evict(*_place(request), await request.json()), HTTPStatus.CREATED)

    async def _list(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        selector = _selector(request, kind)
        if request.query.get("watch") in _TRUE:
            return await self._watch(request, kind, selector)
        store = self._registry.store
        items = [
            {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
            for item in store.all(kind)
            if _selected(kind, item, selector)
        ]
        return _answer(
            {
                "kind": f"{kind.name}List",
                "apiVersion": kind.api_version,
                "metadata": {"resourceVersion": str(store.version)},
                "items": items,
            }
        )

    async def _watch(self, request: web.Request, kind: Kind, selector: Selector) -> web.StreamResponse:
        seconds = float(request.query.get("timeoutSeconds", _LONGEST_WATCH))
        version = int(request.query.get("resourceVersion") or 0)
        bookmarks = request.query.get("allowWatchBookmarks") in _TRUE
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        try:
            events = self._events(kind, selector, version, time.monotonic() + seconds)
            async for event in events:
                if event["type"] == "BOOKMARK" and not bookmarks:
                    continue
                await response.write(json.dumps(event).encode() + b"\n")
        except ConnectionResetError:
            # The other side has closed the watch.
            return response
        await response.write_eof()
        return response

    async def _events(self, kind: Kind, selector: Selector, version: int, end: float) -> AsyncIterator[Object]:
        """What a watch is told: changes after ``version`` as they look through the selector, and bookmarks."""
        store = self._registry.store
        if not version:
            version = store.version
            for item in store.all(kind):
                if _selected(kind, item, selector):
                    yield {"type": "ADDED", "object": item}
        while (left := end - time.monotonic()) > 0:
            told, version = version, store.version
            for change in store.changes(kind, told):
                event = _event(change, selector)
                if event is not None:
                    yield event
            try:
                await asyncio.wait_for(store.newer_than(version), min(BOOKMARK_SECONDS, left))
            except asyncio.TimeoutError:
                metadata = {"resourceVersion": str(version)}
                yield {
                    "type": "BOOKMARK",
                    "object": {"kind": kind.name, "apiVersion": kind.api_version, "metadata": metadata},
                }


async def _fixed(_: web.Request, listed: Object) -> web.StreamResponse:
    """A list that never changes here."""
    return _answer(listed)


def _event(change: Change, selector: Selector) -> Object | None:
    """A change as a watch sees it: an object that begins to be selected is added, one that ceases to be is deleted."""
    before = change.before is not None and _selected(change.kind, change.before, selector)
    after = not change.gone and _selected(change.kind, change.after, selector)
    if not (before or after):
        return None
    kind = "DELETED" if not after else "MODIFIED" if before else "ADDED"
    return {"type": kind, "object": change.after}


def _selector(request: web.Request, kind: Kind) -> Selector:
    """The field selector and the namespace of a request, which selects in the same way."""
    terms = [term.partition("=") for term in request.query.get("fieldSelector", "").split(",") if term]
    for field, _, _ in terms:
        if field not in _FIELDS[kind]:
            raise refusals.bad_request(f"field label not supported: {field}")
    namespace = _namespace(request)
    return {field: value for field, _, value in terms} | ({"metadata.namespace": namespace} if namespace else {})


def _selected(kind: Kind, item: Object, selector: Selector) -> bool:
    return all(_FIELDS[kind][field](item) == value for field, value in selector.items())


def _namespace(request: web.Request) -> str:
    return request.match_info.get("namespace", "")


def _place(request: web.Request) -> tuple[str, str]:
    return _namespace(request), request.match_info["name"]


def _answer(item: Object, code: HTTPStatus = HTTPStatus.OK) -> web.Response:
    return web.json_response(item, status=code)


def _refused(refusal: RefusalError) -> web.Response:
    return _answer(refusal.status, refusal.code)

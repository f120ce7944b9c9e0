"""The requests of the fleet commands, over the connections of the official client.

Its API classes are left aside: to load and fill their models takes longer than all requests together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from types import TracebackType
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, urlencode

from urllib3 import Timeout
from urllib3.exceptions import HTTPError

from edgeagent import __version__
from edgeagent.errors import ClusterError, UnreachableError
from edgeagent.fleet.words import one_line
from edgeagent.plan.node import MODE
from edgeagent.plan.types import MERGE_PATCH

FIELD_MANAGER = "edgeagent-fleet"
"""Not the agent's own: when the agent wrote last is told by its name."""
PAGE = 500
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_TIMES = Timeout(connect=5.0, read=30.0)
"""Seconds to connect, and between two pieces of an answer."""
_WATCH_SECONDS = 300
_WATCH_TIMES = Timeout(connect=5.0, read=90.0)
"""The server sends a bookmark every minute; without a word for longer a watch counts as broken."""
_SOURCE = re.compile(r"^(?:<[^>]*>|\w+\([^)]*\)): ")
"""What urllib3 puts before the cause: ``HTTPSConnection(host='…', port=1): ``."""

Kind = Literal["nodes", "pods"]


class RefusedError(ClusterError):
    """The API server answered with an error status, ``code``."""

    def __init__(self, told: str, code: int) -> None:
        super().__init__(told)
        self.code = code


class Listed(NamedTuple):
    """A complete list."""

    items: list[dict[str, Any]]
    version: str
    """The resourceVersion that a watch goes on from."""


class Api:
    """The API server of one cluster; as a context it closes its connections.

    Every method raises ``ClusterError`` for an error answer and ``UnreachableError`` for none, each with one line for
    people.
    """

    def __init__(self, client: Any) -> None:
        """``client``: the official client's ``ApiClient``, which signs in."""
        self._settings = client.configuration
        self._connections = client.rest_client.pool_manager
        self.server = str(self._settings.host).rstrip("/")

    def __enter__(self) -> Api:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connections.clear()

    def everything(self, selector: str | None) -> tuple[Listed, Listed]:
        """All nodes that match and all pods that have not finished."""
        with ThreadPoolExecutor(2) as both:
            nodes = both.submit(self.list, "nodes", selector)
            pods = both.submit(self.list, "pods")
            return nodes.result(), pods.result()

    def list(self, kind: Kind, selector: str | None = None) -> Listed:
        """All objects of a kind, page by page."""
        return self.listed(f"/api/v1/{kind}", _chosen(kind, selector))

    def listed(self, path: str, chosen: Mapping[str, str]) -> Listed:
        """All objects at a path, page by page; ``chosen``: selectors of the query."""
        items: list[dict[str, Any]] = []
        query = {**chosen, "limit": str(PAGE)}
        while True:
            page = self._object("GET", path, query)
            items += page.get("items") or []
            more = page["metadata"].get("continue")
            if not more:
                return Listed(items, page["metadata"].get("resourceVersion", ""))
            query["continue"] = more

    def watch(self, kind: Kind, version: str, selector: str | None = None) -> Iterator[dict[str, Any]]:
        """Changes since a list, bookmarks too; ends when the server closes the watch."""
        query = {
            **_chosen(kind, selector),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
            "resourceVersion": version,
        }
        response = self._send("GET", f"/api/v1/{kind}", query, times=_WATCH_TIMES)
        try:
            with self._reaching():
                for row in _rows(response.stream(1 << 16, decode_content=True)):
                    yield self._event(row)
        finally:
            response.close()

    def node(self, name: str) -> dict[str, Any]:
        """One node."""
        return self._object("GET", f"/api/v1/nodes/{quote(name, safe='')}", {})

    def set_mode(self, name: str, value: str | None, *, dry_run: bool) -> None:
        """Set the annotation of one node, or remove it with None. ``dry_run``: the server checks, and keeps nothing."""
        query = {"fieldManager": FIELD_MANAGER, **({"dryRun": "All"} if dry_run else {})}
        body = {"metadata": {"annotations": {MODE: value}}}
        self._object("PATCH", f"/api/v1/nodes/{quote(name, safe='')}", query, body)

    def _object(self, method: str, path: str, query: Mapping[str, str], body: Any = None) -> dict[str, Any]:
        response = self._send(method, path, query, body)
        try:
            with self._reaching():
                found = json.loads(response.data)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("metadata"), dict):
            raise ClusterError(f"{self.server}: does not answer as Kubernetes does")
        return found

    def _send(
        self, method: str, path: str, query: Mapping[str, str], body: Any = None, *, times: Timeout = _TIMES
    ) -> Any:
        """The response, with its body to be read yet."""
        # A fleet's pods are megabytes of JSON, and a tenth of it packed. Uplinks of edge sites are thin.
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": f"edgeagent/{__version__}"}
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body), MERGE_PATCH
        # Asked for each request, because a login may have run out meanwhile: then this gets a new one.
        headers |= {one["key"]: one["value"] for one in self._settings.auth_settings().values() if one.get("value")}
        url = f"{self.server}{path}?{urlencode(query)}"
        with self._reaching():
            response = self._connections.request(
                method, url, body=data, headers=headers, timeout=times, preload_content=False, redirect=False
            )
            if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
                raise _refused(self.server, response.status, response.data)
        return response

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except HTTPError as error:
            why = _SOURCE.sub("", one_line(getattr(error, "reason", None) or error))
            raise UnreachableError(f"{self.server}: no answer: {why}") from error

    def _event(self, row: bytes) -> dict[str, Any]:
        try:
            event: dict[str, Any] = json.loads(row)
            kind, obj = event["type"], event["object"]
        except (KeyError, TypeError, ValueError):
            raise ClusterError(f"{self.server}: does not answer as Kubernetes does") from None
        if kind == "ERROR":
            raise _refused(self.server, obj.get("code", 0), json.dumps(obj).encode())
        return event


def _chosen(kind: Kind, selector: str | None) -> dict[str, str]:
    chosen = {"fieldSelector": UNFINISHED} if kind == "pods" else {}
    return {**chosen, "labelSelector": selector} if selector else chosen


def _rows(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Whole lines; a last one that was cut off is none."""
    rest = b""
    for piece in pieces:
        *rows, rest = (rest + piece).split(b"\n")
        yield from rows


def _refused(server: str, code: int, body: bytes) -> ClusterError:
    """An error answer in one line; where rights are missing the server's own words name the verb."""
    if code == HTTPStatus.UNAUTHORIZED:
        return RefusedError(f"{server}: does not accept these credentials (401)", code)
    try:
        said = json.loads(body)["message"]
    except (KeyError, TypeError, ValueError):
        return RefusedError(f"{server}: answers {code}", code)
    return RefusedError(f"{server}: answers {code}: {one_line(said)}", code)

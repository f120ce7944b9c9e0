"""The API server's audit log: who asked for what, with which credential, and what was answered."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tests.controlplane.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitManagedFields": True,
    "rules": [{"level": "Request", "verbs": sorted(WRITES)}, {"level": "Metadata"}],
}
"""All requests; the bodies of writes. The stage RequestReceived is kept on purpose, see ``AuditLog.read``."""


@dataclass(frozen=True)
class Request:
    """One request to the API server.

    ``resource`` has its subresource, as in ``nodes/status``; "" for a path that is no resource. ``credential`` is the
    certificate's fingerprint, as ``ClientFiles.credential_id`` gives it, or a token's id; None for a static token.
    ``code`` is None if the server ended before its answer. ``body`` is the patch or object sent, None for reads.
    """

    user: str
    credential: str | None
    verb: str
    resource: str
    namespace: str | None
    name: str | None
    uri: str
    received: datetime
    code: int | None
    body: Any


class AuditLog:
    """Reads the file of an API server that runs with ``POLICY`` in the log mode ``blocking``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._events: dict[str, dict[str, Any]] = {}
        self._cut_off: set[str] = set()

    def read(self) -> list[Request]:
        """All requests so far in the order of their arrival, those whose answer a client has seen complete with code.

        A request is logged before it is served (stage RequestReceived) and its code only after the answer is sent. So
        whatever a client was answered is in the file, and this waits for the codes that are still missing.
        """
        wait_for("codes of all requests in the audit log", lambda: not self._unanswered(), seconds=15)
        return sorted(map(_request, self._events.values()), key=lambda request: request.received)

    def server_ended(self) -> None:
        """Tell that the server is gone, and with it every answer that is still missing."""
        self._cut_off.update(self._unanswered())

    def _unanswered(self) -> list[str]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                event = json.loads(line)
                self._events[event["auditID"]] = event
        waiting = {key for key, event in self._events.items() if event["stage"] == "RequestReceived"}
        return sorted(waiting - self._cut_off)


def select(
    requests: list[Request],
    *,
    user: str | None = None,
    credential: str | None = None,
    verb: str | Collection[str] | None = None,
    resource: str | None = None,
    since: datetime | None = None,
) -> list[Request]:
    """Those that match all that is given; ``verb`` may be one verb or several, as ``WRITES``."""
    verbs = {verb} if isinstance(verb, str) else verb
    return [
        request
        for request in requests
        if (user is None or request.user == user)
        and (credential is None or request.credential == credential)
        and (verbs is None or request.verb in verbs)
        and (resource is None or request.resource == resource)
        and (since is None or request.received >= since)
    ]


def _request(event: dict[str, Any]) -> Request:
    user, target = event["user"], event.get("objectRef", {})
    ids = user.get("extra", {}).get("authentication.kubernetes.io/credential-id", [None])
    resource = "/".join(part for part in (target.get("resource"), target.get("subresource")) if part)
    return Request(
        user=user.get("username", ""),
        credential=ids[0],
        verb=event["verb"],
        resource=resource,
        namespace=target.get("namespace"),
        name=target.get("name"),
        uri=event["requestURI"],
        received=datetime.strptime(event["requestReceivedTimestamp"], "%Y-%m-%dT%H:%M:%S.%f%z"),
        code=event.get("responseStatus", {}).get("code"),
        body=event.get("requestObject"),
    )

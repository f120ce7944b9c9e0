"""Error answers of the demo's API server, as Status objects with the words of the real one."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from edgeagent.demo.store import Kind


class RefusalError(Exception):
    """A request that is answered with an error.

    Attributes:
        code: HTTP status.
        status: the Status object of the answer.
    """

    def __init__(self, code: HTTPStatus, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        self.code = code
        self.status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            **({} if details is None else {"details": details}),
            "code": int(code),
        }
        super().__init__(message)


def not_found(kind: Kind, name: str) -> RefusalError:
    """There is no such object."""
    details = {"name": name, "kind": kind.plural}
    return RefusalError(HTTPStatus.NOT_FOUND, "NotFound", f'{kind.resource} "{name}" not found', details)


def already_exists(kind: Kind, name: str) -> RefusalError:
    """There is one of that name."""
    details = {"name": name, "kind": kind.plural}
    return RefusalError(HTTPStatus.CONFLICT, "AlreadyExists", f'{kind.resource} "{name}" already exists', details)


def other_uid(kind: Kind, name: str, wanted: str, found: str) -> RefusalError:
    """The object of that name is not the one that the caller means."""
    message = (
        f'Operation cannot be fulfilled on {kind.name} "{name}": the UID in the precondition ({wanted}) does not match '
        f"the UID in record ({found}). The object might have been deleted and then recreated"
    )
    return RefusalError(HTTPStatus.CONFLICT, "Conflict", message, {"name": name, "kind": kind.name})


def bad_request(message: str) -> RefusalError:
    """The request itself is wrong."""
    return RefusalError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def no_such_place() -> RefusalError:
    """A path that this server does not have."""
    message = "the server could not find the requested resource"
    return RefusalError(HTTPStatus.NOT_FOUND, "NotFound", message, {})


def no_such_method() -> RefusalError:
    """A method that this path does not have."""
    message = "the server does not allow this method on the requested resource"
    return RefusalError(HTTPStatus.METHOD_NOT_ALLOWED, "MethodNotAllowed", message, {})


def no_such_patch() -> RefusalError:
    """A patch in a format that is not known here."""
    return RefusalError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", "415: Unsupported Media Type")

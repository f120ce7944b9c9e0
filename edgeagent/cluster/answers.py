"""Error answers of the API server: a Status object, or whatever stood in the way of one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from edgeagent.errors import AnswerError

LONGEST_PAUSE = 300.0
"""Seconds: a pause longer than this is taken for a fault of whoever asked for it."""
LONGEST_MESSAGE = 1024
"""Characters: what an answer says goes into logs, events, records and the endpoint. A note of an event has no more."""


def answer_error(code: int, headers: Mapping[str, str], body: bytes) -> AnswerError:
    """The error that an answer with an error status stands for; a body that is no Status is its message."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("kind") != "Status":
        found = {"message": body[: 4 * LONGEST_MESSAGE + 4].decode("utf-8", "replace")}
    error = status_error(found, code)
    return AnswerError(
        code,
        reason=error.reason,
        message=error.message,
        causes=error.causes,
        retry_after=_seconds(headers.get("Retry-After"), error.retry_after),
    )


def status_error(status: Any, code: int = 500) -> AnswerError:
    """The error in a Status object, such as a watch brings; ``code`` where it names none."""
    found = _object(status)
    details = _object(found.get("details"))
    causes = details.get("causes")
    given = found.get("code")
    wait = details.get("retryAfterSeconds")
    return AnswerError(
        given if isinstance(given, int) else code,
        reason=_text(found.get("reason")),
        message=_text(found.get("message")),
        causes=[_text(_object(cause).get("reason")) for cause in causes] if isinstance(causes, list) else (),
        retry_after=float(min(wait, LONGEST_PAUSE)) if isinstance(wait, int) and wait > 0 else None,
    )


def _text(value: Any) -> str:
    """What was said, cut where it is too long; half of a surrogate pair, which can be sent nowhere, is a ``?``."""
    told = str(value or "")
    told = told if len(told) <= LONGEST_MESSAGE else f"{told[: LONGEST_MESSAGE - 1]}…"
    return told.encode(errors="replace").decode()


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _seconds(header: str | None, otherwise: float | None) -> float | None:
    """The API server gives whole seconds; a date, as a proxy may send, would need a clock that is right."""
    if header is None or not header.isascii() or not header.isdigit():
        return otherwise
    return min(float(header), LONGEST_PAUSE)

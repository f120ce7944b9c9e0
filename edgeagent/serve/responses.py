"""How an answer looks: compact JSON or text, kept by nobody, framed by nobody, one per connection."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "edgeagent",  # the versions of Python and of its libraries are nobody's business
    "X-Content-Type-Options": "nosniff",
}
"""What every answer says."""


def respond(status: int, content_type: str, body: bytes, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer, after which the connection is closed."""
    fields = {**HEADERS, "Content-Type": content_type, **(headers or {})}
    response = web.Response(status=status, body=body, headers=fields)
    response.force_close()
    return response


def encode(value: Any) -> bytes:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def refuse(status: int, name: str, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer that says why there is no other, in the form of the health answers."""
    body = {"status": "error", "reasons": [{"name": name, "message": message}]}
    return respond(status, JSON, encode(body), headers)

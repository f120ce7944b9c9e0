"""Which paths there are, and what makes the answer to each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

from edgeagent.serve import api, dashboard, health, metrics, state
from edgeagent.serve.look import Look
from edgeagent.serve.responses import JSON, TEXT, encode

Page = tuple[int, str, bytes]
"""Status, content type and body."""

STREAM = "/api/v1/stream"
"""The one path whose answer goes on."""
OPENAPI = "/openapi.json"
DOCUMENT = Path(__file__).with_name("openapi.json")
"""What is served there. It is long and seldom asked for, so it stays on the disk."""


def _health(check: Callable[..., health.Answer], look: Look) -> Page:
    status, body = check(look.shown, look.now, verbose=look.verbose or look.lines, without=look.excluded)
    if look.lines:
        return status, TEXT, health.lines(check.__name__, body, verbose=look.verbose)
    return status, JSON, encode(body)


def _metrics(look: Look) -> Page:
    return health.OK, metrics.CONTENT_TYPE, metrics.text(look.shown, look.now, look.wall, look.streams)


def _api(name: str, look: Look) -> Page:
    status, body = api.answer(name, look)
    return status, JSON, encode(body)


def _state(look: Look) -> Page:
    return health.OK, JSON, encode(state.document(look))


PAGES: dict[str, Callable[[Look], Page]] = {
    "/livez": functools.partial(_health, health.livez),
    "/readyz": functools.partial(_health, health.readyz),
    "/healthz": functools.partial(_health, health.healthz),
    "/metrics": _metrics,
    **{f"/api/v1/{name}": functools.partial(_api, name) for name in (*api.PARTS, *api.KEPT)},
    "/api/v1/state": _state,
}
"""What is made anew for each request."""

FILES = frozenset({OPENAPI, *dashboard.PATHS})
"""What is always the same, and stands on the disk."""

OPEN = frozenset({"/livez", "/readyz", "/healthz", *dashboard.PATHS})
"""Paths that need no token: probes have none, and the answers tell no more than that something is wrong. The dashboard
asks whoever looks at it for the token; its files hold nothing of the board."""


def file(path: str) -> tuple[str, bytes, Mapping[str, str]] | None:
    """Content type, body and headers of one of FILES, from the disk; None: it is none of them."""
    return (JSON, DOCUMENT.read_bytes(), {}) if path == OPENAPI else dashboard.page(path)

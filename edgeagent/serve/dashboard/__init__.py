"""The dashboard: one page without anything from elsewhere, and without anything of the board in it.

The page asks for the data itself, so it needs no token to be loaded. Its policy allows its own script and style and
nothing else: nothing inline, no frame around it, no request to another place.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/dashboard.css": ("dashboard.css", "text/css; charset=utf-8"),
    "/dashboard.js": ("dashboard.js", "text/javascript; charset=utf-8"),
    "/dashboard.svg": ("dashboard.svg", "image/svg+xml"),
}
PATHS = tuple(_FILES)


def page(path: str) -> tuple[str, bytes, Mapping[str, str]] | None:
    """Content type, body and headers of a file; None: it is none of the dashboard's."""
    found = _FILES.get(path)
    if found is None:
        return None
    name, content_type = found
    return content_type, _read(name), _HEADERS


@functools.cache
def _read(name: str) -> bytes:
    return resources.files(__name__).joinpath(name).read_bytes()

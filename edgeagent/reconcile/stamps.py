"""Wall clock times as the API server wants them."""

from __future__ import annotations

from datetime import datetime, timezone


def seconds(wall: float) -> str:
    """RFC 3339 in whole seconds (``metav1.Time``) of a Unix time."""
    return datetime.fromtimestamp(wall, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def micros(wall: float) -> str:
    """RFC 3339 with microseconds (``metav1.MicroTime``), without which the events API refuses a time."""
    return datetime.fromtimestamp(wall, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

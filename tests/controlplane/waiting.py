"""Waiting for something that another process will make true."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T | None], *, seconds: float = 60.0, every: float = 0.05) -> T:
    """Call ``look`` until it answers something true, and return that.

    Raises:
        TimeoutError: nothing true within ``seconds``; the message says ``what`` was awaited and the last answer.
    """
    end = time.monotonic() + seconds
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:g} s: {what}; last seen: {seen!r}")
        time.sleep(every)

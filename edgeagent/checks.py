"""What a single value of the configuration may be. Each check raises ValueError, with what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from edgeagent import quantity

_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|h)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_SIZE_HINT = "a quantity such as 512Mi or plain bytes"

Check = Callable[[Any], Any]
"""Turns a YAML value into the typed one."""


def duration(value: Any) -> float:
    """Seconds above 0, from a number with its unit."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if not match:
        raise ValueError("expected a duration such as 15s, 250ms or 2min")
    seconds = float(match[1]) * _SECONDS[match[2]]
    if seconds <= 0:
        raise ValueError("expected a duration above 0")
    return seconds


def size(value: Any) -> int:
    """Bytes, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"expected {_SIZE_HINT}")  # noqa: TRY004 (one error type for a wrong value)
    try:
        amount = quantity.parse(value)
    except ValueError:
        raise ValueError(f"expected {_SIZE_HINT}") from None
    if amount < 0:
        raise ValueError(f"expected {_SIZE_HINT}, not below 0")
    return amount


def size_or_percent(value: Any) -> int | str:
    """Bytes, or a percentage as it is written."""
    if isinstance(value, str) and value.endswith("%"):
        try:
            quantity.percent(value, 0)
        except ValueError:
            raise ValueError("expected a percentage from 0% to 100%") from None
        return value
    return size(value)


def choice(*allowed: str) -> Check:
    """A check for one of ``allowed``."""

    def check(value: Any) -> str:
        if value in allowed and isinstance(value, str):
            return value
        raise ValueError(f"expected one of {', '.join(allowed)}")

    return check


def detect(value: Any) -> str:
    """``auto``, ``yes`` or ``no``."""
    # YAML 1.1 reads a bare yes or no as a boolean.
    spelled = {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
    return cast("str", choice("auto", "yes", "no")(spelled))


def boolean(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError("expected true or false")  # noqa: TRY004
    return value


def text(value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError("expected a text")
    return value


def count(value: Any) -> int:
    """A whole number, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("expected a whole number, 0 or more")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("expected a list of texts")
    return tuple(value)


def label_switch(value: Any) -> bool | str:
    """True, false, or the key of a node label."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and _LABEL_KEY.fullmatch(value):
        return value
    raise ValueError("expected true, false or a label key")


def address(value: Any) -> str:
    """``ADDRESS:PORT``, an IPv6 address in brackets."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:]+):(\d{1,5})", value) if isinstance(value, str) else None
    if not match or int(match[2]) > 65535:  # noqa: PLR2004 (the largest port)
        raise ValueError("expected ADDRESS:PORT such as 127.0.0.1:9843")
    return cast("str", value)

"""The configuration in force as a document that loads as the same one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any

from edgeagent.config import Config

_LEFT_OUT = ("node", "serve", "vitals")
"""Who is served what, and under which name: it decides nothing, and names files, addresses and the node."""


def document(config: Config, text: Callable[[str], str] = str) -> dict[str, Any]:
    """The settings that are not the defaults, sections in which there are none left out.

    ``text`` is what every text goes through.
    """
    found = _changed(config, Config(), text)
    return {name: value for name, value in found.items() if name not in _LEFT_OUT}


def _changed(section: Any, default: Any, text: Callable[[str], str]) -> dict[str, Any]:
    changed = {}
    for item in fields(section):
        value, usual = getattr(section, item.name), getattr(default, item.name)
        if value != usual:
            changed[item.name] = _changed(value, usual, text) if is_dataclass(usual) else _written(value, text)
    return changed


def _written(value: Any, text: Callable[[str], str]) -> Any:
    """A value as it is written: every number with a fraction is a duration in seconds."""
    if isinstance(value, float):
        return f"{Decimal(repr(value)):f}s"
    if isinstance(value, tuple):
        return list(map(text, value))
    return text(value) if isinstance(value, str) else value

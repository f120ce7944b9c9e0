"""Reading API objects, which are plain dicts of any shape until they are looked into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from edgeagent.errors import ClusterError

T = TypeVar("T")


class ObjectError(ClusterError):
    """An object that is legal JSON but not what its kind should look like: skip it and count it."""


def read(kind: str, obj: Any, parse: Callable[[Mapping[str, Any]], T]) -> T:
    """``parse(obj)``.

    Raises:
        ObjectError: whatever in the object's shape ``parse`` tripped over.
    """
    try:
        return parse(obj)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ObjectError(f"{kind} {_name(obj)} is not understood: {type(error).__name__}: {error}") from error


def lenient(parse: Callable[[], T], default: T) -> T:
    """``parse()``, or ``default`` for a shape that it trips over: what no decision rests on must not lose an object."""
    try:
        return parse()
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return default


def _name(obj: Any) -> str:
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else "without a name"


def mapping(value: Any) -> Mapping[str, Any]:
    """``value`` if it is an object, an empty one if it is null.

    Raises:
        TypeError: anything else.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"an object was expected, not {type(value).__name__}")
    return value


def strings(value: Any) -> dict[str, str]:
    """A map of strings such as labels; null is empty.

    Raises:
        TypeError: not a map of strings.
    """
    found = mapping(value)
    if not all(isinstance(text, str) for text in found.values()):
        raise TypeError("a map of strings was expected")
    return dict(found)


def sequence(value: Any) -> list[Any]:
    """``value`` if it is a list, an empty one if it is null: Go writes empty lists so.

    Raises:
        TypeError: anything else.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise TypeError(f"a list was expected, not {type(value).__name__}")
    return value


def text(value: Any) -> str:
    """A string that has to be there.

    Raises:
        TypeError: absent, empty or not a string.
    """
    if not isinstance(value, str) or not value:
        raise TypeError(f"a text was expected, not {value!r}")
    return value


def unix_time(value: Any) -> float | None:
    """Unix seconds of an RFC 3339 time; None when there is none that can be read."""
    if not isinstance(value, str):
        return None
    try:
        # Python 3.10 does not read the Z.
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None

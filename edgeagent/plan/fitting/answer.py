"""Whether models fit: the answer, and how it stands in the explain document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeagent.plan.fitting.models import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Short:
    """Too little of one thing. ``missing`` None: how much there is, is not known."""

    key: str
    missing: int | None
    """In the unit of the key."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Whether one model has one."""

    model: Model
    host: int
    """Bytes of host memory that it books beside its GPU memory on a pool that they share."""
    short: tuple[Short, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """One thing that is given out, in the unit of its key."""

    key: str
    size: int | None
    """All that pods can book; None: not known."""
    booked: int
    """By pods that are bound now."""
    asked: int
    """By all models together."""

    @property
    def left(self) -> int | None:
        """What would be left; below 0, what is missing."""
        return None if self.size is None else self.size - self.booked - self.asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """The answer."""

    places: tuple[Place, ...]
    rooms: tuple[Room, ...]
    remedies: tuple[str, ...]
    notes: tuple[str, ...]
    """What the answer does not say."""

    @property
    def fits(self) -> bool:
        """Every model has a place."""
        return not any(place.short for place in self.places)


def document(found: Fitting) -> dict[str, object]:
    """What stands under ``would_fit`` in the explain document."""
    return {
        "fits": found.fits,
        "models": [
            {
                "name": place.model.name,
                "fits": not place.short,
                "requests": dict(place.model.amounts),
                "host_bytes": place.host,
                "short": [{"key": one.key, "missing": one.missing, "why": one.why} for one in place.short],
                "notes": list(place.notes),
            }
            for place in found.places
        ],
        "sum": [
            {"key": room.key, "size": room.size, "booked": room.booked, "asked": room.asked, "left": room.left}
            for room in found.rooms
        ],
        "remedies": list(found.remedies),
        "notes": list(found.notes),
    }

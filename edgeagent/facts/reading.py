"""One reading of one source, and when it was taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Reading(Generic[T_co]):
    """One reading of one source.

    ``value`` is None when the source could not be read or gave nothing plausible; ``why``
    then says so in a few words. ``at`` is the monotonic second of the attempt.
    """

    at: float
    value: T_co | None
    why: str = ""
    waiting_since: float | None = None
    """When a call began that has not come back, as a hung driver leaves it; None: no call is overdue."""


# --- the board -----------------------------------------------------------------------

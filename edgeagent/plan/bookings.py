"""What pods may use and have booked: found again for those alone that are others than in the decision before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeagent.facts import GPU_MILLI
from edgeagent.memory import budgets, requests

if TYPE_CHECKING:
    from edgeagent.config import Policy
    from edgeagent.facts import MemoryKind, PodFacts
    from edgeagent.memory.types import Budget

Places = tuple[tuple[str, "MemoryKind", bool], ...]
"""Of each pool: its resource, its kind, and whether it is the node's ``gpu-memory`` pool."""


@dataclass(frozen=True, slots=True)
class Booking:
    """What one pod has booked. It follows from the pod, the pools and the policy alone, none of which ever changes."""

    pod: PodFacts
    budgets: Mapping[str, Budget]
    """By pool resource."""
    milli: int
    """Thousandths of a GPU."""


@dataclass(frozen=True, slots=True)
class Bookings:
    """Those of all pods, with what they were found from."""

    places: Places
    policy: Policy
    by_uid: Mapping[str, Booking]


def find(before: Bookings | None, pods: Sequence[PodFacts], places: Places, policy: Policy) -> Bookings:
    """The bookings of ``pods``; ``before`` are those of the last decision."""
    known = before.by_uid if before and before.places == places and before.policy is policy else {}
    return Bookings(places, policy, {pod.uid: _booking(known.get(pod.uid), pod, places, policy) for pod in pods})


def _booking(known: Booking | None, pod: PodFacts, places: Places, policy: Policy) -> Booking:
    if known is not None and known.pod is pod:
        return known
    found = {
        resource: budgets.budget(pod, resource, kind, policy, primary=primary) for resource, kind, primary in places
    }
    return Booking(pod, found, requests.total(pod, GPU_MILLI, "requests"))

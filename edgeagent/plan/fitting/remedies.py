"""What would make room for the first model that has none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.facts import GPU_MILLI
from edgeagent.memory import requests
from edgeagent.plan.fitting.models import shown
from edgeagent.quantity import human

if TYPE_CHECKING:
    from edgeagent.memory.types import Pool
    from edgeagent.plan.fitting.answer import Place, Short
    from edgeagent.plan.fitting.trial import Trial


def remedies(trial: Trial, places: Sequence[Place]) -> Iterator[str]:
    """What would make the first model fit that does not, by each thing that is short."""
    failed = next(((place, pod) for place, pod in zip(places, trial.wanted, strict=True) if place.short), None)
    if failed is None:
        return
    place, pod = failed
    for short in place.short:
        if short.missing is None:
            continue
        pool = next((pool for pool in trial.plan.pools if short.key == pool.resource), None)
        if pool is None or trial.owner is None:
            yield _smaller(place, short, trial.booked(pod, pool) if pool else None)
        if pool is not None and trial.owner is None:
            yield from _reserve(pool, short.missing)
        yield from _holder(trial, pool, short)


def _smaller(place: Place, short: Short, booked: int | None) -> str:
    """By how much the model would have to ask for less. ``booked``: bytes that it books of the pool that is short."""
    name, missing = place.model.name, short.missing or 0
    if short.key == GPU_MILLI:
        return f"{name} would have to ask for {missing} less of {short.key}"
    less = quantity.ceil_mib(missing)
    if booked is None:
        return f"{name} would have to ask for {quantity.mib(less)} less of {short.key}"
    if less >= booked:
        return f"{name} fits at no size: nothing of {short.key} is free"
    what = "GPU and host memory together" if place.host else short.key
    most = quantity.mib(booked - less)
    return f"{name} would have to ask for {quantity.mib(less)} less: {most} of {what} at most"


def _holder(trial: Trial, pool: Pool | None, short: Short) -> Iterator[str]:
    """The bound pod that has booked the most of what is short. ``pool``: if that is one."""
    booked = [
        (trial.booked(pod, pool) if pool else requests.total(pod, short.key, "requests"), pod.key) for pod in trial.pods
    ]
    most, name = max(booked, default=(0, ""))
    if most:
        enough = "without it there is room" if most >= (short.missing or 0) else "ending it alone is not enough"
        yield f"{name} has booked the most of {short.key}, {shown(short.key, most)}; {enough}"


def _reserve(pool: Pool, missing: int) -> Iterator[str]:
    """The largest reserve that a setting can lower."""
    lines = [reserve for reserve in pool.reserves if reserve.origin != "measured"]
    most = max(lines, key=lambda reserve: reserve.bytes, default=None)
    if most is not None and most.bytes > missing:
        where = most.source if most.origin == "kubelet" else f"reserves.{most.name}"
        less = quantity.mib(quantity.ceil_mib(missing))
        yield (
            f"the largest reserve is {most.name}, {human(most.bytes)} ({where}); "
            f"{less} less of it would do, if the system can spare it"
        )

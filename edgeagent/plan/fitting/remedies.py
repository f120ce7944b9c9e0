"""What would make room for the models that have none."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.facts import GPU_MILLI
from edgeagent.memory import requests
from edgeagent.plan.fitting.answer import Short
from edgeagent.plan.fitting.models import shown
from edgeagent.quantity import MIB, human

if TYPE_CHECKING:
    from edgeagent.facts import PodFacts
    from edgeagent.memory.types import Pool
    from edgeagent.plan.fitting.answer import Place, Room
    from edgeagent.plan.fitting.trial import Trial


LEAST_OS = 512 * MIB
"""No setting of ``os`` below this is advised: what a system without a desktop needs is not far from it."""


def remedies(trial: Trial, places: Sequence[Place], rooms: Sequence[Room]) -> Iterator[str]:
    """What would make the models fit that do not, by each thing that is short."""
    failed = [(place, pod) for place, pod in zip(places, trial.wanted, strict=True) if place.short]
    together = [room for room in rooms if room.left is not None and room.left < 0] if len(failed) > 1 else []
    for room in together:
        yield from _together(trial, room)
    told = {room.key for room in together}
    for place, pod in failed:
        yield from _alone(trial, place, pod, told)


def _together(trial: Trial, room: Room) -> Iterator[str]:
    """What would make all models fit that ask for ``room``, where several do not."""
    missing = -(room.left or 0)
    pool = _pool(trial, room.key)
    if pool is None or trial.owner is None:
        less = str(missing) if room.key == GPU_MILLI else quantity.mib(quantity.ceil_mib(missing))
        yield f"all models together would have to ask for {less} less of {room.key}"
    if pool is not None and trial.owner is None:
        yield from _reserve(pool, missing)
    yield from _holder(trial, pool, Short(key=room.key, missing=missing, why=""))


def _pool(trial: Trial, key: str) -> Pool | None:
    return next((pool for pool in trial.plan.pools if key == pool.resource), None)


def _alone(trial: Trial, place: Place, pod: PodFacts, told: Collection[str]) -> Iterator[str]:
    """What would make one model fit, by each thing that is short of it but those in ``told``."""
    for short in place.short:
        if short.missing is None or short.key in told:
            continue
        pool = _pool(trial, short.key)
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
    """The largest reserve that a setting can lower, unless the system would be left with too little."""
    lines = [reserve for reserve in pool.reserves if reserve.origin != "measured"]
    most = max(lines, key=lambda reserve: reserve.bytes, default=None)
    if most is None or most.bytes <= missing:
        return
    where = most.source if most.origin == "kubelet" else f"reserves.{most.name}"
    less = quantity.ceil_mib(missing)
    advice = f"{quantity.mib(less)} less of it would do, if the system can spare it"
    if most.name == "os" and most.bytes - less < LEAST_OS:
        advice = f"lowering it is no way: {quantity.mib(less)} less would leave less than {human(LEAST_OS)}"
    yield f"the largest reserve is {most.name}, {human(most.bytes)} ({where}); {advice}"

"""Puts models on a board one by one, counted as pods are.

A model that does not fit stays out, as a pod would that the scheduler leaves pending where K3s has the same
reserves, and the next one is tried without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.facts import GPU_MEMORY, GPU_MILLI, IGPU_MEMORY
from edgeagent.memory.requests import MEMORY
from edgeagent.plan.fitting import remedies
from edgeagent.plan.fitting.answer import Fitting, Place, Room, Short
from edgeagent.plan.fitting.trial import Trial, requested
from edgeagent.quantity import human

if TYPE_CHECKING:
    from edgeagent.facts import Facts, PodFacts
    from edgeagent.memory.types import Pool
    from edgeagent.plan.fitting.models import Model
    from edgeagent.plan.types import Plan


def fit(plan: Plan, facts: Facts, models: Sequence[Model]) -> Fitting:
    """Whether ``models`` fit, in their order, beside the pods of ``plan``, which was made from ``facts``."""
    trial = Trial(plan, facts, models)
    bound = list(trial.pods)
    places = []
    for model, pod in zip(models, trial.wanted, strict=True):
        short = tuple(_short(trial, pod, bound))
        if not short:
            bound.append(pod)
        places.append(_place(trial, model, pod, short))
    rooms = tuple(_rooms(trial))
    return Fitting(
        places=tuple(places),
        rooms=rooms,
        remedies=tuple(remedies.remedies(trial, places, rooms)),
        notes=tuple(_notes(trial)),
    )


def _place(trial: Trial, model: Model, pod: PodFacts, short: tuple[Short, ...]) -> Place:
    booked = trial.budgets[pod.uid].values()
    notes = []
    odd = any(problem.reason == "UnderRequested" for budget in booked for problem in budget.problems)
    if odd and trial.coupled:
        notes.append(
            "memory is less than gpu + 256Mi, so it cannot be the whole-board figure and counts beside the GPU's"
        )
    return Place(model=model, host=trial.host(pod), short=short, notes=tuple(notes))


def _short(trial: Trial, pod: PodFacts, bound: Sequence[PodFacts]) -> Iterator[Short]:
    """What ``pod`` lacks beside ``bound``."""
    (amounts,) = (container.requests for container in pod.containers)
    known = {pool.resource for pool in trial.plan.pools}
    for key in (GPU_MEMORY, IGPU_MEMORY):
        if amounts.get(key) and key not in known:
            yield Short(key=key, missing=None, why=_no_pool(trial, key))
    for pool in trial.plan.pools:
        if trial.booked(pod, pool):
            yield from _short_of_pool(trial, pool, pod, bound)
    for key in (GPU_MILLI, MEMORY):
        size = trial.room(key)
        if not amounts.get(key) or (size is None and key == MEMORY):
            continue
        if size is None:
            yield Short(key=key, missing=None, why=f"{key} is not advertised here")
            continue
        missing = requested((*bound, pod), key) - size
        if missing > 0:
            yield Short(key=key, missing=missing, why=_scheduler(trial, key, size))


def _no_pool(trial: Trial, key: str) -> str:
    if trial.plan.board.kind == "none":
        return "this board has no NVIDIA GPU"
    if key not in trial.plan.advertised:
        return f"{key} is not advertised here"
    return f"the size of {key} is not known now"


def _scheduler(trial: Trial, key: str, size: int) -> str:
    if key == GPU_MILLI:
        return f"the node has {size} thousandths of a GPU"
    node = trial.node
    whole = node is not None and quantity.equal(node.allocatable.get(key), node.capacity.get(key))
    return f"the scheduler's own dimension: allocatable is {human(size)}" + (
        ", all of MemTotal, since the kubelet reserves nothing" if whole else ""
    )


def _short_of_pool(trial: Trial, pool: Pool, pod: PodFacts, bound: Sequence[PodFacts]) -> Iterator[Short]:
    filled = trial.filled(pool, (*bound, pod))
    taken = trial.taken(filled)
    missing = max(filled.gpu_committed - _size(trial, pool, filled), taken - (pool.total - pool.reserved))
    if missing > 0:
        before = taken - trial.booked(pod, pool)
        yield Short(key=pool.resource, missing=missing, why=_pool_why(trial, pool, before))
    largest = max(trial.cards(pool), default=None)
    request = trial.budgets[pod.uid][pool.resource].gpu_request
    if largest is not None and request > largest:
        why = f"no allocation spans two cards, and the largest has {human(largest)} usable"
        yield Short(key=f"{pool.resource} of one card", missing=request - largest, why=why)


def _size(trial: Trial, pool: Pool, filled: Pool) -> int:
    """What capacity would say with the pods of ``filled`` bound."""
    if trial.owner is not None:
        return trial.plan.advertised.get(pool.resource, 0)
    return max(0, quantity.floor_mib(filled.computed))


def _pool_why(trial: Trial, pool: Pool, booked: int) -> str:
    if trial.owner is not None:
        return f"{trial.owner} owns the GPU memory of this node; only what admitted pods hold is advertised"
    parts = "for GPU and host" if pool.kind == "unified" and trial.coupled else "for GPU"
    return f"{human(pool.total - pool.reserved)} after reserves, {human(booked)} of it booked by then {parts}"


def _rooms(trial: Trial) -> Iterator[Room]:
    for pool in trial.plan.pools:
        asked = sum(trial.booked(pod, pool) for pod in trial.wanted)
        size = quantity.floor_mib(pool.total - pool.reserved)
        if trial.owner is not None:
            size = min(size, trial.plan.advertised.get(pool.resource, 0) + trial.taken(pool) - pool.gpu_committed)
        yield Room(key=pool.resource, size=size, booked=trial.taken(pool), asked=asked)
    for key in (MEMORY, GPU_MILLI):
        asked = requested(trial.wanted, key)
        if asked:
            yield Room(key=key, size=trial.room(key), booked=requested(trial.pods, key), asked=asked)


def _notes(trial: Trial) -> Iterator[str]:
    """What was not looked at."""
    if not trial.plan.listed:
        yield "The pods of this node are not known, so it is counted as empty."
    if requested(trial.wanted, MEMORY) and trial.room(MEMORY) is None:
        yield "The scheduler's own memory is not checked: the node's allocatable is not known."
    bare = [pod.name for pod in trial.wanted if not requested((pod,), MEMORY)]
    if bare:
        who = " and ".join(bare) if len(bare) <= 2 else f"{len(bare)} of the models"  # noqa: PLR2004 (as many are named)
        yield f"No host part is booked for {who}: without memory:… a model is counted as if it needed none."
    for pool in trial.plan.pools:
        asked = any(trial.budgets[pod.uid][pool.resource].gpu_request for pod in trial.wanted)
        if asked and len(trial.cards(pool)) > 1:
            yield f"{pool.resource} is the sum over several cards; which of them has room is not looked at."

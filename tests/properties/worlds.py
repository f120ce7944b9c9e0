"""Random boards and sequences of samples, and an oracle for budgets that shares no code with the product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from edgeagent.config import Config
from edgeagent.facts import GPU_MEMORY, MemInfo, PodFacts
from edgeagent.plan.types import Outcome
from tests.unit.factories import GIB, MIB, Held, Scene, config, meminfo, node, pod

BOARD = 16 * GIB
NAMES = ("a", "b", "c", "d")
OUTCOMES: tuple[Outcome, ...] = (
    "accepted",
    "gone",
    "blocked",
    "throttled",
    "misconfigured",
    "forbidden",
    "unauthorized",
    "unknown",
    "recovered",
)

DEFAULT = config("policy: {grace: 4s, start_grace: 1ms}")
DRASTIC = config(
    "{policy: {grace: 4s, start_grace: 1ms, unbudgeted: evict, daemonsets: evict}, "
    "pressure: {within_budget: above-request}}"
)

SIZES = st.sampled_from([0, 1, 15 * MIB, 512 * MIB, GIB, GIB + 16 * MIB, GIB + 17 * MIB, 2 * GIB, 3 * GIB])


@dataclass(frozen=True)
class Step:
    """What happens in one sample."""

    seconds: float
    """Since the sample before."""
    held: Mapping[str, Held]
    present: frozenset[str]
    reborn: frozenset[str]
    """Pods that were created anew, under a new uid, since the sample before."""
    readable: bool
    available: int
    annotated: bool
    outcome: Outcome


@st.composite
def pods(draw: st.DrawFn) -> tuple[PodFacts, ...]:
    """Up to four pods of all kinds."""
    found = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1)):
        budget = draw(st.sampled_from([None, None, 0, 7, 512 * MIB, GIB, 2 * GIB]))
        memory = draw(st.sampled_from([None, 512 * MIB, 2 * GIB]))
        found.append(
            pod(
                name,
                budget,
                memory,
                namespace=draw(st.sampled_from([*["apps"] * 7, "kube-system"])),
                mirror=draw(st.sampled_from([*[False] * 7, True])),
                priority=draw(st.sampled_from([0, 0, 0, 5, 5, 2_000_000_000])),
                owner=draw(st.sampled_from([None, ("ReplicaSet", "web-1"), ("DaemonSet", "ds")])),
                terminating=draw(st.sampled_from([*[False] * 7, True])),
            )
        )
    return tuple(found)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """One sample."""
    names = st.frozensets(st.sampled_from(NAMES))
    usage = st.builds(Held, gpu=SIZES, host=st.one_of(st.none(), SIZES), exact=st.sampled_from([True, True, False]))
    return Step(
        seconds=draw(st.sampled_from([2.0, 2.0, 2.0, 2.0, 0.1, 0.5, 4.0, 11.0])),
        held={name: draw(usage) for name in NAMES},
        present=draw(st.one_of(*[st.just(frozenset(NAMES))] * 4, names)),
        reborn=draw(st.one_of(*[st.just(frozenset[str]())] * 5, names)),
        readable=draw(st.sampled_from([*[True] * 9, False])),
        available=draw(st.sampled_from([8 * GIB, 8 * GIB, GIB, 150 * MIB, 100 * MIB, 0])),
        annotated=draw(st.sampled_from([*[False] * 9, True])),
        outcome=draw(st.one_of(st.just(OUTCOMES[0]), st.sampled_from(OUTCOMES))),
    )


@st.composite
def sequences(draw: st.DrawFn) -> list[Step]:
    """Samples in a row. What pods hold and what is free stays as it was more often than not: else no breach lasts."""
    found: list[Step] = []
    for step in draw(st.lists(steps(), min_size=1, max_size=14)):
        if found and draw(st.sampled_from([True, True, True, False])):
            found.append(replace(step, held=found[-1].held, available=found[-1].available))
        else:
            found.append(step)
    return found


def scene(given: tuple[PodFacts, ...], step: Step, second: float, settings: Config) -> Scene:
    """The sample at ``second``; meminfo agrees with what the pods hold, so that nothing is counted twice."""
    shown = tuple(one for one in given if one.name in step.present)
    used = sum((step.held[one.name].gpu or 0) + (step.held[one.name].host or 0) for one in shown)
    return Scene(
        pods=shown,
        held={one.name: step.held[one.name] for one in shown},
        at=second,
        config=settings,
        meminfo=board_memory(used, sum(step.held[one.name].host or 0 for one in shown), step.available),
        readable=step.readable,
        node=node(annotations={"edgeagent.dev/mode": "observe"} if step.annotated else {}),
    )


def board_memory(used: int, anon: int, available: int) -> MemInfo:
    """A meminfo in which ``used`` bytes are in use, ``anon`` of them host memory."""
    return meminfo(2 * BOARD, available=available, free=2 * BOARD - used, anon_pages=anon)


def reborn(given: tuple[PodFacts, ...], step: Step, generation: int) -> tuple[PodFacts, ...]:
    """The pods, of which some were created anew."""
    return tuple(replace(one, uid=f"uid-{one.name}-{generation}") if one.name in step.reborn else one for one in given)


def over(given: PodFacts, held: Held) -> bool:
    """Whether the pod is over one of its budgets, in so many words."""
    limits = given.containers[0].limits
    budget = limits.get(GPU_MEMORY)
    if budget is None or 0 < budget < MIB or held.gpu is None:
        return False
    if held.gpu > budget + max(16 * MIB, budget * 0.005):
        return True
    if "memory" not in limits or held.host is None or not held.exact:
        return False
    memory = limits["memory"]
    total = budget + (memory - budget if memory >= budget + 256 * MIB else memory)
    return held.gpu + held.host > total + max(16 * MIB, total * 0.005)


def spared(given: PodFacts, *, daemonsets: bool) -> bool:
    """Whether the pod is never evicted."""
    daemon = given.owner is not None and given.owner[0] == "DaemonSet" and not daemonsets
    critical = given.priority >= 2_000_000_000
    return given.mirror or critical or given.namespace == "kube-system" or given.terminating or daemon

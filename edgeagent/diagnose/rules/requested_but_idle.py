"""GPU memory that was asked for and is never used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.diagnose import injection, manifests
from edgeagent.diagnose.collected import pod_subject
from edgeagent.diagnose.rule import Rule
from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY
from edgeagent.plan import peaks
from edgeagent.plan.decide import PLAUSIBLE_WALL
from edgeagent.plan.peaks import WEEK_HOURS
from edgeagent.quantity import human

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import ContainerFacts, Finding, PodFacts
    from edgeagent.plan.breaches import PodView

LONG = 15
"""Times ``policy.start_grace``, half an hour by default: a model may be loaded by its first request."""
_SHORTEST = 15.0
"""Seconds, whatever the configuration says."""


def look(seen: Collected) -> Iterator[Finding]:
    """Every container that runs and is known to hold no GPU memory."""
    for view in seen.plan.pods:
        for container in injection.lasting(view.pod) if not view.pod.terminating else ():
            amounts = injection.asked(container, GPU_MEMORY, IGPU_MEMORY)
            if amounts and container.started_at is not None and _holds_none(view, container):
                watched = _watched(seen, view.pod, container, amounts)
                if watched is not None:
                    yield _finding(view.pod, container, amounts, watched)


def _holds_none(view: PodView, container: ContainerFacts) -> bool:
    own = view.use.containers.get(container.name)
    return own is not None and own.gpu == 0 and None not in view.use.gpu.values()


def _watched(
    seen: Collected, pod: PodFacts, container: ContainerFacts, amounts: dict[str, int]
) -> tuple[str, bool] | None:
    """What says that it was long enough, and whether it was watched all the time; None: it was not, or it held some."""
    long = max(_SHORTEST, LONG * seen.facts.config.policy.start_grace)
    record = seen.peaks.records.get(peaks.workload(pod, container.name)) if seen.peaks else None
    if seen.peaks and record:
        held = [course.peak(seen.peaks.time.hour, WEEK_HOURS) for course in record.gpu.values()]
        if any(held):
            return None
        times = [record.gpu[key].watched for key in amounts if key in record.gpu]
        if times and min(times) >= long:
            return "peak of GPU memory over the last 7 days, as this agent has watched it: 0", True
    wall, told = seen.facts.wall, container.started_at
    if told is not None and PLAUSIBLE_WALL < told <= wall and wall - told >= long:
        return f"GPU memory that it holds {_span(long)} and more after its start: 0", False
    return None


def _finding(pod: PodFacts, container: ContainerFacts, amounts: dict[str, int], watched: tuple[str, bool]) -> Finding:
    row, sure = watched
    asked = " and ".join(f"{human(amount)} of {key}" for key, amount in amounts.items())
    taken: dict[str, None] = dict.fromkeys(amounts)
    command = manifests.changed(
        pod, container, spec={}, fields={"resources": {"limits": taken, "requests": dict(taken)}}
    )
    return RULE.finding(
        pod_subject(pod),
        f"Container {container.name} asks for {asked} and "
        f"{'has never used any of it' if sure else 'uses none of it'}, so nobody else can have it.",
        evidence=(*(f"container {container.name} requests {key}: {amount}" for key, amount in amounts.items()), row),
        remedy="If it should use the GPU, see why it does not; else take the request away.\n"
        f"edgeagent doctor pod {pod.key}\n{command}",
        certainty="certain" if sure else "suspected",
        pod=pod,
    )


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"  # noqa: PLR2004 (from then on minutes are exact enough)


RULE = Rule(
    id="requested-but-idle",
    title="GPU memory is asked for and not used",
    severity="info",
    looks_at="containers with a request of `edgeagent.dev/gpu-memory`; the peaks that a running agent has kept of "
    "their workload for a week, else for how long the container has run and what it holds now. Told after 15 times "
    "`policy.start_grace`, half an hour by default; suspected only where it was not watched for so long",
    matters="What is requested is offered to nobody else, used or not. A model that is loaded by its first request is "
    "nothing wrong.",
    remedy="Look why it does not use the GPU, or take the request out of the manifest. With an agent, "
    "[`edgeagent budgets`](cli.md#edgeagent-budgets) says what to write:\n"
    "edgeagent budgets",
    look=look,
    event="",
)
RULES = (RULE,)

"""One pod from end to end: is it scheduled, how does it get the GPU, does it hold it, what may it use, beside whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from edgeagent.diagnose import injection
from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY, PREFIX
from edgeagent.memory import requests
from edgeagent.quantity import human

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import Collected
    from edgeagent.facts import ContainerFacts, PodFacts
    from edgeagent.plan.breaches import PodView

_BYTES = (GPU_MEMORY, IGPU_MEMORY)
_MOST_NEIGHBOURS = 5
_SPARED = ("protected", "daemonset", "observe")
"""Why a pod over its budget stays, however long it is over."""


@dataclass(frozen=True, slots=True)
class Step:
    """One question and its answer."""

    question: str
    answer: bool | None
    """None: cannot tell, or ``plain``."""
    told: str
    evidence: tuple[str, ...] = ()
    plain: bool = False
    """There is neither a good nor a bad answer."""


def find(seen: Collected, key: str) -> PodFacts | None:
    """The pod ``namespace/name``, bound here, waiting or finished."""
    every = seen.facts.cluster.pods if seen.facts.cluster else None
    return next((pod for pod in chain(seen.everyone(), every or ()) if pod.key == key), None)


def story(seen: Collected, pod: PodFacts, said: Sequence[Step] = ()) -> tuple[Step, ...]:
    """All questions in their order. ``said``: what the logs of its containers say, if anybody has asked."""
    view = seen.view(pod)
    bound = view is not None or not pod.live
    return (
        _scheduled(seen, pod, view),
        _asks(pod),
        _runtime(seen, pod),
        _devices(seen, pod),
        *(_container(one) for one in pod.containers if bound and one.kind != "ephemeral"),
        *(_held(seen, pod) if view else ()),
        *said,
        *(_uses(seen, pod, view) if view else ()),
        *(_neighbours(seen, pod, view) if pod.live else ()),
    )


def _wants(pod: PodFacts) -> bool:
    """It asks for a GPU in one of the ways that can be seen."""
    return any(
        injection.asked(one, PREFIX, injection.BY_PLUGIN) or injection.given_by_variable(one) for one in pod.containers
    )


def _amount(key: str, amount: int) -> str:
    return f"{key} {human(amount) if key.startswith(_BYTES) else amount}"


# --- where it is, and how it comes by a GPU ------------------------------------------------


def _scheduled(seen: Collected, pod: PodFacts, view: PodView | None) -> Step:
    question = "Scheduled?"
    if view is not None:
        ending = ", and is being ended" if pod.terminating else ""
        return Step(question, answer=True, told=f"It is bound to {seen.node_subject}, phase {pod.phase}{ending}.")
    if not pod.live:
        reason = ": ".join(part for part in pod.told if part)
        told = f"It was bound to {seen.node_subject} and has finished, phase {pod.phase}. {reason}".strip()
        return Step(question, answer=None, told=told, plain=True)
    told = pod.unschedulable or "The scheduler has not said why."
    return Step(question, answer=False, told=f"It is bound to no node. {told}")


def _asks(pod: PodFacts) -> Step:
    question = "Asks for a GPU?"
    amounts = {
        key: requests.total(pod, key, "limits")
        for key in sorted({key for one in pod.containers for key in one.limits})
        if key.startswith((PREFIX, injection.BY_PLUGIN))
    }
    if amounts:
        told = f"{', '.join(_amount(key, amount) for key, amount in amounts.items())}."
        return Step(
            question, answer=True, told=told, evidence=tuple(f"limits {key}: {amounts[key]}" for key in amounts)
        )
    given = [one for one in pod.containers if injection.given_by_variable(one)]
    if given:
        return Step(question, answer=True, told=f"By {injection.VARIABLE} alone, which no scheduler counts.")
    return Step(question, answer=None, told="It has no limit of a GPU resource.", plain=True)


def _runtime(seen: Collected, pod: PodFacts) -> Step:
    step = _under(seen, pod)
    # What asks for no GPU needs no such runtime.
    idle = step.answer is False and not _wants(pod) and _startable(seen, pod)
    return Step(step.question, answer=None, told=step.told, evidence=step.evidence, plain=True) if idle else step


def _startable(seen: Collected, pod: PodFacts) -> bool:
    """Nothing is known that keeps containerd from starting it."""
    return pod.runtime_class is None or injection.handler(seen, pod) is not None


def _under(seen: Collected, pod: PodFacts) -> Step:
    used, question = seen.host.containerd, "Runs under an NVIDIA runtime?"
    if used.problem:
        named = f"the RuntimeClass {pod.runtime_class}" if pod.runtime_class else "no RuntimeClass"
        return Step(question, answer=None, told=f"It names {named}. {used.problem}.")
    if pod.runtime_class is None:
        default = used.default or "runc"
        return Step(
            question,
            answer=default in used.nvidia,
            told=f"It names no RuntimeClass, so it gets the default runtime, {default}.",
            evidence=(f"{used.path}: default {default}",),
        )
    classes = seen.cluster.runtime_classes
    if classes.items is None:
        return Step(question, answer=None, told=f"It names the RuntimeClass {pod.runtime_class}: {classes.why}.")
    found = next((one for one in classes.items if one.name == pod.runtime_class), None)
    if found is None:
        return Step(question, answer=False, told=f"The RuntimeClass {pod.runtime_class} does not exist.")
    known = found.handler in used.runtimes
    return Step(
        question,
        answer=found.handler in used.nvidia if known else False,
        told=f"Its RuntimeClass {found.name} leads to the handler {found.handler}, which containerd "
        f"{'has' if known else 'does not have'}.",
        evidence=(f"{used.path}: runtimes {', '.join(sorted(used.runtimes))}",),
    )


def _devices(seen: Collected, pod: PodFacts) -> Step:
    """What tells the runtime which GPUs to put into a container."""
    question = "Is it given a device?"
    for one in injection.lasting(pod):
        wants = injection.asked(one, PREFIX, injection.BY_PLUGIN) or injection.given_by_variable(one)
        barred = injection.barred(seen, pod, one) if wants else None
        if barred is not None:
            return Step(question, answer=False, told=f"Container {one.name} is not: {barred.why}.")
    by_plugin = sorted({key for one in pod.containers for key in injection.asked(one, injection.BY_PLUGIN)})
    if by_plugin:
        return Step(question, answer=True, told=f"A device plugin gives it one for {', '.join(by_plugin)}.")
    by_variable = {one.name: one.visible_devices for one in pod.containers if one.visible_devices}
    given = [f"{one.name}={one.visible_devices}" for one in pod.containers if injection.given_by_variable(one)]
    if given:
        return Step(question, answer=True, told=f"{injection.VARIABLE} in its manifest: {', '.join(given)}.")
    if by_variable:
        told = f"{injection.VARIABLE} in its manifest says that it gets none."
        return Step(question, answer=None if not _wants(pod) else False, told=told, plain=not _wants(pod))
    ways = sorted({way for one in pod.containers for way in one.other_ways})
    if ways:
        return Step(question, answer=None, told=f"It may get one in another way: {', '.join(ways)}.")
    image = f"an image of NVIDIA's sets {injection.VARIABLE} itself, which is not seen here"
    told = f"It asks no device plugin, and its manifest sets no variable; {image}."
    return Step(question, answer=None, told=told, plain=not _wants(pod))


def _container(one: ContainerFacts) -> Step:
    question = f"Does container {one.name} run?"
    if one.started_at is not None:
        again = f", started {one.restarts + 1} times" if one.restarts else ""
        return Step(question, answer=True, told=f"It runs{again}.")
    if one.waiting is not None:
        reason, message = one.waiting
        return Step(question, answer=False, told=f"It waits: {reason or 'no reason given'}. {message}".strip())
    if one.ended is not None:
        reason, code, message = one.ended
        told = f"It has ended: {reason or 'no reason given'}, exit code {code}. {message}".strip()
        return Step(question, answer=None if code == 0 else False, told=told, plain=code == 0)
    return Step(question, answer=None, told="Nothing is known of it yet.")


# --- whether it has got one, and what it does with it --------------------------------------


def _held(seen: Collected, pod: PodFacts) -> Iterator[Step]:
    """Device nodes that the processes of its containers hold open."""
    holders = seen.host.holders
    for one in pod.containers:
        if one.container_id is None or one.kind == "ephemeral" or one.started_at is None:
            continue
        question = f"Does container {one.name} hold a GPU device node?"
        mine = [holder for holder in holders.processes if holder.container_id == one.container_id]
        if mine:
            rows = tuple(f"pid {holder.pid} ({holder.name}): {', '.join(holder.nodes)}" for holder in mine)
            told = "One of its processes does." if len(mine) == 1 else f"{len(mine)} of its processes do."
            yield Step(question, answer=True, told=told, evidence=rows)
        elif holders.problem or one.container_id in holders.closed or one.container_id not in holders.seen:
            why = holders.problem or "the open files of its processes cannot be read"
            yield Step(question, answer=None, told=f"Cannot tell: {why}.")
        else:
            asks = injection.asked(one, PREFIX, injection.BY_PLUGIN) or injection.given_by_variable(one)
            told = "None of its processes does."
            yield Step(question, answer=False if asks else None, told=told, plain=not asks)


def _uses(seen: Collected, pod: PodFacts, view: PodView) -> Iterator[Step]:
    for resource in sorted(view.budgets):
        yield _use(seen, pod, view, resource)
        yield _budget(seen, view, resource)
    if not view.budgets:
        yield Step("Within its budget?", answer=None, told="This node has no pool of GPU memory.", plain=True)


def _use(seen: Collected, pod: PodFacts, view: PodView, resource: str) -> Step:
    question, used, host = f"Does it use {resource}?", view.use.gpu.get(resource), view.use.host
    why = f": {view.use.why}" if view.use.why else ""
    beside = "how much host memory is not known" if host is None else f"{human(host)} of host memory"
    if used is None:
        return Step(question, answer=None, told=f"How much it holds is not known{why}.")
    rows = []
    if len(pod.containers) > 1:
        for name, own in sorted(view.use.containers.items()):
            rows.append(f"container {name}: {'not known' if own.gpu is None else human(own.gpu)} of GPU memory")
    for pid, _ in view.use.processes:
        process = seen.facts.host.processes.get(pid)
        rows.append(f"GPU process {pid}" + (f" ({process.name})" if process else ""))
    idle = used == 0 and not _wants(pod)
    return Step(
        question,
        answer=None if idle else used > 0,
        told=f"It holds {human(used)} of GPU memory, {beside}.",
        evidence=tuple(rows),
        plain=idle,
    )


def _budget(seen: Collected, view: PodView, resource: str) -> Step:
    question, budget = f"Within its budget of {resource}?", view.budgets[resource]
    if budget.gpu is None:
        held = " It holds GPU memory all the same." if view.state == "unbudgeted" else ""
        return Step(question, answer=None, told=f"It has none.{held}", plain=True)
    allowed = f"{human(budget.gpu)}, from {budget.key or budget.source}"
    if budget.total is not None:
        allowed += f"; GPU and host together {human(budget.total)}"
    if view.state == "unknown":
        return Step(question, answer=None, told=f"Its budget is {allowed}. Whether it keeps to it is not known.")
    if view.state == "terminating":
        return Step(question, answer=None, told=f"Its budget is {allowed}. It is being ended.", plain=True)
    spared = next((one.why for one in seen.plan.held if one.uid == view.pod.uid and one.code in _SPARED), "")
    over = f" Over it: {view.reason}." if view.reason else ""
    stays = f" It stays all the same: {spared}." if spared and view.state != "ok" else ""
    return Step(question, answer=view.state == "ok", told=f"Its budget is {allowed}.{over}{stays}")


def _neighbours(seen: Collected, pod: PodFacts, view: PodView | None) -> Iterator[Step]:
    """Who else holds the memory that it uses or waits for."""
    resources = view.budgets if view else {key: None for one in pod.containers for key in one.requests}
    for pool in seen.plan.pools:
        if pool.resource not in resources:
            continue
        others = [one for one in seen.plan.pods if one.pod.uid != pod.uid]
        figures = [
            (one.use.gpu.get(pool.resource), one.budgets[pool.resource].gpu_request, one.pod.key) for one in others
        ]
        known = sorted(
            (row for row in figures if row[0] or row[1]), key=lambda row: (-max(row[0] or 0, row[1]), row[2])
        )
        rows = [
            f"{key} holds {'what is not known' if used is None else human(used)}, requests {human(booked)}"
            for used, booked, key in known
        ]
        unknown = sum(used is None and not booked for used, booked, _ in figures)
        rows[_MOST_NEIGHBOURS:] = [f"{len(rows) - _MOST_NEIGHBOURS} more"] if len(rows) > _MOST_NEIGHBOURS else []
        if unknown:
            rows.append(f"of {unknown} more it is not known whether they hold any")
        offered, booked = seen.plan.advertised.get(pool.resource), human(pool.gpu_committed)
        yield Step(
            f"Who else is on {pool.resource}?",
            answer=None,
            told=f"{'Nobody' if not rows else 'Pods, the largest first'}. The node offers "
            f"{'what is not known' if offered is None else human(offered)}; {booked} of it are requested.",
            evidence=tuple(rows),
            plain=True,
        )

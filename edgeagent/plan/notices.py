"""What is told to people: each event once while its reason holds, and findings that stay as long as they are true."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from edgeagent.memory.pools import usable
from edgeagent.plan import messages
from edgeagent.plan.types import Event
from edgeagent.quantity import human, mib

if TYPE_CHECKING:
    from edgeagent.facts import Facts, PodFacts
    from edgeagent.memory.types import Board, Pool
    from edgeagent.plan.breaches import PodView
    from edgeagent.plan.state import State
    from edgeagent.plan.types import Finding, NodeWish
    from edgeagent.plan.victims import Choice

QUIET_SECONDS = 60.0
"""What was not due for so long, and is due again, is another decision, and told anew."""
_SEVERITIES = ("error", "warning", "info")
Notice = tuple[tuple[str, ...], Event]
"""An event with the key that tells whether its reason is still the same."""


def events(
    state: State,
    facts: Facts,
    board: Board,
    pools: Sequence[Pool],
    views: Sequence[PodView],
    choice: Choice,
    wish: NodeWish,
    observe: str,
) -> tuple[State, tuple[Event, ...]]:
    """Events that are due now, and the state that remembers them."""
    due = [
        *_budget_events(views),
        *_breach_events(facts, views, choice, observe),
        *_pool_events(facts, board, pools, views),
        *_node_events(facts, board, wish),
        *_finding_events(facts),
    ]
    fresh = tuple(event for key, event in due if key not in state.told)
    # A reading that failed ends nothing: what was said of that pod still stands.
    unknown = {view.pod.uid for view in views if view.state == "unknown"}
    standing = {key for key in state.told if unknown.intersection(key)}
    told = frozenset(key for key, _ in due) | standing
    return replace(state, told=told, refused=_refused(state, views, choice, facts.host.attributed_at)), fresh


def _refused(state: State, views: Sequence[PodView], choice: Choice, at: float) -> dict[tuple[str, str], float]:
    """Refusals that were told of, as long as the pod is to go: a short while within its budget ends nothing."""
    due = {view.pod.uid for view in views if view.breach or view.state == "unknown"}
    due |= {view.pod.uid for view in choice.victims} | {held.uid for held in choice.held}
    seen = {key: at if key[0] in due else last for key, last in state.refused.items()}
    return {key: last for key, last in seen.items() if at - last <= QUIET_SECONDS}


def pod_event(pod: PodFacts, reason: str, note: str) -> Event:
    """A warning about ``pod``."""
    return Event(reason=reason, kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid, note=note)


def _budget_events(views: Iterable[PodView]) -> Iterator[Notice]:
    for view in views:
        for budget in view.budgets.values():
            for problem in budget.problems:
                yield (problem.reason, view.pod.uid, problem.note), pod_event(view.pod, problem.reason, problem.note)


def _breach_events(facts: Facts, views: Iterable[PodView], choice: Choice, observe: str) -> Iterator[Notice]:
    """A pod went over its budget. It stays told until it is below again, whatever holds it meanwhile.

    ``observe`` says why nothing is done at all, which the grace that holds the pod first would hide.
    """
    reasons = {held.uid: held for held in choice.held}
    going = {view.pod.uid for view in choice.victims}
    for view in views:
        if view.breach in ("gpu", "shared") and view.state in ("breach", "protected"):
            held = reasons.get(view.pod.uid)
            lasting = held.why if held and held.code in ("protected", "daemonset") else observe
            note = messages.warning(view, facts.config.policy.grace, held=lasting, now=view.pod.uid in going)
            yield ("MemoryBudgetExceeded", view.pod.uid), pod_event(view.pod, "MemoryBudgetExceeded", note)


def _pool_events(facts: Facts, board: Board, pools: Iterable[Pool], views: Sequence[PodView]) -> Iterator[Notice]:
    largest = max((usable(device, facts.config.reserves) or 0 for device in board.devices), default=0)
    for pool in pools:
        for view in views:
            request = view.budgets[pool.resource].gpu_request
            # The sum over all cards is what the scheduler counts, but no allocation spans two of them.
            if pool.kind == "discrete" and request > largest > 0:
                most = human(largest)
                note = f"It asks for {mib(request)} of {pool.resource}; the largest device here has {most} for pods."
                yield ("RequestTooLarge", view.pod.uid), pod_event(view.pod, "RequestTooLarge", note)
        booked = [view for view in views if view.budgets[pool.resource].booked > 0]
        if pool.overcommitted and booked:
            youngest = max(
                booked, key=lambda view: (view.pod.start_time or view.pod.created_at or 0.0, view.pod.uid)
            ).pod
            yield (
                ("Overcommitted", pool.resource, youngest.uid),
                pod_event(youngest, "Overcommitted", messages.overcommitted(pool)),
            )


def _node_events(facts: Facts, board: Board, wish: NodeWish) -> Iterator[Notice]:
    found = facts.cluster.node if facts.cluster else None
    if found is None:
        return

    def event(reason: str, note: str, *, warning: bool) -> Event:
        return Event(
            reason=reason, kind="Node", namespace="", name=found.name, uid=found.uid, note=note, warning=warning
        )

    bad = [device for device in board.devices if device.health not in ("ok", "asleep")]
    if bad:
        names = "; ".join(f"{device.name} {device.uuid or ''}".strip() + f" is {device.health}" for device in bad)
        yield ("GPUUnavailable", names), event("GPUUnavailable", f"{names}.", warning=True)
    sent = [
        request.body["status"]["capacity"] for request in wish.requests if "capacity" in request.body.get("status", {})
    ]
    for changed in sent:
        note = ", ".join(f"{key} {value if value is not None else 'removed'}" for key, value in sorted(changed.items()))
        yield ("CapacityPublished", found.uid, note), event("CapacityPublished", f"Published {note}.", warning=False)


def _finding_events(facts: Facts) -> Iterator[Notice]:
    """What a diagnosis is certain of or suspects, told at the object that it is about; once until its words change."""
    node = facts.cluster.node if facts.cluster else None
    for found in facts.findings or ():
        if not found.event or found.severity == "info" or found.certainty == "cannot-tell":
            continue
        kind, _, name = found.subject.partition(" ")
        note = f"{found.summary} {_first_line(found.remedy)}".strip()
        if kind == "pod" and found.uid:
            namespace, _, name = name.partition("/")
            event = Event(reason=found.event, kind="Pod", namespace=namespace, name=name, uid=found.uid, note=note)
        elif node is not None:
            event = Event(reason=found.event, kind="Node", namespace="", name=node.name, uid=node.uid, note=note)
        else:
            continue
        yield (found.event, found.uid or found.subject, found.summary), replace(event, lasting=True)


def _first_line(remedy: str) -> str:
    """What there is room for in an event; where only further lines say what to do, who has them."""
    first = remedy.partition("\n")[0]
    if first.endswith(":"):
        return f"{first} edgeagent doctor has the lines."
    return "edgeagent doctor has the lines." if remedy and not first else first


def ordered(*found: Iterable[Finding]) -> tuple[Finding, ...]:
    """All of them, by severity, id and subject."""
    return tuple(sorted(chain(*found), key=order))


def order(finding: Finding) -> tuple[int, str, str]:
    """The place of a finding in a list: by severity, worst first, then id and subject."""
    return (_SEVERITIES.index(finding.severity), finding.id, finding.subject)

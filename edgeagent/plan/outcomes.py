"""What the answer to an eviction call, and the end of a kill, mean for the decisions to come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from edgeagent.plan import messages, victims
from edgeagent.plan.notices import pod_event
from edgeagent.plan.state import State, Victim, Window

if TYPE_CHECKING:
    from edgeagent.plan.breaches import PodView
    from edgeagent.plan.types import Event, Eviction, EvictionResult, KillOutcome, KillResult, Plan

SLOW_RETRY_SECONDS = 600.0
"""A refusal that only an operator can lift is probed again this often."""
RETRY_SECONDS = 5.0


def learn(state: State, plan: Plan, result: EvictionResult, now: float) -> tuple[State, tuple[Event, ...]]:
    """The state after the call for one of ``plan``'s evictions was answered at ``now``, and what to tell of it."""
    view = next((view for view in plan.pods if view.pod.uid == result.uid), None)
    eviction = next((eviction for eviction in plan.evictions if eviction.uid == result.uid), None)
    if view is None or eviction is None:
        return state, ()
    asked = {uid: at for uid, at in state.kills.asked.items() if uid != result.uid}
    state = replace(state, kills=replace(state.kills, asked=asked))
    if result.outcome == "accepted":
        return _accepted(state, view, eviction, now), (pod_event(view.pod, "MemoryBudgetEvicted", eviction.message),)
    # A sample that asks for no eviction ends the window, even one that was only unreadable: the grace starts anew.
    if result.outcome in ("gone", "recovered"):
        return replace(state, windows=_without(state.windows, result.uid)), ()
    usual = RETRY_SECONDS if result.outcome in ("blocked", "throttled", "unknown") else SLOW_RETRY_SECONDS
    wait = result.retry_after if result.retry_after is not None else usual
    refusal = (now + wait, result.message or result.outcome)
    state_after = replace(state, blocked_until={**_waiting(state.blocked_until, now), result.uid: refusal})
    if result.outcome == "unauthorized":
        # The server would say the same of every pod there.
        barred = {**_waiting(state.barred_until, now), view.pod.namespace: refusal}
        state_after = replace(state_after, barred_until=barred)
    told = (result.uid, result.outcome)
    if told in state.refused or result.outcome == "throttled":
        return state_after, ()
    blocked = pod_event(view.pod, "EvictionBlocked", messages.blocked(view, result, wait))
    return replace(state_after, refused={**state.refused, told: now}), (blocked,)


def killed(state: State, plan: Plan, result: KillResult, now: float) -> State:
    """The state after one of ``plan``'s kills was carried out at ``now``, as far as it could be.

    A process that had ended, or is another one by now, keeps nobody waiting; one that could not be signalled is
    tried again.
    """
    view = next((view for view in plan.pods if view.pod.uid == result.uid), None)
    kill = next((kill for kill in plan.kills if kill.uid == result.uid), None)
    if view is None or kill is None:
        return state
    by_outcome: dict[KillOutcome, set[tuple[int, int]]] = defaultdict(set)
    for process, outcome in result.outcomes:
        by_outcome[outcome].add(process)
    sent = by_outcome["killed"]
    ended = by_outcome["gone"] | by_outcome["changed"]
    unsent = {process for process, _ in result.outcomes} - sent
    kills = replace(
        state.kills,
        last=state.kills.last - ended - by_outcome["stale"],
        signalled=state.kills.signalled - unsent,
        ended_at=now if ended else state.kills.ended_at,
        impossible=result.message if by_outcome["no-pidfd"] else state.kills.impossible,
    )
    return replace(state, kills=kills)


def told(plan: Plan, result: KillResult) -> tuple[Event, ...]:
    """What to tell of the end of one of ``plan``'s kills."""
    view = next((view for view in plan.pods if view.pod.uid == result.uid), None)
    kill = next((kill for kill in plan.kills if kill.uid == result.uid), None)
    if view is None or kill is None or not any(outcome == "killed" for _, outcome in result.outcomes):
        return ()
    return (pod_event(view.pod, "MemoryBudgetKilled", kill.message),)


def _accepted(state: State, view: PodView, eviction: Eviction, now: float) -> State:
    owner = victims.owner(view.pod)
    victim = Victim(
        uid=eviction.uid, key=view.pod.key, at=now, grace=float(eviction.grace_seconds), processes=view.use.processes
    )
    recent = tuple(at for at in state.evicted_at if now - at < victims.HOUR)
    return replace(
        state,
        windows=_without(state.windows, eviction.uid),
        victims={**state.victims, eviction.uid: victim},
        backoff={**state.backoff, owner: victims.next_backoff(state.backoff.get(owner), now)},
        evicted_at=(*recent, now),
    )


def _waiting(refusals: Mapping[str, tuple[float, str]], now: float) -> dict[str, tuple[float, str]]:
    return {key: refusal for key, refusal in refusals.items() if refusal[0] > now}


def _without(windows: Mapping[str, Window], uid: str) -> dict[str, Window]:
    return {other: window for other, window in windows.items() if other != uid}

"""What an eviction call's answer means for the decisions to come."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgeagent.plan import victims
from edgeagent.plan.state import State, Victim

if TYPE_CHECKING:
    from edgeagent.plan.types import EvictionResult, Plan

SLOW_RETRY_SECONDS = 600.0
"""A refusal that only an operator can lift is probed again this often."""
RETRY_SECONDS = 5.0


def learn(state: State, plan: Plan, result: EvictionResult, now: float) -> State:
    """The state after the call for one of ``plan``'s evictions was answered at ``now``."""
    view = next((view for view in plan.pods if view.pod.uid == result.uid), None)
    eviction = next((eviction for eviction in plan.evictions if eviction.uid == result.uid), None)
    if view is None or eviction is None:
        return state
    windows = {uid: window for uid, window in state.windows.items() if uid != result.uid}
    if result.outcome == "accepted":
        owner = victims.owner(view.pod)
        victim = Victim(
            uid=result.uid, key=view.pod.key, at=now, grace=float(eviction.grace_seconds), processes=view.use.processes
        )
        recent = tuple(at for at in state.evicted_at if now - at < victims.HOUR)
        return replace(
            state,
            windows=windows,
            victims={**state.victims, result.uid: victim},
            backoff={**state.backoff, owner: victims.next_backoff(state.backoff.get(owner), now)},
            evicted_at=(*recent, now),
        )
    if result.outcome in ("gone", "recovered"):
        return replace(state, windows=windows)
    wait = result.retry_after if result.retry_after is not None else RETRY_SECONDS
    if result.outcome in ("misconfigured", "forbidden"):
        wait = max(wait, SLOW_RETRY_SECONDS)
    waiting = {uid: told for uid, told in state.blocked_until.items() if told[0] > now}
    return replace(state, blocked_until={**waiting, result.uid: (now + wait, result.message or result.outcome)})

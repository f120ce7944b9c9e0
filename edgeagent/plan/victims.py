"""Who is evicted, who is not, and why not. A total, deterministic order; one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from edgeagent.plan import breaches
from edgeagent.plan.breaches import PodView
from edgeagent.plan.state import Backoff, State, Victim
from edgeagent.plan.types import Held, HeldCode

if TYPE_CHECKING:
    from edgeagent.config import Config, Policy
    from edgeagent.facts import Facts, PodFacts
    from edgeagent.memory.types import Usage
    from edgeagent.plan.pressure import Danger

SYSTEM_CRITICAL = 2_000_000_000
"""Priority of system-critical pods; the kubelet never evicts them either."""
STUCK_SECONDS = 300.0
"""Teardown of GPU memory can take minutes; after this the next victim is not kept waiting."""
HOLD_DOWN_SECONDS = 10.0
LONGEST_BACKOFF_MINUTES = 30
FORGET_SECONDS = 1800.0
HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The pods to evict, in order, with the breach each is evicted for, and those that are held."""

    victims: tuple[PodView, ...]
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The board around the pods."""

    danger: Danger
    urgent: bool
    """Bytes are needed, or on their way because they were: no grace, and as many victims as it takes."""
    leaving: int
    """Bytes that are on their way back."""
    shortfall: int
    """Bytes that must still come free under pressure, after what is already leaving."""
    host_over: bool | None
    observe: str
    """Why nothing is done; empty when acting is allowed."""


class Obstacle(NamedTuple):
    """Why a pod is not evicted now, and for how many seconds more."""

    code: HeldCode
    seconds_left: float | None
    why: str


def protection(pod: PodFacts, policy: Policy, own_pod: str | None, *, mps: bool) -> str:
    """Why this pod is never evicted; empty when it may be."""
    if pod.mirror:
        return "it is a static pod: deleting it changes nothing on the node"
    if pod.priority >= SYSTEM_CRITICAL:
        return "its priority is system-critical"
    if own_pod is not None and pod.uid == own_pod:
        return "it is the agent itself"
    if pod.namespace in policy.protect or pod.key in policy.protect:
        return "policy.protect names it"
    return "an MPS daemon runs in it, and the memory is its clients'" if mps else ""


def owner(pod: PodFacts) -> tuple[str, str, str]:
    """Who re-creates the pod: (namespace, controller kind, name), a ReplicaSet without its hash, else the pod."""
    if pod.owner is None:
        return (pod.namespace, "Pod", pod.name)
    kind, name = pod.owner
    if kind == "ReplicaSet" and "-" in name:
        return (pod.namespace, "Deployment", name.rpartition("-")[0])
    return (pod.namespace, kind, name)


def comes_back(pod: PodFacts) -> bool:
    """A DaemonSet's pod stands on the same node again within a second."""
    return pod.owner is not None and pod.owner[0] == "DaemonSet"


def leaving(state: State, used: Usage, views: Sequence[PodView], now: float) -> int:
    """Bytes of the board's memory that are on their way back. What a stuck victim holds is not counted on any more."""
    gone = {**state.victims, **(state.going or {})}
    stuck = {uid for uid, victim in gone.items() if victim.released_at is None and now >= until(victim)}
    return max(0, used.leaving_shared - sum(view.held_bytes for view in views if view.pod.uid in stuck))


def until(victim: Victim) -> float:
    """Until when a victim is waited for, whose memory does not come back."""
    return victim.at + victim.grace + STUCK_SECONDS


def urgent(state: State, danger: Danger, leaving: int, now: float) -> bool:
    """Whether the rules of pressure hold, not those of a board with room.

    Pressure outlasts the need by a minute, and for as long as memory stays near the floor.
    A pod that goes over its budget meanwhile has the usual grace, unless somebody went for
    this pressure a short time ago: then nobody else does.
    """
    since = state.pressure.since
    if not danger.active or since is None:
        return False
    return danger.need > 0 or leaving > 0 or any(at >= max(since, now - STUCK_SECONDS) for at in state.evicted_at)


def choose(state: State, facts: Facts, views: Sequence[PodView], situation: Situation, now: float) -> Choice:
    """The victims of this decision, and why the others over their budget are not among them."""
    over = [view for view in views if view.breach and view.state in ("breach", "protected")]
    chosen, held = _pick(over, (), state, facts, situation, now)
    if situation.urgent and situation.host_over is False and not held:
        for candidates in _last_candidates(views, facts.config, situation):
            chosen, more = _pick(candidates, chosen, state, facts, situation, now)
            held = (*held, *more)
    return Choice(victims=chosen, held=held)


def _last_candidates(views: Sequence[PodView], config: Config, situation: Situation) -> tuple[list[PodView], ...]:
    """Pods over no budget that may be evicted to save the board, where the configuration says so.

    Those without a budget come before those within theirs.
    """
    unbudgeted: list[PodView] = []
    above: list[PodView] = []
    for view in views:
        if view.protected:
            continue
        if view.state == "unbudgeted" and config.policy.unbudgeted == "evict":
            if view.proven_bytes >= situation.shortfall:
                unbudgeted.append(replace(view, breach="unbudgeted", excess=view.proven_bytes))
        elif view.state == "ok" and config.pressure.within_budget == "above-request":
            excess = view.proven_bytes - view.booked
            if excess > 0:
                above.append(replace(view, breach="above-request", excess=excess))
    return unbudgeted, above


def _pick(
    views: Sequence[PodView], before: Sequence[PodView], state: State, facts: Facts, situation: Situation, now: float
) -> tuple[tuple[PodView, ...], tuple[Held, ...]]:
    shortfall = situation.shortfall if situation.urgent else 0
    chosen = list(before)
    held = []
    for view in sorted(views, key=lambda view: rank(view, shortfall)):
        left = shortfall - sum(one.held_bytes for one in chosen)
        obstacle = (
            _obstacle(view, state, facts, situation, now)
            or _queue(state, chosen, left, now, situation)
            or _brakes(view, state, facts.config.policy, now, len(chosen), urgent=situation.urgent)
        )
        if obstacle:
            held.append(
                Held(uid=view.pod.uid, code=obstacle.code, seconds_left=obstacle.seconds_left, why=obstacle.why)
            )
        else:
            chosen.append(view)
    return tuple(chosen), tuple(held)


def rank(view: PodView, shortfall: int) -> tuple[bool, int, int, float, str]:
    """Those whose excess covers the shortfall first, then lower priority, larger excess, younger, uid."""
    started = view.pod.start_time if view.pod.start_time is not None else view.pod.created_at or 0.0
    return (bool(shortfall) and view.excess < shortfall, view.pod.priority, -view.excess, -started, view.pod.uid)


def _obstacle(view: PodView, state: State, facts: Facts, situation: Situation, now: float) -> Obstacle | None:
    """What the pod itself, its reading and its grace say against an eviction."""
    policy = facts.config.policy
    if view.state == "protected":
        return Obstacle("protected", None, view.reason)
    if comes_back(view.pod) and policy.daemonsets == "report":
        return Obstacle(
            "daemonset", None, "a DaemonSet's pod comes straight back; policy.daemonsets: evict would evict it"
        )
    stale = _stale(facts, now)
    if stale:
        return Obstacle("stale", None, stale)
    if view.breach == "shared" and view.start_left > 0:
        return Obstacle("start-grace", view.start_left, "weights pass through host memory while a model loads")
    if not situation.urgent:
        window = state.windows.get(view.pod.uid)
        if not breaches.matured(window, policy.grace):
            left = policy.grace - (window.seconds if window else 0.0)
            return Obstacle("grace", max(0.0, left), f"it must be over for {policy.grace:.0f} s in consecutive samples")
    return Obstacle("observe", None, situation.observe) if situation.observe else None


def _stale(facts: Facts, now: float) -> str:
    """Which of the two views this decision rests on is too old to act on; empty when neither is."""
    ages = {"the reading of the board": now - facts.host.attributed_at}
    if facts.cluster is not None:
        ages["the view of the cluster"] = now - facts.cluster.fresh_at
    old = [f"{name} is {age:.0f} s old" for name, age in ages.items() if age > facts.config.sampling.max_age]
    return " and ".join(old)


def _queue(
    state: State, chosen: Sequence[PodView], shortfall: int, now: float, situation: Situation
) -> Obstacle | None:
    """One at a time: what earlier victims still have to give back."""
    if situation.urgent:
        coming = chosen or situation.leaving
        why = "what is being released covers the shortfall" if coming else "what was needed has come free"
        return Obstacle("releasing", None, why) if shortfall <= 0 else None
    if chosen:
        return Obstacle("one-at-a-time", None, f"{chosen[0].pod.key} goes first")
    gone = [*state.victims.values(), *(state.going or {}).values()]
    holding = {until(victim): victim for victim in gone if victim.released_at is None}
    last = max(holding, default=now)
    if now < last:
        waiting = next(victim for end, victim in holding.items() if now < end)
        return Obstacle("releasing", last - now, f"{waiting.key} has not given its memory back")
    end = max(state.hold_down_until, *(stuck + HOLD_DOWN_SECONDS for stuck in holding), 0.0)
    return Obstacle("hold-down", end - now, "the board settles after an eviction") if now < end else None


def _brakes(view: PodView, state: State, policy: Policy, now: float, chosen: int, *, urgent: bool) -> Obstacle | None:
    """Back-off, hourly cap and refusals. Under pressure neither of the first two bars a pod in breach."""
    if not (urgent and view.breach in ("gpu", "shared")):
        backoff = state.backoff.get(owner(view.pod))
        if backoff and now < backoff.until:
            return Obstacle("backoff", backoff.until - now, "its owner re-created a breaching pod shortly before")
        recent = [at for at in state.evicted_at if now - at < HOUR]
        if len(recent) + chosen >= policy.evictions_per_hour:
            left = recent[0] + HOUR - now if recent else None
            return Obstacle("hourly-cap", left, f"policy.evictions_per_hour is {policy.evictions_per_hour}")
    end, why = max(
        state.blocked_until.get(view.pod.uid, (now, "")), state.barred_until.get(view.pod.namespace, (now, ""))
    )
    return Obstacle("blocked", end - now, why) if end > now else None


def adopt(state: State, facts: Facts, pods: Sequence[PodFacts], used: Usage, now: float) -> State:
    """At the first look of a run, pods that are going and still hold GPU memory are waited for like victims.

    An earlier run may have evicted them: its state file can be lost, or the end came before it was written.
    """
    if state.going is not None or not used.trusted or facts.cluster is None or facts.cluster.pods is None:
        return state
    found = {
        pod.uid: Victim(
            uid=pod.uid,
            key=pod.key,
            at=now,
            grace=min(float(pod.grace_seconds), facts.config.policy.max_grace),
            processes=used.pods[pod.uid].processes,
        )
        for pod in pods
        if pod.terminating and pod.live and pod.uid not in state.victims and used.pods[pod.uid].processes
    }
    return replace(state, going=found)


def follow(state: State, facts: Facts, pods: Sequence[PodFacts], now: float, *, trusted: bool) -> State:
    """What became of the victims: released once their processes are gone, forgotten once the object is gone too.

    GPU memory comes back at process exit, not when the API object goes; a victim without a
    known process is released with its object. The hold-down begins with the release. A sample
    that is not ``trusted`` names no processes, which proves nothing.
    """
    present = {pod.uid for pod in pods}
    processes = facts.host.processes.values()
    seen = _Seen(
        alive=frozenset((process.pid, process.start_ticks) for process in processes),
        holding=frozenset(process.owner.pod_uid for process in processes if process.owner is not None),
        trusted=trusted,
    )
    after = {uid: _followed(one, present, seen, now) for uid, one in state.victims.items()}
    going = {uid: _followed(one, present, seen, now) for uid, one in (state.going or {}).items()}
    before = {**state.victims, **(state.going or {})}
    both = {**after, **going}.items()
    released = any(one.released_at is not None and before[uid].released_at is None for uid, one in both)
    return replace(
        state,
        victims={uid: one for uid, one in after.items() if one.released_at is None or uid in present},
        going=None if state.going is None else {uid: one for uid, one in going.items() if one.released_at is None},
        hold_down_until=now + HOLD_DOWN_SECONDS if released else state.hold_down_until,
    )


class _Seen(NamedTuple):
    """What one sample says of processes."""

    alive: frozenset[tuple[int, int | None]]
    holding: frozenset[str]
    """Uids of pods with a GPU process: one that was started after the decision holds memory as the others do."""
    trusted: bool


def _followed(victim: Victim, present: set[str], seen: _Seen, now: float) -> Victim:
    unproven = not seen.trusted and victim.released_at is None
    known = bool(seen.alive.intersection(victim.processes)) if victim.processes else victim.uid in present
    if victim.uid in seen.holding or known or (unproven and bool(victim.processes)):
        return replace(victim, released_at=None)
    return victim if victim.released_at is not None else replace(victim, released_at=now)


def remember(
    backoff: Mapping[tuple[str, str, str], Backoff], views: Sequence[PodView], now: float
) -> dict[tuple[str, str, str], Backoff]:
    """The back-offs after this sample: an owner is forgotten once no pod of it was in breach for half an hour."""
    breaching = {owner(view.pod) for view in views if view.breach and view.state != "terminating"}
    seen = {key: replace(item, breached_at=now) if key in breaching else item for key, item in backoff.items()}
    return {key: item for key, item in seen.items() if now < item.until or now - item.breached_at < FORGET_SECONDS}


def next_backoff(before: Backoff | None, now: float) -> Backoff:
    """After an accepted eviction: 1, 2, 4 … 30 minutes for pods of the same owner."""
    recent = before is not None and now - before.breached_at < FORGET_SECONDS
    minutes = min(before.minutes * 2, LONGEST_BACKOFF_MINUTES) if recent and before else 1
    return Backoff(minutes, now + minutes * 60.0, now)

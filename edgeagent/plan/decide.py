"""One decision: frozen facts and the state of the last one in, the plan and the next state out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgeagent.memory import board as boards
from edgeagent.memory import usage
from edgeagent.plan import (
    breaches,
    hardware,
    hostmemory,
    kills,
    labels,
    messages,
    node,
    notices,
    owners,
    poolfindings,
    pressure,
    sizing,
    victims,
    wish,
)
from edgeagent.plan.types import Eviction, Plan

if TYPE_CHECKING:
    from edgeagent.facts import Facts, PodFacts
    from edgeagent.memory.types import Board, Usage
    from edgeagent.plan.breaches import PodView
    from edgeagent.plan.pressure import Danger
    from edgeagent.plan.sizing import Sized
    from edgeagent.plan.state import State, Window

PLAUSIBLE_WALL = 1_577_836_800.0
"""2020-01-01: a clock before that was never set, and says nothing about when a container started."""


def decide(state: State, facts: Facts, now: float) -> tuple[State, Plan]:
    """The plan for ``facts`` at monotonic second ``now``, and the state to decide from next time."""
    known, meminfo = hardware.believed(state.hardware, facts.host.meminfo)
    facts = replace(facts, host=replace(facts.host, meminfo=meminfo))
    host = facts.host
    verdict = boards.detect(host.files, host.nvml, host.meminfo.value, facts.config.unified.detect)
    state = replace(state, hardware=hardware.remember(known, verdict, host))
    board = hardware.seen(state.hardware, verdict)
    board = replace(board, warnings=(*board.warnings, *host.kubelet.problems, *sizing.unpooled(board, facts.config)))
    pods = _pods(facts, state)
    sized = sizing.size(state, facts, board, pods)
    state = replace(state, bookings=sized.bookings)
    listed = pods if facts.cluster and facts.cluster.pods is not None else None
    used = usage.attribute(
        sized.counted, host, listed, complete=board.kind != "unknown", short=sized.short, memory=_memory(state)
    )
    state = victims.adopt(state, facts, pods, used, now)
    state = victims.follow(state, facts, pods, now, trusted=used.trusted)
    state = kills.follow(state, facts, used)
    state = _remember_containers(state, pods, used, now)
    owner = owners.other_owner(sizing.node_of(facts))
    state = sizing.publish(state, facts, sized, pods, now, admitted_only=owner is not None)

    state, danger = _danger(state, facts, board, sized)
    views = _views(state, facts, sized, used, pods, now)
    state = replace(state, windows=_windows(state, facts, views))
    state = replace(state, backoff=victims.remember(state.backoff, views, now))
    leaving = victims.leaving(state, used, views, now)
    outside = pressure.outside_pods(host, used.system_shared, pods)
    situation = victims.Situation(
        danger=danger,
        urgent=victims.urgent(state, danger, leaving, now),
        leaving=leaving,
        shortfall=max(0, danger.need - leaving),
        host_over=pressure.host_over(outside, sized.unified),
        observe=_observe(facts, owner),
    )
    choice = victims.choose(state, facts, views, situation, now)
    state, last = kills.resort(state, facts, views, situation, choice, now)
    blamed = hostmemory.blame(host, used, pods, over=situation.host_over)
    state, wanted = wish.wish(state, facts, board, sized, pods, danger, now, blamed)
    pools = tuple(sized.pools.values())
    state, events = notices.events(state, facts, board, pools, views, choice, wanted, situation.observe)
    return state, Plan(
        board=board,
        pools=pools,
        advertised={resource: value.value for resource, value in state.published.items()},
        available=host.meminfo.value.available if host.meminfo.value else None,
        usage=used,
        danger=danger,
        pods=views,
        listed=facts.cluster is not None and facts.cluster.pods is not None,
        node=wanted,
        evictions=tuple(_eviction(view, state, facts, danger) for view in choice.victims),
        kills=last.kills,
        held=choice.held,
        events=events,
        findings=notices.ordered(
            poolfindings.findings(pools, views),
            kills.findings(last.nobody, danger, pools, views),
            hostmemory.findings(blamed, danger, outside, sized.unified),
            facts.findings or (),
        ),
        observe=situation.observe,
        host_over=situation.host_over,
        gpu_path=labels.reasoned(board, facts.host.runtime, gpu_seen=state.hardware.gpu_seen),
    )


def _memory(state: State) -> int | None:
    """MemTotal as it was last believed."""
    return state.hardware.meminfo.total if state.hardware.meminfo else None


def _pods(facts: Facts, state: State) -> tuple[PodFacts, ...]:
    """This node's pods by namespace and name. One whose eviction was accepted is terminating.

    A static pod's cgroup carries a hash from an annotation of its mirror, which anybody who may create pods can
    write; the cgroup of another pod is not to be had by it.
    """
    pods = (facts.cluster.pods or ()) if facts.cluster else ()
    uids = {pod.uid for pod in pods}
    own = (
        replace(pod, config_hash=None) if pod.config_hash in uids and pod.config_hash != pod.uid else pod
        for pod in pods
    )
    known = (replace(pod, terminating=True) if pod.uid in state.victims else pod for pod in own)
    return tuple(sorted(known, key=lambda pod: (pod.namespace, pod.name, pod.uid)))


def _remember_containers(state: State, pods: Sequence[PodFacts], used: Usage, now: float) -> State:
    ids = {container.container_id for pod in pods for container in pod.containers if container.container_id}
    first_seen = {container_id: state.first_seen.get(container_id, now) for container_id in sorted(ids)}
    seen = state.hardware.gpu_seen or any(use.seen for use in used.pods.values())
    return replace(state, first_seen=first_seen, hardware=replace(state.hardware, gpu_seen=seen))


def _danger(state: State, facts: Facts, board: Board, sized: Sized) -> tuple[State, Danger]:
    """The state after one more reading of the memory, and whether the board is in danger."""
    reading, config = facts.host.meminfo, facts.config
    free = pressure.usable(reading.value, tegra=any(device.tegra for device in board.devices))
    memory, danger = pressure.observe(
        state.pressure, reading.at, free, config.pressure, sized.unified, config.sampling.max_age
    )
    return replace(state, pressure=memory), danger


def _views(
    state: State, facts: Facts, sized: Sized, used: Usage, pods: Sequence[PodFacts], now: float
) -> tuple[PodView, ...]:
    policy = facts.config.policy
    twice = {
        key.resource: breaches.overlap(facts.host.meminfo.value, used.gpu_total.get(key.resource)) for key in sized.keys
    }
    return tuple(
        breaches.examine(
            pod,
            sized.budgets[pod.uid],
            used.pods[pod.uid],
            sized.keys,
            twice,
            policy,
            protected=victims.protection(pod, policy, facts.own_pod, mps=used.pods[pod.uid].mps),
            start_left=_start_left(pod, state, facts, now),
        )
        for pod in pods
        if pod.live
    )


def _start_left(pod: PodFacts, state: State, facts: Facts, now: float) -> float:
    """Seconds of ``policy.start_grace`` that are left to the container of the pod that started last."""
    ages = []
    for container in pod.containers:
        if container.kind in ("init", "ephemeral"):
            continue
        told = container.started_at
        if told is not None and PLAUSIBLE_WALL < told <= facts.wall:
            ages.append(facts.wall - told)
        elif container.container_id is not None:
            ages.append(now - state.first_seen.get(container.container_id, now))
    return max(0.0, facts.config.policy.start_grace - min(ages)) if ages else 0.0


def _windows(state: State, facts: Facts, views: Sequence[PodView]) -> Mapping[str, Window]:
    """Every pod's breach window after this sample. The same sample seen twice counts once."""
    at = facts.host.attributed_at
    max_age = facts.config.sampling.max_age
    after = {}
    for view in views:
        before = state.windows.get(view.pod.uid)
        window = None
        if before is not None and at <= before.last_at:
            window = before
        elif view.state == "unknown":
            window = breaches.pause(before, at, max_age)
        elif view.breach == "gpu" or (view.breach and view.start_left <= 0):
            window = breaches.advance(before, at, max_age)
        elif view.blind and not view.breach:
            window = breaches.pause(before, at, max_age)
        if window is not None and view.state != "terminating":
            after[view.pod.uid] = window
    return after


def _observe(facts: Facts, owner: str | None) -> str:
    """Why nothing is done; empty when acting is allowed. The annotation can only calm, never arm."""
    if facts.config.mode == "observe":
        return "mode: observe is configured"
    found = sizing.node_of(facts)
    if found and found.annotations.get(node.MODE) == "observe":
        return f"the node is annotated {node.MODE}: observe"
    return f"{owner} owns the GPU memory of this node" if owner else ""


def _eviction(view: PodView, state: State, facts: Facts, danger: Danger) -> Eviction:
    policy = facts.config.policy
    longest = policy.pressure_grace if danger.active else policy.max_grace
    window = state.windows.get(view.pod.uid)
    seconds = None if danger.active or window is None else window.seconds
    return Eviction(
        namespace=view.pod.namespace,
        name=view.pod.name,
        uid=view.pod.uid,
        breach=view.breach or "gpu",
        # 0 would drop the object at once, without a SIGTERM; the kubelet ignores a shorter grace that comes later.
        grace_seconds=max(1, int(min(view.pod.grace_seconds, longest))),
        message=messages.eviction(view, seconds, danger.usable),
    )

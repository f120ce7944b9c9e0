"""The last resort: whose GPU processes are killed when no eviction saves the board in time, and why nobody's are.

The kernel would kill in the next moment, and not the culprit: what a GPU holds of the board's memory is charged to no
process. So only a pod that is over its budget in a fresh reading is killed, one at a time, and nobody in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from edgeagent.facts.codes import SUCCESS
from edgeagent.plan import messages, victims
from edgeagent.plan.pressure import READINGS, fastest_drop
from edgeagent.plan.types import Finding, Kill
from edgeagent.quantity import human

if TYPE_CHECKING:
    from edgeagent.facts import Facts, HostFacts
    from edgeagent.memory.types import Pool, Usage
    from edgeagent.plan.breaches import PodView
    from edgeagent.plan.pressure import Danger
    from edgeagent.plan.state import State
    from edgeagent.plan.victims import Choice, Situation

AHEAD = 0.5
"""Seconds ahead that the fastest fall is drawn out."""
FRESH = 1.0
"""Seconds for which a reading of who holds what is good enough to kill by."""
PATIENCE = 2.0
"""Seconds after which processes that were to be killed, and are still there, keep nobody else waiting."""
PROMISED = 1.0
"""Seconds for which memory that is on its way back holds off a kill, while the board is at its end."""
CRITICAL = "memory-critical"
"""Id of the finding that says why nobody is killed."""

_NAMED = 3
"""Pods that are named as holders."""
_MPS = "nvidia-cuda-mps"
"""How the names of MPS daemons and servers begin; the kernel keeps fifteen characters of a name."""


class Resort(NamedTuple):
    """What the last resort comes to in one decision."""

    kills: tuple[Kill, ...] = ()
    """One at most."""
    nobody: str = ""
    """Why nobody is killed although the memory is nearly gone; empty too while an eviction or a kill is under way."""


def follow(state: State, facts: Facts, used: Usage) -> State:
    """Which of the processes that were to be killed are gone. A sample that is not trusted proves nothing."""
    before = state.kills
    if not used.trusted:
        return state
    alive = {(process.pid, process.start_ticks) for process in facts.host.processes.values()}
    after = replace(before, last=before.last & alive, signalled=before.signalled & alive)
    return state if after == before else replace(state, kills=replace(after, ended_at=facts.host.attributed_at))


def resort(
    state: State, facts: Facts, views: Sequence[PodView], situation: Situation, choice: Choice, now: float
) -> tuple[State, Resort]:
    """The state after one more decision, and whose processes are killed now."""
    asked = {view.pod.uid: state.kills.asked.get(view.pod.uid, now) for view in choice.victims}
    critical = _critical(state, facts, situation.danger)
    covered = _covered(state, choice, now, critical=critical)
    state = replace(state, kills=replace(state.kills, asked=asked, covered_at=covered))
    if not critical:
        return state, Resort()
    barred = _barred(state, facts, situation, now)
    if barred:
        return state, Resort(nobody=barred)
    if state.kills.last and now - state.kills.last_at < PATIENCE:
        return state, Resort()
    spared = []
    for view in _candidates(state, views, situation):
        targets = _targets(view, facts.host)
        fresh = tuple(target for target in targets if target not in state.kills.signalled)
        why = _spared(view, state, facts) or _untouchable(targets, fresh)
        if why:
            spared.append(f"{view.pod.key}: {why}")
            continue
        cause = _cause(view, state, facts, choice, now)
        return (state, Resort()) if not cause else _planned(view, fresh, cause, state, facts, situation.danger, now)
    unknown = sorted(view.pod.key for view in views if view.state == "unknown")
    blind = f"; not known is the use of {', '.join(unknown)}" if unknown else ""
    return state, Resort(nobody="; ".join(spared) or f"no pod is known to be over its budget{blind}")


def _critical(state: State, facts: Facts, danger: Danger) -> bool:
    """Whether two readings in a row, the present one included, leave too little for the next half second.

    What fell before a culprit ended says nothing about the time after it, so the readings count anew from there.
    """
    since = max(state.kills.ended_at, state.hold_down_until - victims.HOLD_DOWN_SECONDS)
    readings = tuple(reading for reading in state.pressure.readings if reading[0] >= since)
    if len(readings) < READINGS or readings[-1][0] != facts.host.meminfo.at:
        return False
    return all(_ends(readings[:end], danger) for end in range(len(readings) - READINGS + 1, len(readings) + 1))


def _ends(readings: tuple[tuple[float, int], ...], danger: Danger) -> bool:
    """Whether the last of ``readings`` leaves too little for the next half second."""
    left = readings[-1][1]
    return left - AHEAD * fastest_drop(readings, left - danger.floor) < danger.critical


def _covered(state: State, choice: Choice, now: float, *, critical: bool) -> float | None:
    """Since when nobody goes although the memory is nearly gone, because enough is said to be on its way back."""
    if not any(held.code == "releasing" for held in choice.held):
        return None
    return now if critical and state.kills.covered_at is None else state.kills.covered_at


def _barred(state: State, facts: Facts, situation: Situation, now: float) -> str:
    """Why no pod at all may be killed; empty when one may."""
    if facts.config.policy.kill == "never":
        return "policy.kill is never"
    if situation.observe:
        return situation.observe
    if state.kills.impossible:
        return state.kills.impossible
    if not situation.urgent:
        return "the board is not under pressure, so a pod over its budget has its grace"
    if facts.cluster is None or facts.cluster.pods is None:
        return "which pods run here is not known"
    # Without a live figure: a reason that stays the same is told once.
    old = now - _read_at(facts.host) > FRESH
    return f"who holds the memory was last read more than {FRESH:.0f} s ago" if old else ""


def _read_at(host: HostFacts) -> float:
    """When it was read who holds what: an answer of the driver that came late is as old as its question."""
    return min(host.attributed_at, host.nvml.at)


def _candidates(state: State, views: Sequence[PodView], situation: Situation) -> list[PodView]:
    """Pods over their budget: those whose eviction was accepted, the earliest first, then the others in victim order.

    A view of the cluster that is old forbids nothing: the budgets that it gave hold until it gives others, and which
    pod and which container a process belongs to is read on the board.
    """
    accepted = {uid: victim.at for uid, victim in state.victims.items()}
    over = [view for view in views if view.breach in ("gpu", "shared")]
    return sorted(
        over,
        key=lambda view: (accepted.get(view.pod.uid, float("inf")), victims.rank(view, situation.shortfall)),
    )


def _spared(view: PodView, state: State, facts: Facts) -> str:
    """Why this pod is not killed, whatever it uses; empty when it may be."""
    if view.protected:
        return view.protected
    if victims.comes_back(view.pod) and facts.config.policy.daemonsets == "report":
        return "it is a DaemonSet's pod, and policy.daemonsets is report"
    if view.state == "terminating" and view.pod.uid not in state.victims:
        return "it is terminating already, and edgeagent did not evict it"
    return _unproven(view) or _mps(view, facts.host)


def _unproven(view: PodView) -> str:
    """Why it is not certain that this pod takes the board's memory from others."""
    if view.state == "unknown":
        return view.reason
    if view.breach == "shared" and view.start_left > 0:
        return "weights pass through host memory while a model loads"
    return "" if view.resource in view.shared else "what it is over is the memory of a card, which is not the board's"


def _mps(view: PodView, host: HostFacts) -> str:
    """Why a client of an MPS server is not killed: with work in flight it takes the other clients with it."""
    lists = [device.mps for device in host.nvml.value.devices] if host.nvml.value else []
    clients = {process.pid for one in lists if one for process in one.processes}
    if any(pid in clients for pid, _ in view.use.processes):
        return "it is a client of an MPS server, and one that is killed at work takes the others with it"
    served = any(process.name.startswith(_MPS) for process in host.processes.values())
    told = bool(lists) and all(one is not None and one.code == SUCCESS for one in lists)
    return "an MPS server runs, and the driver does not tell who its clients are" if served and not told else ""


def _targets(view: PodView, host: HostFacts) -> tuple[tuple[int, int], ...]:
    """The GPU processes of the pod's current containers, each by (pid, start ticks)."""
    current = _containers(view)
    found = []
    for pid, start in view.use.processes:
        process = host.processes.get(pid)
        owner = process.owner if process else None
        if start is not None and owner is not None and owner.container_id in current:
            found.append((pid, start))
    return tuple(found)


def _containers(view: PodView) -> frozenset[str]:
    return frozenset(one.container_id for one in view.pod.containers if one.container_id is not None)


def _untouchable(targets: Sequence[tuple[int, int]], fresh: Sequence[tuple[int, int]]) -> str:
    if not targets:
        return "none of its GPU processes has a start time and stands in a current container of it"
    return "" if fresh else "its processes were to be killed before, and are still there"


def _cause(view: PodView, state: State, facts: Facts, choice: Choice, now: float) -> str:
    """Why an eviction does not save the board; empty while it still may, or while nobody has to go."""
    read_at = _read_at(facts.host)
    victim = state.victims.get(view.pod.uid)
    if victim is not None:
        told = f"Its eviction was accepted {now - victim.at:.1f} s ago, and its memory is not back"
        return told if victim.at < read_at else ""
    asked = state.kills.asked.get(view.pod.uid)
    if asked is not None:
        told = f"Its eviction was asked for {now - asked:.1f} s ago, and the API server has not answered"
        return told if asked < read_at else ""
    held = next((one for one in choice.held if one.uid == view.pod.uid), None)
    if held is not None and held.code in ("stale", "blocked"):
        return f"It cannot be evicted: {held.why}"
    if held is not None and held.code == "releasing" and state.kills.signalled:
        return "Processes that were to be killed before it have not given their memory back"
    covered = state.kills.covered_at
    if held is not None and held.code == "releasing" and covered is not None and now - covered >= PROMISED:
        return f"What was on its way back {now - covered:.1f} s ago has not come"
    return ""


def _planned(
    view: PodView,
    targets: tuple[tuple[int, int], ...],
    cause: str,
    state: State,
    facts: Facts,
    danger: Danger,
    now: float,
) -> tuple[State, Resort]:
    window = state.windows.get(view.pod.uid)
    kill = Kill(
        uid=view.pod.uid,
        processes=targets,
        message=messages.kill(view, now - window.first_at if window else None, danger.usable, cause),
        key=view.pod.key,
        cgroup_uid=view.pod.cgroup_uid,
        containers=_containers(view),
        read_at=_read_at(facts.host),
    )
    last = frozenset(targets)
    kills = replace(state.kills, last=last, last_at=now, signalled=state.kills.signalled | last)
    return replace(state, kills=kills), Resort(kills=(kill,))


def findings(nobody: str, danger: Danger, pools: Sequence[Pool], views: Sequence[PodView]) -> tuple[Finding, ...]:
    """Why nobody is killed although the memory is nearly gone, and whose end would help most."""
    pool = next((pool for pool in pools if pool.kind == "unified"), None)
    if not nobody or pool is None:
        return ()
    holding = sorted((view for view in views if view.held_bytes), key=lambda view: (-view.held_bytes, view.pod.key))
    ends = (view.pod for view in holding if not (view.protected or view.pod.terminating))
    return (
        Finding(
            id=CRITICAL,
            severity="error",
            certainty="certain",
            subject=f"pool {pool.resource}",
            summary=f"The memory of the board is nearly gone, and no pod is killed: {nobody}.",
            evidence=(
                f"usable: {danger.usable}",
                f"fastest fall: {danger.drop:.0f} per second ({human(int(danger.drop))})",
                f"pressure.critical: {danger.critical}",
                *(f"pod {view.pod.key} holds: {view.held_bytes}" for view in holding[:_NAMED]),
            ),
            remedy="End what holds the memory, pods and host processes alike. Pods that may be killed have a budget: "
            "a limit or an annotation."
            + "".join(f"\nkubectl -n {quote(pod.namespace)} delete pod {quote(pod.name)}" for pod in islice(ends, 1))
            + "\nsudo ps -eo pid,rss,comm --sort=-rss | head",
        ),
    )

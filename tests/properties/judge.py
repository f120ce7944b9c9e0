"""Whom an agent may and must evict, worked out from the truth in another way than the agent does it.

Nothing here comes from the product. For every pod the judge lists the objections against evicting it now; a pod
over its budget without an objection must go, in order, and nobody else may.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.properties import due
from tests.properties.danger import Danger
from tests.properties.life import GIB, PREFIX, Memory, Pod, Rules, Sample, View

HOUR = 3600.0
SETTLES = 10.0
STUCK = 300.0
LARGEST = 1 << 44
"""Bytes, 16 TiB: more than any board has."""


class Look(NamedTuple):
    """All that one decision rests on."""

    now: float
    wall: float
    sample: Sample
    memory: Memory
    view: View
    rules: Rules
    own: str | None
    """The uid of the pod that is the agent itself."""


@dataclass(slots=True)
class Window:
    """For how long a pod has been over, and in how many samples."""

    seconds: float
    samples: int
    last: float
    joined: bool = True
    """Nothing failed since the last sample that it was over in."""


class Gone(NamedTuple):
    """A victim: its eviction was accepted."""

    at: float
    grace: int
    processes: frozenset[tuple[int, int]]
    released: bool


class Pause(NamedTuple):
    """The back-off of an owner."""

    minutes: int
    until: float
    breached: float


@dataclass(slots=True)
class Kept:
    """What outlives a restart in the same boot."""

    victims: dict[str, Gone] = field(default_factory=dict)
    settle_until: float = 0.0
    pauses: dict[tuple[str, str, str], Pause] = field(default_factory=dict)
    evicted: tuple[float, ...] = ()

    def copy(self) -> Kept:
        return Kept(dict(self.victims), self.settle_until, dict(self.pauses), self.evicted)


class Case(NamedTuple):
    """A pod that could be evicted for something."""

    pod: Pod
    breach: str
    excess: int
    size: int
    """Bytes that come back with it."""
    objections: tuple[str, ...]


class Usage(NamedTuple):
    """Who holds what, in one sample."""

    pods: dict[str, int | None]
    leaving: int
    known: bool
    mps: set[str]
    """Pods in which an MPS daemon runs."""
    system: int | None
    """GPU bytes of processes that are known to be in no pod."""


class Verdict(NamedTuple):
    """What the decision has to be."""

    evictions: list[Case]
    cases: list[Case]
    usage: Usage
    danger: Danger


@dataclass(slots=True)
class Judge:
    """One agent's past as it should be. A new one knows nothing."""

    cards: bool
    kept: Kept = field(default_factory=Kept)
    windows: dict[str, Window] = field(default_factory=dict)
    first_seen: dict[str, float] = field(default_factory=dict)
    blocked: dict[str, float] = field(default_factory=dict)
    barred: dict[str, float] = field(default_factory=dict)
    """By namespace: the agent itself may not evict there."""
    danger: Danger = field(default_factory=Danger)
    going: dict[str, Gone] | None = None
    """Who was going when it began, and is not back yet; None before the first look."""

    def copy(self) -> Judge:
        other = copy(self)
        other.going = None if self.going is None else dict(self.going)
        other.kept, other.danger = self.kept.copy(), self.danger.copy()
        other.windows = {uid: copy(window) for uid, window in self.windows.items()}
        other.first_seen, other.blocked, other.barred = dict(self.first_seen), dict(self.blocked), dict(self.barred)
        return other

    # --- one decision ---

    def decide(self, look: Look) -> Verdict:
        """What has to be decided now; the judge has seen it afterwards."""
        self.danger.believe(look.memory)
        usage = self._usage(look)
        self._adopt(look, known=usage.known)
        self._follow(look, known=usage.known)
        pods = due.live(look.view)
        going = {pod.uid for pod in pods if pod.terminating or pod.uid in self.kept.victims}
        usage = usage._replace(leaving=usage.leaving + sum(self._size(uid, usage, look) for uid in going))
        coming = usage.leaving - sum(self._size(uid, usage, look) for uid in going & self._stuck(look.now))
        self._see_containers(look)
        if not self.cards:
            self.danger.see(look.rules)
        over, blind = self._over(pods, usage, look)
        self._count(pods, usage, over, blind, going, look)
        self._remember({owner(pod) for pod in pods if pod.uid in over and pod.uid not in going}, look.now)
        since = self.danger.since
        urgent = since is not None and (
            self.danger.need > 0
            or coming > 0
            or any(at >= since and look.now - at <= STUCK for at in self.kept.evicted)
        )
        shortfall = max(0, self.danger.need - coming) if urgent else 0
        common = self._common(look)
        staying = [pod for pod in pods if pod.uid not in going]
        cases = [
            self._case(pod, over[pod.uid], usage, look, common, urgent=urgent) for pod in staying if pod.uid in over
        ]
        evictions, judged = self._choose(cases, [], shortfall, look, urgent=urgent)
        if urgent and not any(case.objections for case in judged) and self._host_has_room(pods, usage, look):
            others = [pod for pod in staying if pod.uid not in over]
            for more in self._last(others, usage, shortfall, look, common):
                evictions, also = self._choose(more, evictions, shortfall, look, urgent=urgent)
                judged += also
        return Verdict(evictions, judged, usage, self.danger)

    def _usage(self, look: Look) -> Usage:
        """GPU bytes by pod, and those that are leaving but for terminating pods, which are among the pods."""
        sample = look.sample
        live = {pod.uid: pod for pod in due.live(look.view)}
        known = self._credible(sample)
        rows = [row for row in sample.rows if not row.stray] if known else []
        use: dict[str, int | None] = dict.fromkeys(live, 0 if known else None)
        leaving = 0
        dark: set[str] = set()
        for row in rows:
            pod = live.get(row.uid)
            if pod is None or row.container != pod.container:
                leaving += 0 if self.cards else row.used or 0
                continue
            dark |= {row.uid} if row.used is None else set()
            use[row.uid] = (use[row.uid] or 0) + (row.used or 0)
        mps = {row.uid for row in rows if row.mps and row.uid in live and row.container == live[row.uid].container}
        if any(row.mps for row in sample.rows):  # whoever may use the GPU and has no row may be a client
            dark |= {uid for uid, pod in live.items() if not use[uid] and (pod.gpu is not None or pod.foreign)}
        use.update(dict.fromkeys(dark))
        system = sample.system if known else None
        if look.view.pods is None:
            return Usage(use, 0, known, mps, system)
        leaving += sum(amount or 0 for uid, (amount, _) in sample.hosts.items() if uid not in live)
        return Usage(use, leaving, known, mps, system)

    def _credible(self, sample: Sample) -> bool:
        """The board told who holds what, and it can be so."""
        if sample.table == "denied" or (self.cards and sample.table == "failed"):
            return False
        if sample.table == "pid" or (sample.table == "huge" and (sample.rows or sample.system)):
            return False
        if self.cards:
            return all(sum(row.used or 0 for row in sample.rows[card::2]) <= 24 * GIB for card in range(2))
        held = sum(row.used or 0 for row in sample.rows) + sample.system
        if held and sample.table != "failed":
            return held <= (LARGEST if self.danger.total is None else self.danger.total)
        return not sample.rows and not sample.system  # nobody holds a device node open

    def _adopt(self, look: Look, *, known: bool) -> None:
        """Who was going when the agent began is waited for, as if it had evicted them."""
        if self.going is not None or not known or look.view.pods is None:
            return
        self.going = {}
        for pod in due.live(look.view):
            rows = [row for row in look.sample.rows if not row.stray and row.uid == pod.uid]
            held = frozenset((row.pid, row.start) for row in rows if row.container == pod.container)
            if pod.terminating and held and pod.uid not in self.kept.victims:
                self.going[pod.uid] = Gone(look.now, int(min(pod.grace, look.rules.max_grace)), held, released=False)

    def _follow(self, look: Look, *, known: bool) -> None:
        """What became of the victims."""
        present = {pod.uid for pod in look.view.pods or ()}
        alive = {(row.pid, row.start) for row in look.sample.rows}
        holders = {row.uid for row in look.sample.rows if not row.stray}
        for uid, victim in [*self.kept.victims.items(), *(self.going or {}).items()]:
            alone = not victim.processes and uid in present  # no process was ever named: then its object tells
            unseen = not known and not victim.released and bool(victim.processes)
            held = alone or unseen or (known and (uid in holders or bool(alive & victim.processes)))
            if not held and not victim.released:
                self.kept.settle_until = look.now + SETTLES
            if self.going is not None and uid in self.going:
                self.going = {other: one for other, one in self.going.items() if held or other != uid}
            elif held or uid in present:
                self.kept.victims[uid] = victim._replace(released=not held)
            else:
                del self.kept.victims[uid]

    def _size(self, uid: str, usage: Usage, look: Look) -> int:
        """Bytes of the board's memory that come back with a pod."""
        return (0 if self.cards else usage.pods[uid] or 0) + (look.sample.hosts.get(uid, (0, True))[0] or 0)

    def _see_containers(self, look: Look) -> None:
        ids = [one for pod in look.view.pods or () for one, _ in containers(pod)]
        self.first_seen = {one: self.first_seen.get(one, look.now) for one in ids}

    def _starting(self, pod: Pod, look: Look) -> bool:
        """A container started too short a time ago for host memory to count."""
        for one, started in containers(pod):
            # from 2020 on, and not in the future
            sure = started is not None and 1_577_836_800 < started <= look.wall
            age = look.wall - (started or 0.0) if sure else look.now - self.first_seen[one]
            if age < look.rules.start_grace:
                return True
        return False

    def _over(self, pods: tuple[Pod, ...], usage: Usage, look: Look) -> tuple[dict[str, tuple[str, int]], set[str]]:
        """Pods over a budget with (kind, excess), and those of which a figure for the shared one is missing."""
        sample, memory, rules = look.sample, self.danger.read, look.rules
        twice = None
        if memory is not None and usage.known:
            gpu = sum(row.used or 0 for row in sample.rows) + sample.system
            twice = max(0, gpu + memory.held - memory.used)
        found: dict[str, tuple[str, int]] = {}
        blind: set[str] = set()
        for pod in pods:
            given, used = due.budget(pod, rules, unified=not self.cards), usage.pods[pod.uid]
            hosted, exact = sample.hosts.get(pod.uid, (None, False))
            sure = hosted is not None and exact and twice is not None
            if given.total is not None and not sure:
                blind.add(pod.uid)
            if given.gpu is None or used is None:
                continue
            shared = 0
            if given.total is not None and sure:
                above = used + (hosted or 0) - (twice or 0) - given.total
                shared = above if above > due.tolerance(given.total, rules) else 0
            if used > given.gpu + due.tolerance(given.gpu, rules):
                found[pod.uid] = ("gpu", max(used - given.gpu, shared))
            elif shared:
                found[pod.uid] = ("shared", shared)
        return found, blind

    def _count(
        self,
        pods: tuple[Pod, ...],
        usage: Usage,
        over: dict[str, tuple[str, int]],
        blind: set[str],
        going: set[str],
        look: Look,
    ) -> None:
        """The windows after this sample."""
        at, after = look.sample.at, {}
        for pod in pods:
            window = self.windows.get(pod.uid)
            if pod.uid in going:
                continue
            if window is not None and at <= window.last:
                after[pod.uid] = window
                continue
            if window is not None and at - window.last > look.rules.max_age:
                window = None
            kind = over.get(pod.uid, ("", 0))[0]
            if usage.pods[pod.uid] is None or (not kind and pod.uid in blind):
                if window is not None:
                    after[pod.uid] = Window(window.seconds, window.samples, window.last, joined=False)
            elif kind == "gpu" or (kind == "shared" and not self._starting(pod, look)):
                if window is None:
                    after[pod.uid] = Window(0.0, 1, at)
                else:
                    passed = at - window.last if window.joined else 0.0
                    after[pod.uid] = Window(window.seconds + passed, window.samples + 1, at)
        self.windows = after

    def _remember(self, breaching: set[tuple[str, str, str]], now: float) -> None:
        for key, pause in list(self.kept.pauses.items()):
            if key in breaching:
                self.kept.pauses[key] = pause._replace(breached=now)
            elif now >= pause.until and now - pause.breached >= 1800.0:
                del self.kept.pauses[key]

    def _common(self, look: Look) -> list[str]:
        """Objections to any eviction now."""
        node, rules = look.view.node, look.rules
        observed = rules.mode == "observe" or node.get("annotations", {}).get(PREFIX + "mode") == "observe"
        found = ["observe"] if observed or node.get("labels", {}).get("gpu") == "on" else []
        old = max(look.now - look.sample.at, look.now - look.view.fresh_at) > rules.max_age
        return [*found, "stale"] if old else found

    def _never(self, pod: Pod, usage: Usage, look: Look) -> list[str]:
        rules = look.rules
        named = pod.namespace in rules.protect or f"{pod.namespace}/{pod.name}" in rules.protect
        if pod.mirror or pod.priority >= 2_000_000_000 or pod.uid == look.own or named or pod.uid in usage.mps:
            return ["protected"]
        daemon = pod.owner is not None and pod.owner[0] == "DaemonSet"
        return ["daemonset"] if daemon and rules.daemonsets == "report" else []

    def _case(
        self, pod: Pod, over: tuple[str, int], usage: Usage, look: Look, common: list[str], *, urgent: bool
    ) -> Case:
        breach, excess = over
        objections = self._never(pod, usage, look) + common
        if breach == "shared" and self._starting(pod, look):
            objections.append("start-grace")
        window = self.windows.get(pod.uid)
        if not urgent and not (window and window.samples >= 2 and window.seconds >= look.rules.grace):
            objections.append("grace")
        return Case(pod, breach, excess, self._size(pod.uid, usage, look), tuple(objections))

    def _choose(
        self, cases: list[Case], before: list[Case], shortfall: int, look: Look, *, urgent: bool
    ) -> tuple[list[Case], list[Case]]:
        """(those who go, all with their objections), in the order of the design."""

        def place(case: Case) -> tuple[bool, int, int, float, str]:
            covers = not shortfall or case.excess >= shortfall
            return (not covers, case.pod.priority, -case.excess, -(case.pod.start_time or 0.0), case.pod.uid)

        chosen, judged = list(before), []
        for case in sorted(cases, key=place):
            objections = list(case.objections)
            if urgent:
                objections += ["releasing"] if shortfall <= sum(one.size for one in chosen) else []
            else:
                objections += ["one-at-a-time"] if chosen else self._queue(look.now)
            if not urgent or case.breach not in ("gpu", "shared"):
                objections += self._brakes(case.pod, len(chosen), look)
            if max(self.blocked.get(case.pod.uid, 0.0), self.barred.get(case.pod.namespace, 0.0)) > look.now:
                objections.append("blocked")
            judged.append(case._replace(objections=tuple(objections)))
            chosen += [] if objections else judged[-1:]
        return chosen, judged

    def _brakes(self, pod: Pod, chosen: int, look: Look) -> list[str]:
        pause = self.kept.pauses.get(owner(pod))
        found = ["backoff"] if pause is not None and look.now < pause.until else []
        recent = sum(look.now - at < HOUR for at in self.kept.evicted)
        return [*found, "hourly-cap"] if recent + chosen >= look.rules.per_hour else found

    def _stuck(self, now: float) -> set[str]:
        """Victims whose memory nobody counts on any more."""
        gone = {**self.kept.victims, **(self.going or {})}
        return {uid for uid, one in gone.items() if not one.released and now >= one.at + one.grace + STUCK}

    def _queue(self, now: float) -> list[str]:
        """One at a time: until the processes are gone, or grace + 5 min; then 10 s."""
        held = ["hold-down"] if now < self.kept.settle_until else []
        for victim in (*self.kept.victims.values(), *(self.going or {}).values()):
            stuck = victim.at + victim.grace + STUCK
            if not victim.released:
                held += ["releasing"] if now < stuck else ["hold-down"] if now < stuck + SETTLES else []
        return held

    def _host_has_room(self, pods: tuple[Pod, ...], usage: Usage, look: Look) -> bool:
        """What is no pod's fits into what is reserved for it, for sure."""
        memory, total = self.danger.read, self.danger.total
        if not usage.known or memory is None or total is None:
            return False
        mine = [look.sample.hosts.get(pod.uid, (0, True))[0] for pod in pods]
        if None in mine:
            return False
        return look.sample.system + memory.held - sum(amount or 0 for amount in mine) <= due.for_the_host(total)

    def _last(
        self, pods: list[Pod], usage: Usage, shortfall: int, look: Look, common: list[str]
    ) -> tuple[list[Case], list[Case]]:
        """Where the configuration says so: pods without a budget, pods above what they booked."""
        unbudgeted, above = [], []
        for pod in pods:
            used, objections = usage.pods[pod.uid], self._never(pod, usage, look)
            if used is None or "protected" in objections:
                continue
            given = due.budget(pod, look.rules, unified=True)
            hosted, exact = look.sample.hosts.get(pod.uid, (0, True))
            proven = used + ((hosted or 0) if exact else 0)
            size, against = self._size(pod.uid, usage, look), (*objections, *common)
            if used and given.gpu is None:
                if look.rules.unbudgeted == "evict" and proven >= shortfall:
                    unbudgeted.append(Case(pod, "unbudgeted", proven, size, against))
            elif look.rules.within_budget == "above-request" and proven > given.booked:
                above.append(Case(pod, "above-request", proven - given.booked, size, against))
        return unbudgeted, above

    # --- what comes of it ---

    def learn(
        self, pod: Pod, outcome: str, grace: int, processes: frozenset[tuple[int, int]], wait: float | None, now: float
    ) -> None:
        """The answer to one eviction call."""
        if outcome in ("accepted", "gone", "recovered"):
            self.windows.pop(pod.uid, None)
        if outcome == "accepted":
            self.kept.victims[pod.uid] = Gone(now, grace, processes, released=False)
            pause = self.kept.pauses.get(owner(pod))
            again = pause is not None and now - pause.breached < 1800.0
            minutes = min(30, pause.minutes * 2) if pause is not None and again else 1
            self.kept.pauses[owner(pod)] = Pause(minutes, now + 60.0 * minutes, now)
            self.kept.evicted = (*(at for at in self.kept.evicted if now - at < HOUR), now)
        elif outcome not in ("gone", "recovered"):
            slow = 600.0 if outcome in ("misconfigured", "forbidden", "unauthorized") else 5.0
            self.blocked[pod.uid] = now + (slow if wait is None else wait)
            if outcome == "unauthorized":
                self.barred[pod.namespace] = self.blocked[pod.uid]


def owner(pod: Pod) -> tuple[str, str, str]:
    """Who makes the pod anew: a ReplicaSet is known without its hash."""
    if pod.owner is None:
        return (pod.namespace, "pod", pod.name)
    kind, name = pod.owner
    return (pod.namespace, kind, name.rpartition("-")[0] if kind == "ReplicaSet" else name)


def containers(pod: Pod) -> list[tuple[str, float | None]]:
    """Id and start of each container."""
    side = [] if pod.side is None else [(f"{pod.uid}-side", pod.side_started)]
    return [(pod.container, pod.started_at), *side]

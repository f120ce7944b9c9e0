"""An agent's decisions on a board that is changed by moves, each of them judged.

The agent is what the product's loop makes of its pure parts: read, decide, ask again just before a call, learn the
answer, write the node, keep the state over a restart.
"""

from __future__ import annotations

import json
import random
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgeagent.facts import Facts, HostFacts, NvmapTable
from edgeagent.plan import keeping, outcomes
from edgeagent.plan.decide import decide
from edgeagent.plan.keeping import Origin
from edgeagent.plan.state import State
from edgeagent.plan.types import Eviction, EvictionResult, Plan
from tests.properties import due, telling
from tests.properties.due import Offer
from tests.properties.judge import Case, Judge, Kept, Look, Verdict
from tests.properties.life import KEY, MIB, PREFIX, RULES, Memory, Move, Pod, Rules, Sample, View, World

WRONG = "wrong eviction"
SPARED = "spared"
ORDER = "order"
CALL = "call"
TWICE = "twice"
REASON = "reason"
USAGE = "usage"
PRESSURE = "pressure"
CAPACITY = "capacity"
COMMITTED = "committed"
WRITES = "writes"
MIXED = "mixed"
AGAIN = "again"
MIX_EVERY = 8
"""Every so many decisions the same facts are told in another order, and told twice."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """Something that is not as it has to be: which promise, and what happened."""

    kind: str
    what: str


@dataclass(slots=True)
class Call:
    """An eviction that is under way."""

    eviction: Eviction
    pod: Pod
    processes: frozenset[tuple[int, int]]
    outcome: str | None = None


@dataclass
class Life:
    """One run. ``wrong`` holds what went wrong so far."""

    world: World
    state: State = field(default_factory=State)
    judge: Judge = field(default_factory=lambda: Judge(cards=False))
    offer: Offer = field(default_factory=lambda: Offer(cards=False))
    plan: Plan | None = None
    wrong: list[Wrong] = field(default_factory=list)
    evicted: Counter[str] = field(default_factory=Counter)
    """Accepted calls by breach."""
    seen: set[str] = field(default_factory=set)
    """Objections, outcomes and states that the run came by."""
    decisions: int = 0
    calls: list[Call] = field(default_factory=list)
    calling: Plan | None = None
    host: HostFacts | None = None
    sample: Sample | None = None
    memory: Memory | None = None
    history: deque[tuple[Any, Kept, int]] = field(default_factory=lambda: deque(maxlen=3))

    @classmethod
    def begin(cls, *, cards: bool = False) -> Life:
        return cls(World(cards=cards), judge=Judge(cards=cards), offer=Offer(cards=cards))

    def play(self, moves: Sequence[Move]) -> Life:
        """Make the moves, up to the first that shows something wrong."""
        for name, *arguments in moves:
            mine = getattr(self, f"do_{name}", None)
            (mine or getattr(self.world, name))(*arguments)
            if self.wrong:
                break
        return self

    @property
    def rules(self) -> Rules:
        return RULES[self.world.rules]

    def do_cycle(self, seconds: float, what: str) -> None:
        """One cycle of the agent ``seconds`` later. ``what`` is read: everything, the memory alone, or nothing."""
        self.world.now += seconds
        self._read(what)
        facts, verdict, view = self._decided()
        plan = self.plan
        assert plan is not None
        self._compare(plan, verdict)
        self._capacity(plan, view)
        self._writes(plan, view)
        if self.decisions % MIX_EVERY == 0:
            self._mixed(facts)
        self._remember()
        if plan.evictions and not self.calls:
            self.calling = plan
            by_uid = {pod.uid: pod for pod in view.pods or ()}
            self.calls = [Call(one, by_uid[one.uid], self._processes(by_uid[one.uid])) for one in plan.evictions]
            if self.world.prompt:
                self.do_call()
                self.do_answer()

    def do_list(self) -> None:
        self.world.listed = True

    def do_call(self) -> None:
        """The calls that are due: each decided on anew from a fresh sample, then sent."""
        for call in self.calls:
            if call.outcome is None:
                call.outcome = self._called(call)
                self.seen.add(call.outcome)

    def do_answer(self) -> None:
        """The answers to the calls that were sent."""
        for call in [call for call in self.calls if call.outcome is not None]:
            assert self.calling is not None
            wait = self.world.retry_after
            result = EvictionResult(uid=call.pod.uid, outcome=call.outcome, retry_after=wait)  # type: ignore[arg-type]
            self.state, _ = outcomes.learn(self.state, self.calling, result, self.world.now)
            assert call.outcome is not None
            self.judge.learn(call.pod, call.outcome, call.eviction.grace_seconds, call.processes, wait, self.world.now)
            self.evicted[call.eviction.breach] += call.outcome == "accepted"
            self.calls.remove(call)
        self._remember()

    def do_agent(self, how: str, listed: bool) -> None:  # noqa: FBT001
        """The agent starts anew. ``how``: what became of its state; the machine may have started anew with it."""
        document, kept, good = self.history[-1] if self.history else (None, Kept(), 0)
        if how == "stale" and self.history:
            document, kept, good = self.history[0]
        if how == "reboot":
            self._reboot()
            kept = Kept()
            # a document of the boot before is worth no more later
            self.history = deque(((old, Kept(), value) for old, _, value in self.history), maxlen=3)
        if how == "torn" and document is not None:
            document = {key: value for key, value in document.items() if key != "victims"}
        if how in ("lost", "torn"):
            kept, good = Kept(), 0
        self.state = State()
        if document is not None and how != "lost":
            self.state = keeping.restored(json.loads(json.dumps(document)), self._origin(), self.world.now).state
        self.judge = Judge(cards=self.world.cards, kept=kept.copy())
        self.offer = Offer(cards=self.world.cards, good=good)
        self.calls, self.calling, self.host, self.plan = [], None, None, None
        self.world.watching, self.world.listed = True, listed
        self.seen.add(how)

    # --- the loop ---

    def _read(self, what: str) -> None:
        if what == "sample" or self.host is None:
            self.sample, self.memory = self.world.sample(), self.world.read_memory()
            self.host = telling.host(self.sample, self.memory, cards=self.world.cards)
        elif what == "memory":
            self.memory = self.world.read_memory()
            self.host = replace(self.host, meminfo=telling.meminfo(self.memory))

    def _decided(self) -> tuple[Facts, Verdict, View]:
        assert self.host is not None
        assert self.sample is not None
        assert self.memory is not None
        view = self.world.look()
        facts = telling.facts(self.world, self.host, view)
        self._before = self.state
        self.state, self.plan = decide(self.state, facts, self.world.now)
        self.decisions += 1
        return facts, self._verdict(self.judge, self.sample, self.memory, view), view

    def _verdict(self, judge: Judge, sample: Sample, memory: Memory, view: View) -> Verdict:
        own = next((pod.uid for pod in self.world.pods.values() if pod.agent), None)
        return judge.decide(Look(self.world.now, self.world.wall, sample, memory, view, self.rules, own))

    def _called(self, call: Call) -> str:
        sample, memory, view = self.world.sample(), self.world.read_memory(), self.world.look()
        hosted = telling.host(sample, memory, cards=self.world.cards)
        _, plan = decide(self.state, telling.facts(self.world, hosted, view), self.world.now)
        verdict = self._verdict(self.judge.copy(), sample, memory, view)
        self._compare(plan, verdict)
        if all(one.uid != call.pod.uid for one in plan.evictions):
            return "recovered"
        present = self.world.pods.get(call.pod.name)
        if self.world.api in ("recovered", "accepted", "gone", "unknown") and present is not None:
            there = present.uid == call.pod.uid
            if there and present.terminating and self.world.watching:
                self._tell(TWICE, f"{present.uid} is terminating already")
            if there and self.world.api in ("recovered", "accepted"):
                self.world.terminate(present.name)
                return "accepted"
            if there and self.world.api == "unknown" and self.world.made % 2:
                self.world.terminate(present.name)
        return "gone" if self.world.api in ("accepted", "recovered") else self.world.api

    def _processes(self, pod: Pod) -> frozenset[tuple[int, int]]:
        """Processes that the pod's eviction has to end, as far as a reading names them."""
        assert self.sample is not None
        return frozenset(
            (one.pid, one.start)
            for one in self.sample.rows
            if one.uid == pod.uid and one.container == pod.container and not one.stray
        )

    def _origin(self) -> Origin:
        return Origin(f"boot-{self.world.boot}", "/", "machine")

    def _remember(self) -> None:
        self.history.append((keeping.kept(self.state, self._origin()), self.judge.kept.copy(), self.offer.good))

    def _reboot(self) -> None:
        world = self.world
        world.boot += 1
        # an agent may start long after its machine: then times of the boot before look as if they were of this one
        now = world.now + 32.0 if world.boot % 2 else 16.0
        world.wall_offset += world.now - now + 30.0
        world.now = now
        world.processes, world.hosts = {}, {}
        for name in list(world.pods):
            world.restart(name)

    # --- what is looked at ---

    def _tell(self, kind: str, what: str) -> None:
        self.wrong.append(Wrong(kind, f"at {self.world.now}: {what}"))

    def _compare(self, plan: Plan, verdict: Verdict) -> None:
        cases = {case.pod.uid: case for case in verdict.cases}
        wanted = [case.pod.uid for case in verdict.evictions]
        sent = [one.uid for one in plan.evictions]
        for one in plan.evictions:
            case = cases.get(one.uid)
            if case is None or case.objections:
                why = ", ".join(case.objections) if case else "it is over nothing"
                self._tell(WRONG, f"{one.uid} goes for {one.breach} although: {why}")
            else:
                self._call(one, case, verdict)
        for uid in wanted:
            if uid not in sent:
                told = next((held.code for held in plan.held if held.uid == uid), "nothing")
                self._tell(SPARED, f"{uid} ({cases[uid].breach}) stays although nothing speaks for it; told: {told}")
        if sorted(sent) == sorted(wanted) and sent != wanted:
            self._tell(ORDER, f"{sent}, not {wanted}")
        self._reasons(plan, cases)
        self._usage(plan, verdict)
        danger = plan.danger
        wanted_danger = (verdict.danger.since is not None, verdict.danger.below, verdict.danger.need)
        if (danger.active, danger.by_floor, danger.need) != wanted_danger:
            self._tell(PRESSURE, f"{danger}, not {wanted_danger}")
        self.seen.update(objection for case in verdict.cases for objection in case.objections)
        self.seen.update({"danger"} if danger.active else ())

    def _call(self, one: Eviction, case: Case, verdict: Verdict) -> None:
        rules = self.rules
        longest = rules.pressure_grace if verdict.danger.since is not None else rules.max_grace
        wanted = (case.pod.namespace, case.pod.name, case.breach, max(1, int(min(case.pod.grace, longest))))
        told = (one.namespace, one.name, one.breach, one.grace_seconds)
        if told != wanted:
            self._tell(CALL, f"{told}, not {wanted}")

    def _reasons(self, plan: Plan, cases: dict[str, Case]) -> None:
        told = {held.uid: held.code for held in plan.held}
        for uid, case in cases.items():
            if case.objections and told.get(uid) not in case.objections:
                self._tell(REASON, f"{uid} is held by {told.get(uid)}, not by {case.objections}")
        for uid in told.keys() - cases.keys():
            self._tell(REASON, f"{uid} is held by {told[uid]}, and is over nothing")

    def _usage(self, plan: Plan, verdict: Verdict) -> None:
        views = {view.pod.uid: view for view in plan.pods}
        for case in verdict.cases:
            view = views[case.pod.uid]
            if view.breach and (view.breach, view.excess) != (case.breach, case.excess):
                self._tell(USAGE, f"{view.pod.uid} is over by {view.breach} {view.excess}, not {case[1:3]}")
        for uid, amount in verdict.usage.pods.items():
            found = plan.usage.pods[uid].gpu.get(KEY)
            if found != amount:
                self._tell(USAGE, f"{uid} holds {found}, not {amount}")
        if plan.usage.system_gpu != verdict.usage.system:
            self._tell(USAGE, f"the system holds {plan.usage.system_gpu}, not {verdict.usage.system}")
        if plan.usage.leaving_shared != verdict.usage.leaving:
            self._tell(USAGE, f"{plan.usage.leaving_shared} are leaving, not {verdict.usage.leaving}")

    def _capacity(self, plan: Plan, view: View) -> None:
        assert self.sample is not None
        total = self.judge.danger.total if self.judge.danger.read else None
        if self.world.cards:
            total = None if self.sample.table in ("failed", "denied") else due.CARDS_TOTAL
        held = self.offer.see(self.world.now, view, self.rules, total)
        found = plan.advertised.get(KEY)
        current = due.current(self.world.now, view, self.rules)
        if current and found is not None and found < held:
            self._tell(COMMITTED, f"{found} is below the {held} that admitted pods hold")
        if found != self.offer.value:
            self._tell(CAPACITY, f"{found}, not {self.offer.value}")

    def _writes(self, plan: Plan, view: View) -> None:
        node = view.node
        for request in plan.node.requests:
            for what in unneeded(request.body, node):
                self._tell(WRITES, f"{what} is sent although the node has it")
        current = due.current(self.world.now, view, self.rules)
        if not current and plan.node.requests:
            self._tell(WRITES, "something is sent from a view that is not current")
        if current and node:
            self._sent(plan, node)
        for request in plan.node.requests[: {"all": 2, "first": 1, "none": 0}[self.world.writes]]:
            self.world.node = patched(self.world.node, request.body)

    def _sent(self, plan: Plan, node: dict[str, Any]) -> None:
        """Once all is written, the node has what it should have."""
        for request in plan.node.requests:
            node = patched(node, request.body)
        for key, value in plan.node.capacity.items():
            if number(node["capacity"].get(key)) != number(value):
                self._tell(WRITES, f"{key} is not sent although it differs")
            if number(value) and not number(node["allocatable"].get(key)):
                self._tell(WRITES, f"{key} stays unusable")
        if any(node["labels"].get(key) != value for key, value in plan.node.labels.items()):
            self._tell(WRITES, "a label is not sent although it differs")
        told = {(one["type"], one["status"], one["reason"]) for one in node["conditions"]}
        if not told.issuperset((one.type, one.status, one.reason) for one in plan.node.conditions):
            self._tell(WRITES, "a condition is not sent although it differs")

    def _mixed(self, facts: Facts) -> None:
        """The same facts in another order give the same; the same facts once more are no further sample."""
        assert self.plan is not None
        chance = random.Random(self.decisions)
        state, plan = decide(self._before, shuffled(facts, chance), self.world.now)
        told = (self.plan.evictions, self.plan.held, self.plan.node, self.plan.advertised, self.plan.kills)
        if told != (plan.evictions, plan.held, plan.node, plan.advertised, plan.kills) or state != self.state:
            self._tell(MIXED, "another order of pods, devices or rows gives another plan")
        state, plan = decide(self.state, facts, self.world.now)
        same = (state.windows, state.pressure, state.victims, state.published)
        if same != (self.state.windows, self.state.pressure, self.state.victims, self.state.published):
            self._tell(AGAIN, "the same sample counts twice")
        if plan.evictions != self.plan.evictions:
            self._tell(AGAIN, "the same sample, seen twice, gives other evictions")


def number(text: str | None) -> int | None:
    """A quantity as this node has them."""
    if text is None:
        return None
    return int(text[:-2]) * MIB if text.endswith("Mi") else int(text)


def unneeded(body: Any, node: dict[str, Any]) -> list[str]:
    """Parts of a patch that change nothing."""
    status, found = body.get("status", {}), []
    for key, value in status.get("capacity", {}).items():
        if number(node["capacity"].get(key)) == number(value):
            found.append(f"capacity {key}")
    for key, value in status.get("allocatable", {}).items():
        if number(node["allocatable"].get(key)) == number(value) and key not in status.get("capacity", {}):
            found.append(f"allocatable {key}")
    for part in ("labels", "annotations"):
        for key, value in body.get("metadata", {}).get(part, {}).items():
            if node[part].get(key) == value:
                found.append(f"{part} {key}")
            if not key.startswith(PREFIX) and key != "ai-capable":
                found.append(f"{key}, which is another's,")
    shown = {one["type"]: (one["status"], one["reason"]) for one in node["conditions"]}
    found += [one["type"] for one in status.get("conditions", ()) if shown.get(one["type"]) == _told(one)]
    return found


def _told(condition: dict[str, str]) -> tuple[str | None, str | None]:
    return condition.get("status"), condition.get("reason")


def patched(node: dict[str, Any], body: Any) -> dict[str, Any]:
    """The node as the API server has it after a patch."""
    after = dict(node)
    status = body.get("status", {})
    for part, changes in [(one, status.get(one, {})) for one in ("capacity", "allocatable")] + [
        (one, body.get("metadata", {}).get(one, {})) for one in ("labels", "annotations")
    ]:
        merged = {**after[part], **changes}
        after[part] = {key: value for key, value in merged.items() if value is not None}
    changed = {one["type"]: one for one in status.get("conditions", ())}
    kept = tuple(one for one in after["conditions"] if one["type"] not in changed)
    after["conditions"] = kept + tuple(one for one in changed.values() if "$patch" not in one)
    return after


def shuffled(facts: Facts, chance: random.Random) -> Facts:
    """The same facts, told in another order."""

    def mixed(items: Any) -> tuple[Any, ...]:
        found = list(items)
        chance.shuffle(found)
        return tuple(found)

    host, cluster = facts.host, facts.cluster
    table, nvml = host.nvmap.value, host.nvml.value
    if table is not None:
        table = NvmapTable(mixed(table.rows), table.total_bytes)
    if nvml is not None:
        devices = [
            replace(one, compute=replace(one.compute, processes=mixed(one.compute.processes)))
            for one in nvml.devices
            if one.compute
        ]
        nvml = replace(nvml, devices=mixed(devices)) if devices else nvml
    host = replace(
        host,
        nvmap=replace(host.nvmap, value=table),
        nvml=replace(host.nvml, value=nvml),
        processes=dict(mixed(host.processes.items())),
        pods=dict(mixed(host.pods.items())),
    )
    if cluster is not None and cluster.pods is not None:
        cluster = replace(cluster, pods=mixed(cluster.pods))
    return replace(facts, host=host, cluster=cluster)

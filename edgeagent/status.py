"""Puts what the agent knows into the words of its endpoint, once per cycle."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil

from edgeagent.config import plain
from edgeagent.facts import HostFacts, Reading
from edgeagent.serve.cost import measure, started
from edgeagent.serve.shown import (
    ClusterHealth,
    ConfigHealth,
    Cost,
    Counters,
    Feed,
    LoopHealth,
    ReadingHealth,
    Refused,
    Shown,
)
from edgeagent.serve.trail import Trail

if TYPE_CHECKING:
    from edgeagent.agent import Agent
    from edgeagent.config import Config
    from edgeagent.plan.types import Plan
    from edgeagent.reconcile.node import NodeOutcome

FOREIGN_PIDS = "attribution is not available: the processes that NVML lists in a WSL guest are those of Windows"
SLOWEST_CYCLE = 30.0
"""Seconds without a completed cycle after which only a restart helps; at least ten intervals."""
COST_SECONDS = 10.0
"""How often the agent looks at its own cost."""


class _Configured:
    """A configuration as it is told. It is looked at once: it changes with a reload only."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.digest = hashlib.sha256(repr(config).encode()).hexdigest()
        self.values = plain(config)


class Status:
    """Remembers the last success of every reading across cycles.

    Attributes:
        refused: why the configuration files, as they are now, cannot be used; empty: they are in force.
    """

    def __init__(self, agent: Agent, lost_log_lines: Callable[[], int] = lambda: 0) -> None:
        self.refused: tuple[str, ...] = ()
        self._lost_log_lines = lost_log_lines
        self._agent = agent
        self._process = psutil.Process()
        self._began = started(agent.now())
        self._cost_at = float("-inf")
        self._last_cost: Cost | None = None
        self._succeeded: dict[str, float] = {}
        self._published = False
        self._unknown_pods = 0
        self._trail = Trail()
        self._configured = _Configured(agent.config)

    def shown(self) -> Shown:
        """The state after the cycle that has just ended."""
        agent, plan = self._agent, self._agent.plan
        if plan is not None:
            self._unknown_pods += sum(view.state == "unknown" for view in plan.pods)
        if self._configured.config is not agent.config:
            self._configured = _Configured(agent.config)
        shown = Shown(
            plan=plan,
            at=agent.host.attributed_at if agent.host else 0.0,
            max_age=agent.config.sampling.max_age,
            settings=agent.config.reserves,
            config=ConfigHealth(digest=self._configured.digest, refused=self.refused),
            loops=dict(self._loops()),
            readings=dict(self._readings(agent.host, plan)) if agent.host and plan else {},
            cluster=self._cluster(plan),
            counters=self._counters(),
            cost=self._cost(),
            configured=self._configured.values,
            events=tuple(reversed(agent.outbox.latest)),
            incidents=agent.chronicle.latest.lines,
            peaks=agent.peaks.peaks,
            neighbours=agent.watch.neighbours,
            vitals=agent.watch.vitals,
            diagnosed=agent.rounds.findings is not None,
        )
        self._trail.take(shown, agent.now())
        return replace(shown, trail=self._trail.points)

    def _loops(self) -> Iterator[tuple[str, LoopHealth]]:
        allowed = max(SLOWEST_CYCLE, 10 * self._agent.config.sampling.interval)
        yield "cycle", LoopHealth(beat_at=self._agent.cycled_at, allowed=allowed)
        reconciler = self._agent.link.reconciler
        if reconciler is not None:
            # A crashed writer does not come back by itself.
            yield (
                "reconcile",
                LoopHealth(beat_at=float("-inf") if reconciler.failed else self._agent.cycled_at, allowed=allowed),
            )

    def _readings(self, host: HostFacts, plan: Plan) -> Iterator[tuple[str, ReadingHealth]]:
        yield "meminfo", self._reading("meminfo", host.meminfo, frozenset({"memory"}))
        if host.nvml.value is None or host.nvml.value.devices or not plan.board.readable:
            yield "nvml", self._reading("nvml", host.nvml, frozenset({"devices"}))
        if plan.pools:
            # Every source was read, whether or not a driver knows the figure of each process.
            trusted = True if plan.usage.trusted else None
            why = "; ".join(plan.usage.problems)
            reading = self._reading("attribution", Reading(host.attributed_at, trusted, why), frozenset({"gpu"}))
            yield "attribution", replace(reading, never=FOREIGN_PIDS if host.files.wsl else "")

    def _reading(self, name: str, reading: Reading[object], feeds: frozenset[Feed]) -> ReadingHealth:
        if reading.value is not None:
            self._succeeded[name] = reading.at
        return ReadingHealth(
            succeeded_at=self._succeeded.get(name),
            max_age=self._agent.config.sampling.max_age,
            why=reading.why,
            waiting_since=reading.waiting_since,
            feeds=feeds,
        )

    def _cluster(self, plan: Plan | None) -> ClusterHealth | None:
        link = self._agent.link
        facts = link.facts(self._agent.now())
        if facts is None:
            return None
        self._published = self._published or (facts.node is not None and plan is not None and self._carries(plan))
        outcome = link.reconciler.node.outcome if link.reconciler else None
        views = link.view.health() if link.view else {}
        troubles = [health.last_error for health in views.values() if health.failures and health.last_error]
        if facts.node is None and "node" in views and views["node"].complete:
            troubles.append(f"there is no node {link.node}")
        unwritten = outcome.error if outcome and plan and plan.node.requests else ""
        if unwritten:
            troubles.append(unwritten)
        return ClusterHealth(
            node=link.node,
            complete=facts.node is not None and facts.pods is not None,
            fresh_at=facts.fresh_at,
            succeeded_at=link.latest.last_success if link.latest else None,
            error=next(iter(troubles), link.problem),
            unusable=link.unusable,
            refused=tuple(self._refused(outcome)),
            published=self._published and not unwritten,
        )

    def _refused(self, outcome: NodeOutcome | None) -> Iterator[Refused]:
        for one in outcome.refused if outcome else ():
            yield Refused(part=one.part, code=one.code, message=one.message)
        if self._agent.eviction_refused is not None:
            code, message = self._agent.eviction_refused
            yield Refused(part="evict", code=code, message=message)

    @staticmethod
    def _carries(plan: Plan) -> bool:
        return bool(plan.node.capacity) and not plan.node.requests

    def _cost(self) -> Cost | None:
        if self._agent.now() - self._cost_at >= COST_SECONDS:
            self._cost_at, self._last_cost = self._agent.now(), measure(self._process, self._began)
        return self._last_cost

    def _counters(self) -> Counters:
        agent, client, reconciler = self._agent, self._agent.link.latest, self._agent.link.reconciler
        return Counters(
            cycles=agent.cycles,
            cycle_seconds=agent.cycle_seconds.taken(),
            late_seconds=agent.late_seconds.taken(),
            evictions=dict(agent.evictions),
            kills=dict(agent.kills),
            api_calls=dict(client.calls) if client else {},
            repatches=reconciler.node.restores if reconciler else 0,
            unknown_pods=self._unknown_pods,
            lost_log_lines=self._lost_log_lines(),
        )

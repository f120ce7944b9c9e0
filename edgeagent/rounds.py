"""The rounds of a running agent: a diagnosis now and then, beside the decisions and never in their way.

A decision takes what the last round found. A round reads its files in a thread of its own and asks the API server for
lists; neither holds up a cycle, and a round that fails takes nothing with it but itself. What it found of pods is
judged again as soon as they change, by what it has read: that can only take findings away, or change their words.
What cannot be told for want of a right is left to ``doctor``: the kubelet's credential, which is enough for an agent,
lacks some for good.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from edgeagent import quantity
from edgeagent.cluster import looking
from edgeagent.diagnose.collected import Collected
from edgeagent.diagnose.diagnosis import diagnose
from edgeagent.facts.diagnosis import ClusterLook, Listed, no_cluster
from edgeagent.host.closer.look import look
from edgeagent.plan import cadence
from edgeagent.watch.aside import Aside

if TYPE_CHECKING:
    from edgeagent.cluster.access import Access
    from edgeagent.cluster.client import Client
    from edgeagent.facts import Facts, Finding, NodeFacts
    from edgeagent.facts.diagnosis import HostLook
    from edgeagent.host.files import Files
    from edgeagent.plan.peaks import Peaks
    from edgeagent.plan.types import Plan

log = logging.getLogger(__name__)

T = TypeVar("T")

EVERY = 60.0
"""Seconds from one round to the next while nothing changes."""
SETTLE = 5.0
"""Seconds after a change of the pods until it is looked at: they come in swarms."""
REFUSED = 3600.0
"""Seconds for which a list that was refused is not asked for again with the same credentials."""
PATIENCE = 30.0
"""Seconds that the files may take."""
OLDEST = 5 * EVERY
"""Seconds after a round for which what it found still counts."""
HANGS = f"the files of the host were not read within {PATIENCE:.0f} s"


@dataclass(frozen=True, slots=True)
class _Read:
    """What a round has read, beside the facts of the cycles."""

    host: HostLook
    cluster: ClusterLook
    before: HostLook | None
    """By the round before it."""


class Rounds:
    """What is found, and when it is looked for again.

    Args:
        files: the host's files.
        client: gives the client of the API server; None while there is none.
        clock: monotonic seconds.
        changed: set when the findings are others than before.
        peaks: gives what workloads held at most.

    Attributes:
        findings: of the last round, worst first; None before the first, and when it is too long ago.
        rounds: how many were made.
    """

    def __init__(
        self,
        files: Files,
        *,
        client: Callable[[], Client | None],
        clock: Callable[[], float],
        changed: asyncio.Event,
        peaks: Callable[[], Peaks | None] = lambda: None,
    ) -> None:
        self.findings: tuple[Finding, ...] | None = None
        self.rounds = 0
        self._files = files
        self._client = client
        self._clock = clock
        self._changed = changed
        self._peaks = peaks
        self._seen: tuple[Facts, Plan] | None = None
        self._pods: object = None
        self._due = asyncio.Event()
        self._moved = asyncio.Event()
        self._calm = asyncio.Event()
        self._lacking_since: float | None = None
        self._read: _Read | None = None
        self._read_at = clock()
        self._old = False
        self._thread = Aside("diagnosis")
        self._access: Access | None = None
        self._refused: dict[str, float] = {}
        self._failing = ""
        self._failed_rules: dict[str, str] = {}

    def saw(self, facts: Facts, plan: Plan) -> None:
        """Take note of a cycle. One in which pods came, went or started makes a round due."""
        self._seen = facts, plan
        self._forget()
        node = facts.cluster.node if facts.cluster else None
        if node is None or not _lacks(node, plan):
            self._lacking_since = None
        elif self._lacking_since is None:
            self._lacking_since = self._clock()
        pods = frozenset((view.pod.uid, view.pod.phase) for view in plan.pods)
        if pods != self._pods:
            self._pods = pods
            self._due.set()
            self._moved.set()
        if cadence.calm(plan):
            self._calm.set()
        else:
            self._calm.clear()

    def _forget(self) -> None:
        """What was found too long ago is not known any more."""
        if self.findings is None or self._clock() - self._read_at <= OLDEST:
            return
        if not self._old:
            log.warning("what was found is not told any more: for %d s no diagnosis could be made", OLDEST)
        self.findings, self._old = None, True
        self._changed.set()

    async def run(self) -> None:
        """Make rounds until cancelled."""
        try:
            await asyncio.gather(self._rounds(), self._corrections())
        finally:
            self._thread.close()

    async def _rounds(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._due.wait(), EVERY)
            except asyncio.TimeoutError:
                pass
            else:
                await asyncio.sleep(SETTLE)
            await self._calm.wait()
            self._due.clear()
            with self._guarded():
                await self._round()
                self._failing = ""

    async def _corrections(self) -> None:
        while True:
            await self._moved.wait()
            self._moved.clear()
            with self._guarded():
                self._judge_again()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Whatever is wrong with a diagnosis, the board is to be protected."""
        try:
            yield
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            if told != self._failing:
                log.warning("no diagnosis could be made: %s", told, exc_info=error)
            self._failing = told

    def _broken(self, rule: str, error: Exception) -> None:
        """The others go on, and the log tells of it once."""
        told = f"{type(error).__name__}: {error}"
        if self._failed_rules.get(rule) != told:
            log.warning("the rule %s fails: %s", rule, told, exc_info=error)
        self._failed_rules[rule] = told

    async def _round(self) -> None:
        if self._seen is None:
            return
        last = self._read
        cluster = await self._cluster(last.cluster if last else None)
        at = self._clock()
        try:
            host = await self._thread.do(partial(look, self._files, self._seen[0].host, at), PATIENCE)
        except asyncio.TimeoutError:
            # A network's file system that is gone does not answer at all.
            raise TimeoutError(HANGS) from None
        read = _Read(host, cluster, last.host if last else None)
        found = self._judge(read, *self._seen)
        self._read, self._read_at, self._old = read, at, False
        self.rounds += 1
        self._take(found)

    def _judge(self, read: _Read, facts: Facts, plan: Plan) -> tuple[Finding, ...]:
        """What is found by what was read, with facts and plan as they are by now."""
        now = self._clock()
        found = diagnose(
            Collected(
                now=now,
                facts=facts,
                plan=plan,
                host=read.host,
                cluster=_unbound(read.cluster, plan),
                before=read.before,
                owed=None if self._lacking_since is None else now - self._lacking_since,
                peaks=self._peaks(),
            ),
            self._broken,
        )
        # An agent that asks for more rights as long as it runs would talk people out of the fewest that do.
        return tuple(one for one in found if not one.right)

    def _judge_again(self) -> None:
        """Leave out what is not so any more with the pods of now.

        What was read is old. It says nothing of what began since, so nothing is found anew.
        """
        if not self.findings or self._read is None or self._seen is None:
            return
        before = {_same(one) for one in self.findings}
        self._take(tuple(one for one in self._judge(self._read, *self._seen) if _same(one) in before))

    def _take(self, found: tuple[Finding, ...]) -> None:
        before, self.findings = self.findings, found
        if found != (before or ()):
            self._changed.set()

    async def _cluster(self, before: ClusterLook | None) -> ClusterLook:
        client = self._client()
        found = no_cluster("no cluster is known") if client is None else await self._asked(client)
        return _filled(found, before)

    async def _asked(self, client: Client) -> ClusterLook:
        """The lists, but for those that these credentials were refused of late: on each node that fills audit logs."""
        access = await client.credentials.access()
        if access is not self._access:
            self._access, self._refused = access, {}
        now = self._clock()
        leave = {right: since for right, since in self._refused.items() if now - since < REFUSED}
        found = await looking.look(client, leave=leave, ready=self._calm.wait)
        self._refused = dict.fromkeys(looking.missing(found), now) | leave
        return found


def _same(one: Finding) -> tuple[str, str, str]:
    """By which two findings are the same one, in other words maybe."""
    return one.id, one.subject, one.severity


def _unbound(cluster: ClusterLook, plan: Plan) -> ClusterLook:
    """``cluster`` without pods that have come to this node since they were listed as waiting."""
    bound = {view.pod.uid for view in plan.pods}
    items = cluster.waiting.items
    still = None if items is None else tuple(pod for pod in items if pod.uid not in bound)
    return replace(cluster, waiting=replace(cluster.waiting, items=still))


def _filled(found: ClusterLook, before: ClusterLook | None) -> ClusterLook:
    """``found``, with the last round's list in place of one that was not answered: an outage changes no finding."""

    def newest(now: Listed[T], last: Listed[T]) -> Listed[T]:
        return now if now.items is not None or now.right else replace(last, why=now.why)

    if before is None:
        return found
    return ClusterLook(
        runtime_classes=newest(found.runtime_classes, before.runtime_classes),
        daemon_sets=newest(found.daemon_sets, before.daemon_sets),
        events=newest(found.events, before.events),
        waiting=newest(found.waiting, before.waiting),
    )


def _lacks(node: NodeFacts, plan: Plan) -> bool:
    """The node does not carry an amount that it should."""
    return any(
        key not in node.allocatable or quantity.equal(node.allocatable[key], "0")
        for key, amount in plan.node.capacity.items()
        if quantity.parse(amount) > 0
    )

"""Wires the loops together; the only module that knows every stage.

One cycle: read the board, look at the cluster's view, decide, hand the plan to those who carry
it out, show it. Nothing in the cycle waits for the API server or for a driver.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeagent.cluster import naming
from edgeagent.cluster.credentials import KUBELET_KUBECONFIG, Credentials
from edgeagent.facts import Facts, HostFacts, KubeletSettings
from edgeagent.host.files import RootFiles
from edgeagent.host.reader import BoardReader, nvml_source
from edgeagent.plan import cadence, keeping, outcomes
from edgeagent.plan.decide import decide
from edgeagent.plan.kills import CRITICAL
from edgeagent.plan.state import State
from edgeagent.reconcile.chronicle import Chronicle
from edgeagent.reconcile.kill import Killer
from edgeagent.reconcile.link import Link
from edgeagent.reconcile.outbox import Outbox
from edgeagent.reconcile.peaks import PeakKeeper
from edgeagent.reconcile.reconciler import Reconciler
from edgeagent.rounds import Rounds
from edgeagent.serve.histogram import Histogram
from edgeagent.system import statefile
from edgeagent.watch.watching import View, Watch

if TYPE_CHECKING:
    import argparse

    from edgeagent.cluster.client import Client
    from edgeagent.config import Config
    from edgeagent.plan.types import Eviction, EvictionResult, Outcome, Plan

log = logging.getLogger(__name__)

UNDECIDED: frozenset[Outcome] = frozenset({"unknown", "recovered", "throttled"})
"""Answers that say nothing about whether evicting is allowed."""
FIRST_LOOK = 0.5
"""Seconds for which the first cycle waits to know whether there is a cluster."""
PUBLISHED = "CapacityPublished"
"""The event that waits for its write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Where a whole agent can be driven from: flags of the command line."""

    kubeconfig: Path | None = None
    host_root: Path = Path("/")
    nvml_replay: Path | None = None
    state_dir: Path | None = None
    """None: nothing is kept over a restart."""
    runtime_dir: Path | None = None

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> Options:
        """The options among parsed arguments."""
        given = vars(arguments)
        return cls(**{name: given[name] for name in cls.__slots__ if given.get(name) is not None})


class Agent:
    """One running agent. ``config`` may be replaced between two cycles."""

    def __init__(
        self, options: Options, config: Config, *, clock: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        self.config = config
        self.state = State()
        self.plan: Plan | None = None
        self.host: HostFacts | None = None
        """The last sample, with the newest reading of the memory."""
        self.eviction_refused: tuple[int, str] | None = None
        """Status and words with which the API server does not let this agent evict; None: it does, or was not asked."""
        self._evicting: Plan | None = None
        self.evictions: Counter[tuple[str, str]] = Counter()
        """Eviction calls by (breach, outcome)."""
        self.kills: Counter[str] = Counter()
        """Processes that were to be killed, by outcome."""
        self._alarm = ""
        self._kept: dict[str, Any] | None = None
        self._saving: asyncio.Task[None] | None = None
        self.cycles = 0
        self.cycle_seconds = Histogram()
        """How long cycles took."""
        self.late_seconds = Histogram()
        """How long after they were due cycles began; 0 for those that did not wait for it."""
        self.cycled_at = clock()
        self.now = clock
        self._wall = wall
        self._rng = random.Random()  # noqa: S311 (jitter, not secrets)
        self._wake = asyncio.Event()
        self._options = options
        self.outbox = Outbox(clock=clock, rng=self._rng)
        self.chronicle = Chronicle(options.state_dir, self.outbox, clock=clock, wall=wall)
        self.peaks = PeakKeeper(options.state_dir, clock=clock, wall=wall)
        files = RootFiles(options.host_root)
        self._killer = Killer(files, clock=clock)
        # Of its own: those that all share may be busy with files that are read slowly, just when the memory ends.
        self._kill_thread = ThreadPoolExecutor(1, thread_name_prefix="kill")
        self.reader = BoardReader(
            files,
            nvml_source(options.nvml_replay, clock),
            data_dir=config.k3s.data_dir,
            clock=clock,
        )
        self.watch = Watch(files, self.reader.worker, self._view, clock=clock)
        self.link = Link(
            self._credentials,
            expected=options.kubeconfig is not None or bool(os.environ.get("KUBECONFIG")),
            name=self._node_name,
            reconciler=self._reconciler,
            changed=self._wake,
            clock=clock,
        )

        self.rounds = Rounds(
            files,
            client=lambda: self.link.client,
            clock=clock,
            changed=self._wake,
            peaks=lambda: self.peaks.peaks,
        )

    async def run(self, stop: asyncio.Event, shown: Callable[[Agent], None]) -> None:
        """Cycle until ``stop`` is set; ``shown`` is called after each cycle."""
        # Begins the thread now: when it is needed, the memory for one may be gone.
        self._kill_thread.submit(bool)
        # The first sample tells where K3s keeps its credentials, and which machine this is.
        self.host = await self.reader.sample(())
        await self._remember()
        await self.chronicle.open(self.host.files.boot_id)
        await self.peaks.open(self._origin(self.host))
        link = asyncio.create_task(self.link.run(), name="cluster link")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        watch = asyncio.create_task(self.watch.run(), name="watch")
        rounds = asyncio.create_task(self.rounds.run(), name="rounds")
        try:
            # What runs standalone is to say so from its first cycle on; files are read in no time, if at all.
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.link.looked.wait(), FIRST_LOOK)
            while not stop.is_set():
                began = self.now()
                await self.cycle()
                self.cycle_seconds.observe(self.now() - began)
                shown(self)
                await self._pause(stopping)
                for loop in (link, watch, rounds):
                    if loop.done():
                        loop.result()
        finally:
            for task in (link, stopping, watch, rounds):
                task.cancel()
            await asyncio.gather(link, stopping, watch, rounds, return_exceptions=True)
            await self._saved()
            self._keep(last=True)
            await self._saved()
            await self.chronicle.close()
            await self.peaks.close()
            self.reader.close()
            self._kill_thread.shutdown(wait=False)

    async def cycle(self) -> Plan:
        """Read, decide and hand over once."""
        host = await self._read()
        now = self.now()
        facts = self._facts(host, now)
        self.state, self.plan = decide(self.state, facts, now)
        await self._kill(self.plan)
        self._chronicle(self.plan, host)
        self.hand_over(self.plan)
        # What is only told comes after what is done: it delays nothing, and no fault in it costs an eviction.
        self.rounds.saw(facts, self.plan)
        self.peaks.saw(self.plan, host.attributed_at, self.config.sampling.max_age)
        self._keep()
        self.cycles += 1
        self.cycled_at = now
        return self.plan

    async def _read(self) -> HostFacts:
        """A whole sample when one is due, else the last one with a new reading of the memory."""
        now = self.now()
        if self.host is None or now - self.host.attributed_at >= cadence.attribution(self.plan, self.config.sampling):
            self.host = await self.reader.sample(self._wanted(), host_processes=cadence.host_processes(self.plan))
        elif now - self.host.meminfo.at >= cadence.meminfo(self.plan, self.config.sampling):
            self.host = replace(self.host, meminfo=await self.reader.meminfo())
        return self.host

    def _wanted(self) -> tuple[str, ...]:
        cluster = self.link.facts(self.now())
        return tuple(pod.cgroup_uid for pod in (cluster.pods or ())) if cluster else ()

    def _view(self) -> View | None:
        """What the watch looks at, while there is time for what no decision needs."""
        if self.host is None or not cadence.calm(self.plan):
            return None
        now = self.now()
        cluster = self.link.facts(now)
        pods = None
        # In a view that is not current a pod may be long gone, and its address another one's.
        if cluster and cluster.pods is not None and now - cluster.fresh_at <= self.config.sampling.max_age:
            pods = tuple(pod for pod in cluster.pods if pod.live)
        return View(self.host, pods, self.config.vitals.jtop)

    def _facts(self, host: HostFacts, now: float) -> Facts:
        own_pod = os.environ.get("POD_UID")
        return Facts(
            wall=self._wall(),
            config=self.config,
            host=host,
            cluster=self.link.facts(now),
            own_pod=own_pod,
            findings=self.rounds.findings,
        )

    async def _kill(self, plan: Plan) -> None:
        """The last resort, before all else; a board whose memory ends while nobody is killed is told of in the log."""
        for kill in plan.kills:
            result = await asyncio.get_running_loop().run_in_executor(self._kill_thread, self._killer.kill, kill)
            self.chronicle.killed(result)
            self.kills.update(outcome for _, outcome in result.outcomes)
            self.state = outcomes.killed(self.state, plan, result, self.now())
        alarm = next((finding.summary for finding in plan.findings if finding.id == CRITICAL), "")
        if alarm and alarm != self._alarm:
            log.warning("%s", alarm)
        self._alarm = alarm

    def _chronicle(self, plan: Plan, host: HostFacts) -> None:
        done = self.chronicle.saw(
            self.state, plan, memory_at=host.meminfo.at, read_at=host.attributed_at, node=self.link.node
        )
        self.outbox.tell(done)

    def hand_over(self, plan: Plan) -> None:
        """Give a plan to those who carry it out."""
        reconciler = self.link.reconciler
        if reconciler is None:
            return
        cluster = self.link.facts(self.now())
        published = [event for event in plan.events if event.reason == PUBLISHED]
        reconciler.node.wish(plan.node.requests, cluster.node if cluster else None, published)
        if reconciler.evict(plan.evictions):
            self._evicting = plan
        self.outbox.tell([event for event in plan.events if event.reason != PUBLISHED])

    async def _pause(self, stopping: asyncio.Task[bool]) -> None:
        """Until the next reading is due, the cluster's view changes, or the agent stops."""
        host = self.host
        assert host is not None  # noqa: S101 (a cycle has run)
        sampling = self.config.sampling
        due = min(
            host.attributed_at + cadence.attribution(self.plan, sampling),
            host.meminfo.at + cadence.meminfo(self.plan, sampling),
        )
        woken = asyncio.create_task(self._wake.wait())
        try:
            rest = max(0.0, due - self.now())
            await asyncio.wait({woken, stopping}, timeout=rest, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
        self.late_seconds.observe(max(0.0, self.now() - due))
        self._wake.clear()

    async def _remember(self) -> None:
        """Take up what an earlier run on this machine has left."""
        folder = self._options.state_dir
        if folder is None or self.host is None:
            return
        await asyncio.to_thread(statefile.tidy, folder)
        document = await asyncio.to_thread(statefile.read, folder)
        if document is None:
            return
        self.state, ignored = keeping.restored(document, self._origin(self.host), self.now())
        if ignored:
            log.warning("%s is not used: %s", folder / statefile.NAME, ignored)

    def _origin(self, host: HostFacts) -> keeping.Origin:
        root = str(self._options.host_root.absolute())
        return keeping.Origin(host.files.boot_id, root, host.files.machine_id)

    def _keep(self, *, last: bool = False) -> None:
        """Write what outlives the process, in the background and only when it changed; ``last``: however little."""
        if self._options.state_dir is None or self.host is None or (self._saving and not self._saving.done()):
            return
        document = keeping.kept(self.state, self._origin(self.host))
        if document != self._kept and (last or keeping.worth(self._kept, document)):
            self._kept = document
            self._saving = asyncio.create_task(self._save(self._options.state_dir, document), name="state file")

    async def _saved(self) -> None:
        if self._saving is not None:
            await self._saving

    async def _save(self, folder: Path, document: dict[str, Any]) -> None:
        problem = await asyncio.to_thread(statefile.write, folder, document)
        if problem:
            self._kept = None  # for the next cycle to try again: a full disk is emptied some day
            log.warning("the state is not kept over a restart: %s", problem)

    async def _recheck(self, eviction: Eviction) -> bool:
        """Whether a fresh sample, decided on anew, asks for the same eviction again."""
        host = await self.reader.sample(self._wanted())
        now = self.now()
        _, plan = decide(self.state, self._facts(host, now), now)
        return any(again.uid == eviction.uid for again in plan.evictions)

    def learned(self, result: EvictionResult) -> None:
        """Take in the answer to an eviction of the plan that it was called for; decisions went on meanwhile."""
        plan = self._evicting
        if plan is None or self.link.reconciler is None:
            return
        breach = next(one.breach for one in plan.evictions if one.uid == result.uid)
        self.evictions[breach, result.outcome] += 1
        if result.outcome not in UNDECIDED:
            self.eviction_refused = None
            if result.outcome in ("forbidden", "unauthorized") and result.code is not None:
                self.eviction_refused = (result.code, result.message)
        self.state, events = outcomes.learn(self.state, plan, result, self.now())
        self.outbox.tell(self.chronicle.answered(result, events))
        self._wake.set()

    def wake(self) -> None:
        """Let the next cycle begin now, as after a change of the configuration."""
        self._wake.set()

    def _credentials(self) -> Credentials:
        found = self.host.kubelet.data_dir if self.host else KubeletSettings().data_dir
        k3s = Path(self.config.k3s.data_dir or found) / KUBELET_KUBECONFIG
        return Credentials(self._options.kubeconfig, k3s=k3s, root=self._options.host_root)

    async def _node_name(self, client: Client) -> str | None:
        files = self.host.files if self.host else None
        return await naming.node_name(
            client,
            given=self.config.node.name,
            environ=os.environ,
            k3s=self.host.kubelet.node_name if self.host else None,
            host_name=socket.gethostname(),
            machine_id=files.machine_id if files else None,
        )

    def _reconciler(self, client: Client, name: str) -> Reconciler:
        return Reconciler(
            client,
            name,
            clock=self.now,
            wall=self._wall,
            recheck=self._recheck,
            learned=self.learned,
            rng=self._rng,
            outbox=self.outbox,
        )

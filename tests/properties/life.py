"""A board with its node as they really are, changed by moves: the truth that an agent reads and a judge looks at.

A run is a list of moves, tuples of a name and its arguments, so that one which went wrong can be printed, cut
down and played again. Any part of a run is a run: a move that finds nothing to act on does nothing.

All times are multiples of 1/8 s and all intervals powers of two, so that sums and rates are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

MIB = 1024**2
GIB = 1024**3
WALL = 1_790_000_000.0
"""A plausible Unix time at monotonic second 0."""
PREFIX = "edgeagent.dev/"
KEY = PREFIX + "gpu-memory"
GONE = 1 << 50
"""Bytes that no board has."""

Move = tuple[Any, ...]
Owner = tuple[str, str]


# --- pods ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod as the API has it. Amounts are bytes; the first container has ``gpu`` and ``memory``."""

    name: str
    uid: str = ""
    namespace: str = "apps"
    owner: Owner | None = None
    priority: int = 0
    mirror: bool = False
    gpu: int | None = None
    annotation: str | None = None
    foreign: int | None = None
    """``nvidia.com/gpumem``, in MiB."""
    memory: int | None = None
    """Limit, and request too unless ``asked`` says another one."""
    asked: int | None = None
    side: int | None = None
    """Memory limit and request of a second container; 0: it has none; None: there is no second container."""
    agent: bool = False
    mps: bool = False
    grace: int = 30
    phase: str = "Running"
    terminating: bool = False
    start_time: float | None = None
    container: str = ""
    former: str | None = None
    started_at: float | None = None
    side_started: float | None = None


PODS: tuple[dict[str, Any], ...] = (
    {"gpu": GIB},
    {"gpu": GIB, "memory": 2 * GIB},
    {"gpu": GIB, "memory": 512 * MIB},
    {"gpu": 4 * GIB, "memory": 6 * GIB},
    {"gpu": 512 * MIB, "memory": GIB, "priority": 5},
    {"gpu": GIB, "owner": ("ReplicaSet", "web-1")},
    {"gpu": GIB, "owner": ("ReplicaSet", "web-2")},
    {"gpu": GIB, "memory": 2 * GIB, "owner": ("StatefulSet", "db"), "grace": 300},
    {},
    {"memory": GIB},
    {"annotation": "1Gi", "memory": 2 * GIB, "grace": 1},
    {"annotation": "much"},
    {"gpu": 0},
    {"gpu": 7},
    {"foreign": 1024},
    {"gpu": 512 * MIB, "memory": GIB, "side": 0},
    {"gpu": 512 * MIB, "memory": GIB, "side": 256 * MIB},
    {"gpu": GIB, "memory": 3 * GIB, "asked": 2 * GIB, "grace": 0},
    {"gpu": 512 * MIB, "owner": ("DaemonSet", "ds")},
    {"gpu": 512 * MIB, "mirror": True},
    {"gpu": 512 * MIB, "priority": 2_000_000_000},
    {"gpu": 512 * MIB, "namespace": "kube-system"},
    {"gpu": 512 * MIB, "namespace": "spared"},
    {"gpu": 512 * MIB, "agent": True},
    {"gpu": 512 * MIB, "mps": True},
)
"""All kinds of pods: with every kind of budget, those that are never evicted, and some that nobody thought of."""


@dataclass(frozen=True, slots=True)
class Process:
    """One GPU process. ``used`` None: the driver does not know."""

    pid: int
    start: int
    uid: str
    container: str
    used: int | None
    mps: bool = False
    stray: bool = False
    """Its cgroup cannot be read."""


# --- configuration -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the configuration says, as far as decisions depend on it."""

    mode: str = "enforce"
    grace: float = 4.0
    start_grace: float = 16.0
    max_grace: float = 30.0
    pressure_grace: float = 2.0
    tolerance: int | None = None
    default_budget: int | None = None
    unbudgeted: str = "report"
    daemonsets: str = "report"
    protect: tuple[str, ...] = ("kube-system",)
    per_hour: int = 6
    within_budget: str = "alarm"
    floor: int | None = None
    horizon: float = 3.0
    max_age: float = 10.0
    coupling: str = "requests"

    def yaml(self) -> str:
        """The configuration file that says so."""
        policy = [
            f"grace: {self.grace}s",
            f"start_grace: {self.start_grace}s",
            f"max_grace: {self.max_grace}s",
            f"pressure_grace: {self.pressure_grace}s",
            f"unbudgeted: {self.unbudgeted}",
            f"daemonsets: {self.daemonsets}",
            f"protect: [{', '.join(self.protect)}]",
            f"evictions_per_hour: {self.per_hour}",
            *([f"tolerance: {self.tolerance}"] if self.tolerance is not None else []),
            *([f"default_budget: {self.default_budget}"] if self.default_budget is not None else []),
        ]
        pressure = [
            f"within_budget: {self.within_budget}",
            f"horizon: {self.horizon}s",
            *([f"floor: {self.floor}"] if self.floor is not None else []),
        ]
        return (
            f"{{mode: {self.mode}, policy: {{{', '.join(policy)}}}, pressure: {{{', '.join(pressure)}}}, "
            f"sampling: {{max_age: {self.max_age}s}}, unified: {{coupling: {self.coupling}}}}}"
        )


RULES = (
    Rules(),
    Rules(unbudgeted="evict", daemonsets="evict", within_budget="above-request", protect=("kube-system", "apps/e")),
    Rules(grace=15.0, start_grace=120.0),
    Rules(default_budget=GIB, protect=("kube-system", "spared", "apps/c"), per_hour=2),
    Rules(tolerance=0, grace=0.125, floor=GIB, horizon=0.125, coupling="static"),
    Rules(unbudgeted="evict", protect=(), max_grace=8.0, max_age=20.0),
    Rules(within_budget="above-request", per_hour=2, floor=6 * GIB),
    Rules(mode="observe"),
)


# --- what an agent reads -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    """Who held what at one moment, as the board told it."""

    at: float
    table: str
    rows: tuple[Process, ...]
    hosts: dict[str, tuple[int | None, bool]]
    """By pod uid: bytes of its cgroup, and whether they are exact."""
    system: int


@dataclass(frozen=True, slots=True)
class Memory:
    """/proc/meminfo at one moment; ``readable`` False: the read failed."""

    at: float
    readable: bool
    total: int
    used: int
    """total − free − page cache."""
    held: int
    """What processes and the kernel hold beside GPU memory."""
    available: int | None
    cma_free: int


@dataclass(frozen=True, slots=True)
class View:
    """What the agent knows of the cluster; ``pods`` None: no list so far."""

    fresh_at: float
    pods: tuple[Pod, ...] | None
    node: dict[str, Any]


CMA_TOTAL = 256 * MIB
CMA_FREE = 64 * MIB
KERNEL = 128 * MIB
CACHE = GIB


def new_node(number: int) -> dict[str, Any]:
    """A node object without anything of ours; it is replaced, never changed."""
    return {
        "uid": f"node-{number}",
        "capacity": {},
        "allocatable": {},
        "labels": {"beta.kubernetes.io/arch": "arm64"},
        "annotations": {},
        "conditions": ({"type": "Ready", "status": "True", "reason": "KubeletReady"},),
    }


@dataclass
class World:
    """The truth. ``cards`` True: an x86 machine with two cards in place of an Orin."""

    cards: bool = False
    now: float = 64.0
    wall_offset: float = 0.0
    boot: int = 0
    made: int = 0
    """Pods, containers, processes and nodes so far: nothing has the name of another one."""
    pods: dict[str, Pod] = field(default_factory=dict)
    processes: dict[int, Process] = field(default_factory=dict)
    hosts: dict[str, tuple[int | None, bool]] = field(default_factory=dict)
    total: int = 16 * GIB
    available: int | None = 8 * GIB
    twice: int = 0
    """Registered host memory: it stands in a cgroup and in the GPU's figures."""
    system: int = 0
    daemons: int = 0
    """Host memory of processes outside pods."""
    table: str = "good"
    meminfo: str = "good"
    watching: bool = True
    listed: bool = True
    rules: int = 0
    annotated: bool = False
    rival: bool = False
    api: str = "accepted"
    retry_after: float | None = None
    prompt: bool = True
    """Evictions are called and answered before anything else happens."""
    writes: str = "all"
    node: dict[str, Any] = field(default_factory=lambda: new_node(0))
    view: View = View(0.0, None, {})

    def number(self) -> int:
        self.made += 1
        return self.made

    def look(self) -> View:
        """The agent's view now: current while the watch is open, else as it was when that broke."""
        if not self.listed:
            return View(self.now, None, {})
        if self.watching or self.view.pods is None:
            self.view = View(self.now, tuple(self.pods.values()), self.shown_node())
        return self.view

    def shown_node(self) -> dict[str, Any]:
        """The node object with what others put there."""
        found = self.node
        if self.annotated:
            found = {**found, "annotations": {**found["annotations"], PREFIX + "mode": "observe"}}
        if self.rival:
            found = {**found, "labels": {**found["labels"], "gpu": "on"}}
        return found

    def sample(self) -> Sample:
        return Sample(
            self.now, self.table, tuple(self.processes.values()), dict(self.hosts), 0 if self.cards else self.system
        )

    def read_memory(self) -> Memory:
        gpu = 0 if self.cards else sum(one.used or 0 for one in self.processes.values()) + self.system
        held = sum(amount or 0 for amount, _ in self.hosts.values()) + self.daemons + KERNEL
        total = self.total * 3 // 4 if self.meminfo == "other" else self.total
        used = min(total - CACHE, max(0, gpu + held - self.twice))
        available = None if self.meminfo == "bare" else self.available
        return Memory(self.now, self.meminfo != "failed", total, used, held, available, CMA_FREE)

    # --- moves ---

    def create(self, name: str, kind: int) -> None:
        """A pod of this name, new; one that had it is gone, its processes may not be."""
        number = self.number()
        self.pods[name] = Pod(
            name=name,
            uid=f"uid-{name}-{number}",
            start_time=self.wall,
            started_at=self.wall,
            side_started=self.wall,
            container=f"box-{number}",
            **PODS[kind % len(PODS)],
        )

    def age(self, name: str) -> None:
        """The pod has been running for an hour."""
        if pod := self.pods.get(name):
            self.pods[name] = replace(
                pod, start_time=self.wall - 3600, started_at=self.wall - 3600, side_started=self.wall - 3600
            )

    def gpu(self, name: str, amount: int | None) -> None:
        """What the first process of the pod holds."""
        if pod := self.pods.get(name):
            mine = [one for one in self.processes.values() if (one.uid, one.container) == (pod.uid, pod.container)]
            amount = amount if self.cards or amount is not None else 0
            if mine:
                self.processes[mine[0].pid] = replace(mine[0], used=amount)
            else:
                self.fork(name, amount)

    def fork(self, name: str, amount: int | None) -> None:
        """One more process of the pod."""
        if pod := self.pods.get(name):
            number = self.number()
            amount = amount if self.cards or amount is not None else 0
            self.processes[1000 + number] = Process(1000 + number, number, pod.uid, pod.container, amount, mps=pod.mps)

    def host(self, name: str, amount: int | None, exact: bool) -> None:  # noqa: FBT001
        if pod := self.pods.get(name):
            self.hosts[pod.uid] = (amount, exact)

    def drop(self, name: str) -> None:
        """The first process of the pod ends, others stay."""
        if pod := self.pods.get(name):
            mine = [pid for pid, one in self.processes.items() if one.uid == pod.uid]
            for pid in mine[:1]:
                del self.processes[pid]

    def stray(self, name: str) -> None:
        """The cgroups of the pod's processes cannot be read any more."""
        if pod := self.pods.get(name):
            for one in [one for one in self.processes.values() if one.uid == pod.uid]:
                self.processes[one.pid] = replace(one, stray=not one.stray)

    def exit(self, name: str) -> None:
        """The pod's processes end, its object stays."""
        if pod := self.pods.get(name):
            self._end({pod.uid})

    def reap(self) -> None:
        """What is terminating or finished ends, object and all; what was left behind ends too."""
        for name, pod in list(self.pods.items()):
            if pod.terminating:
                del self.pods[name]
        alive = {pod.uid for pod in self.pods.values()}
        self._end({one.uid for one in self.processes.values()} - alive)
        self.hosts = {uid: found for uid, found in self.hosts.items() if uid in alive}

    def _end(self, uids: set[str]) -> None:
        self.processes = {pid: one for pid, one in self.processes.items() if one.uid not in uids}

    def delete(self, name: str) -> None:
        """The object goes at once; processes stay."""
        self.pods.pop(name, None)

    def terminate(self, name: str) -> None:
        if pod := self.pods.get(name):
            self.pods[name] = replace(pod, terminating=True)

    def phase(self, name: str, phase: str) -> None:
        if pod := self.pods.get(name):
            pending = phase == "Pending"
            self.pods[name] = replace(pod, phase=phase, start_time=None if pending else pod.start_time or self.wall)

    def restart(self, name: str) -> None:
        """The container starts anew; processes of the old one may still be there."""
        if pod := self.pods.get(name):
            self.pods[name] = replace(pod, container=f"box-{self.number()}", former=pod.container, started_at=self.wall)

    def free(self, available: int) -> None:
        self.available = available

    def outside(self, system: int, daemons: int) -> None:
        self.system, self.daemons = system, daemons

    def registered(self, amount: int) -> None:
        self.twice = amount

    def tables(self, how: str) -> None:
        self.table = how

    def meminfos(self, how: str) -> None:
        self.meminfo = how

    def clock(self, by: float) -> None:
        """The wall clock is set; the monotonic one never is."""
        self.wall_offset += by

    def watch(self, is_open: bool) -> None:  # noqa: FBT001
        self.look()
        self.watching = is_open

    def annotate(self, on: bool) -> None:  # noqa: FBT001
        self.annotated = on

    def other_owner(self, on: bool) -> None:  # noqa: FBT001
        self.rival = on

    def configure(self, which: int) -> None:
        self.rules = which % len(RULES)

    def answers(self, outcome: str, retry_after: float | None, prompt: bool) -> None:  # noqa: FBT001
        self.api, self.retry_after, self.prompt = outcome, retry_after, prompt

    def writing(self, how: str) -> None:
        self.writes = how

    def kubelet(self, parts: tuple[str, ...]) -> None:
        """The kubelet registers anew and sets extended resources to 0."""
        zero = {key: "0" if key.startswith(PREFIX) else value for key, value in self.node["capacity"].items()}
        self.node = {**self.node, **dict.fromkeys(parts, zero)}

    def new_object(self) -> None:
        """The node object is made anew."""
        self.node = new_node(self.number())

    @property
    def wall(self) -> float:
        return WALL + self.now + self.wall_offset

"""Everything that the endpoint tells: one frozen value, made once per cycle by the agent.

No request reads anything. What is old is found out when it is asked for, by comparing the
times in here with the present one: a value is never told after its reading has become stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from edgeagent.plan.advice import Advice, advice
from edgeagent.plan.peaks import Peaks
from edgeagent.serve.histogram import Distribution

if TYPE_CHECKING:
    from edgeagent.config import Reserves
    from edgeagent.facts.neighbours import Neighbour
    from edgeagent.facts.vitals import Vitals
    from edgeagent.plan.types import Event, Plan
    from edgeagent.serve.trail import Point

Feed = Literal["memory", "gpu", "host", "devices"]
"""What a reading supplies.

``memory`` the board's available memory and pressure · ``gpu`` GPU bytes of pods and of the rest ·
``host`` host bytes of pods · ``devices`` health and size of discrete devices.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopHealth:
    """A loop of the agent. Times are monotonic seconds."""

    beat_at: float
    """When it last completed a turn, or was started."""
    allowed: float
    """Seconds between two turns after which only a restart helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingHealth:
    """A source that the board is read from. Times are monotonic seconds."""

    succeeded_at: float | None
    """None: it never gave a value."""
    max_age: float
    """Seconds after which the value is stale."""
    why: str = ""
    """Why the last attempt failed; empty after a success."""
    waiting_since: float | None = None
    """When a call began that has not come back, as a hung driver leaves it; None: no call is overdue."""
    feeds: frozenset[Feed] = frozenset()
    never: str = ""
    """Why this board cannot give the value at all, which is no fault and will not pass; empty: it can."""

    def stale(self, now: float) -> bool:
        """Whether there is no value that may still be used, although there should be one."""
        if self.never:
            return False
        return self.succeeded_at is None or now - self.succeeded_at > self.max_age


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Something that the API server does not let the agent do.

    ``part`` names it briefly (``patch nodes/status``, ``evict``), ``code`` is the HTTP status.
    """

    part: str
    code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHealth:
    """The connection to the API server. Times are monotonic seconds."""

    node: str | None
    """Name of this node; None: not known, so nothing is written."""
    complete: bool
    """Own node and own pods have been listed."""
    fresh_at: float
    """Second up to which the view is known to be current; -inf before it is complete."""
    succeeded_at: float | None
    """Last answer that was a success."""
    error: str = ""
    """What went wrong last; empty after a success."""
    unusable: str = ""
    """Why credentials that were given or found cannot be used; empty: they can, or it was not looked yet."""
    refused: tuple[Refused, ...] = ()
    published: bool = False
    """The node carries what the plan wants it to; once true, it stays true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What has happened since the start."""

    cycles: int = 0
    cycle_seconds: Distribution = field(default_factory=Distribution)
    """How long cycles took, from the first reading to the plan."""
    late_seconds: Distribution = field(default_factory=Distribution)
    """How long after they were due cycles began."""
    evictions: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By (breach, outcome)."""
    kills: Mapping[str, int] = field(default_factory=dict)
    """Processes that were to be killed, by outcome."""
    api_calls: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By (verb, status code or ``unreachable``)."""
    repatches: int = 0
    """Times that the node's values had to be restored because others had changed them."""
    unknown_pods: int = 0
    """Pods in samples whose GPU memory was not known, each time."""
    lost_log_lines: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigHealth:
    """The configuration in force."""

    digest: str
    """Hexadecimal digest of it: equal on nodes that are configured alike."""
    refused: tuple[str, ...] = ()
    """Why the files, as they are now, cannot be used: the last good ones are in force. Empty: they are."""

    @property
    def last_reload_ok(self) -> bool:
        """Whether the files, as they are now, are in force."""
        return not self.refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the agent itself takes of the board."""

    resident_bytes: int
    cpu_seconds: float
    open_files: int
    threads: int
    started: float
    """Monotonic second."""

    def started_at(self, now: float, wall: float) -> int:
        """The Unix time of the start, at monotonic second ``now``, which is ``wall``.

        In whole seconds: the microseconds between two looks at two clocks would each time read as one more start.
        """
        return round(wall - (now - self.started))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The state of the agent after one cycle."""

    plan: Plan | None
    """None until every source was read once."""
    at: float
    """Monotonic second of the plan's sample."""
    max_age: float
    """Seconds after which a plan is stale (``sampling.max_age``)."""
    settings: Reserves
    """Configured reserves."""
    config: ConfigHealth
    loops: Mapping[str, LoopHealth] = field(default_factory=dict)
    """By name: ``cycle``, ``reconcile``."""
    readings: Mapping[str, ReadingHealth] = field(default_factory=dict)
    """By name: ``meminfo``, ``nvml``, ``attribution``. Only what this board needs."""
    cluster: ClusterHealth | None = None
    """None: standalone."""
    counters: Counters = field(default_factory=Counters)
    cost: Cost | None = None
    configured: Mapping[str, Any] = field(default_factory=dict)
    """The configuration in force, as it would stand in config.yaml; sizes in bytes."""
    events: tuple[Event, ...] = ()
    """The latest that were told or are to be told, newest first."""
    incidents: tuple[bytes, ...] = ()
    """The lines of the journal that tell of the latest incidents, oldest first."""
    trail: tuple[Point, ...] = ()
    """The last quarter of an hour, oldest first."""
    peaks: Peaks = field(default_factory=Peaks)
    """The most that each workload held lately."""
    neighbours: Mapping[str, Neighbour] = field(default_factory=dict)
    """How pods fare beside each other, by uid."""
    vitals: Vitals | None = None
    """Power mode, temperatures and throttling of the board; None: not known."""
    diagnosed: bool = True
    """What is wrong was looked for, and lately; else findings are only those that a plan has of itself."""

    def stale(self, now: float) -> bool:
        """Whether there is no plan that may still be told."""
        return self.plan is None or now - self.at > self.max_age

    def stale_feeds(self, now: float) -> frozenset[Feed]:
        """What may not be told because a reading that supplies it is stale."""
        return frozenset(feed for reading in self.readings.values() if reading.stale(now) for feed in reading.feeds)

    @property
    def budgets(self) -> tuple[Advice, ...]:
        """What to write into each workload. Made when somebody asks."""
        return advice(self.peaks, self.plan)

    @property
    def has_gpu(self) -> bool:
        """Whether there is a GPU whose memory is to be published."""
        return self.plan is not None and self.plan.board.kind not in ("none", "unknown")

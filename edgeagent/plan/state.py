"""What one decision hands to the next, frozen. Losing it is safe: every window starts anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgeagent.facts import MemInfo
from edgeagent.memory.types import Board, Device
from edgeagent.plan.bookings import Bookings


@dataclass(frozen=True, slots=True)
class Known:
    """A device as it was when it last answered, and the readings in a row since then in which it did not."""

    device: Device
    misses: int = 0


@dataclass(frozen=True, slots=True)
class Doubt:
    """A MemTotal that is not the board's, and the readings in a row that gave it."""

    total: int
    readings: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What the board has proven to be so far."""

    board: Board | None = None
    """The last verdict that rested on a readable driver."""
    devices: tuple[Known, ...] = ()
    absent: int = 0
    """Readings in a row that proved that there is no GPU."""
    meminfo: MemInfo | None = None
    """The last good reading; sizes do not change while one fails."""
    doubt: Doubt | None = None
    sampled_at: float | None = None
    unready: int = 0
    """Readings in a row that proved the GPU path not ready for ``ai-capable``."""
    unready_at: float | None = None
    """The sample that was last looked at for that."""
    gpu_seen: bool = False
    """A pod was seen using the GPU since boot."""


@dataclass(frozen=True, slots=True)
class Published:
    """The value of one capacity key that we last asked for, and a larger one that waits to be steady."""

    value: int
    known_at: float
    """When the pool was last sized from good readings."""
    rising: int | None = None
    rising_since: float = 0.0


@dataclass(frozen=True, slots=True)
class Good:
    """The last value of a capacity key that rested on good readings, in bytes, and whose memory it was."""

    value: int
    devices: tuple[tuple[str, str], ...]
    """(identity, identity of its card) of every device in the sum; they differ for a MIG instance."""


@dataclass(frozen=True, slots=True)
class Window:
    """How long a pod has been over, by consecutive fresh samples."""

    seconds: float
    samples: int
    last_at: float
    consecutive: bool = True
    """False after a due reading that failed: the time across it does not count."""
    first_at: float = 0.0


@dataclass(frozen=True, slots=True)
class PressureMemory:
    """Recent readings of usable memory, (monotonic second, bytes), and since when the board is under pressure."""

    readings: tuple[tuple[float, int], ...] = ()
    low: int = 0
    """Readings in a row below the floor."""
    falling: int = 0
    """Readings in a row for which the floor is nearer than the horizon."""
    since: float | None = None
    by_floor: bool = False
    calm_since: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A pod whose eviction was accepted, until its object and its processes are gone."""

    uid: str
    key: str
    at: float
    grace: float
    processes: tuple[tuple[int, int | None], ...]
    released_at: float | None = None
    """When the last of its processes was seen to be gone."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long the pods of one owner are left alone after an eviction."""

    minutes: int
    until: float
    breached_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Kills:
    """What the next kill depends on: evictions that are not answered, and what became of the kills before it."""

    asked: Mapping[str, float] = field(default_factory=dict)
    """By pod uid: since when its eviction is asked for."""
    last: frozenset[tuple[int, int]] = frozenset()
    """Processes of the last kill, (pid, start ticks), that were not seen gone."""
    last_at: float = 0.0
    signalled: frozenset[tuple[int, int]] = frozenset()
    """Processes of all kills that were not seen gone, and may have been sent a signal."""
    covered_at: float | None = None
    """Since when the memory is nearly gone while what is being released would cover the shortfall; None: it is not."""
    ended_at: float = float("-inf")
    """When a process that was to be killed was seen to be gone."""
    impossible: str = ""
    """Why this machine cannot kill at all; empty when it can, or never tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """All of it."""

    hardware: Hardware = field(default_factory=Hardware)
    published: Mapping[str, Published] = field(default_factory=dict)
    good: Mapping[str, Good] = field(default_factory=dict)
    """By capacity key, from an earlier run too: what stands in after a start in which the pool cannot be sized."""
    bookings: Bookings | None = field(default=None, compare=False, repr=False)
    """Those of the last decision, which are right for every pod that has not changed."""
    mixed: bool = False
    """The board has or had both kinds of memory, so ``gpu-memory`` is its cards' for good."""
    milli: int | None = None
    """Thousandths of a GPU that were last published; None for none."""
    labels: Mapping[str, str] | None = None
    """Labels of the last readable verdict."""
    windows: Mapping[str, Window] = field(default_factory=dict)
    first_seen: Mapping[str, float] = field(default_factory=dict)
    """Monotonic second at which a container, by its id, was first seen."""
    pressure: PressureMemory = field(default_factory=PressureMemory)
    victims: Mapping[str, Victim] = field(default_factory=dict)
    going: Mapping[str, Victim] | None = None
    """Pods that were going when this run began, which are waited for as well; None before the first look at them."""
    hold_down_until: float = 0.0
    backoff: Mapping[tuple[str, str, str], Backoff] = field(default_factory=dict)
    """By owner: (namespace, controller kind, name)."""
    evicted_at: tuple[float, ...] = ()
    """Accepted evictions of the last hour."""
    blocked_until: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    """By pod uid: until when the API server's refusal holds, and what it said."""
    barred_until: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    """By namespace: the same for a refusal that is about the agent, not about one pod."""
    kills: Kills = field(default_factory=Kills)
    refused: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Refusals of evictions that were told of, by pod uid and outcome, and when the pod was last to go."""
    told: frozenset[tuple[str, ...]] = frozenset()
    """Events that were recorded and whose reason still holds."""

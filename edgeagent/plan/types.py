"""What should be done, as frozen values: the plan, its parts, and how the calls that carry it out can end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from edgeagent.facts import Finding as Finding  # noqa: PLC0414 (a part of a plan, whoever made it)

if TYPE_CHECKING:
    from edgeagent.memory.types import Board, Pool, Usage
    from edgeagent.plan.breaches import Breach, PodView
    from edgeagent.plan.pressure import Danger

HeldCode = Literal[
    "protected",
    "daemonset",
    "stale",
    "start-grace",
    "grace",
    "observe",
    "one-at-a-time",
    "releasing",
    "hold-down",
    "backoff",
    "hourly-cap",
    "blocked",
]
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One write to the API server that is due now."""

    method: str
    path: str
    content_type: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A node condition as it should be; the time of transition is added when it is sent."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWish:
    """What the node should carry. Amounts are quantities as published (``6083Mi``)."""

    capacity: Mapping[str, str]
    labels: Mapping[str, str]
    conditions: tuple[Condition, ...]
    requests: tuple[Request, ...]
    """The writes that lead there from the node as it is: status merge-patch first, then conditions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """One pod to evict now, by uid."""

    namespace: str
    name: str
    uid: str
    breach: Breach
    grace_seconds: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """GPU processes of one pod to kill now, each by (pid, start_ticks).

    What is checked again just before the signal has defaults that no process passes.
    """

    uid: str
    processes: tuple[tuple[int, int], ...]
    message: str
    key: str = ""
    """``namespace/name`` of the pod."""
    cgroup_uid: str = ""
    """The uid that the cgroup of each process must name."""
    containers: frozenset[str] = frozenset()
    """Ids of the pod's current containers: the cgroup must name one of them."""
    read_at: float = float("-inf")
    """Monotonic second of the reading that says that the pod is over its budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A pod that would be evicted but for ``code``. ``seconds_left`` None: no time ends it."""

    uid: str
    code: HeldCode
    seconds_left: float | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A Kubernetes event to record once.

    ``namespace`` and ``name`` of the regarded object; a node event has namespace "".
    """

    reason: str
    kind: Literal["Pod", "Node"]
    namespace: str
    name: str
    uid: str
    note: str
    warning: bool = True
    id: str = ""
    """Names what happened, once and for all: told again under the same id, it is known already. Empty: none yet."""
    at: float | None = None
    """Monotonic second at which it happened; None: now."""
    wall: float | None = None
    """Unix time at which it happened in an earlier boot, whose monotonic seconds are not those of this one."""
    lasting: bool = False
    """It tells how things are, and not what happened: an agent that is started anew has nothing new to tell by it."""

    @property
    def regarding(self) -> str:
        """``pod ns/name`` or ``node name``."""
        return f"pod {self.namespace}/{self.name}" if self.kind == "Pod" else f"node {self.name}"


Outcome = Literal[
    "accepted",
    "gone",
    "blocked",
    "throttled",
    "misconfigured",
    "forbidden",
    "unauthorized",
    "unknown",
    "recovered",
]
"""How an eviction call ended.

``accepted`` 201 · ``gone`` 404 or 409: the pod is no longer the one decided on · ``blocked`` 429
by a disruption budget, or 403 that names one · ``throttled`` other 429: the server asks all
traffic to pause · ``misconfigured`` 500, more than one budget matches · ``forbidden`` other 403,
or 422 by policy · ``unauthorized`` 401, or 403 by an authorizer: it is about the agent, whatever the pod ·
``unknown`` time-out, cut connection or other 5xx, and the pod could not be
read afterwards · ``recovered`` decided on anew just before the call, it was not due any more:
nothing was sent.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionResult:
    """Outcome of one eviction call.

    ``retry_after``: seconds before this pod, or all traffic, is tried again. ``code``: HTTP status of the answer that
    refused it; None where none did.
    """

    uid: str
    outcome: Outcome
    message: str = ""
    retry_after: float | None = None
    code: int | None = None


KillOutcome = Literal["killed", "gone", "changed", "stale", "refused", "not-procfs", "no-pidfd"]
"""How the kill of one process ended; only ``killed`` means that a signal was sent.

``gone`` it had ended · ``changed`` the pid is another process's by now, or its cgroup names another
pod or no current container · ``stale`` the reading was too old by then · ``refused`` the kernel did not
allow it, or one of the files to check could not be read · ``not-procfs`` the process table that was
read is not that of the agent's own pid namespace: the board is driven from files, or the agent is
confined · ``no-pidfd`` a kernel below 5.3 has no way to signal a process that cannot hit another one.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillResult:
    """Outcome of one kill, by process. ``message``: why the first of those that were not killed was not."""

    uid: str
    outcomes: tuple[tuple[tuple[int, int], KillOutcome], ...]
    message: str = ""


@dataclass(frozen=True, slots=True)
class GpuPath:
    """Whether a container can use the GPU."""

    proven: bool | None
    """None: neither proven nor disproven."""
    why: str
    """A sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is, and what should be done."""

    board: Board
    pools: tuple[Pool, ...]
    advertised: Mapping[str, int]
    """Bytes by pool resource, as capacity should say."""
    available: int | None
    """MemAvailable."""
    usage: Usage
    danger: Danger
    pods: tuple[PodView, ...]
    listed: bool
    """The pods of the node are known; else ``pods`` is empty for want of a cluster, or of its first answer."""
    node: NodeWish
    evictions: tuple[Eviction, ...]
    kills: tuple[Kill, ...]
    held: tuple[Held, ...]
    events: tuple[Event, ...]
    findings: tuple[Finding, ...]
    observe: str
    """Why nothing is done; empty when acting is allowed."""
    host_over: bool | None = None
    """Processes outside pods use more than is reserved for them; None: a figure is missing."""
    gpu_path: GpuPath
    """Whether a container can use the GPU here, which ``ai-capable`` tells."""

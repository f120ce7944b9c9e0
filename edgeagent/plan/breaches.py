"""Is a pod over its budget in this sample, and for how long has it been?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from edgeagent import quantity
from edgeagent.memory.types import Budget, PodUse
from edgeagent.plan.state import Window
from edgeagent.quantity import MIB, human

if TYPE_CHECKING:
    from edgeagent.config import Policy
    from edgeagent.facts import MemInfo, PodFacts
    from edgeagent.memory.pools import PoolKey

Breach = Literal["gpu", "shared", "unbudgeted", "above-request"]
"""What a pod is evicted for: it is over its budget, or the board needs room."""
PodState = Literal["terminating", "unknown", "protected", "breach", "unbudgeted", "ok"]
MIN_SAMPLES = 2
"""A single sample never evicts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """One live pod in one sample, before any grace."""

    pod: PodFacts
    budgets: Mapping[str, Budget]
    use: PodUse
    state: PodState
    reason: str = ""
    breach: Breach | None = None
    """What the pod is over, whether or not its state hides it."""
    excess: int = 0
    """Bytes above the budget; the larger where both budgets are exceeded."""
    resource: str = ""
    """The pool of the breach."""
    protected: str = ""
    """Why it is never evicted; empty when it may be."""
    start_left: float = 0.0
    """Seconds until its host bytes count against it: weights pass through host memory while a model loads."""
    shared: tuple[str, ...] = ()
    """The pools that share their memory with the host."""
    blind: bool = False
    """Whether it is over its total budget could not be judged: a figure is missing."""

    @property
    def held_bytes(self) -> int:
        """GPU and host bytes that go back to the board when the pod ends; a card's own memory does not."""
        return sum(self.use.gpu.get(resource) or 0 for resource in self.shared) + (self.use.host or 0)

    @property
    def proven_bytes(self) -> int:
        """As :attr:`held_bytes`, without a host figure that is only an upper bound."""
        return self.held_bytes if self.use.host_exact else self.held_bytes - (self.use.host or 0)

    @property
    def booked(self) -> int:
        """Bytes that the pod has booked of the pools that share their memory with the host."""
        return sum(self.budgets[resource].booked for resource in self.shared)


def tolerance(budget: int, setting: int | None) -> int:
    """Bytes that a pod may be above ``budget`` without being over: allocator granularity is no breach."""
    return setting if setting is not None else max(16 * MIB, -(-budget // 200))


def overlap(meminfo: MemInfo | None, gpu_total: int | None) -> int | None:
    """Bytes that stand both in a cgroup and in the GPU's figures, at most: registered host memory.

    What the kernel counts as used cannot be less than GPU memory plus host memory; as far as it
    is, something was counted twice. None when a figure is missing: then no sum of both proves a breach.
    """
    if meminfo is None or gpu_total is None:
        return None
    host = meminfo.held
    cache = quantity.total((meminfo.free, meminfo.active_file, meminfo.inactive_file, meminfo.s_reclaimable))
    if host is None or cache is None:
        return None
    return max(0, gpu_total + host - (meminfo.total - cache))


@dataclass(frozen=True, slots=True)
class _Over:
    breach: Breach
    excess: int
    resource: str
    sentence: str


def examine(
    pod: PodFacts,
    budgets: Mapping[str, Budget],
    use: PodUse,
    keys: Sequence[PoolKey],
    overlaps: Mapping[str, int | None],
    policy: Policy,
    *,
    protected: str,
    start_left: float,
) -> PodView:
    """The pod in this sample. ``overlaps``: :func:`overlap` by pool resource, ``protected``: why it is spared."""
    shared = tuple(key.resource for key in keys if key.kind == "unified")
    blind = any(_blind(budgets[resource], use, overlaps.get(resource)) for resource in shared)
    view = PodView(
        pod=pod,
        budgets=budgets,
        use=use,
        state="ok",
        protected=protected,
        start_left=start_left,
        shared=shared,
        blind=blind,
    )
    overs = [over for key in keys if (over := _over(key, budgets[key.resource], use, overlaps, policy))]
    if overs:
        worst = max(overs, key=lambda over: (over.breach == "gpu", over.excess))
        excess = max(over.excess for over in overs)
        view = replace(view, breach=worst.breach, excess=excess, resource=worst.resource, reason=worst.sentence)
    if pod.terminating:
        return replace(view, state="terminating", reason="its memory is on its way back")
    if any(use.gpu.get(key.resource) is None for key in keys):
        return replace(view, state="unknown", reason=use.why or "its GPU memory is not known")
    unbudgeted = any(use.gpu.get(key.resource) and budgets[key.resource].gpu is None for key in keys)
    if protected and (view.breach or unbudgeted):
        return replace(view, state="protected", reason=protected)
    if view.breach:
        return replace(view, state="breach")
    return replace(view, state="unbudgeted", reason="it holds GPU memory and has no budget") if unbudgeted else view


def _over(
    key: PoolKey, budget: Budget, use: PodUse, overlaps: Mapping[str, int | None], policy: Policy
) -> _Over | None:
    used = use.gpu.get(key.resource)
    if budget.gpu is None or used is None:
        return None
    gpu_excess = used - budget.gpu if used > budget.gpu + tolerance(budget.gpu, policy.tolerance) else 0
    shared_excess = (
        _shared_excess(budget, use, used, overlaps.get(key.resource), policy) if key.kind == "unified" else 0
    )
    if gpu_excess:
        sentence = f"it uses {human(used)} of GPU memory, its budget is {human(budget.gpu)}"
        return _Over("gpu", max(gpu_excess, shared_excess), key.resource, sentence)
    if shared_excess:
        both = f"{human(used)} of GPU and {human(use.host)} of host memory"
        sentence = f"it uses {both}, its budget for both is {human(budget.total)}"
        return _Over("shared", shared_excess, key.resource, sentence)
    return None


def _blind(budget: Budget, use: PodUse, twice: int | None) -> bool:
    return budget.total is not None and (use.host is None or not use.host_exact or twice is None)


def _shared_excess(budget: Budget, use: PodUse, used: int, twice: int | None, policy: Policy) -> int:
    if budget.total is None or use.host is None or not use.host_exact or twice is None:
        return 0
    excess = used + use.host - twice - budget.total
    return excess if excess > tolerance(budget.total, policy.tolerance) else 0


def advance(before: Window | None, at: float, max_age: float) -> Window:
    """The window after one more fresh sample over. Only time between two consecutive samples over counts."""
    if before is None or at - before.last_at > max_age:
        return Window(0.0, 1, at, first_at=at)
    passed = at - before.last_at if before.consecutive else 0.0
    return Window(before.seconds + passed, before.samples + 1, at, first_at=before.first_at)


def pause(before: Window | None, at: float, max_age: float) -> Window | None:
    """The window after a due reading that failed: kept, but the time across it does not count."""
    if before is None or at - before.last_at > max_age:
        return None
    return replace(before, consecutive=False)


def matured(window: Window | None, grace: float) -> bool:
    """Over for long enough, in more than one sample."""
    return window is not None and window.samples >= MIN_SAMPLES and window.seconds >= grace

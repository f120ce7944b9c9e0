"""A board on which models are tried, counted by the code that counts real pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.facts import GPU_MEMORY, GPU_MILLI, ContainerFacts, PodFacts
from edgeagent.memory import budgets, pools, requests
from edgeagent.memory.pools import PoolKey
from edgeagent.plan import owners, sizing

if TYPE_CHECKING:
    from edgeagent.facts import Facts, NodeFacts
    from edgeagent.memory.types import Budget, Pool
    from edgeagent.plan.fitting.models import Model
    from edgeagent.plan.types import Plan


class Trial:
    """The board while models are put on it one by one. Lives within one call of ``fit``."""

    def __init__(self, plan: Plan, facts: Facts, models: Sequence[Model]) -> None:
        self.plan = plan
        self.facts = facts
        self.node: NodeFacts | None = sizing.node_of(facts)
        self.owner = owners.other_owner(self.node)
        """Another project that hands out the GPU memory of this node."""
        self.pods = tuple(view.pod for view in plan.pods)
        self.wanted = tuple(_pod(model, number) for number, model in enumerate(models))
        """Each model as the pod that it stands for: one container, requests equal to limits."""
        self.coupled = facts.config.unified.coupling == "requests"
        """Host parts of pods shrink the pool that they share with the GPU."""
        names = [pool.resource for pool in plan.pools]
        primary = GPU_MEMORY if GPU_MEMORY in names or not names else names[0]
        policy = facts.config.policy
        self.budgets: dict[str, Mapping[str, Budget]] = {view.pod.uid: view.budgets for view in plan.pods} | {
            pod.uid: {
                pool.resource: budgets.budget(pod, pool.resource, pool.kind, policy, primary=pool.resource == primary)
                for pool in plan.pools
            }
            for pod in self.wanted
        }

    def filled(self, pool: Pool, pods: Sequence[PodFacts]) -> Pool:
        """``pool`` with ``pods`` in place of those that it was sized with."""
        key = PoolKey(pool.resource, pool.kind, ())
        return pools.fill(key, (pool.total, pool.reserves), pods, self.budgets, self.facts.config)

    def booked(self, pod: PodFacts, pool: Pool) -> int:
        """Bytes of ``pool`` that ``pod`` takes from what others can request."""
        budget = self.budgets[pod.uid][pool.resource]
        return budget.booked if self.coupled else budget.booked - budget.host_request

    def taken(self, pool: Pool) -> int:
        """The same of all pods that ``pool`` is filled with."""
        return pool.booked if self.coupled else pool.booked - pool.host_committed

    def host(self, pod: PodFacts) -> int:
        """Of what ``pod`` takes, the host memory."""
        return sum(budget.host_request for budget in self.budgets[pod.uid].values()) if self.coupled else 0

    def room(self, key: str) -> int | None:
        """How much of ``memory`` or ``gpu-milli`` pods can request here; None: not known."""
        if key == GPU_MILLI:
            text = self.plan.node.capacity.get(GPU_MILLI)
        else:
            text = self.node.allocatable.get(requests.MEMORY) if self.node else None
        try:
            return None if text is None else quantity.parse(text)
        except ValueError:
            return None

    def cards(self, pool: Pool) -> list[int]:
        """Usable bytes of each card of a pool."""
        sizes = (
            pools.usable(device, self.facts.config.reserves)
            for device in self.plan.board.devices
            if device.memory == "discrete" and device.uuid in pool.devices
        )
        return [size for size in sizes if size is not None]


def requested(pods: Iterable[PodFacts], key: str) -> int:
    """Σ requests of ``pods``, in the unit of ``key``."""
    return sum(requests.total(pod, key, "requests") for pod in pods)


def _pod(model: Model, number: int) -> PodFacts:
    container = ContainerFacts(name=model.name, kind="regular", requests=model.amounts, limits=model.amounts)
    return PodFacts(namespace="", name=model.name, uid=f"model {number}", containers=(container,))

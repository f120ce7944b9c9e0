"""What the page says beside the document: where settings stand, what pods use of what they booked, what is missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeagent.memory import usage
from edgeagent.memory.pools import PoolKey
from edgeagent.plan import survival
from edgeagent.plan.report import gaps

if TYPE_CHECKING:
    from edgeagent.facts import Facts
    from edgeagent.memory.types import Pool
    from edgeagent.plan.breaches import PodView
    from edgeagent.plan.report.gaps import Gap
    from edgeagent.plan.survival import Outlook
    from edgeagent.plan.types import Plan

_NAMED = 3
"""Processes outside pods that are named, the largest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """Bytes of one pool by what pods do with them."""

    used: int
    """In use, as far as it was booked."""
    over: int
    """In use beyond what was booked."""
    idle: int
    """Booked and not in use."""
    blind: int
    """Booked by pods whose use is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """Facts of the plan that the document has no key for."""

    listed: bool
    """The pods of the node are known; else none in the document does not mean that there are none."""
    observe: str
    """Why nothing is done; empty when acting is allowed."""
    server: bool
    """The node runs K3s' control plane too."""
    set_by: Mapping[tuple[str, str], str]
    """Where a reserve that is no default was set, by pool resource and line."""
    foreign: Mapping[str, int]
    """Budgets from annotations and other projects' keys, by pool resource."""
    computed: Mapping[str, int]
    """What the sum leaves of a pool, before it is rounded and before what admitted pods hold counts, by resource."""
    coupled: bool
    """Host parts of pods shrink the pool (``unified.coupling: requests``)."""
    fills: Mapping[str, Fill]
    """By pool resource."""
    system: tuple[tuple[str, int], ...]
    """The largest holders of GPU memory outside pods: name and bytes."""
    minors: Mapping[str, int]
    """Minor numbers of cards, by uuid: the number in ``gpu-memory-0``."""
    unwell: Mapping[str | None, str]
    """What is wrong with a device, by uuid."""
    floor: int
    """Bytes of usable memory below which the board is in danger."""
    outlook: Outlook | None
    gaps: tuple[Gap, ...]


def background(plan: Plan, facts: Facts, *, recorded: bool) -> Background:
    """The background of ``plan``, which was made from ``facts``. ``recorded``: they come from a snapshot."""
    unified = next((pool for pool in plan.pools if pool.kind == "unified"), None)
    return Background(
        listed=plan.listed,
        observe=plan.observe,
        server=facts.host.kubelet.server,
        set_by={
            (pool.resource, reserve.name): reserve.source
            for pool in plan.pools
            for reserve in pool.reserves
            if reserve.source
        },
        foreign={pool.resource: pool.foreign_committed for pool in plan.pools},
        computed={pool.resource: pool.computed for pool in plan.pools},
        coupled=facts.config.unified.coupling == "requests",
        fills={pool.resource: _fill(pool, plan.pods) for pool in plan.pools},
        system=_largest(_system(plan, facts)),
        minors={
            device.uuid: device.minor
            for device in plan.board.devices
            if device.memory == "discrete" and device.uuid is not None and device.minor is not None
        },
        unwell={device.uuid: device.why for device in plan.board.devices if device.why},
        floor=plan.danger.floor,
        outlook=_outlook(plan, facts, unified),
        gaps=tuple(gaps.gaps(plan, facts, recorded=recorded)),
    )


def _outlook(plan: Plan, facts: Facts, pool: Pool | None) -> Outlook | None:
    """None without shared memory: a pod that fills a card's own gets an error, and the board lives."""
    if not plan.board.unified:
        return None
    return survival.outlook(facts.config, plan.danger, pool, facts.host.files.kernel, plan.board.l4t)


def _fill(pool: Pool, views: Iterable[PodView]) -> Fill:
    used = over = idle = blind = 0
    for view in views:
        booked, gpu = view.budgets[pool.resource].booked, view.use.gpu.get(pool.resource)
        if gpu is None:
            blind += booked
            continue
        held = gpu + ((view.use.host or 0) if pool.kind == "unified" else 0)
        used += min(held, booked)
        over += max(0, held - booked)
        idle += max(0, booked - held)
    return Fill(used=used, over=over, idle=idle, blind=blind)


def _system(plan: Plan, facts: Facts) -> Iterator[tuple[str, int]]:
    """GPU bytes of each row that belongs to no pod, with the name of its process."""
    for pool in plan.pools:
        devices = tuple(device for device in plan.board.devices if device.uuid in pool.devices)
        found = usage.source(PoolKey(pool.resource, pool.kind, devices), facts.host)
        for row in found.rows or ():
            process = facts.host.processes.get(row.pid)
            if row.pid == 0:
                yield "the kernel", row.bytes or 0
            elif process is not None and process.cgroup_readable and process.owner is None and not process.kernel:
                yield process.name, row.bytes or 0


def _largest(rows: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    together: dict[str, int] = defaultdict(int)
    for name, amount in rows:
        together[name] += amount
    held = sorted(((name, amount) for name, amount in together.items() if amount), key=lambda row: (-row[1], row[0]))
    return tuple(held[:_NAMED])

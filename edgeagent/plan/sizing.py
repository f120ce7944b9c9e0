"""The pools of one decision: which keys there are, what is committed of each, and what capacity should say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.facts import GPU_MEMORY, GPU_MILLI, IGPU_MEMORY
from edgeagent.facts.codes import DRIVER_NOT_LOADED
from edgeagent.memory import pools, requests
from edgeagent.plan import bookings, capacity, hardware, lastgood
from edgeagent.plan.state import Published, State

if TYPE_CHECKING:
    from edgeagent.config import Config
    from edgeagent.facts import Facts, NodeFacts, PodFacts
    from edgeagent.memory.pools import PoolKey
    from edgeagent.memory.types import Board, Budget, Device, Pool
    from edgeagent.plan.bookings import Bookings


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """The pools with the figures that they were sized from."""

    keys: tuple[PoolKey, ...]
    counted: tuple[PoolKey, ...] = ()
    """The same without the devices that are proven lost."""
    pools: Mapping[str, Pool]
    """By resource; a pool whose size was never known is missing."""
    fresh: frozenset[str]
    """Resources sized from readings that are good now, not from memory."""
    budgets: Mapping[str, Mapping[str, Budget]]
    """By pod uid and resource."""
    bookings: Bookings
    """What they are from."""

    @property
    def primary(self) -> str:
        """The pool that annotations and other projects' keys, which name none, speak of."""
        return _primary(self.keys)

    @property
    def short(self) -> frozenset[str]:
        """Resources of pools that have lost a device for good."""
        return frozenset(
            key.resource
            for key, left in zip(self.keys, self.counted, strict=True)
            if len(left.devices) < len(key.devices)
        )

    @property
    def unified(self) -> Pool | None:
        """The pool that shares its memory with the host."""
        return next((pool for pool in self.pools.values() if pool.kind == "unified"), None)


def node_of(facts: Facts) -> NodeFacts | None:
    """This node's object; None standalone, and before it was read."""
    return facts.cluster.node if facts.cluster else None


def view_current(facts: Facts, now: float) -> bool:
    """The cluster view is complete and not older than a reading may be. Standalone there is none to wait for."""
    cluster = facts.cluster
    return cluster is None or (cluster.pods is not None and now - cluster.fresh_at <= facts.config.sampling.max_age)


def size(state: State, facts: Facts, board: Board, pods: Sequence[PodFacts]) -> Sized:
    """Every pool of ``board`` with what ``pods`` have committed of it."""
    config = facts.config
    found = node_of(facts)
    published = (*state.published, *(found.capacity if found else ()))
    mixed_before = state.mixed or IGPU_MEMORY in published
    absent = board.kind in ("none", "unknown") or hardware.gone(state.hardware)
    keys = () if absent else pools.keys(board, per_device=config.discrete.pools == "device", mixed_before=mixed_before)
    counted = tuple(_counted(key, state) for key in keys)
    places = tuple((key.resource, key.kind, key.resource == _primary(keys)) for key in keys)
    booked = bookings.find(state.bookings, pods, places, config.policy)
    given = {uid: booking.budgets for uid, booking in booked.by_uid.items()}
    filled = {
        key.resource: pools.fill(key, amount, pods, given, config)
        for key in counted
        if (
            amount := pools.size(
                key, config, state.hardware.meminfo, facts.host.files.cpuless_numa_bytes, facts.host.kubelet
            )
        )
    }
    fresh = frozenset(key.resource for key in counted if key.resource in filled and _fresh(key, facts, board))
    return Sized(keys=keys, counted=counted, pools=filled, fresh=fresh, budgets=given, bookings=booked)


def _primary(keys: Sequence[PoolKey]) -> str:
    named = [key.resource for key in keys]
    return GPU_MEMORY if GPU_MEMORY in named or not named else named[0]


def unpooled(board: Board, config: Config) -> tuple[str, ...]:
    """What people should know of cards that are in no pool."""
    if config.discrete.pools == "node":
        return ()
    return tuple(
        f"{device.name} {device.uuid or 'without a uuid'} is in no pool: its minor number, which would name its key, "
        "is not known, or another card has the same"
        for device in board.devices
        if device.memory == "discrete" and device.minor is None
    )


def _counted(key: PoolKey, state: State) -> PoolKey:
    """``key`` without the devices that are proven lost."""
    return replace(key, devices=tuple(one for one in key.devices if not hardware.lost(state.hardware, (one,))))


def _fresh(key: PoolKey, facts: Facts, board: Board) -> bool:
    if key.kind == "unified":
        return facts.host.meminfo.value is not None
    return board.readable and any(device.health in ("ok", "asleep") for device in key.devices)


def publish(
    state: State, facts: Facts, sized: Sized, pods: Sequence[PodFacts], now: float, *, admitted_only: bool
) -> State:
    """The state with the values of the pool keys. A cluster view that is not current changes none."""
    if not view_current(facts, now):
        return state
    # Each key is judged apart: one whose devices are all proven lost goes, whatever else the board has.
    keys = [key for key in sized.keys if not hardware.lost(state.hardware, key.devices)]
    admitted = {
        key.resource: sum(sized.budgets[pod.uid][key.resource].gpu_request for pod in pods if pod.admitted)
        for key in keys
    }
    fresh = {resource: pool for resource, pool in sized.pools.items() if resource in sized.fresh}
    # What an earlier run published stands in where the pool cannot be sized: the node's own value, else the file's.
    earlier = {
        key.resource: Published(amount, now)
        for key in keys
        if (amount := _on_node(node_of(facts), key.resource) or lastgood.value(state.good, key, facts.host))
    }
    for key in sized.counted:
        # A failing card that never told its size is in the last good value and in no sum, until it is proven lost.
        unsized = any(device.failing and device.total_bytes is None for device in key.devices)
        if unsized and (key.resource in state.published or key.resource in earlier):
            fresh.pop(key.resource, None)
    # It does not delay the first value of a pool that can be sized.
    found = {resource: value for resource, value in earlier.items() if resource not in fresh}
    before = {**found, **state.published}
    values = capacity.plan(before, keys, fresh, admitted, now, admitted_only=admitted_only)
    unproven = state.hardware.board is None
    there = {key.resource for key in keys}
    values |= _held([key for key in _on_it(facts) if key not in values and (unproven or key in there)], facts, pods)
    devices = [device for key in keys for device in key.devices if not hardware.lost(state.hardware, (device,))]
    count = len(devices) if _all_there(facts, devices) else None
    milli = _milli(state, facts, sized, count, admitted_only=admitted_only) if values or unproven else None
    good = {
        key.resource: lastgood.of(values[key.resource].value, key)
        for key in sized.counted
        if key.resource in fresh and key.resource in values
    }
    # Only a card that has told its size proves that a board has both kinds of memory.
    both = IGPU_MEMORY in values and any(pool.kind == "discrete" for pool in fresh.values())
    return replace(
        state,
        published=values,
        good=lastgood.after(state.good, good, keys, gone=hardware.gone(state.hardware)),
        mixed=state.mixed or both,
        milli=milli,
    )


def _on_it(facts: Facts) -> list[str]:
    """The pool keys that the node carries."""
    found = node_of(facts)
    return [
        key
        for key in (found.capacity if found else ())
        if key in (GPU_MEMORY, IGPU_MEMORY) or key.startswith(f"{GPU_MEMORY}-")
    ]


def _held(keys: Sequence[str], facts: Facts, pods: Sequence[PodFacts]) -> dict[str, Published]:
    """What admitted pods hold of each key whose size was never known, where the node carries less than that."""
    admitted = [pod for pod in pods if pod.admitted]
    held = {key: quantity.ceil_mib(sum(requests.total(pod, key, "requests") for pod in admitted)) for key in keys}
    return {
        key: Published(amount, capacity.NEVER) for key, amount in held.items() if amount > _on_node(node_of(facts), key)
    }


def _all_there(facts: Facts, devices: Sequence[Device]) -> bool:
    """``devices`` are all that there are: NVML listed them, or there is no card that it could list."""
    answer, files = facts.host.nvml.value, facts.host.files
    if answer is None or hardware.lists_all(facts.host):
        return answer is not None and answer.count is not None
    # A Jetson up to JetPack 5 has no driver for NVML, though an image may have brought the library.
    driverless = answer.library == "absent" or answer.init == DRIVER_NOT_LOADED
    return driverless and not files.pci_displays and {device.tegra for device in devices} == {True}


def _milli(state: State, facts: Facts, sized: Sized, devices: int | None, *, admitted_only: bool) -> int | None:
    booked = sized.bookings.by_uid.values()
    amounts = [(booking.pod, booking.milli) for booking in booked if booking.pod.live]
    return capacity.milli(
        devices,
        state.milli or _on_node(node_of(facts), GPU_MILLI),
        sum(amount for _, amount in amounts),
        sum(amount for pod, amount in amounts if pod.admitted),
        admitted_only=admitted_only,
    )


def _on_node(found: NodeFacts | None, resource: str) -> int:
    """The node's own value, which after a start is the last good one unless it is 0; 0 for none."""
    try:
        return max(0, quantity.parse((found.capacity if found else {}).get(resource, "0")))
    except ValueError:
        return 0

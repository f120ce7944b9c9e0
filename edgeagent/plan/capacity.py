"""What capacity says: never below what admitted pods hold, at once when it falls, after a while when it rises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.plan.state import Published

if TYPE_CHECKING:
    from edgeagent.memory.pools import PoolKey
    from edgeagent.memory.types import Pool

MILLI_PER_DEVICE = 1000
RISE_SECONDS = 5.0
"""An increase waits this long without change, so that a pod's replacement finds its place before others do."""
NEVER = float("-inf")
"""When a pool was last sized that never was."""
LAST_GOOD_SECONDS = 600.0
"""How long the last good value stands in for an unknown one; then no room is offered that nobody can vouch for."""


def target(pool: Pool, *, admitted_only: bool) -> int:
    """What this pool should advertise now, in whole MiB.

    A restarted kubelet admits its running pods again and kills those that no longer fit,
    without any disruption budget: so capacity never goes below what admitted pods hold.
    """
    held = quantity.ceil_mib(pool.admitted)
    return held if admitted_only else max(0, quantity.floor_mib(pool.computed), held)


def publish(before: Published | None, wanted: int, held: int, now: float) -> Published:
    """The value to publish. The first one, a decrease and what admitted pods hold go out at once."""
    if before is None or wanted <= max(before.value, held):
        return Published(wanted, now)
    since = before.rising_since if before.rising == wanted else now
    if now - since >= RISE_SECONDS:
        return Published(wanted, now)
    return Published(max(before.value, held), now, wanted, since)


def unknown(before: Published | None, admitted: int, now: float, *, admitted_only: bool) -> Published | None:
    """The value to publish while the pool cannot be sized; None: nothing was ever known."""
    if before is None:
        return None
    held = quantity.ceil_mib(admitted)
    if now - before.known_at <= LAST_GOOD_SECONDS and not admitted_only:
        return Published(max(before.value, held), before.known_at)
    return Published(held, before.known_at)


def milli(devices: int | None, present: int, committed: int, admitted: int, *, admitted_only: bool) -> int | None:
    """Thousandths of a GPU to publish; ``present`` is what is published now, 0 for nothing.

    It is for scheduling only, and stays as it is while a pod holds some of it, or while it is not known how many
    ``devices`` there are (None). The result is None where nothing is known.
    """
    if admitted_only:
        return admitted
    if devices is None:
        return max(present, admitted) or None
    return max(present if present and committed else MILLI_PER_DEVICE * devices, admitted)


def plan(
    before: Mapping[str, Published],
    keys: Sequence[PoolKey],
    pools: Mapping[str, Pool],
    admitted: Mapping[str, int],
    now: float,
    *,
    admitted_only: bool,
) -> dict[str, Published]:
    """Every pool key with the value it should have; a key that is not in the result should not be on the node.

    ``pools`` holds those that were sized from fresh readings, ``admitted`` the Σ gpu requests
    of admitted pods by resource.
    """
    found: dict[str, Published] = {}
    for key in keys:
        pool = pools.get(key.resource)
        last = before.get(key.resource)
        value = (
            publish(last, target(pool, admitted_only=admitted_only), quantity.ceil_mib(pool.admitted), now)
            if pool
            else unknown(last, admitted[key.resource], now, admitted_only=admitted_only)
        )
        if value is not None:
            found[key.resource] = value
    return found

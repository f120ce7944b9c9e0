"""The last good value of each capacity key, and whether one from an earlier run still belongs to this board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from edgeagent.plan import hardware
from edgeagent.plan.state import Good

if TYPE_CHECKING:
    from edgeagent.facts import HostFacts
    from edgeagent.memory.pools import PoolKey
    from edgeagent.memory.types import Device


def of(value: int, key: PoolKey) -> Good:
    """``value``, in bytes, which was worked out from the devices of ``key``."""
    named = [(name, _card(device, name)) for device in key.devices if (name := hardware.identity(device)) is not None]
    return Good(value, tuple(sorted(named)))


def after(
    before: Mapping[str, Good], now: Mapping[str, Good], keys: Sequence[PoolKey], *, gone: bool
) -> dict[str, Good]:
    """The last good values after one more decision. One whose devices are proven gone is forgotten.

    Until a reading is good again, nothing proves that a key is missing for good.
    """
    there = {key.resource for key in keys}
    return {resource: one for resource, one in before.items() if resource in there or not (now or gone)} | dict(now)


def value(good: Mapping[str, Good], key: PoolKey, host: HostFacts) -> int:
    """The last good value of ``key`` in bytes; 0 if there is none, or it was that of other devices.

    Every device that tells its identity must be one of those it was worked out from, and each of
    those must be there: by its identity, or as one that cannot tell it while its driver fails.
    """
    kept = good.get(key.resource)
    if kept is None:
        return 0
    cards = dict(kept.devices)
    told = [hardware.identity(device) for device in key.devices]
    named = {name for name in told if name is not None}
    missing = set(cards.values()) - {cards.get(name) for name in named}
    # On a Tegra, a card whose driver does not answer is seen on the bus alone.
    nameless = max(told.count(None), 0 if hardware.lists_all(host) else host.files.pci_displays)
    # A SoC's own GPU never hides its identity, so nothing else stands for it.
    same = named <= cards.keys() and hardware.SOC not in missing and len(missing) <= nameless
    return kept.value if same else 0


def _card(device: Device, name: str) -> str:
    return device.shares[0] or name if device.shares else name

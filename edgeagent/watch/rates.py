"""What happened between two readings of counters. What went backwards was restarted, and says nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from edgeagent.facts.neighbours import Resource, Throttling

if TYPE_CHECKING:
    from edgeagent.facts import HostFacts, NvmlDevice
    from edgeagent.facts.neighbours import DeviceActivity


class HeldBack(NamedTuple):
    """The cgroup of a pod that its quota held back most."""

    ratio: float
    since: Throttling
    """What was counted since the reading before."""


def throttled(before: Mapping[str, Throttling], now: Mapping[str, Throttling]) -> HeldBack | None:
    """Periods held back, of those that it wanted to run in; None without a quota, or with nothing to compare.

    The pod and each of its containers have quotas of their own, and one that waits for its own is not counted as
    waiting by the other. So the worst of them speaks for the pod.
    """
    found = (_held_back(before[name], after) for name, after in now.items() if name in before)
    return max((one for one in found if one), default=None, key=lambda one: one.ratio)


def _held_back(before: Throttling, after: Throttling) -> HeldBack | None:
    since = Throttling(
        after.periods - before.periods, after.throttled - before.throttled, after.seconds - before.seconds
    )
    if after.periods == 0 or min(since.periods, since.throttled, since.seconds) < 0:
        return None
    # With a quota and no period since, nothing wanted to run: it was not held back.
    return HeldBack(min(1.0, since.throttled / since.periods) if since.periods else 0.0, since)


def stalled(before: Mapping[Resource, float], now: Mapping[Resource, float], seconds: float) -> dict[Resource, float]:
    """The share of ``seconds`` in which some task waited, by resource; one that cannot be told is left out."""
    waited = {resource: now[resource] - before[resource] for resource in now if resource in before}
    return {resource: min(1.0, one / seconds) for resource, one in waited.items() if one >= 0 and seconds > 0}


def busy(devices: Iterable[DeviceActivity], host: HostFacts) -> dict[str, float]:
    """How busy each pod keeps a device, by the uid in its cgroup: on that which it keeps busiest.

    A pod that holds a device and ran nothing on it is at 0; one that holds none is not in here.
    """
    listed = {one.uuid: one for one in (host.nvml.value.devices if host.nvml.value else ())}
    found: dict[str, float] = {}
    for device in devices:
        if device.processes is None:
            continue
        pids = set(device.processes) | (_holders(listed[device.uuid]) if device.uuid in listed else set())
        together: dict[str, float] = {}
        for pid in pids:
            process = host.processes.get(pid)
            if process and process.owner:
                uid = process.owner.pod_uid
                together[uid] = together.get(uid, 0.0) + device.processes.get(pid, 0.0)
        for uid, ratio in together.items():
            found[uid] = max(found.get(uid, 0.0), min(1.0, ratio))
    return found


def _holders(device: NvmlDevice) -> set[int]:
    lists = (device.compute, device.graphics, device.mps)
    return {process.pid for one in lists if one for process in one.processes}

"""How each pod fares, from what was read of it by now and at the look before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from edgeagent.facts.neighbours import Counted, Figures, Latency, Neighbour, PodCounters
from edgeagent.watch import newcomers, rates

if TYPE_CHECKING:
    from edgeagent.facts import HostFacts, PodFacts
    from edgeagent.facts.neighbours import DeviceActivity


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was read at one time."""

    at: float
    """Monotonic second."""
    host: HostFacts
    pods: tuple[PodFacts, ...]
    counters: Mapping[str, PodCounters]
    """By the uid in the cgroup's path."""
    devices: tuple[DeviceActivity, ...] = ()


@dataclass(frozen=True, slots=True)
class _Seen:
    """The counters of a pod at the last look."""

    at: float
    counters: PodCounters
    counted: Counted = field(default_factory=Counted)


class Pods:
    """Remembers what the next look is compared with.

    Args:
        latency: gives (latency, why there is none although one is asked for) of a pod's uid.
    """

    def __init__(self, latency: Callable[[str], tuple[Latency | None, str]]) -> None:
        self._latency = latency
        self._seen: dict[str, _Seen] = {}
        self._beside = newcomers.Beside()

    def neighbours(self, look: Look) -> dict[str, Neighbour]:
        """How the live pods fare, by uid."""
        busy = rates.busy(look.devices, look.host)
        found: dict[str, Neighbour] = {}
        seen: dict[str, _Seen] = {}
        for pod in look.pods:
            if pod.live:
                now = _Seen(look.at, look.counters.get(pod.cgroup_uid, PodCounters()))
                found[pod.uid], seen[pod.uid] = self._one(pod, now, busy.get(pod.cgroup_uid))
        self._seen = seen
        running = {pod.uid: pod.key for pod in look.pods if runs(pod)}
        self._beside = newcomers.look(self._beside, look.at, running, dict(_figures(found)))
        return {uid: self._compared(one) for uid, one in found.items()}

    def _one(self, pod: PodFacts, now: _Seen, busy: float | None) -> tuple[Neighbour, _Seen]:
        """How ``pod`` fares, and what to remember."""
        latency, why = self._latency(pod.uid)
        told = Neighbour(
            at=now.at,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            gpu_utilization_ratio=busy,
            latency=latency,
            latency_why=why,
            stalled=now.counters.stalled,
        )
        before = self._seen.get(pod.uid)
        if before is None:
            return told, now
        held = rates.throttled(before.counters.throttling, now.counters.throttling)
        waited = rates.stalled(before.counters.stalled, now.counters.stalled, now.at - before.at)
        counted = _counted(before.counted, held)
        told = replace(
            told,
            cpu_throttled_ratio=held.ratio if held else None,
            cpu_stall_ratio=waited.get("cpu"),
            memory_stall_ratio=waited.get("memory"),
            io_stall_ratio=waited.get("io"),
            counted=counted if held or counted.periods else None,
        )
        return told, replace(now, counted=counted)

    def _compared(self, one: Neighbour) -> Neighbour:
        effect = newcomers.effect(self._beside, one.at, one.uid)
        return replace(one, since_newcomer=effect) if effect else one


def runs(pod: PodFacts) -> bool:
    """Whether ``pod`` is at work."""
    return pod.phase == "Running" and not pod.terminating


def _counted(before: Counted, held: rates.HeldBack | None) -> Counted:
    """The counters go on where they were, whichever cgroup speaks for the pod by now."""
    if held is None:
        return before
    return Counted(
        periods=before.periods + held.since.periods,
        throttled=before.throttled + held.since.throttled,
        throttled_seconds=before.throttled_seconds + held.since.seconds,
    )


def _figures(neighbours: Mapping[str, Neighbour]) -> Iterator[tuple[str, Figures]]:
    """What is compared before and after; pods of which nothing is known are left out."""
    for uid, one in neighbours.items():
        latency = one.latency or Latency()
        figures = Figures(
            p50_seconds=latency.p50_seconds,
            p99_seconds=latency.p99_seconds,
            requests_per_second=latency.requests_per_second,
            cpu_throttled_ratio=one.cpu_throttled_ratio,
        )
        if figures != Figures():
            yield uid, figures

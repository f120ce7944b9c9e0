"""What a pod may use by its figures, and what a node should advertise: worked out in another way than the product does.

Figures of ``life`` come in, nothing of the product does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tests.properties.life import CMA_TOTAL, GIB, KEY, MIB, Pod, Rules, View

FOREVER = 600.0
"""Seconds for which the last good value stands in for an unknown one."""
CARDS_TOTAL = 2 * (24 * GIB - 512 * MIB)
"""Two cards without what the driver keeps of each."""


class Budget(NamedTuple):
    """What one pod may use, in bytes; None: it has no such budget."""

    gpu: int | None
    total: int | None
    booked: int
    foreign: int
    """Of what is booked, a budget that the scheduler does not count: from an annotation or another's key."""


def budget(pod: Pod, rules: Rules, *, unified: bool) -> Budget:
    gpu, of_pod = pod.gpu, False
    if gpu is None and pod.annotation == "1Gi":
        gpu, of_pod = GIB, True
    elif gpu is None and pod.foreign is not None:
        gpu, of_pod = pod.foreign * MIB, True
    elif gpu is None:
        gpu = rules.default_budget
    if pod.gpu is not None and 0 < pod.gpu < MIB:
        gpu = None  # its suffix was forgotten
    foreign = (gpu or 0) if of_pod else 0
    if not unified:
        return Budget(gpu, None, (pod.gpu or 0) + foreign, foreign)
    beside = foreign or pod.gpu or 0
    limited = pod.memory is not None and (pod.side is None or pod.side > 0)
    total = None if gpu is None or not limited else gpu + _host_part(pod, pod.memory or 0, beside, of_pod=of_pod)
    asked = pod.memory if pod.asked is None else pod.asked
    requested = 0 if asked is None else _host_part(pod, asked, beside, of_pod=of_pod)
    return Budget(gpu, total, requested + (pod.gpu or 0) + foreign, foreign)


def _host_part(pod: Pod, memory: int, gpu: int, *, of_pod: bool) -> int:
    """A memory figure of at least gpu + 256 MiB is the whole board's; a pod's own budget is taken off the sum."""
    side = pod.side or 0
    if of_pod:
        memory, side = memory + side, 0
    return (memory - gpu if memory >= gpu + 256 * MIB else memory) + side


def tolerance(amount: int, rules: Rules) -> float:
    return rules.tolerance if rules.tolerance is not None else max(16 * MIB, amount * 0.005)


def for_the_host(total: int) -> int:
    """The lines ``os`` and ``k3s`` of a board of ``total`` bytes."""
    return min(max(768 * MIB, -(-total * 6 // 100)), 4 * GIB) + 512 * MIB


def headroom(total: int) -> int:
    return max(256 * MIB, -(-total * 2 // 100))


def floor(total: int, rules: Rules) -> int:
    return rules.floor if rules.floor is not None else max(128 * MIB, headroom(total) // 2)


def live(view: View) -> tuple[Pod, ...]:
    return tuple(pod for pod in view.pods or () if pod.phase not in ("Succeeded", "Failed"))


def current(now: float, view: View, rules: Rules) -> bool:
    return view.pods is not None and now - view.fresh_at <= rules.max_age


@dataclass(slots=True)
class Offer:
    """What the node should advertise of its pool, in bytes; ``value`` None: nothing was ever known."""

    cards: bool
    good: int = 0
    """The last value that rested on good readings, from an earlier run too."""
    value: int | None = None
    known_at: float = 0.0
    rising: int | None = None
    rising_since: float = 0.0

    def see(self, now: float, view: View, rules: Rules, total: int | None) -> int:
        """Look at one decision; what admitted pods hold, in whole MiB. ``total`` of the board, None: unreadable now."""
        pods = live(view)
        admitted = sum(pod.gpu or 0 for pod in pods if pod.phase == "Running" or pod.start_time is not None)
        held = -(-admitted // MIB) * MIB
        if not current(now, view, rules):
            return held
        rival = view.node.get("labels", {}).get("gpu") == "on"
        if total is None:
            self._unknown(now, view, held, rival=rival)
            return held
        wanted = held if rival else max(0, self._computed(pods, rules, total) // MIB * MIB, held)
        last = self.value
        if last is None or wanted <= max(last, held):
            self.rising, self.value = None, wanted
        else:
            self.rising_since = self.rising_since if self.rising == wanted else now
            due = now - self.rising_since >= 5.0
            self.rising, self.value = (None, wanted) if due else (wanted, max(last, held))
        self.known_at, self.good = now, self.value
        return held

    def _unknown(self, now: float, view: View, held: int, *, rival: bool) -> None:
        if self.value is None:
            shown = view.node.get("capacity", {}).get(KEY, "0")
            last = (int(shown[:-2]) * MIB if shown.endswith("Mi") else 0) or self.good
            if not last:
                return
            self.value, self.known_at = last, now
        self.rising = None
        self.value = max(self.value, held) if now - self.known_at <= FOREVER and not rival else held

    def _computed(self, pods: tuple[Pod, ...], rules: Rules, total: int) -> int:
        given = [(pod, budget(pod, rules, unified=not self.cards)) for pod in pods]
        foreign = sum(one.foreign for _, one in given)
        if self.cards:
            return CARDS_TOTAL - foreign
        hosts = sum(one.booked - (pod.gpu or 0) - one.foreign for pod, one in given)
        lines = for_the_host(total) + CMA_TOTAL + headroom(total)
        return total - lines - foreign - (hosts if rules.coupling == "requests" else 0)

"""What is wrong with the pools: reserves that leave nothing, more booked than there is; with commands that end it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from shlex import quote
from typing import TYPE_CHECKING

from edgeagent.plan import messages, victims
from edgeagent.plan.types import Finding
from edgeagent.quantity import MIB, ceil_mib, human, mib

if TYPE_CHECKING:
    from edgeagent.memory.types import Pool, Reserve
    from edgeagent.plan.breaches import PodView

_MOST = 10
"""Pods that are named as holders."""


def findings(pools: Iterable[Pool], views: Sequence[PodView]) -> Iterator[Finding]:
    """Of every pool; ``views``: the live pods."""
    for pool in pools:
        if pool.total - pool.reserved <= 0:
            yield Finding(
                id="reserves-exceed-pool",
                severity="error",
                certainty="certain",
                subject=f"pool {pool.resource}",
                summary=f"The reserves take all of the {human(pool.total)}; nothing can be advertised.",
                evidence=(f"total: {pool.total}", *_lines(pool)),
                remedy=_lowered(pool),
            )
        if pool.overcommitted and pool.booked > 0:
            holders = sorted(_holders(pool, views), key=lambda view: (-_booked(pool, view), view.pod.key))
            yield Finding(
                id="overcommitted",
                severity="error",
                certainty="certain",
                subject=f"pool {pool.resource}",
                summary=messages.overcommitted(pool),
                evidence=(
                    f"total: {pool.total}",
                    *_lines(pool),
                    f"booked: {pool.booked}",
                    *(f"pod {view.pod.key} booked: {_booked(pool, view)}" for view in holders[:_MOST]),
                ),
                remedy=_fitting(pool, holders),
            )


def _lines(pool: Pool) -> tuple[str, ...]:
    return tuple(
        f"{line.name}: {line.bytes} ({line.origin}{f', {line.source}' if line.origin == 'kubelet' else ''})"
        for line in pool.reserves
    )


# --- more booked than there is ---


def _holders(pool: Pool, views: Iterable[PodView]) -> Iterator[PodView]:
    for view in views:
        if pool.resource in view.budgets and _booked(pool, view):
            yield view


def _booked(pool: Pool, view: PodView) -> int:
    return view.budgets[pool.resource].booked


def _fitting(pool: Pool, holders: Sequence[PodView]) -> str:
    """Which pods to end; on unified memory also what to set, so that the scheduler counts the same."""
    excess = pool.booked - (pool.total - pool.reserved)
    first = f"End pods, or move them to another node, until {mib(ceil_mib(excess))} less is booked."
    ending = "".join(f"\n{command}" for command in _ends(pool, holders, excess))
    if pool.kind == "discrete":
        return f"{first}{ending}"
    return f"{first}{ending}\nSo that the scheduler counts the same from then on:\n{messages.kubelet_args(pool)}"


def _ends(pool: Pool, holders: Iterable[PodView], excess: int) -> Iterator[str]:
    """Commands that end the youngest pods, as many as it takes. Some pods come back on the same node at once."""
    young = sorted(holders, key=lambda view: (-(view.pod.start_time or view.pod.created_at or 0.0), view.pod.uid))
    for view in young:
        if excess <= 0:
            return
        excess -= _booked(pool, view)
        if not (view.pod.mirror or view.pod.terminating or view.protected or victims.comes_back(view.pod)):
            yield f"kubectl -n {quote(view.pod.namespace)} delete pod {quote(view.pod.name)}"


# --- reserves that leave nothing ---


def _lowered(pool: Pool) -> str:
    """Settings with which something is left."""
    own = [line for line in pool.reserves if line.origin in ("default", "config") and line.name != "cma"]
    if any(line.name in ("ceiling", "driver") for line in own):
        names = [line.name for line in own if line.name in ("ceiling", "driver")]
        told = " and ".join(f"reserves.{name}" for name in names)
        return f"Take {told} out of the configuration.\n{messages.configured(dict.fromkeys(names, 'null'))}"
    room = pool.total // 2 - sum(line.bytes for line in pool.reserves if line not in own)
    if room >= MIB and own:
        return (
            "Lower the reserves, as far as the board can do with less; so half of its memory is left for pods.\n"
            + messages.configured({name: mib(amount // MIB * MIB) for name, amount in _halved(own, room).items()})
        )
    places = " and ".join(sorted({line.source for line in pool.reserves if line.origin == "kubelet"}))
    return (
        f"Lower what the kubelet reserves for itself{f', in {places}' if places else ''}, and restart K3s.\n"
        "sudo systemctl restart k3s || sudo systemctl restart k3s-agent"
    )


def _halved(own: Sequence[Reserve], room: int) -> dict[str, int]:
    """Bytes that make the lines fit into ``room``: of the largest, or of all where that is not enough."""
    largest = max(own, key=lambda line: line.bytes)
    left = room - sum(line.bytes for line in own if line is not largest)
    if left >= MIB:
        return {largest.name: left}
    whole = sum(line.bytes for line in own)
    return {line.name: line.bytes * room // whole for line in own}

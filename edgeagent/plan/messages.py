"""The sentences for events and log lines: who, how much, since when, what happens next, what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgeagent.facts import GPU_MEMORY
from edgeagent.memory.budgets import LIMIT_ANNOTATION
from edgeagent.memory.types import Pool
from edgeagent.quantity import ceil_mib, human, mib

if TYPE_CHECKING:
    from edgeagent.plan.breaches import PodView
    from edgeagent.plan.types import EvictionResult


def _figures(view: PodView) -> str:
    budget = view.budgets[view.resource or GPU_MEMORY]
    used = view.use.gpu.get(view.resource or GPU_MEMORY)
    if view.breach == "shared":
        return (
            f"GPU {human(used)} and host memory {human(view.use.host)} together exceed "
            f"the shared-memory budget of {human(budget.total)}"
        )
    beside = "" if view.use.host is None else f", beside {human(view.use.host)} of host memory"
    return f"GPU memory {human(used)} exceeds the budget of {human(budget.gpu)} ({budget.key or 'none'}){beside}"


ROOM = 10
"""A tenth above what was seen: a model rarely shows its peak first."""


def _remedy(view: PodView) -> str:
    budget = view.budgets[view.resource or GPU_MEMORY]
    used = view.use.gpu.get(view.resource or GPU_MEMORY) or 0
    if view.breach == "shared":
        return f"raise its memory limit by {mib(ceil_mib(view.excess))} or more, or let the model use less"
    key = budget.key if budget.source in ("limit", "annotation") else LIMIT_ANNOTATION
    wanted = ceil_mib(used + -(-used // ROOM))
    both = ""
    if budget.total is not None and budget.gpu is not None:
        # A limit of memory is the whole-board figure: left as it is, it would no longer cover both.
        hosted, host_part = view.use.host or 0, budget.total - budget.gpu
        wanted_beside = host_part if hosted <= host_part else ceil_mib(hosted + -(-hosted // ROOM))
        both = f" and memory to {mib(wanted + wanted_beside)}"
    return f"raise {key} to {mib(wanted)}{both} or more, or let the model use less"


def warning(view: PodView, grace: float, *, held: str, now: bool) -> str:
    """A pod went over its budget: what will happen, or why nothing will. ``now``: there is no time for the grace."""
    after = f"It is evicted unless it falls below within {grace:.0f} s."
    if held:
        after = f"It is not evicted: {held}."
    elif now:
        after = "It is evicted now: the board is nearly out of memory."
    return f"{_figures(view)}. {after} To keep it, {_remedy(view)}."


def eviction(view: PodView, seconds: float | None, usable: int | None) -> str:
    """Why a pod is evicted now. ``seconds``: how long it was over; None under pressure, with the usable memory."""
    if view.breach == "unbudgeted":
        return (
            f"Evicted to keep the board alive ({human(usable)} usable): "
            f"it holds {_proven(view)} and has no budget. Give it one with {GPU_MEMORY} or {LIMIT_ANNOTATION}."
        )
    if view.breach == "above-request":
        return (
            f"Evicted to keep the board alive ({human(usable)} usable): it uses {_proven(view)} "
            f"and has booked {human(view.booked)}. Request what it needs."
        )
    since = f"for {seconds:.0f} s" if seconds is not None else f"with {human(usable)} usable left on the board"
    return f"Evicted: {_figures(view)} {since}. To run it here, {_remedy(view)}."


def _proven(view: PodView) -> str:
    """What it is certain to hold, which is what was decided by."""
    whole = view.use.host is not None and view.use.host_exact
    return f"{human(view.proven_bytes)}{'' if whole else ' of GPU memory'}"


def kill(view: PodView, seconds: float | None, usable: int | None, cause: str) -> str:
    """Why a pod's processes are killed. ``seconds``: how long it was over; ``cause``: why an eviction does not do."""
    since = f" for {seconds:.1f} s" if seconds is not None and round(seconds, 1) else ""
    after = (
        "Its eviction goes on."
        if view.state == "terminating"
        else "Its containers start again as its restart policy says; over its budget again, it is evicted or killed."
    )
    return (
        f"Killed to keep the board alive, {human(usable)} usable left: {_figures(view)}{since}. "
        f"{cause}. {after} To run it here, {_remedy(view)}."
    )


def blocked(view: PodView, result: EvictionResult, seconds: float) -> str:
    """The API server did not take the eviction, or did not say."""
    met = "was not answered clearly" if result.outcome == "unknown" else "was refused"
    return f"{_figures(view)}, but its eviction {met}: {result.message or result.outcome}. Next try in {seconds:.0f} s."


def overcommitted(pool: Pool) -> str:
    """More is booked than there is."""
    return (
        f"Live pods have booked {human(pool.booked)} of {pool.resource}, "
        f"the pool has {human(pool.total - pool.reserved)} after its reserves. "
        "No new room is offered until pods end."
    )


KUBELET_DEFAULTS = "nodefs.available<5%,imagefs.available<5%"
"""The thresholds that K3s gives its kubelet: a flag replaces the whole map."""


def kubelet_amounts(pool: Pool) -> dict[str, str]:
    """The kubelet's memory reserves that are equal to ours, by flag, in whole MiB.

    The kubelet has no reserve for CMA, so those pages go into system-reserved.
    """
    lines = {line.name: line.bytes for line in pool.reserves}
    return {
        "system-reserved": mib(ceil_mib(lines.get("os", 0) + lines.get("cma", 0))),
        "kube-reserved": mib(ceil_mib(lines.get("k3s", 0))),
        "eviction-hard": mib(ceil_mib(lines.get("headroom", 0))),
    }


def kubelet_args(pool: Pool) -> str:
    """What to set so that the scheduler's own memory dimension agrees with the pool, and what to mind."""
    amounts = kubelet_amounts(pool)
    cma = any(line.name == "cma" and line.bytes for line in pool.reserves)
    ours = "\nand to edgeagent's configuration, since system-reserved then has the CMA pages: reserves: {cma: 0}"
    return (
        "Where edgeagent runs as a service:\n"
        "sudo edgeagent install --k3s-reserves\n"
        "By hand, add to a file in /etc/rancher/k3s/config.yaml.d:\n"
        "kubelet-arg+:\n"
        f'  - "system-reserved=memory={amounts["system-reserved"]}"\n'
        f'  - "kube-reserved=memory={amounts["kube-reserved"]}"\n'
        f'  - "eviction-hard=memory.available<{amounts["eviction-hard"]},{KUBELET_DEFAULTS}"'
        f"{ours if cma else ''}\n"
        "First end pods until what is booked fits, then restart K3s: its kubelet stops running pods that no longer fit."
    )


def configured(amounts: dict[str, str]) -> str:
    """Commands that set reserves of the agent; the last file counts."""
    lines = ", ".join(f"{name}: {amount}" for name, amount in amounts.items())
    return (
        "sudo mkdir -p /etc/edgeagent/config.d\n"
        f"echo 'reserves: {{{lines}}}' | sudo tee /etc/edgeagent/config.d/99-reserves.yaml\n"
        "edgeagent config check && sudo systemctl reload edgeagent"
    )

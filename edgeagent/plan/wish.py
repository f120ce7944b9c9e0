"""What the node should carry, and the writes that lead there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgeagent import quantity
from edgeagent.facts import GPU_MILLI
from edgeagent.plan import conditions, hardware, labels, node
from edgeagent.plan.sizing import Sized, node_of, view_current
from edgeagent.plan.types import NodeWish

if TYPE_CHECKING:
    from edgeagent.facts import Facts, PodFacts
    from edgeagent.memory.types import Board
    from edgeagent.plan.pressure import Danger
    from edgeagent.plan.state import State

MILLI_PER_DEVICE = 1000


def wish(
    state: State, facts: Facts, board: Board, sized: Sized, pods: Sequence[PodFacts], danger: Danger, now: float, *, host_over: bool
) -> tuple[State, NodeWish]:
    """The state that remembers the labels, and the wish. No writes before a readable verdict and a current view."""
    found = node_of(facts)
    capacity = _capacity(state, board)
    state, described = _labels(state, facts, board, sized)
    if found is not None:
        needs = labels.required(pods) if facts.config.labels.removal == "when-unused" else {}
        described = labels.guard(described, found.labels, node.own_labels(found), needs)
    wanted = conditions.conditions(board, facts.host.runtime, pressure=danger.by_floor, host_over=host_over)
    ready = found is not None and state.hardware.board is not None and view_current(facts, now)
    requests = node.requests(found, capacity, described, wanted) if found is not None and ready else ()
    return state, NodeWish(capacity=capacity, labels=described, conditions=wanted, requests=requests)


def _capacity(state: State, board: Board) -> Mapping[str, str]:
    """The pool keys in whole MiB and, beside them, thousandths of a GPU."""
    amounts = {resource: quantity.mib(value.value) for resource, value in state.published.items()}
    if amounts:
        amounts[GPU_MILLI] = str(MILLI_PER_DEVICE * len(board.devices))
    return amounts


def _labels(state: State, facts: Facts, board: Board, sized: Sized) -> tuple[State, dict[str, str]]:
    """The labels of the last readable verdict; ``ai-capable`` goes after three readings that prove it wrong."""
    found = node_of(facts)
    present = {key: found.labels[key] for key in sorted(node.own_labels(found))} if found is not None else {}
    if not board.readable:
        return state, dict(state.labels) if state.labels is not None else present
    pool = sized.pools.get(sized.primary)
    described = labels.describe(board, pool.total if pool else None)
    key = labels.ai_key(facts.config.labels)
    proven = labels.gpu_path_proven(board, facts.host.runtime, gpu_seen=state.hardware.gpu_seen)
    unready = 0 if proven else state.hardware.unready + 1
    had = key is not None and key in (state.labels if state.labels is not None else present)
    if key is not None and board.kind != "none" and (proven or (had and unready < hardware.PROOF)):
        described[key] = "true"
    return replace(state, labels=described, hardware=replace(state.hardware, unready=unready)), described

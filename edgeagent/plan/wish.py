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
    from edgeagent.facts import Facts, NodeFacts, PodFacts
    from edgeagent.memory.types import Board
    from edgeagent.plan.hostmemory import Blame
    from edgeagent.plan.pressure import Danger
    from edgeagent.plan.state import Hardware, State


def wish(
    state: State,
    facts: Facts,
    board: Board,
    sized: Sized,
    pods: Sequence[PodFacts],
    danger: Danger,
    now: float,
    blamed: Blame | None,
) -> tuple[State, NodeWish]:
    """The state that remembers the labels, and the wish. No writes before a verdict and a current view."""
    found = node_of(facts)
    capacity = _capacity(state, found)
    state, described = _labels(state, facts, board, sized)
    if found is not None:
        careful = facts.config.labels.removal == "when-unused"
        needs, unwanted = (labels.required(pods), labels.excluded(pods)) if careful else ({}, frozenset())
        described = labels.guard(described, found.labels, node.own_labels(found), needs, unwanted)
    wanted = conditions.conditions(
        board, facts.host.runtime, danger, blamed, facts.findings, found.conditions if found else ()
    )
    ready = found is not None and view_current(facts, now) and not _doubtful(state.hardware, board)
    requests = node.requests(found, capacity, described, wanted) if found is not None and ready else ()
    return state, NodeWish(capacity=capacity, labels=described, conditions=wanted, requests=requests)


def _doubtful(known: Hardware, board: Board) -> bool:
    """There seems to be no GPU although something speaks of one: that takes several readings to prove."""
    return board.kind == "none" and bool(board.signals) and 0 < known.absent < hardware.PROOF


def _capacity(state: State, found: NodeFacts | None) -> Mapping[str, str]:
    """The pool keys in whole MiB and, beside them, thousandths of a GPU.

    Until the driver has answered once, what an earlier run put on the node is neither wrong nor right, and stays.
    """
    amounts = {resource: quantity.mib(value.value) for resource, value in state.published.items()}
    if state.milli is not None:
        amounts[GPU_MILLI] = str(state.milli)
    if found is None or state.hardware.board is not None:
        return amounts
    return {key: found.capacity[key] for key in node.own_capacity(found) if key in found.capacity} | amounts


def _labels(state: State, facts: Facts, board: Board, sized: Sized) -> tuple[State, dict[str, str]]:
    """The labels of the last readable verdict, with what it last told where it does not know now.

    ``ai-capable`` goes after three readings that prove it wrong.
    """
    found = node_of(facts)
    present = {key: found.labels[key] for key in sorted(node.own_labels(found))} if found is not None else {}
    before = dict(state.labels) if state.labels is not None else present
    if not board.readable:
        return state, before
    pool = sized.pools.get(sized.primary)
    described = labels.describe(board, pool.total if pool else None)
    if described.get(labels.KIND) == before.get(labels.KIND):
        described = {**{key: before[key] for key in labels.DESCRIBED if key in before}, **described}
    key = labels.ai_key(facts.config.labels)
    proven = labels.gpu_path(board, facts.host.runtime, gpu_seen=state.hardware.gpu_seen)
    state = replace(state, hardware=_unready(state.hardware, proven=proven))
    had = key is not None and key in before
    if key is not None and board.kind != "none" and (proven or (had and state.hardware.unready < hardware.PROOF)):
        described[key] = "true"
    return replace(state, labels=described), described


def _unready(before: Hardware, *, proven: bool | None) -> Hardware:
    """One more reading of the GPU path. The same sample seen twice counts once, an unknown one not at all."""
    if proven:
        return replace(before, unready=0, unready_at=before.sampled_at)
    if proven is None or before.sampled_at == before.unready_at:
        return before
    return replace(before, unready=before.unready + 1, unready_at=before.sampled_at)

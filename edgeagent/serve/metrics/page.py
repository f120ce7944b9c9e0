"""All series at one time. Unknown and stale are absent series, never zeros."""

from __future__ import annotations

from collections.abc import Callable

from edgeagent.serve import health
from edgeagent.serve.metrics import activity, agent, board, budgets, decisions, neighbours, pods, pool, times, vitals
from edgeagent.serve.metrics.exposition import render
from edgeagent.serve.metrics.families import Families, Moment, Sample, gauge
from edgeagent.serve.shown import Shown

ALWAYS: tuple[Callable[[Moment], Families], ...] = (
    agent.families,
    activity.families,
    times.families,
    budgets.families,
    neighbours.families,
    vitals.families,
)
"""Families that are told however old the sample is: they are about the agent, or time themselves."""

WHILE_FRESH: tuple[Callable[[Sample], Families], ...] = (
    board.families,
    pool.families,
    pods.families,
    decisions.families,
)
"""Families made from the sample. Each leaves out what a reading in ``Sample.stale`` supplies."""


def text(shown: Shown | None, now: float, wall: float, streams: int = 0) -> bytes:
    """All series at monotonic second ``now``, which is Unix time ``wall``; ``streams`` live views are open."""
    return render(families(shown, now, wall, streams))


def families(shown: Shown | None, now: float, wall: float, streams: int = 0) -> Families:
    """The families behind ``text``, those included that have no series."""
    yield agent.build()
    status, body = health.readyz(shown, now)
    yield gauge("ready", "1 when /readyz answers 200.", [((), status == health.OK)])
    reasons = [((reason["name"],), 1) for reason in body["reasons"]]
    yield gauge("unready_reason", "1 for each reason that /readyz gives.", reasons, "reason")
    yield gauge("streams", "Live views that are open.", [((), streams)])
    if shown is None:
        return
    moment = Moment(shown, now, wall)
    for always in ALWAYS:
        yield from always(moment)
    if shown.plan is not None and not shown.stale(now):
        sample = Sample(shown, shown.plan, shown.stale_feeds(now))
        for fresh in WHILE_FRESH:
            yield from fresh(sample)

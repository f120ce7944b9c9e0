"""A node in words and figures for the columns of the table.

``-`` is what is not there or what nothing tells, ``unknown`` what should be there and is not, 0 is 0.
"""

from __future__ import annotations

from typing import NamedTuple

from edgeagent.facts import GPU_MEMORY, PREFIX
from edgeagent.fleet.types import Agent, NodeRow, PoolRow, Problem
from edgeagent.plan.report.style import Span, Tone
from edgeagent.quantity import human

ABSENT = "-"
UNKNOWN = "unknown"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


class Column(NamedTuple):
    """A column of the table."""

    title: str
    figures: bool = False
    """Set to the right."""


COLUMNS = {
    "name": Column("NODE"),
    "kind": Column("KIND"),
    "product": Column("PRODUCT"),
    "pool": Column("POOL"),
    "total": Column("TOTAL", figures=True),
    "reserved": Column("RESERVED", figures=True),
    "advertised": Column("ADVERTISED", figures=True),
    "committed": Column("COMMITTED", figures=True),
    "free": Column("FREE", figures=True),
    "mode": Column("MODE"),
    "agent": Column("AGENT"),
    "wrote": Column("WROTE", figures=True),
    "conditions": Column("CONDITIONS"),
}


def cells(row: NodeRow, now: float) -> dict[str, list[Span]]:
    """The lines of each cell: a node has one for each pool, and one for each problem."""
    tone: Tone = "" if row.ours else "dim"
    pools = row.pools or (None,)
    return {
        "name": [Span(row.name, tone)],
        "kind": [Span((row.kind or UNKNOWN) if row.ours else "no keys", tone)],
        "product": [Span(row.product or (UNKNOWN if _has_gpu(row) else ABSENT), tone)],
        "pool": [Span(pool.resource.removeprefix(PREFIX) if pool else ABSENT, tone) for pool in pools],
        "total": [Span(_total(row, pool), tone) for pool in pools],
        "reserved": [Span(_reserved(row, pool), tone) for pool in pools],
        "advertised": [Span(_amount(pool.advertised, ABSENT) if pool else ABSENT, tone) for pool in pools],
        "committed": [Span(_amount(pool.committed, UNKNOWN) if pool else ABSENT, tone) for pool in pools],
        "free": [Span(_free(pool), tone) for pool in pools],
        "mode": [_mode(row)],
        "agent": [_agent(row.agent)],
        "wrote": [Span(UNKNOWN if row.ours and row.wrote is None else age(row.wrote, now), tone)],
        "conditions": _problems(row),
    }


def age(at: float | None, now: float) -> str:
    """How long ago; clocks of two machines differ, so a time to come is now."""
    if at is None:
        return ABSENT
    seconds = max(0, int(now - at))
    for unit, length in (("d", _DAY), ("h", _HOUR), ("min", _MINUTE)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def _has_gpu(row: NodeRow) -> bool:
    return row.ours and row.kind != "none"


def _amount(value: int | None, otherwise: str) -> str:
    return otherwise if value is None else human(value)


def _total(row: NodeRow, pool: PoolRow | None) -> str:
    labelled = pool is not None and pool.resource == GPU_MEMORY and row.ours
    return _amount(pool.total if pool else None, UNKNOWN if labelled else ABSENT)


def _reserved(row: NodeRow, pool: PoolRow | None) -> str:
    if pool is None or pool.advertised is None:
        return ABSENT
    return _amount(pool.reserved, _total(row, pool))


def _free(pool: PoolRow | None) -> str:
    if pool is None or pool.allocatable is None:
        return ABSENT
    return _amount(pool.free, UNKNOWN)


def _mode(row: NodeRow) -> Span:
    if row.mode is not None:
        return Span(row.mode, "warn")
    return Span(UNKNOWN) if row.ours else Span(ABSENT, "dim")


def _agent(agent: Agent | None) -> Span:
    if agent is None:
        return Span(ABSENT)
    version = agent.version or UNKNOWN
    return Span(version) if agent.ready else Span(f"{version}, not ready", "bad")


def _problems(row: NodeRow) -> list[Span]:
    found = [Span(_problem(problem), "bad") for problem in row.problems]
    if not row.schedulable:
        found.append(Span("cordoned", "warn"))
    if row.ours and not row.judged:
        found.append(Span("no GPU conditions", "warn"))
    return found or [Span("ok" if row.ours else ABSENT, "" if row.ours else "dim")]


def _problem(problem: Problem) -> str:
    # Ready is the one condition whose True is good.
    name = {"False": f"Not{problem.type}", "True": problem.type}.get(problem.status, f"{problem.type} unknown")
    return f"{name}: {problem.reason}" if problem.reason else name

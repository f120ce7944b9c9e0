"""The order of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from edgeagent.fleet.types import NodeRow, PoolRow


def _pool(amount: Callable[[PoolRow], int | None]) -> Callable[[NodeRow], int | None]:
    """The amount of the first pool: the sum of two pools would be of no use to any pod. The largest comes first."""

    def key(row: NodeRow) -> int | None:
        value = amount(row.pools[0]) if row.pools else None
        return None if value is None else -value

    return key


COLUMNS: dict[str, Callable[[NodeRow], Any]] = {
    "name": lambda row: row.name,
    "kind": lambda row: row.kind,
    "product": lambda row: row.product,
    "pool": lambda row: row.pools[0].resource if row.pools else None,
    "total": _pool(lambda pool: pool.total),
    "reserved": _pool(lambda pool: pool.reserved),
    "advertised": _pool(lambda pool: pool.advertised),
    "committed": _pool(lambda pool: pool.committed),
    "free": _pool(lambda pool: pool.free),
    "mode": lambda row: row.mode,
    "agent": lambda row: row.agent and row.agent.version,
    "wrote": lambda row: row.wrote,
    "conditions": lambda row: -len(row.problems),
}
"""By column: the value that rows are sorted by; the smallest is first, and None last."""


def ordered(rows: Iterable[NodeRow], column: str) -> tuple[NodeRow, ...]:
    """Amounts largest first, times oldest first, most problems first, words by the alphabet; then by name."""
    key = COLUMNS[column]

    def place(row: NodeRow) -> tuple[bool, Any, str]:
        value = key(row)
        return value is None, 0 if value is None else value, row.name

    return tuple(sorted(rows, key=place))

"""Whether a snapshot is explained as the board that it was made of: what was taken out must have decided nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgeagent.diagnose.decided import decided
from edgeagent.plan import explain
from edgeagent.plan.state import State
from edgeagent.snapshot import recording, replay
from edgeagent.snapshot.record import taking

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from edgeagent.config import Config
    from edgeagent.host.files import Entry
    from edgeagent.snapshot.record.taking import Sample

_WORDS = frozenset({"kind", "memory", "health", "signals", "state", "code", "breach", "origin", "type", "status"})
"""Keys whose texts are words of edgeagent's own; other texts may be names."""


def differences(config: Config, sample: Sample, path: Path, entries: Mapping[str, Entry]) -> list[str]:
    """The parts of the document in which the first sample of a snapshot and the board it was made of differ.

    ``sample`` is the board's; names are not compared. ``path`` is for messages.

    Raises:
        InputError: the snapshot cannot be read at all.
    """
    found = recording.understood(path, entries)
    _, plan = next(iter(replay.plans(found)))
    recorded = explain.document(plan, 0.0, config.reserves)
    facts = taking.facts(config, sample)
    _, _, plan = decided(State(), facts, sample.at, sample.look, taking.cluster(sample))
    alive = explain.document(plan, 0.0, config.reserves)
    return [part for part in alive if _figures(alive[part]) != _figures(recorded[part])]


def _figures(value: Any, key: str = "") -> Any:
    """``value`` without names; lists in an order that does not come from names either."""
    if isinstance(value, dict):
        return [_figures(value[name], name) for name in sorted(value)]
    if isinstance(value, list):
        return sorted((_figures(item, key) for item in value), key=repr)
    return value if key in _WORDS or not isinstance(value, str) else ""

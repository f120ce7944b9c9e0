"""What the agent has done since it was started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import TypeVar, get_args

from edgeagent.plan.breaches import Breach
from edgeagent.plan.types import KillOutcome, Outcome
from edgeagent.serve.metrics.families import Families, Moment, Rows, counter, histogram

_Key = TypeVar("_Key", bound=tuple[str, ...])


def families(moment: Moment) -> Families:
    """The counters."""
    counters = moment.shown.counters
    yield counter("cycles", "Completed cycles.", [((), counters.cycles)])
    yield histogram("cycle_duration_seconds", "How long cycles took.", counters.cycle_seconds)
    yield histogram("cycle_lag_seconds", "How long after they were due cycles began.", counters.late_seconds)
    evictions = _from_zero(counters.evictions, product(get_args(Breach), get_args(Outcome)))
    yield counter("evictions", "Evictions by breach and by how the call ended.", evictions, "breach", "outcome")
    killed = {(outcome,): count for outcome, count in counters.kills.items()}
    kills = _from_zero(killed, product(get_args(KillOutcome)))
    yield counter("kills", "GPU processes that were to be killed, by how that ended.", kills, "outcome")
    calls = sorted(counters.api_calls.items())
    yield counter("api_calls", "Calls of the API server by verb and status code.", calls, "verb", "code")
    yield counter("node_repatches", "Times the node's values had to be restored.", [((), counters.repatches)])
    unknown = [((), counters.unknown_pods)]
    yield counter("unknown_pods", "Pods in samples whose GPU memory was not known, each time.", unknown)
    yield counter("log_lines_lost", "Log lines that could not be written.", [((), counters.lost_log_lines)])


def _from_zero(counted: Mapping[_Key, int], known: Iterable[_Key]) -> Rows:
    """Every count that there can be: of a series that begins with its first event, ``increase`` does not see it."""
    return sorted({**dict.fromkeys(known, 0), **counted}.items())

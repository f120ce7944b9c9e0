"""What a pod that starts does to those beside it: how they fared before, and since.

Kept in memory alone, in steps of a minute: this is to be looked at while something is rolled out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from edgeagent.facts.neighbours import Effect, Figures

WINDOW = 300.0
"""Seconds over which figures are averaged, before and after."""
STEP = 60.0
FORGOTTEN = 3600.0
"""Seconds after which a newcomer is none any more."""

Sums = tuple[float, ...]
"""How many values there were of each of FIELDS, then their sums."""
FIELDS = ("p50_seconds", "p99_seconds", "requests_per_second", "cpu_throttled_ratio")
_NOTHING: Sums = (0.0,) * (2 * len(FIELDS))


@dataclass(frozen=True, slots=True)
class Newcomer:
    """The pod that started last."""

    uid: str
    key: str
    at: float
    """Monotonic second at which it was first seen running."""
    before: Mapping[str, Sums]
    """By uid of those that were there."""
    after: Mapping[str, Sums] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Beside:
    """What is remembered from one look to the next."""

    running: frozenset[str] | None = None
    """None: nobody has looked yet, so that nobody is new."""
    steps: Mapping[str, tuple[tuple[float, Sums], ...]] = field(default_factory=dict)
    """(monotonic second of its start, sums) of each step, by uid."""
    newcomer: Newcomer | None = None


def look(state: Beside, now: float, running: Mapping[str, str], figures: Mapping[str, Figures]) -> Beside:
    """The state after one more look.

    Args:
        state: the state before.
        now: monotonic second.
        running: ``namespace/name`` of the pods that run, by uid.
        figures: of those of them of which there are any, by uid.
    """
    newcomer = _newcomer(state, now, running)
    if newcomer and now - newcomer.at <= WINDOW:
        after = {uid: _sum((newcomer.after.get(uid, _NOTHING), _sums(one))) for uid, one in figures.items()}
        newcomer = replace(newcomer, after={**newcomer.after, **after})
    steps = {uid: state.steps.get(uid, ()) for uid in running if uid in state.steps or uid in figures}
    for uid, one in figures.items():
        steps[uid] = _stepped(steps.get(uid, ()), now, _sums(one))
    return Beside(frozenset(running), steps, newcomer)


def effect(state: Beside, now: float, uid: str) -> Effect | None:
    """What the newcomer did to the pod ``uid``; None: there is none, or nothing to compare."""
    newcomer = state.newcomer
    if newcomer is None or uid not in newcomer.before:
        return None
    after = newcomer.after.get(uid, _NOTHING)
    return Effect(pod=newcomer.key, seconds=now - newcomer.at, before=_mean(newcomer.before[uid]), after=_mean(after))


def _newcomer(state: Beside, now: float, running: Mapping[str, str]) -> Newcomer | None:
    new = sorted(set(running) - state.running, key=lambda uid: running[uid]) if state.running is not None else []
    if new:
        before = {uid: _sum(sums for at, sums in steps if now - at <= WINDOW) for uid, steps in state.steps.items()}
        there = {uid: sums for uid, sums in before.items() if uid in running and any(sums)}
        return Newcomer(new[-1], running[new[-1]], now, there)
    known = state.newcomer
    return known if known and known.uid in running and now - known.at <= FORGOTTEN else None


def _stepped(steps: tuple[tuple[float, Sums], ...], now: float, sums: Sums) -> tuple[tuple[float, Sums], ...]:
    kept = tuple(step for step in steps if now - step[0] <= WINDOW)
    if kept and now - kept[-1][0] < STEP:
        at, so_far = kept[-1]
        return (*kept[:-1], (at, _sum((so_far, sums))))
    return (*kept, (now, sums))


def _sums(figures: Figures) -> Sums:
    values = [getattr(figures, name) for name in FIELDS]
    return (*(float(value is not None) for value in values), *(value or 0.0 for value in values))


def _sum(several: Iterable[Sums]) -> Sums:
    return tuple(map(sum, zip(_NOTHING, *several, strict=True)))


def _mean(sums: Sums) -> Figures:
    counts, totals = sums[: len(FIELDS)], sums[len(FIELDS) :]
    means = [total / count if count else None for count, total in zip(counts, totals, strict=True)]
    return Figures(**dict(zip(FIELDS, means, strict=True)))

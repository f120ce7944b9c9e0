"""The summary of an agent for people, in about ten lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edgeagent.console import said
from edgeagent.facts import PREFIX
from edgeagent.plan.report.head import in_short
from edgeagent.plan.report.style import Line, Span, Style, Tone, line, render, wrapped
from edgeagent.quantity import human

_COLUMN = 11
_STATES = {"breach": "over its budget", "unbudgeted": "without a budget", "unknown": "not known"}
_NAMED = 3
"""Pods that are named."""
_UNKNOWN = "not known"

Json = Mapping[str, Any]
Words = tuple[str, Tone]


def text(found: Json, style: Style) -> str:
    """The page; ``found`` is the document of :mod:`edgeagent.console.summary`."""
    return render(_lines(found, style), style)


def _lines(found: Json, style: Style) -> Iterator[Line]:
    rows: list[tuple[str, Words]] = [
        ("agent", (_agent(found), "")),
        ("ready", _ready(found)),
        ("board", (_board(found["board"]), "")),
        ("mode", _mode(found)),
        *(("config", words) for words in _config(found["config"])),
        *(("pool", _pool(pool)) for pool in found["pools"]),
        ("memory", _memory(found)),
        ("pods", _pods(found)),
        ("decision", (_decision(found), "")),
        ("findings", _findings(found)),
        ("cluster", _cluster(found["cluster"])),
    ]
    for name, (words, tone) in rows:
        yield from wrapped(words, style, _COLUMN, line(Span(name, "dim")), tone)


def _agent(found: Json) -> str:
    node = f" on {found['node']}" if found["node"] else ""
    since = f", up {said.lasting(said.between(found['started'], found['at']))}" if found["started"] else ""
    return f"edgeagent {found['version']}{node}, {found['address']}{since}"


def _ready(found: Json) -> Words:
    return ("yes", "") if found["ready"] else (f"no: {'; '.join(said.reasons(found))}", "bad")


def _board(board: Json | None) -> str:
    if board is None:
        return _UNKNOWN
    release = f"JetPack {board['jetpack']}" if board["jetpack"] else f"L4T {board['l4t']}" if board["l4t"] else ""
    return ", ".join(filter(None, (in_short(board), release)))


def _mode(found: Json) -> Words:
    if found["mode"] == "observe":
        return f"observe, nothing is evicted: {found['observe_because']}", "warn"
    return found["mode"] or _UNKNOWN, ""


def _config(config: Json | None) -> Iterator[Words]:
    """A line only where there is something to do."""
    if config and config["problems"]:
        yield f"last change refused: {'; '.join(config['problems'])}", "bad"


def _pool(pool: Json) -> Words:
    name = pool["resource"].removeprefix(PREFIX)
    free, over = pool["free_bytes"], pool["overcommitted"]
    less = free is not None and free < 0
    room = "nothing" if less else human(free)
    words = (
        f"{name}: {human(pool['advertised_bytes'])} advertised, {human(pool['committed_bytes'])} requested, {room} free"
    )
    return words + (", overcommitted" if over else ""), "bad" if over or less else ""


def _memory(found: Json) -> Words:
    usable = f"{human(found['usable_bytes'])} usable, floor {human(found['floor_bytes'])}"
    if found["pressure"] is None:
        return f"{usable}, whether there is pressure is {_UNKNOWN}", ""
    return (f"{usable}, under pressure", "bad") if found["pressure"] else (f"{usable}, no pressure", "")


def _pods(found: Json) -> Words:
    if found["pods"] is None:
        return f"{_UNKNOWN}: {said.unlisted(found)}", ""
    shown = found["not_well"]
    named = [
        f"{said.pod(pod)} {_STATES.get(pod['state'], pod['state'])}"
        for pod in sorted(shown, key=lambda pod: pod["state"])[:_NAMED]
    ]
    more = [f"{len(shown) - _NAMED} more"] if len(shown) > _NAMED else []
    words = ", ".join([str(sum(found["pods"].values())), *named, *more])
    return words, "bad" if found["pods"]["breach"] else "warn" if shown else ""


def _decision(found: Json) -> str:
    last = found["last_decision"]
    if last is None:
        return "none is kept"
    ago = f"{said.lasting(said.between(last['at'], found['at']))} ago" if last["at_plausible"] else "some time ago"
    # The rest of the sentence says what to do about the pod, and stands in edgeagent history.
    return f"{ago}: {last['what']}: {said.why(last['why']).partition('. ')[0]}"


def _findings(told: Json) -> Words:
    found = told["findings"]
    if found is None:
        return said.UNDIAGNOSED if told["board"] else _UNKNOWN, ""
    counts = [said.counted(found["error"], "error"), said.counted(found["warning"], "warning"), f"{found['info']} info"]
    words = ", ".join(count for count in counts if not count.startswith("0 ")) or "none"
    words += f"; {said.DOCTOR}" if found["error"] or found["warning"] else ""
    return words, "bad" if found["error"] else "warn" if found["warning"] else ""


def _cluster(found: Json | None) -> Words:
    if found is None:
        return "none is asked: standalone", ""
    error = f": {found['error']}" if found["error"] else ""
    if not found["complete"]:
        return f"own node and own pods were not listed yet{error}", "warn"
    age = found["view_age_seconds"]
    return (
        f"the view is {said.lasting(age)} old{error}" if age >= 1 else f"the view is current{error}",
        "warn" if error else "",
    )

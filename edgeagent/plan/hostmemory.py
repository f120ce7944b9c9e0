"""Pressure that no pod is to blame for: processes outside pods hold more than is reserved for them. Who, what to do.

The name of a process is its own choice, and that of a unit may be a user's: what is told of them ends up on one line of
a terminal, in a log and in the node's conditions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeagent.memory import culprit
from edgeagent.plan import messages, pressure
from edgeagent.plan.types import Finding
from edgeagent.quantity import ceil_mib, human, mib

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgeagent.facts import HostFacts, PodFacts
    from edgeagent.memory.culprit import Culprit
    from edgeagent.memory.types import Pool, Usage
    from edgeagent.plan.pressure import Danger

_PLAIN = re.compile(r"\w(?:[\w .:/@+-]*[\w+])?")
_SERVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@:-]*\.service")
"""A service of the system; one of a user's is told as ``x.service of user-1000.slice``."""
_NEEDED = tuple(f"{name}.service" for name in ("k3s", "k3s-agent", "kubelet", "containerd", "docker", "edgeagent"))
"""Without these there are no pods."""
_LONGEST = 64
"""Characters of a name that are told: the kernel keeps 15 bytes for a process, and up to 63 for a worker of its own."""


@dataclass(frozen=True, slots=True)
class Blame:
    """The host is over its reserves, and its processes were looked through."""

    culprit: Culprit | None
    """None: none of them could be read."""


def blame(host: HostFacts, used: Usage, pods: Iterable[PodFacts], *, over: bool | None) -> Blame | None:
    """Who is to blame on the host; None when it is not over, and until its processes were looked through."""
    if not over or host.host_processes is None:
        return None
    return Blame(culprit.largest(host.host_processes, used, pods))


def message(blamed: Blame) -> str:
    """For the condition: no figures in it, so that it stays as it is."""
    which = f"the largest is {_named(blamed.culprit)}" if blamed.culprit else "which process could not be read"
    return (
        "Usable memory is below the floor, and processes outside pods use more than what is reserved for them: "
        f"{which}."
    )


def findings(blamed: Blame | None, danger: Danger, outside: int | None, pool: Pool | None) -> tuple[Finding, ...]:
    """What holds the ``outside`` bytes that no pod holds, while memory is below the floor, and what to do."""
    if blamed is None or not danger.by_floor or outside is None or pool is None:
        return ()
    lines = {line.name: line for line in pool.reserves if line.name in pressure.FOR_THE_HOST}
    reserved = sum(line.bytes for line in lines.values())
    found = blamed.culprit
    largest = f"The largest is {_named(found)} with {human(found.bytes)}" if found else "Which one could not be read"
    enough = outside - sum(line.bytes for line in lines.values() if line.name != "os")
    return (
        Finding(
            id="host-over-reserve",
            severity="error",
            certainty="certain",
            subject=f"pool {pool.resource}",
            summary=f"Processes outside pods hold {human(outside)}, {human(reserved)} is reserved for them, and usable "
            f"memory is below the floor. {largest}.",
            evidence=(
                f"outside pods: {outside}",
                *(f"{line.name}: {line.bytes} ({line.origin})" for line in lines.values()),
                *(_parts(found) if found else ()),
            ),
            remedy=_remedy(found, mib(ceil_mib(enough))),
        ),
    )


def _remedy(found: Culprit | None, enough: str) -> str:
    """``enough``: what has to be reserved, so that all of this fits."""
    setting = messages.configured({"os": enough})
    offered = f"set reserves.os to {enough} or more, which then no pod is offered."
    if found is not None and found.process.unit in _NEEDED:
        return f"S{offered[1:]}\n{setting}"
    first = f"Stop {'it' if found else 'what the board can do without'}, run it in a pod with a budget, or {offered}"
    aim = "stop it" if found else "see which it is"
    return f"{first}\nTo {aim}:\n{_stop(found)}\nOr to reserve what it needs:\n{setting}"


def _stop(found: Culprit | None) -> str:
    """The command that stops it: its service as a whole, which would else start it again."""
    if found is None:
        return "sudo ps -eo pid,rss,comm --sort=-rss | head"
    unit = found.process.unit
    return f"sudo systemctl stop {unit}" if _SERVICE.fullmatch(unit) else f"sudo kill {found.process.pid}"


def _parts(found: Culprit) -> tuple[str, str]:
    own = "unknown" if found.process.bytes is None else found.process.bytes
    return (f"{_named(found)}, GPU: {found.gpu}", f"{_named(found)}, own: {own}")


def _named(found: Culprit) -> str:
    """``ollama (pid 812, ollama.service)``."""
    process = found.process
    return f"{_harmless(process.name)} (pid {process.pid}{', ' + process.unit if process.unit else ''})"


def _harmless(name: str) -> str:
    """A name of letters, digits and a few signs as it is; any other in quotes, what is not printable escaped."""
    kept = name[:_LONGEST]
    return kept if _PLAIN.fullmatch(kept) else repr(kept)

"""What ``doctor`` prints: findings with their evidence, remedy and page, and whether AI pods can use the node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from edgeagent.diagnose.rule import PAGE
from edgeagent.plan.explain import finding
from edgeagent.plan.report.actions import remedy
from edgeagent.plan.report.style import BLANK, Line, Span, Style, Tone, line, render, wrapped

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import ClusterSeen, Collected
    from edgeagent.diagnose.story import Step
    from edgeagent.facts import Finding
    from edgeagent.facts.diagnosis import ClusterLook, Listed
    from edgeagent.plan.types import GpuPath

FORMAT = 1
_TONES: dict[str, Tone] = {"error": "bad", "warning": "warn", "info": ""}
_PLURALS = {"error": "errors", "warning": "warnings", "info": "notes"}
_SINGULARS = {"error": "error", "warning": "warning", "info": "note"}
_ANSWERS: dict[bool | None, tuple[str, Tone]] = {True: ("yes", ""), False: ("no", "bad"), None: ("?", "warn")}
_PLAIN: tuple[str, Tone] = ("-", "dim")
_INDENT = 4

Json = dict[str, Any]


def docs(found: Finding) -> str:
    """Where its rule is described, below docs/."""
    return f"{PAGE}#{found.id}"


def document(
    findings: Sequence[Finding],
    *,
    node: str | None,
    path: GpuPath | None,
    looked: Sequence[str],
    unlisted: Sequence[str],
    steps: Sequence[Step] = (),
) -> Json:
    """The whole answer as plain values.

    ``path``: None where it is not asked, as of a cluster. ``looked``: what was looked at. ``unlisted``: what could not
    be, and why.
    """
    return {
        "format": FORMAT,
        "node": node,
        "ai_capable": None if path is None else {"value": path.proven, "why": path.why},
        "steps": [
            {"question": step.question, "answer": step.answer, "told": step.told, "evidence": list(step.evidence)}
            for step in steps
        ],
        "findings": [{**finding(one), "docs": docs(one)} for one in findings],
        "looked_at": list(looked),
        "unlisted": list(unlisted),
    }


def on_board(seen: Collected) -> tuple[str, ...]:
    """What was looked at on a board: the file that counts most, and how many of everything else."""
    used = seen.host.containerd
    files = (used.path,) if not used.problem else ()
    processes = () if seen.host.holders.problem else ("device nodes that processes hold open",)
    bound = (_count(len(seen.pods), "pod", f" of {seen.node_subject}"),) if seen.plan.listed else ()
    return (*files, *processes, *bound, *_listed(seen.cluster))


def in_cluster(seen: ClusterSeen) -> tuple[str, ...]:
    """What was looked at by the API alone."""
    bound = sum(len(pods) for pods in seen.bound.values())
    return (_count(len(seen.nodes), "node"), _count(bound, "pod", " on them"), *_listed(seen.cluster))


def _listed(cluster: ClusterLook) -> Iterator[str]:
    lists: tuple[tuple[str, str, Listed[Any]], ...] = (
        ("pod", " that waits for a node", cluster.waiting),
        ("RuntimeClass", "", cluster.runtime_classes),
        ("DaemonSet", "", cluster.daemon_sets),
        ("warning", " of the kubelet and of controllers", cluster.events),
    )
    for name, which, listed in lists:
        if listed.items is not None:
            many = len(listed.items) != 1
            yield _count(len(listed.items), name, which.replace("waits", "wait") if many else which)


def _count(number: int, name: str, which: str = "") -> str:
    plural = "" if number == 1 else "es" if name.endswith("s") else "s"
    return f"{number or 'no'} {name}{plural}{which}"


def unseen(seen: Collected) -> tuple[str, ...]:
    """What could not be looked at on a board and in its cluster, with the reason."""
    used, holders = seen.host.containerd, seen.host.holders
    files = (f"containerd's configuration: {used.problem}",) if used.problem else ()
    processes = (f"device nodes that processes hold open: {holders.problem}",) if holders.problem else ()
    return (*files, *processes, *unlisted(seen.cluster))


def unlisted(cluster: ClusterLook) -> tuple[str, ...]:
    """The lists that nobody has, each with the reason; one line for all that have the same."""
    found: dict[str, Listed[Any]] = {
        "RuntimeClasses": cluster.runtime_classes,
        "DaemonSets": cluster.daemon_sets,
        "events": cluster.events,
        "unbound pods": cluster.waiting,
    }
    whys: dict[str, list[str]] = {}
    for name, listed in found.items():
        if listed.items is None:
            whys.setdefault(listed.why, []).append(name)
    return tuple(f"{', '.join(names)}: {why}" for why, names in whys.items())


def text(
    findings: Sequence[Finding],
    style: Style,
    *,
    path: GpuPath | None,
    looked: Sequence[str],
    unlisted: Sequence[str],
    steps: Sequence[Step] = (),
) -> str:
    """The same for people."""
    return render(_page(findings, style, path, looked, unlisted, steps), style)


def _page(
    findings: Sequence[Finding],
    style: Style,
    path: GpuPath | None,
    looked: Sequence[str],
    unlisted: Sequence[str],
    steps: Sequence[Step],
) -> Iterator[Line]:
    yield from _steps(steps, style)
    for one in findings:
        yield from _finding(one, style)
        yield BLANK
    if path is not None:
        answer, tone = _ANSWERS[path.proven]
        yield from wrapped(path.why, style, _INDENT, line("AI pods can use the GPU here: ", Span(answer, tone), ". "))
    if looked:
        yield from wrapped(f"Looked at: {', '.join(looked)}.", style, _INDENT, tone="dim")
    for row in unlisted:
        yield from wrapped(f"Cannot tell: {row.removesuffix('.')}.", style, _INDENT, tone="dim")
    yield line(Span(_sum(findings, steps), "strong"))


def _steps(steps: Sequence[Step], style: Style) -> Iterator[Line]:
    for step in steps:
        answer, tone = _PLAIN if step.plain else _ANSWERS[step.answer]
        head = line(Span(f"{answer:<4}", tone), Span(f"{step.question} ", "strong"))
        yield from wrapped(step.told, style, _INDENT, head)
        for row in step.evidence:
            yield from wrapped(row, style, _INDENT + 2, tone="dim")
    if steps:
        yield BLANK


def _finding(one: Finding, style: Style) -> Iterator[Line]:
    head = line(Span(f"{one.severity} {one.id} ", _TONES[one.severity]))
    yield from wrapped(f"({one.certainty}, {one.subject})", style, _INDENT, head, "dim")
    yield from wrapped(one.summary, style, _INDENT)
    for row in one.evidence:
        yield from wrapped(row, style, _INDENT + 2, tone="dim")
    yield from remedy(one.remedy, style)
    yield from wrapped(f"docs/{docs(one)}", style, _INDENT, tone="dim")


def _sum(findings: Iterable[Finding], steps: Iterable[Step]) -> str:
    severities = [one.severity for one in findings]
    counts = [(severities.count(name), name) for name in _PLURALS]  # type: ignore[arg-type]
    told = [f"{count} {(_SINGULARS if count == 1 else _PLURALS)[name]}" for count, name in counts if count]
    if not told and any(step.answer is False for step in steps):
        return "No rule finds a cause; see what is answered with no."
    return ", ".join(told) or "Nothing was found to be wrong."

"""The page that describes every rule, made from the rules themselves: docs/reference/findings.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.diagnose.registry import RULES

if TYPE_CHECKING:
    from edgeagent.diagnose.rule import Rule

_HEAD = """\
# Findings of doctor

[`edgeagent doctor`](cli.md#edgeagent-doctor) looks for what keeps pods from the GPU; a running agent does so every
minute, and soon after pods come and go. What is found stands in [`explain`](explain.md#findings) and in the agent's
API too. This page is made from the code.

*Certain* is what the evidence proves, *suspected* what it speaks for. *Cannot tell* says which file, list or right is
missing, and is never an error. Errors and warnings are told as events, once until their words change.
"""


def page() -> str:
    """The whole page."""
    return "\n".join((_HEAD, *_table(), "", *(part for rule in RULES for part in _section(rule)))).rstrip() + "\n"


def _table() -> Iterator[str]:
    yield "| id | severity | what |"
    yield "|---|---|---|"
    for rule in RULES:
        yield f"| [`{rule.id}`](#{rule.id}) | {rule.severity} | {rule.title} |"


def _section(rule: Rule) -> Iterator[str]:
    yield f"## {rule.id}"
    yield ""
    yield f"**{rule.title}.** {_told(rule)}"
    yield ""
    yield f"*Looks at*: {rule.looks_at}."
    yield ""
    yield f"*Why it matters*: {rule.matters}"
    yield ""
    first, *lines = rule.remedy.splitlines()
    yield f"*What to do*: {first}"
    yield ""
    if lines:
        yield "```"
        yield from lines
        yield "```"
        yield ""


def _told(rule: Rule) -> str:
    """Severity, certainty, and where it shows."""
    certainty = "" if rule.certain else ", suspected at most"
    event = rule.reason if rule.event is None else rule.event
    told = f"Severity: {rule.severity}{certainty}."
    told += f" Event: `{event}`." if event else ""
    told += " While it is certain, the condition `GPURuntimeMisconfigured` is true." if rule.condition else ""
    return told + (" Part of `doctor --cluster`." if rule.across else "")

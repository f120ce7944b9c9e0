"""What a rule is: its page, and one pure function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from edgeagent.facts import Certainty, Finding, Severity

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import ClusterSeen, Collected
    from edgeagent.facts import PodFacts
    from edgeagent.facts.diagnosis import Listed

PAGE = "reference/findings.md"
"""Below docs/: one section for each rule, made from the code."""
_MOST_TOLD = 200
"""Characters of an error that are told."""
_SOUND = re.compile(r"[\w./:@-]*( [\w./:@-]+)*", re.ASCII)


def _sound(subject: str, pod: PodFacts | None) -> bool:
    """No name in it means anything to a shell."""
    names = [subject]
    if pod is not None:
        names += [pod.key, pod.runtime_class or "", *(pod.owner or ()), *(one.name for one in pod.containers)]
    return all(_SOUND.fullmatch(name) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. Its texts are its section of the page, in Markdown; a finding of it has words of its own."""

    id: str
    title: str
    severity: Severity
    """Of its findings unless they say otherwise; the worst of them where they differ."""
    looks_at: str
    """Which files, fields and lists."""
    matters: str
    """What goes wrong because of it."""
    remedy: str
    """What to do, in general."""
    look: Callable[[Collected], Iterable[Finding]]
    """On one node, with its files."""
    across: Callable[[ClusterSeen], Iterable[Finding]] | None = None
    """On all nodes, by the API alone; None: that says nothing about it."""
    certain: bool = True
    """It can be certain; False: its findings are suspicions at most."""
    event: str | None = None
    """Reason of its events; None: the id in capitals (``RuntimeMissing``), "": it has none."""
    condition: bool = False
    """While it is certain of an error the node's condition ``GPURuntimeMisconfigured`` is true."""

    @property
    def reason(self) -> str:
        """The id as a word of Kubernetes: ``RuntimeMissing``."""
        return "".join(part if part.isupper() else part.capitalize() for part in self.id.split("-"))

    def finding(
        self,
        subject: str,
        summary: str,
        *,
        evidence: Iterable[str] = (),
        remedy: str = "",
        severity: Severity | None = None,
        certainty: Certainty | None = None,
        pod: PodFacts | None = None,
    ) -> Finding:
        """A finding of this rule; its general remedy stands in where none is given. ``pod``: it is about this pod.

        So it does where a name is none that an API server would have taken, as it may stand in a recording of a
        stranger's: a remedy is there to be pasted into a shell.
        """
        if not _sound(subject, pod):
            remedy = ""
        return Finding(
            id=self.id,
            severity=severity or self.severity,
            certainty=certainty or ("certain" if self.certain else "suspected"),
            subject=subject,
            summary=summary,
            evidence=tuple(evidence),
            remedy=remedy or self.remedy,
            event=self.reason if self.event is None else self.event,
            uid=pod.uid if pod else "",
            condition=self.reason if self.condition else "",
        )

    def cannot_tell(self, subject: str, question: str, listed: Listed[Any]) -> Finding:
        """The finding that a list is missing to answer ``question``; a right that is missing is named."""
        lack = f" It needs the right to {listed.right}." if listed.right else ""
        remedy = (
            f"Give the agent a service account that may {listed.right}, or ask with an operator's kubeconfig."
            if listed.right
            else "Ask again with a kubeconfig, or with a snapshot that has the list."
        )
        found = self.finding(
            subject,
            f"{question} cannot be told: {listed.why}.{lack}",
            evidence=(listed.why,),
            remedy=remedy,
            severity="info",
            certainty="cannot-tell",
        )
        return replace(found, right=listed.right)

    def broken(self, subject: str, error: Exception) -> Finding:
        """The finding that the rule itself fails at something it read."""
        told = f"{type(error).__name__}: {str(error)[:_MOST_TOLD]}"
        found = self.finding(
            subject,
            "This cannot be told: the rule fails at something that it read.",
            evidence=(told,),
            remedy="Please report this, with the line above.",
            severity="info",
            certainty="cannot-tell",
        )
        return replace(found, event="", condition="")


def by_decisions(_: Collected) -> tuple[Finding, ...]:
    """The look of a rule whose findings decisions make themselves, in every cycle: there is nothing more to look at."""
    return ()

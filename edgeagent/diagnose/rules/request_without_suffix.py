"""An amount of GPU memory below 1 MiB: the suffix was forgotten."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeagent.diagnose.collected import pod_subject
from edgeagent.diagnose.rule import Rule
from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY
from edgeagent.memory.budgets import LIMIT_ANNOTATION, likely
from edgeagent.quantity import MIB

if TYPE_CHECKING:
    from edgeagent.diagnose.collected import ClusterSeen, Collected
    from edgeagent.facts import Finding, PodFacts

_BELOW = re.compile(r"\d{1,7}", re.ASCII)
"""So many digits has 1 MiB in bytes. Python refuses to make a number of a text of thousands."""


def look(seen: Collected | ClusterSeen) -> Iterator[Finding]:
    """Every pod, bound or not."""
    for pod in seen.everyone():
        for place, key, amount in _figures(pod):
            if 0 < amount < MIB:
                yield RULE.finding(
                    pod_subject(pod),
                    f"{place} asks for {amount} bytes of {key}; {amount}{likely(amount)} was probably meant. As it "
                    "stands the pod has no budget, and the scheduler counts nothing for it.",
                    evidence=(f"{place}: {key}: {amount}",),
                    remedy=f'Write the suffix in requests and limits:\n{key}: "{amount}{likely(amount)}"',
                    pod=pod,
                )


def _figures(pod: PodFacts) -> Iterator[tuple[str, str, int]]:
    """Where an amount stands, its key, bytes."""
    for container in pod.containers:
        for key, amount in {**container.requests, **container.limits}.items():
            if key in (GPU_MEMORY, IGPU_MEMORY) or key.startswith(f"{GPU_MEMORY}-"):
                yield f"Container {container.name}", key, amount
    told = pod.annotations.get(LIMIT_ANNOTATION, "")
    if _BELOW.fullmatch(told):
        yield "The annotation", LIMIT_ANNOTATION, int(told)


RULE = Rule(
    id="request-without-suffix",
    title="An amount without its suffix",
    severity="warning",
    looks_at="requests and limits of `edgeagent.dev/gpu-memory` and the annotation `edgeagent.dev/gpu-memory-limit`, "
    "above 0 and below 1 MiB",
    matters="`edgeagent.dev/gpu-memory: 2048` means 2048 bytes. Such a pod is scheduled anywhere and has no budget, so "
    "nothing keeps it from taking the memory of others.",
    remedy='Write the suffix: `edgeagent.dev/gpu-memory: "2048Mi"`, in requests and limits.',
    look=look,
    across=look,
    event="",
)
RULES = (RULE,)

"""What the agent makes of it: whom it spares and why, what it finds wrong, whether it only watches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from edgeagent.serve.metrics.families import Families, Sample, counts, gauge


def families(sample: Sample) -> Families:
    """Mode, findings and pods that are held."""
    plan = sample.plan
    yield gauge("observe", "1 while nothing is evicted, whatever happens.", [((), bool(plan.observe))])
    if not sample.stale & {"gpu", "host"}:
        held = counts(held.code for held in plan.held)
        yield gauge("held_pods", "Pods that would be evicted but for the reason.", held, "reason")
    found: Mapping[tuple[str, str, str], int] = Counter((one.id, one.severity, one.certainty) for one in plan.findings)
    yield gauge("findings", "What was found.", sorted(found.items()), "id", "severity", "certainty")

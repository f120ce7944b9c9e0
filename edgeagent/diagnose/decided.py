"""A decision and a diagnosis of the same sample: what is found stands in the plan that is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgeagent.diagnose.collected import Collected
from edgeagent.diagnose.diagnosis import diagnose
from edgeagent.plan.decide import decide

if TYPE_CHECKING:
    from edgeagent.facts import Facts
    from edgeagent.facts.diagnosis import ClusterLook, HostLook
    from edgeagent.plan.state import State
    from edgeagent.plan.types import Plan


def decided(
    state: State,
    facts: Facts,
    now: float,
    host: HostLook,
    cluster: ClusterLook,
    *,
    before: HostLook | None = None,
) -> tuple[State, Facts, Plan]:
    """The next state, the facts with what was found, the plan.

    A running agent decides with the findings of its last round; of a single look the decision is made twice.
    """
    after, plan = decide(state, facts, now)
    found = diagnose(Collected(now=now, facts=facts, plan=plan, host=host, cluster=cluster, before=before))
    if not found:
        return after, facts, plan
    facts = replace(facts, findings=found)
    after, plan = decide(state, facts, now)
    return after, facts, plan

"""The memory is nearly gone, and nobody is killed."""

from __future__ import annotations

from edgeagent.diagnose.rule import Rule, by_decisions

RULE = Rule(
    id="memory-critical",
    title="Memory is nearly gone and nobody is killed",
    severity="error",
    looks_at="usable memory and how fast it falls, against `pressure.critical`; which pods are over their budgets, and "
    "why none of them is killed",
    matters="The kernel's OOM killer is next. It does not see GPU memory, so it kills whom it likes.",
    remedy="End what holds the memory, and give pods a budget, so that the agent may act the next time. The finding "
    "names who holds most; for a pod that cannot request the resource:\n"
    "kubectl -n NAMESPACE annotate pod NAME edgeagent.dev/gpu-memory-limit=2Gi",
    look=by_decisions,
    event="",
)
RULES = (RULE,)

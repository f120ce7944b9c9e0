"""Processes outside pods hold more than is reserved for them, and memory ends."""

from __future__ import annotations

from edgeagent.diagnose.rule import Rule, by_decisions

RULE = Rule(
    id="host-over-reserve",
    title="The host uses more than is reserved for it",
    severity="error",
    looks_at="usable memory and `pressure.floor`; what is in use outside pods, host and GPU memory, against the lines "
    "`os` and `k3s`; the memory of each process outside pods, of which the largest is named. Told only while usable "
    "memory is below the floor; the condition `GPUMemoryPressure` has the reason `HostMemory` then",
    matters="No pod is to blame, so none that keeps its budget is evicted for it. Nothing is left for what the pods "
    "were promised, and at the end the kernel kills whom it likes.",
    remedy="Stop the process, run it in a pod with a budget, or raise `reserves.os`: the finding has the commands.",
    look=by_decisions,
    event="",
)
RULES = (RULE,)

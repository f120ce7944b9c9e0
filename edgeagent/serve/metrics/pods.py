"""The pods: what each uses, what it may use, how it stands."""

from __future__ import annotations

from typing import get_args

from edgeagent.plan.breaches import PodState
from edgeagent.serve.metrics.families import POD, Families, Sample, counts, gauge


def families(sample: Sample) -> Families:
    """Use, budgets and states."""
    views = [((view.pod.namespace, view.pod.name, view.pod.uid), view) for view in sample.plan.pods]
    if "gpu" not in sample.stale:
        used = [((*pod, pool), view.use.gpu.get(pool)) for pod, view in views for pool in view.budgets]
        yield gauge("pod_gpu_bytes", "GPU memory that a pod uses.", used, *POD, "pool")
    if "host" not in sample.stale:
        host = [(pod, view.use.host) for pod, view in views]
        yield gauge("pod_host_bytes", "Host memory that a pod uses, page cache excepted.", host, *POD)
    budgets = [((*pod, pool), budget) for pod, view in views for pool, budget in view.budgets.items()]
    gpu = [(labels, budget.gpu) for labels, budget in budgets]
    yield gauge("pod_gpu_budget_bytes", "GPU memory that a pod may use.", gpu, *POD, "pool")
    total = [(labels, budget.total) for labels, budget in budgets]
    yield gauge("pod_total_budget_bytes", "GPU and host memory that a pod may use together.", total, *POD, "pool")
    if not sample.stale & {"gpu", "host"}:
        states = [((*pod, view.state), 1) for pod, view in views if view.state != "ok"]
        yield gauge("pod_state", "1 for the state of a pod that is not ok.", states, *POD, "state")
        states_known = get_args(PodState) if sample.plan.listed else ()
        yield gauge("pods", "Live pods by state.", counts((view.state for _, view in views), states_known), "state")

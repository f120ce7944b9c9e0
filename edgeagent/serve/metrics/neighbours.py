"""How pods fare beside each other.

Where the kernel or the pod counts, counters are told: over which time a rate is taken is for who asks. What the driver
and a histogram's quantiles give is a figure of its own.
"""

from __future__ import annotations

from edgeagent.facts.neighbours import RESOURCES
from edgeagent.serve.metrics.families import POD, Families, Moment, counter, gauge


def families(moment: Moment) -> Families:
    """CPU quotas, pressure, use of the GPU, and latency."""
    fresh = [one for one in moment.shown.neighbours.values() if not one.stale(moment.now)]
    told = sorted((((one.namespace, one.name, one.uid), one) for one in fresh), key=lambda row: row[0])
    quotas = [(pod, one.counted) for pod, one in told if one.counted]
    yield counter(
        "pod_cpu_periods",
        "Periods in which a pod wanted to run under a quota.",
        [(p, c.periods) for p, c in quotas],
        *POD,
    )
    yield counter(
        "pod_cpu_throttled_periods", "Those in which it was held back.", [(p, c.throttled) for p, c in quotas], *POD
    )
    yield counter(
        "pod_cpu_throttled_seconds", "Time it was held back.", [(p, c.throttled_seconds) for p, c in quotas], *POD
    )
    stalled = [((*pod, resource), one.stalled.get(resource)) for pod, one in told for resource in RESOURCES]
    yield counter("pod_pressure_seconds", "Time in which a task of a pod waited.", stalled, *POD, "resource")
    busy = [(pod, one.gpu_utilization_ratio) for pod, one in told]
    yield gauge("pod_gpu_utilization_ratio", "Share of the time in which kernels of a pod ran.", busy, *POD)
    latencies = [(pod, one.latency) for pod, one in told if one.latency]
    # Two families: a label `quantile` belongs to summaries.
    median = [(pod, one.p50_seconds) for pod, one in latencies]
    yield gauge("pod_latency_p50_seconds", "Median of a pod's own latency histogram, lately.", median, *POD)
    slowest = [(pod, one.p99_seconds) for pod, one in latencies]
    yield gauge("pod_latency_p99_seconds", "99th percentile of a pod's own latency histogram, lately.", slowest, *POD)
    requests = [(pod, one.requests) for pod, one in latencies]
    yield counter("pod_requests", "Requests that a pod's own histogram has counted.", requests, *POD)

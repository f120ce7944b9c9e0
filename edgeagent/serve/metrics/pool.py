"""The pools: how large, how full by request, how full by use."""

from __future__ import annotations

from edgeagent.serve.api import sized_by
from edgeagent.serve.metrics.families import Families, Sample, gauge


def families(sample: Sample) -> Families:
    """Sizes, bookings and use by pool."""
    plan = sample.plan
    sized = [pool for pool in plan.pools if sized_by(pool.kind) not in sample.stale]
    total = [((pool.resource,), pool.total) for pool in sized]
    yield gauge("pool_total_bytes", "Size of a pool.", total, "pool")
    lines = [((pool.resource, line.name), line.bytes) for pool in sized for line in pool.reserves]
    yield gauge("reserve_bytes", "A part of a pool that is not advertised.", lines, "pool", "name")
    over = [((pool.resource,), pool.overcommitted) for pool in sized]
    yield gauge("pool_overcommitted", "1 while more is booked than the pool has after its reserves.", over, "pool")
    advertised = [((resource,), amount) for resource, amount in sorted(plan.advertised.items())]
    yield gauge("pool_advertised_bytes", "What the node's capacity says of a pool.", advertised, "pool")
    host = [((pool.resource,), pool.host_committed) for pool in plan.pools]
    yield gauge("pool_host_committed_bytes", "Host parts that live pods have requested.", host, "pool")
    gpu = [((pool.resource,), pool.gpu_committed) for pool in plan.pools]
    yield gauge("pool_gpu_committed_bytes", "GPU memory that live pods have requested.", gpu, "pool")
    if "gpu" not in sample.stale:
        used = [((pool,), amount) for pool, amount in sorted(plan.usage.gpu_total.items())]
        yield gauge("pool_gpu_used_bytes", "GPU memory in use, by whomever.", used, "pool")

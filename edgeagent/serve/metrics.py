"""The state in the Prometheus text format. Unknown and stale are absent series, never zeros.

Names keep Prometheus' conventions: base units, ``_total`` for counters, times as Unix seconds.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from edgeagent import __version__
from edgeagent.memory import pools
from edgeagent.plan.types import Plan
from edgeagent.serve import health
from edgeagent.serve.api import sized_by
from edgeagent.serve.shown import Cost, Feed, Shown

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Rows = Iterable[tuple[Sequence[str | None], float | None]]
"""Label values and value. A value of None leaves the series out; a label of None is empty."""

_POD = ("namespace", "pod", "pod_uid")


def text(shown: Shown | None, now: float, wall: float) -> bytes:
    """All series at monotonic second ``now``, which is Unix time ``wall``."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_State(shown, now, wall))
    return generate_latest(registry)


@dataclass(frozen=True, slots=True, eq=False)  # a registry keeps its collectors by identity
class _State(Collector):
    """One state, at one time."""

    shown: Shown | None
    now: float
    wall: float

    def collect(self) -> Iterator[Metric]:
        """The families that have a series."""
        for family in self._families():
            if family.samples:
                yield family

    def _families(self) -> Iterator[Metric]:
        build = ((__version__, platform.python_version()), 1)
        yield _gauge("build_info", "Version of the agent and of its Python.", [build], "version", "python")
        ready = health.readyz(self.shown, self.now)[0] == health.OK
        yield _gauge("ready", "1 when /readyz answers 200.", [((), ready)])
        if self.shown is None:
            return
        yield from _process(self.shown.cost)
        yield from _counters(self.shown)
        yield from self._times(self.shown)
        if self.shown.plan is not None and not self.shown.stale(self.now):
            stale = self.shown.stale_feeds(self.now)
            yield from _board(self.shown, self.shown.plan, stale)
            yield from _pools(self.shown.plan, stale)
            yield from _pods(self.shown.plan, stale)
            yield from _decisions(self.shown.plan, stale)

    def _times(self, shown: Shown) -> Iterator[Metric]:
        """When something last went well: an age that keeps growing shows what a frozen value hides."""
        sampled = self._unix(shown.at) if shown.plan is not None else None
        yield _gauge("sample_timestamp_seconds", "When the last complete sample was taken.", [((), sampled)])
        turns = [((name,), self._unix(loop.beat_at)) for name, loop in sorted(shown.loops.items())]
        yield _gauge("loop_last_turn_timestamp_seconds", "When a loop last completed a turn.", turns, "loop")
        readings = sorted(shown.readings.items())
        taken = [((name,), self._unix(reading.succeeded_at)) for name, reading in readings]
        yield _gauge(
            "reading_last_success_timestamp_seconds", "When a source of the board last gave a value.", taken, "reading"
        )
        states = [((name,), reading.stale(self.now)) for name, reading in readings]
        yield _gauge("reading_stale", "1 while the last value of a source is too old to be used.", states, "reading")
        cluster = shown.cluster
        if cluster is not None:
            answered = [((), self._unix(cluster.succeeded_at))]
            yield _gauge("api_last_success_timestamp_seconds", "When the API server last gave a good answer.", answered)
            seen = [((), self._unix(cluster.fresh_at) if cluster.complete else None)]
            yield _gauge("view_timestamp_seconds", "Up to when the view of the cluster is known to be current.", seen)
            yield _gauge("published", "1 once the node carries the planned values.", [((), cluster.published)])

    def _unix(self, at: float | None) -> float | None:
        return None if at is None else self.wall - (self.now - at)


def _gauge(name: str, about: str, rows: Rows, *labels: str) -> Metric:
    family = GaugeMetricFamily(f"edgeagent_{name}", about, labels=labels)
    return _filled(family, rows)


def _counter(name: str, about: str, rows: Rows, *labels: str) -> Metric:
    """``name`` without the ``_total`` that it is shown with."""
    family = CounterMetricFamily(f"edgeagent_{name}", about, labels=labels)
    return _filled(family, rows)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, rows: Rows) -> Metric:
    for labels, value in rows:
        if value is not None:
            family.add_metric([label or "" for label in labels], float(value))
    return family


def _process(cost: Cost | None) -> Iterator[Metric]:
    """The agent's own cost, under the names that every exporter uses."""
    if cost is None:
        return
    yield GaugeMetricFamily("process_resident_memory_bytes", "Memory of the agent.", value=cost.resident_bytes)
    yield CounterMetricFamily("process_cpu_seconds", "CPU time of the agent.", value=cost.cpu_seconds)
    yield GaugeMetricFamily("process_open_fds", "Open files of the agent.", value=cost.open_files)
    yield GaugeMetricFamily("process_threads", "Threads of the agent.", value=cost.threads)
    yield GaugeMetricFamily("process_start_time_seconds", "When the agent was started.", value=cost.started)


def _counters(shown: Shown) -> Iterator[Metric]:
    counters = shown.counters
    yield _gauge("config_info", "Digest of the configuration in force.", [((shown.config.digest,), 1)], "digest")
    reload_ok = [((), shown.config.last_reload_ok)]
    yield _gauge("config_last_reload_successful", "0 after a reload of a configuration that cannot be used.", reload_ok)
    yield _counter("cycles", "Completed cycles.", [((), counters.cycles)])
    evictions = sorted(counters.evictions.items())
    yield _counter("evictions", "Evictions by breach and by how the call ended.", evictions, "breach", "outcome")
    kills = [((outcome,), count) for outcome, count in sorted(counters.kills.items())]
    yield _counter("kills", "GPU processes that were to be killed, by how that ended.", kills, "outcome")
    calls = sorted(counters.api_calls.items())
    yield _counter("api_calls", "Calls of the API server by verb and status code.", calls, "verb", "code")
    yield _counter("node_repatches", "Times the node's values had to be restored.", [((), counters.repatches)])
    unknown = [((), counters.unknown_pods)]
    yield _counter("unknown_pods", "Pods in samples whose GPU memory was not known, each time.", unknown)
    yield _counter("log_lines_lost", "Log lines that could not be written.", [((), counters.lost_log_lines)])


def _board(shown: Shown, plan: Plan, stale: frozenset[Feed]) -> Iterator[Metric]:
    board = plan.board
    names = ("kind", "product", "soc", "module", "l4t", "jetpack", "driver_version", "cuda_version")
    about = "What the board is; an empty label is unknown or does not apply."
    yield _gauge("board_info", about, [([getattr(board, name) for name in names], 1)], *names)
    yield _gauge("observe", "1 while nothing is evicted, whatever happens.", [((), bool(plan.observe))])
    if "memory" not in stale:
        yield _gauge("host_available_bytes", "MemAvailable.", [((), plan.available)])
        yield _gauge("host_usable_bytes", "What GPU and host can still allocate.", [((), plan.danger.usable)])
        yield _gauge("host_pressure", "1 while the board is under pressure.", [((), plan.danger.active)])
        yield _gauge("host_pressure_floor_bytes", "Usable memory below which that is so.", [((), plan.danger.floor)])
    usage = plan.usage
    if "gpu" not in stale:
        yield _gauge("system_gpu_bytes", "GPU memory of processes that belong to no pod.", [((), usage.system_gpu)])
        yield _gauge("unattributed_gpu_bytes", "GPU memory whose user is not known.", [((), usage.unattributed_gpu)])
        used = [((pool,), amount) for pool, amount in sorted(usage.gpu_total.items())]
        yield _gauge("pool_gpu_used_bytes", "GPU memory in use, by whomever.", used, "pool")
    if not stale & {"gpu", "host"}:
        yield _gauge("leaving_bytes", "Memory of pods and processes on their way out.", [((), usage.leaving)])
    if "devices" not in stale:
        yield from _devices(shown, plan)


def _devices(shown: Shown, plan: Plan) -> Iterator[Metric]:
    named = [(device.uuid or f"#{index}", device) for index, device in enumerate(plan.board.devices)]
    infos = [((name, device.name, device.memory), 1) for name, device in named]
    yield _gauge("device_info", "A GPU, or a MIG instance.", infos, "device", "name", "memory")
    states = [((name, device.health), 1) for name, device in named]
    yield _gauge("device_health", "1 for the health that a device has.", states, "device", "health")
    totals = [((name,), device.total_bytes) for name, device in named]
    yield _gauge("device_total_bytes", "Memory of a discrete device.", totals, "device")
    usable = [((name,), pools.usable(device, shown.settings)) for name, device in named]
    yield _gauge("device_usable_bytes", "What of it pods may use.", usable, "device")


def _pools(plan: Plan, stale: frozenset[Feed]) -> Iterator[Metric]:
    sized = [pool for pool in plan.pools if sized_by(pool.kind) not in stale]
    total = [((pool.resource,), pool.total) for pool in sized]
    yield _gauge("pool_total_bytes", "Size of a pool.", total, "pool")
    lines = [((pool.resource, line.name), line.bytes) for pool in sized for line in pool.reserves]
    yield _gauge("reserve_bytes", "A part of a pool that is not advertised.", lines, "pool", "name")
    over = [((pool.resource,), pool.overcommitted) for pool in sized]
    yield _gauge("pool_overcommitted", "1 while more is booked than the pool has after its reserves.", over, "pool")
    advertised = [((resource,), amount) for resource, amount in sorted(plan.advertised.items())]
    yield _gauge("pool_advertised_bytes", "What the node's capacity says of a pool.", advertised, "pool")
    host = [((pool.resource,), pool.host_committed) for pool in plan.pools]
    yield _gauge("pool_host_committed_bytes", "Host parts that live pods have requested.", host, "pool")
    gpu = [((pool.resource,), pool.gpu_committed) for pool in plan.pools]
    yield _gauge("pool_gpu_committed_bytes", "GPU memory that live pods have requested.", gpu, "pool")


def _pods(plan: Plan, stale: frozenset[Feed]) -> Iterator[Metric]:
    views = [((view.pod.namespace, view.pod.name, view.pod.uid), view) for view in plan.pods]
    if "gpu" not in stale:
        used = [((*pod, pool), view.use.gpu.get(pool)) for pod, view in views for pool in view.budgets]
        yield _gauge("pod_gpu_bytes", "GPU memory that a pod uses.", used, *_POD, "pool")
    if "host" not in stale:
        host = [(pod, view.use.host) for pod, view in views]
        yield _gauge("pod_host_bytes", "Host memory that a pod uses, page cache excepted.", host, *_POD)
    budgets = [((*pod, pool), budget) for pod, view in views for pool, budget in view.budgets.items()]
    gpu = [(labels, budget.gpu) for labels, budget in budgets]
    yield _gauge("pod_gpu_budget_bytes", "GPU memory that a pod may use.", gpu, *_POD, "pool")
    total = [(labels, budget.total) for labels, budget in budgets]
    yield _gauge("pod_total_budget_bytes", "GPU and host memory that a pod may use together.", total, *_POD, "pool")
    if not stale & {"gpu", "host"}:
        states = [((*pod, view.state), 1) for pod, view in views if view.state != "ok"]
        yield _gauge("pod_state", "1 for the state of a pod that is not ok.", states, *_POD, "state")
        yield _gauge("pods", "Live pods by state.", _counts(view.state for _, view in views), "state")


def _decisions(plan: Plan, stale: frozenset[Feed]) -> Iterator[Metric]:
    if not stale & {"gpu", "host"}:
        held = _counts(held.code for held in plan.held)
        yield _gauge("held_pods", "Pods that would be evicted but for the reason.", held, "reason")
    found: Mapping[tuple[str, str], int] = Counter((finding.id, finding.severity) for finding in plan.findings)
    yield _gauge("findings", "Problems found.", sorted(found.items()), "id", "severity")


def _counts(values: Iterable[str]) -> Rows:
    return [((value,), count) for value, count in sorted(Counter(values).items())]

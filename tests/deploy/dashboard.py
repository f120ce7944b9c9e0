"""The dashboard for Grafana, panel by panel; ``python -m tests.deploy.rendering`` writes it to ``deploy/``."""

from __future__ import annotations

import json

from tests.deploy.grafana import BOARD, Panel, Row, chosen, document, figure, table


def quantile(part: float, series: str) -> str:
    """The query for a quantile of a distribution over all chosen boards."""
    return f"histogram_quantile({part}, sum by (le) (rate(edgeagent_{series}_bucket{{@}}[$__rate_interval])))"


OVERVIEW = Row(
    "At a glance",
    (
        figure("Boards", "count(edgeagent_build_info{@})", "Agents that answer."),
        figure(
            "Not ready", "count(edgeagent_ready{@} == 0) or vector(0)", "Agents that see or write too little.", bad=1
        ),
        figure("Under pressure", "sum(edgeagent_host_pressure{@})", "Boards whose memory is about to end.", bad=1),
        figure("Pods over budget", 'sum(edgeagent_pods{@, state="breach"})', "Before any grace.", bad=1),
        figure(
            "Evicted in 24 h",
            'sum(increase(edgeagent_evictions_total{@, outcome="accepted"}[24h]))',
            "Pods that were evicted for their memory.",
        ),
        figure(
            "Oldest sample",
            "max(time() - edgeagent_sample_timestamp_seconds{@})",
            "Nothing else here is newer than this.",
            unit="s",
            bad=60,
        ),
    ),
)

POOLS = Row(
    "Pools",
    (
        Panel(
            "GPU memory: pool",
            {
                "size {{pool}} {{node}}": "edgeagent_pool_total_bytes{@}",
                "advertised {{pool}} {{node}}": "edgeagent_pool_advertised_bytes{@}",
                "GPU, booked {{pool}} {{node}}": "edgeagent_pool_gpu_committed_bytes{@}",
                "GPU, used {{pool}} {{node}}": "edgeagent_pool_gpu_used_bytes{@}",
                "host, booked {{pool}} {{node}}": "edgeagent_pool_host_committed_bytes{@}",
            },
            "What the node advertises, what pods have booked of it, and what is in use by whomever.",
            unit="bytes",
            width=12,
        ),
        Panel(
            "Who holds GPU memory",
            {
                "{{namespace}}/{{pod}}": "edgeagent_pod_gpu_bytes{@}",
                "system": "edgeagent_system_gpu_bytes{@}",
                "nobody known": "edgeagent_unattributed_gpu_bytes{@}",
            },
            "Pods, processes outside of pods, and memory whose user is not known. On their way out are none of these.",
            unit="bytes",
            width=12,
            stacked=True,
        ),
        Panel(
            "Booked of what is advertised",
            {f"{{{{pool}}}} {BOARD}": "edgeagent_pool_gpu_committed_bytes{@} / edgeagent_pool_advertised_bytes{@}"},
            "Near 1 no further pod fits.",
            kind="bargauge",
            unit="percentunit",
            thresholds=((0.8, "orange"), (1.0, "red")),
            most=1,
        ),
        Panel(
            "Reserves",
            {"{{name}} {{pool}} {{node}}": "edgeagent_reserve_bytes{@}"},
            "What is not advertised, and for whom it is kept.",
            unit="bytes",
            stacked=True,
        ),
        table("Overcommitted", "edgeagent_pool_overcommitted{@} == 1", "More is booked than there is.", width=8),
    ),
)

PODS = Row(
    "Pods against their budgets",
    (
        Panel(
            "GPU memory of its budget",
            {
                "{{namespace}}/{{pod}} {{node}}": (
                    "edgeagent_pod_gpu_bytes{@} / (edgeagent_pod_gpu_budget_bytes{@} > 0)"
                ),
            },
            "Above 1 a pod is over its budget. Pods without a budget are not here.",
            kind="bargauge",
            unit="percentunit",
            width=12,
            thresholds=((0.9, "orange"), (1.0, "red")),
            most=1.2,
        ),
        Panel(
            "GPU memory of pods, and budgets",
            {
                "{{namespace}}/{{pod}}": "edgeagent_pod_gpu_bytes{@}",
                "budget {{namespace}}/{{pod}}": "edgeagent_pod_gpu_budget_bytes{@}",
            },
            "A pod whose line is missing is one whose use is not known; it is not 0.",
            unit="bytes",
            width=12,
        ),
        Panel(
            "Host memory of pods",
            {"{{namespace}}/{{pod}}": "edgeagent_pod_host_bytes{@}"},
            "Page cache is not counted: the kernel takes it back.",
            unit="bytes",
            stacked=True,
        ),
        Panel(
            "GPU and host against the budget of both",
            {
                "{{namespace}}/{{pod}}": (
                    "(sum by (namespace, pod, pod_uid, node, instance) (edgeagent_pod_gpu_bytes{@})"
                    " + on (namespace, pod, pod_uid, node, instance) edgeagent_pod_host_bytes{@})"
                    " / on (namespace, pod, pod_uid, node, instance)"
                    " sum by (namespace, pod, pod_uid, node, instance) (edgeagent_pod_total_budget_bytes{@})"
                ),
            },
            "One memory serves both on a unified board.",
            unit="percentunit",
        ),
        table(
            "Pods that are not ok", "edgeagent_pod_state{@} == 1", "breach, protected, unbudgeted, unknown …", width=8
        ),
    ),
)

MEMORY = Row(
    "Board",
    (
        Panel(
            "Usable memory and floor",
            {
                f"usable {BOARD}": "edgeagent_host_usable_bytes{@}",
                f"floor {BOARD}": "edgeagent_host_pressure_floor_bytes{@}",
                f"MemAvailable {BOARD}": "edgeagent_host_available_bytes{@}",
            },
            "Below the floor pods are evicted at once.",
            unit="bytes",
            width=12,
        ),
        Panel(
            "Under pressure",
            {BOARD: "edgeagent_host_pressure{@}"},
            "1 while the board is.",
            most=1,
            width=6,
        ),
        Panel(
            "On its way out",
            {BOARD: "edgeagent_leaving_bytes{@}"},
            "Memory of pods and processes that are ending.",
            unit="bytes",
            width=6,
        ),
        table("Boards", "edgeagent_board_info{@}", "What they are."),
        table(
            "GPUs",
            "edgeagent_device_health{@}"
            " * on (device, node, instance) group_left (name, memory) edgeagent_device_info{@}",
            "Health of each device.",
        ),
        Panel(
            "Memory of discrete devices",
            {
                "total {{device}} {{node}}": "edgeagent_device_total_bytes{@}",
                "usable {{device}} {{node}}": "edgeagent_device_usable_bytes{@}",
            },
            "What a card has, and what of it pods may use.",
            unit="bytes",
            width=12,
        ),
    ),
)

DECISIONS = Row(
    "Decisions",
    (
        Panel(
            "Evictions",
            {"{{breach}} {{outcome}} {{node}}": "increase(edgeagent_evictions_total{@}[$__rate_interval]) > 0"},
            "Calls by what they were for and how they ended.",
        ),
        Panel(
            "Held",
            {"{{reason}} {{node}}": "edgeagent_held_pods{@}"},
            "Pods that would be evicted but for the reason.",
            stacked=True,
        ),
        Panel(
            "Pods by state",
            {"{{state}}": "sum by (state) (edgeagent_pods{@})"},
            "Live pods of the chosen boards.",
            stacked=True,
        ),
        table("Findings", "edgeagent_findings{@}", "edgeagent doctor on the board has the remedies.", width=8),
        Panel(
            "GPU processes killed",
            {"{{outcome}} {{node}}": "increase(edgeagent_kills_total{@}[$__rate_interval]) > 0"},
            "The last resort, when the memory would have ended.",
        ),
        Panel(
            "Only watching",
            {BOARD: "edgeagent_observe{@}"},
            "1 while nothing is evicted, whatever happens.",
            most=1,
        ),
    ),
)

AGENT = Row(
    "Age of what is told",
    (
        Panel(
            "Readings",
            {"{{reading}} {{node}}": "time() - edgeagent_reading_last_success_timestamp_seconds{@}"},
            "Seconds since each source last gave a value.",
            unit="s",
        ),
        Panel(
            "Cluster",
            {
                f"last answer {BOARD}": "time() - edgeagent_api_last_success_timestamp_seconds{@}",
                f"view {BOARD}": "time() - edgeagent_view_timestamp_seconds{@}",
            },
            "A quiet cluster has nothing to answer: the view is what counts.",
            unit="s",
        ),
        Panel(
            "Loops",
            {"{{loop}} {{node}}": "time() - edgeagent_loop_last_turn_timestamp_seconds{@}"},
            "Seconds since each loop last turned.",
            unit="s",
        ),
        table("Why not ready", "edgeagent_unready_reason{@}", "The reasons of /readyz."),
        table("Stale readings", "edgeagent_reading_stale{@} == 1", "What depends on them is not told."),
    ),
)

COST = Row(
    "What the agents cost",
    (
        Panel(
            "Memory",
            {BOARD: 'process_resident_memory_bytes{@, job=~"(.+/)?edgeagent"}'},
            "Resident set of the agent.",
            unit="bytes",
        ),
        Panel(
            "CPU",
            {BOARD: 'rate(process_cpu_seconds_total{@, job=~"(.+/)?edgeagent"}[$__rate_interval])'},
            "Of one core.",
            unit="percentunit",
        ),
        Panel(
            "Cycles",
            {BOARD: "rate(edgeagent_cycles_total{@}[$__rate_interval])"},
            "A second. More near the floor, fewer while nothing happens.",
        ),
        Panel(
            "Time of a cycle",
            {
                "p50": quantile(0.5, "cycle_duration_seconds"),
                "p95": quantile(0.95, "cycle_duration_seconds"),
                "late, p95": quantile(0.95, "cycle_lag_seconds"),
            },
            "How long cycles take, and how long after they were due they begin.",
            unit="s",
        ),
        Panel(
            "Calls of the API server",
            {"{{verb}} {{code}}": "sum by (verb, code) (rate(edgeagent_api_calls_total{@}[$__rate_interval]))"},
            "None but watches while nothing changes.",
        ),
        Panel(
            "Counted troubles",
            {
                f"values restored {BOARD}": "increase(edgeagent_node_repatches_total{@}[$__rate_interval])",
                f"log lines lost {BOARD}": "increase(edgeagent_log_lines_lost_total{@}[$__rate_interval])",
                f"pods not known {BOARD}": "increase(edgeagent_unknown_pods_total{@}[$__rate_interval])",
            },
            "Others who write the node's values; a log that cannot be written; pods whose use is not known.",
        ),
        Panel(
            "Files and threads",
            {
                f"files {BOARD}": 'process_open_fds{@, job=~"(.+/)?edgeagent"}',
                f"threads {BOARD}": 'process_threads{@, job=~"(.+/)?edgeagent"}',
            },
            "Lines that only rise are a leak.",
        ),
        Panel("Live views", {BOARD: "edgeagent_streams{@}"}, "Dashboards and the like that look on, at most eight."),
        table("Versions", "edgeagent_build_info{@}", "Of agent and Python.", width=8),
        table("Configurations", "edgeagent_config_info{@}", "Equal digests are equal configurations.", width=8),
    ),
)

_WORKLOAD = "{{namespace}}/{{owner}} {{container}}"

WORKLOADS = Row(
    "What to write",
    (
        Panel(
            "Peak of a week of the budget",
            {
                f"{_WORKLOAD} {{{{node}}}}": (
                    'edgeagent_workload_gpu_peak_bytes{@, window="7d"}'
                    " / ignoring (window) (edgeagent_workload_gpu_budget_bytes{@} > 0)"
                ),
            },
            "Far below 1 the budget is wasted, near 1 it is too small. Workloads without a budget are not here.",
            kind="bargauge",
            unit="percentunit",
            thresholds=((0.9, "orange"), (1.0, "red")),
            most=1.2,
        ),
        Panel(
            "GPU memory to write",
            {
                f"write {_WORKLOAD}": "edgeagent_workload_recommended_gpu_bytes{@}",
                f"peak {{{{window}}}} {_WORKLOAD}": "edgeagent_workload_gpu_peak_bytes{@}",
            },
            "What a container should ask for, and the most that it held.",
            unit="bytes",
        ),
        Panel(
            "Memory to write",
            {
                f"write {_WORKLOAD}": "edgeagent_workload_recommended_memory_bytes{@}",
                f"peak {{{{window}}}} {_WORKLOAD}": "edgeagent_workload_host_peak_bytes{@}",
            },
            "The line memory of its limits, and the most host memory that it held.",
            unit="bytes",
        ),
        Panel(
            "Watched",
            {f"{_WORKLOAD} {{{{node}}}}": "edgeagent_workload_watched_seconds{@}"},
            "Under an hour the figures are a guess.",
            kind="bargauge",
            unit="s",
        ),
    ),
)

NEIGHBOURS = Row(
    "Neighbours",
    (
        Panel(
            "Latency",
            {
                "p50 {{namespace}}/{{pod}}": "edgeagent_pod_latency_p50_seconds{@}",
                "p99 {{namespace}}/{{pod}}": "edgeagent_pod_latency_p99_seconds{@}",
            },
            "Of pods that show a histogram of their own.",
            unit="s",
        ),
        Panel(
            "Requests",
            {"{{namespace}}/{{pod}}": "rate(edgeagent_pod_requests_total{@}[$__rate_interval])"},
            "Throughput by the same histogram.",
            unit="reqps",
        ),
        Panel(
            "GPU in use",
            {
                "{{namespace}}/{{pod}}": "edgeagent_pod_gpu_utilization_ratio{@}",
                "device {{device}} {{node}}": "edgeagent_device_utilization_ratio{@}",
            },
            "Share of the time in which kernels ran, where the driver tells it.",
            unit="percentunit",
            most=1,
        ),
        Panel(
            "Held back by a CPU quota",
            {
                "{{namespace}}/{{pod}}": (
                    "rate(edgeagent_pod_cpu_throttled_periods_total{@}[$__rate_interval])"
                    " / rate(edgeagent_pod_cpu_periods_total{@}[$__rate_interval])"
                ),
            },
            "Periods in which the quota was used up, of those in which the pod wanted to run.",
            unit="percentunit",
            most=1,
        ),
        Panel(
            "Time lost by it",
            {"{{namespace}}/{{pod}}": "rate(edgeagent_pod_cpu_throttled_seconds_total{@}[$__rate_interval])"},
            "Seconds a second, over all threads of the pod.",
            unit="s",
        ),
        Panel(
            "Stalled",
            {"{{resource}} {{namespace}}/{{pod}}": "rate(edgeagent_pod_pressure_seconds_total{@}[$__rate_interval])"},
            "Share of the time in which a task of the pod waited.",
            unit="percentunit",
            most=1,
        ),
    ),
)

VITALS = Row(
    "Heat and power",
    (
        Panel(
            "Temperature",
            {"{{zone}} {{node}}": "edgeagent_temperature_celsius{@}"},
            "By part of the board.",
            unit="celsius",
        ),
        Panel(
            "Slowed down",
            {
                BOARD: "edgeagent_board_throttled{@}",
                "{{reason}} {{node}}": "edgeagent_board_throttle_reason{@}",
            },
            "1 while something slows the board down, and by what.",
            most=1,
        ),
        Panel("Fan", {BOARD: "edgeagent_fan_ratio{@}"}, "How fast it is driven.", unit="percentunit", most=1),
        table("Power modes", "edgeagent_power_mode_info{@}", "Of the Jetsons."),
    ),
)

ROWS = (OVERVIEW, POOLS, PODS, WORKLOADS, MEMORY, DECISIONS, NEIGHBOURS, VITALS, AGENT, COST)


def queries() -> dict[str, str]:
    """Every query, as Prometheus is asked when all boards are chosen, by heading, panel and name."""
    return {
        f"{row.title}/{panel.title}/{name}": asked(query)
        for row in ROWS
        for panel in row.panels
        for name, query in panel.queries.items()
    }


def asked(query: str) -> str:
    """A query with Grafana's variables filled in."""
    whole = chosen(query).replace("$node", ".*").replace("$instance", ".*")
    return whole.replace("$__rate_interval", "1m")


def text() -> str:
    """The file."""
    return json.dumps(document(ROWS), indent=1, ensure_ascii=False) + "\n"

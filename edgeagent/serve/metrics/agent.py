"""The agent itself: its version, its configuration and what it takes of the board."""

from __future__ import annotations

import platform

from edgeagent import __version__
from edgeagent.serve.metrics.families import Families, Family, Moment, gauge, plain


def build() -> Family:
    """What is told before there is anything to tell."""
    labels = (__version__, platform.python_version())
    return gauge("build_info", "Version of the agent and of its Python.", [(labels, 1)], "version", "python")


def families(moment: Moment) -> Families:
    """Cost and configuration."""
    yield from _process(moment)
    config = moment.shown.config
    yield gauge("config_info", "Digest of the configuration in force.", [((config.digest,), 1)], "digest")
    reload_ok = [((), config.last_reload_ok)]
    yield gauge("config_last_reload_successful", "0 after a reload of a configuration that cannot be used.", reload_ok)


def _process(moment: Moment) -> Families:
    """Under the names that every exporter uses."""
    cost = moment.shown.cost
    if cost is None:
        return
    yield plain("process_resident_memory_bytes", "gauge", "Memory of the agent.", [((), cost.resident_bytes)])
    yield plain("process_cpu_seconds_total", "counter", "CPU time of the agent.", [((), cost.cpu_seconds)])
    yield plain("process_open_fds", "gauge", "Open files of the agent.", [((), cost.open_files)])
    yield plain("process_threads", "gauge", "Threads of the agent.", [((), cost.threads)])
    started = cost.started_at(moment.now, moment.wall)
    yield plain("process_start_time_seconds", "gauge", "When the agent was started.", [((), started)])

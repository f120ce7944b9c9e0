"""Small makers of facts for what is watched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgeagent.facts import HostFacts, Nvml, PodCgroup, PodFacts, Process
from tests.unit import factories

PORT, PATH, METRIC = (f"edgeagent.dev/latency-{name}" for name in ("port", "path", "metric"))


class Clock:
    """Stands still until it is set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def host(
    *,
    nvml: Nvml = factories.ABSENT,
    processes: Mapping[int, Process] | None = None,
    pods: Mapping[str, PodCgroup] | None = None,
) -> HostFacts:
    """A sample of a board that holds these."""
    found = factories.Scene(nvml=nvml).facts().host
    return replace(found, processes=dict(processes or {}), pods=dict(pods or {}))


def shows(name: str = "a", port: str = "8000", metric: str = "latency_seconds", **fields: Any) -> PodFacts:
    """A running pod that shows a histogram."""
    return factories.pod(name, annotations={PORT: port, METRIC: metric}, **{"ip": "10.42.0.9", **fields})


def page(metric: str, bounds: Mapping[str, float], labels: str = "") -> bytes:
    """A page of the Prometheus format with one histogram."""
    rows = [f'{metric}_bucket{{{labels}le="{bound}"}} {count}' for bound, count in bounds.items()]
    return "\n".join([f"# HELP {metric} h", f"# TYPE {metric} histogram", *rows, f"{metric}_sum 1", ""]).encode()

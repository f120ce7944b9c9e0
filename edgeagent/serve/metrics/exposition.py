"""Families as text of the Prometheus format 0.0.4, which prometheus_client writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from edgeagent.serve.metrics.families import Family


def render(families: Iterable[Family]) -> bytes:
    """The families that have a series."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Told(families))
    return generate_latest(registry)


@dataclass(frozen=True, slots=True, eq=False)  # a registry keeps its collectors by identity
class _Told(Collector):
    families: Iterable[Family]

    def collect(self) -> Iterator[Metric]:
        """As prometheus_client has them."""
        for family in self.families:
            # The writer adds the ending of a counter to the name of its family, where it is not its series' already.
            metric = Metric(family.name.removesuffix("_total"), family.about, family.kind)
            for series in family.series:
                for labels, value in series.rows:
                    if value is not None:
                        metric.add_sample(series.name, dict(zip(series.labels, labels, strict=True)), value)
            if metric.samples:
                yield metric

"""The node offers none of the GPU memory that the board has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgeagent.cluster.node import parse
from edgeagent.diagnose.collected import ClusterSeen
from edgeagent.diagnose.diagnosis import across
from edgeagent.facts.diagnosis import no_cluster
from edgeagent.plan import labels
from tests.cases.making import KEY, node, pods
from tests.diagnose.making import NODE_JSON, OFFER, PODS, Capture, found, healthy, judged, waiting

ID = "capacity-missing"
ASKS = pods(waiting("llm", {KEY: "1Gi"}))
TRIGGER = healthy(**{NODE_JSON: node(), PODS: ASKS})
NEAR_MISS = healthy(**{NODE_JSON: node(), PODS: pods(waiting("web", {"memory": "1Gi"}))})  # nobody misses it


@pytest.mark.parametrize("capacity", [{}, {KEY: "0"}])
def test_a_pod_asks_for_it(tmp_path: Path, capsys: Capture, capacity: dict[str, str]) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{NODE_JSON: node(capacity), PODS: ASKS}), ID)
    assert judged(one) == ("error", "certain", "node edge-07")
    assert "default/llm" in one["summary"]
    assert OFFER in one["evidence"][0]


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"nodeSelector": {"disk": "ssd"}}},
        {"metadata": {"deletionTimestamp": "2026-01-31T11:59:00Z"}},
    ],
    ids=["not-for-this-node", "ends"],
)
def test_a_pod_that_does_not_come_here_misses_nothing(
    tmp_path: Path, capsys: Capture, change: dict[str, dict[str, Any]]
) -> None:
    item = waiting("llm", {KEY: "1Gi"})
    for part, fields in change.items():
        item[part] |= fields
    assert found(capsys, tmp_path, healthy(**{NODE_JSON: node(), PODS: pods(item)}), ID) == []


@pytest.mark.parametrize(
    ("capacity", "label", "number"),
    [({}, {}, 1), ({KEY: "0"}, {}, 0), ({}, {"gpu": "on"}, 0)],
    ids=["absent", "all-of-it-is-booked", "hami"],
)
def test_by_the_api_alone_what_is_published_as_nothing_is_not_missing(
    capacity: dict[str, str], label: dict[str, str], number: int
) -> None:
    there = parse(node(capacity, labels={labels.KIND: "jetson", **label}))
    seen = ClusterSeen(nodes=(there,), bound={}, cluster=no_cluster("not asked"))
    assert len([one for one in across(seen) if one.id == ID]) == number

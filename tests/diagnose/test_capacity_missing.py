"""The node offers none of the GPU memory that the board has."""

from __future__ import annotations

from pathlib import Path

import pytest

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

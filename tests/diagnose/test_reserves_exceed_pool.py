"""Reserves that leave nothing. The pool has 7619.5 MiB; defaults: os 768, k3s 512, headroom 256 MiB."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cases.machines import card
from tests.cases.making import about, explain, nvml
from tests.diagnose.making import K3S_CONFIG, Capture, Files, found, healthy, judged, without

ID = "reserves-exceed-pool"
TRIGGER = healthy(**{"config.yaml": {"reserves": {"os": "9000Mi"}}})
NEAR_MISS = healthy(**{"config.yaml": {"reserves": {"os": "6000Mi"}}})


def pasted(remedy: str) -> Any:
    """What the command writes into the file."""
    match = re.search(r"^echo '(.*)' \| sudo tee /etc/edgeagent/config.d/\S+\.yaml$", remedy, re.MULTILINE)
    assert match
    return yaml.safe_load(match[1])


@pytest.mark.parametrize(
    ("reserves", "changed"),
    [
        ({"os": "9000Mi"}, {"os": "3041Mi"}),  # 3809.75 - 768
        # K3s' own eviction threshold is 256: (3809.75 - 256) / 2 = 1776.9
        ({"os": "4Gi", "k3s": "4Gi", "headroom": 0}, {"os": "1776Mi", "k3s": "1776Mi"}),
        ({"ceiling": 0}, {"ceiling": None}),
    ],
)
def test_the_lines_that_are_pasted_leave_room(
    tmp_path: Path, capsys: Capture, reserves: dict[str, Any], changed: dict[str, Any]
) -> None:
    (one,) = found(capsys, tmp_path / "before", healthy(**{"config.yaml": {"reserves": reserves}}), ID)
    assert judged(one) == ("error", "certain", "pool edgeagent.dev/gpu-memory")
    written = pasted(one["remedy"])["reserves"]
    assert {name: written[name] for name in changed} == changed
    after = healthy(**{"config.yaml": {"reserves": {**reserves, **written}}})
    assert found(capsys, tmp_path / "after", after, ID) == []
    (document,) = explain(capsys, tmp_path / "once more", after)
    assert document["pools"][0]["advertised_bytes"] > 0


def test_what_the_kubelet_keeps_is_lowered_where_it_was_set(tmp_path: Path, capsys: Capture) -> None:
    files = healthy(**{K3S_CONFIG: "kubelet-arg:\n  - system-reserved=memory=9Gi\n"})
    (one,) = found(capsys, tmp_path, files, ID)
    assert any("(kubelet, " in row and "config.yaml" in row for row in one["evidence"])
    assert "Lower what the kubelet reserves" in one["remedy"]
    assert "config.yaml" in one["remedy"]


def test_a_driver_s_reserve_goes_back_to_what_the_driver_says(tmp_path: Path, capsys: Capture) -> None:
    base: Files = {
        **without(healthy(), "host/proc/device-tree/compatible"),
        "snapshot.yaml": about(arch="x86_64"),
        "nvml.json": nvml(card(1, 6144)),
    }
    (one,) = found(capsys, tmp_path / "a", {**base, "config.yaml": {"reserves": {"driver": "100%"}}}, ID)
    assert pasted(one["remedy"]) == {"reserves": {"driver": None}}
    assert found(capsys, tmp_path / "b", {**base, "config.yaml": pasted(one["remedy"])}, ID) == []

"""Replicas of a GPU whose pods share its memory without a wall (NVIDIA/k8s-device-plugin#323)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.making import KEY, node, pod, pods
from tests.diagnose.making import NODE_JSON, OFFER, PODS, Capture, found, healthy, judged
from tests.diagnose.plugin import GPU, offering, plugin
from tests.diagnose.test_command import across

ID = "time-slicing-no-wall"
SHARING = tuple(pod(name, limits={GPU: "1"}) for name in ("a", "b", "c"))
TRIGGER = healthy(**{NODE_JSON: offering("4"), PODS: pods(*SHARING)})
NEAR_MISS = healthy(**{NODE_JSON: offering("1"), PODS: pods(SHARING[0])})


def labelled(strategy: str, gpus: str = "4") -> dict[str, Any]:
    return offering(
        gpus,
        labels={
            "nvidia.com/gpu.sharing-strategy": strategy,
            "nvidia.com/gpu.replicas": "4",
            "nvidia.com/gpu.count": "1",
            "edgeagent.dev/gpu.kind": "jetson",
        },
    )


def test_how_many_pods_share_what(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("info", "certain", "node edge-07")
    assert "gives out 1 GPU as 4 of nvidia.com/gpu" in one["summary"]
    assert "3 pods share 1 GPU" in one["summary"]
    assert "node status.allocatable.nvidia.com/gpu: 4" in one["evidence"]
    # 6083.5 MiB for three
    assert "kubectl -n default annotate pod a edgeagent.dev/gpu-memory-limit=2027Mi" in one["remedy"]


def test_only_those_without_a_budget_are_named(tmp_path: Path, capsys: Capture) -> None:
    bounded = pod("a", limits={GPU: "1", KEY: "1Gi"})
    files = healthy(**{NODE_JSON: offering("4"), PODS: pods(bounded, *SHARING[1:])})
    (one,) = found(capsys, tmp_path, files, ID)
    assert "2 of them without a budget that is enforced: default/b, default/c" in one["summary"]


def test_budgets_are_a_wall_only_where_somebody_enforces_them(tmp_path: Path, capsys: Capture) -> None:
    bounded = pods(pod("a", limits={GPU: "1", KEY: "1Gi"}), pod("b", limits={GPU: "1", KEY: "1Gi"}))
    files = healthy(**{NODE_JSON: offering("4"), PODS: bounded})
    assert found(capsys, tmp_path, files, ID) == []
    (one,) = found(capsys, tmp_path / "2", {**files, "config.yaml": {"mode": "observe"}}, ID)
    assert "only observes" in one["summary"]
    everybody = {**TRIGGER, "config.yaml": {"policy": {"default_budget": "1Gi"}}}
    assert found(capsys, tmp_path / "3", everybody, ID) == []


@pytest.mark.parametrize(
    ("changes", "number"),
    [
        ({NODE_JSON: labelled("time-slicing")}, 1),
        ({NODE_JSON: labelled("mps")}, 0),
        ({PODS: pods(*SHARING, plugin())}, 1),
        ({PODS: pods(*SHARING, pod("nvdp-nvidia-device-plugin-mps-control-daemon-q"))}, 0),
        ({NODE_JSON: offering("10", labels={"gpu": "on"})}, 0),  # HAMi
        ({PODS: pods(*SHARING, pod("hami-device-plugin-k9"))}, 0),
        ({NODE_JSON: node({KEY: OFFER, "nvidia.com/gpu.shared": "1"})}, 1),
        ({NODE_JSON: node({KEY: OFFER, "nvidia.com/mig-1g.5gb": "7"})}, 0),
        ({NODE_JSON: offering("0")}, 0),
    ],
    ids=["label", "mps-label", "plugin", "mps-pod", "hami-label", "hami-pod", "renamed", "instances", "none"],
)
def test_what_is_a_wall(tmp_path: Path, capsys: Capture, changes: dict[str, Any], number: int) -> None:
    assert len(found(capsys, tmp_path, {**TRIGGER, **changes}, ID)) == number


def test_nobody_shares_yet(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, {**TRIGGER, PODS: pods()}, ID)
    assert "0 pods share 1 GPU." in one["summary"]


def test_of_a_cluster_by_labels(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for strategy, number in (("time-slicing", 1), ("mps", 0)):
        document = across(capsys, monkeypatch, {**TRIGGER, NODE_JSON: labelled(strategy)}, code=0)
        assert len([one for one in document["findings"] if one["id"] == ID]) == number

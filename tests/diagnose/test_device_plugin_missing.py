"""Pods ask for nvidia.com/gpu, and there is no device plugin (NVIDIA/k8s-device-plugin#984)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.making import pod, pods
from tests.diagnose.making import NODE_JSON, PODS, Capture, classes, found, healthy, judged, waiting, without
from tests.diagnose.plugin import DAEMON_SETS, GPU, daemon_set, daemon_sets, offering, plugin, refuse
from tests.diagnose.test_command import across

ID = "device-plugin-missing"
ASKS = pods(waiting("llm", {GPU: "1"}))
TRIGGER = healthy(**{PODS: ASKS})
NEAR_MISS = healthy(**{PODS: ASKS, NODE_JSON: offering()})
SOCKET = "host/var/lib/kubelet/device-plugins/nvidia-gpu.sock"


def test_a_pod_waits_for_what_nobody_gives_out(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("error", "certain", "node edge-07")
    assert "default/llm" in one["summary"]
    assert "node status.allocatable.nvidia.com/gpu: absent" in one["evidence"]
    assert "kubectl label node edge-07 nvidia.com/gpu.present=true" in one["remedy"]
    assert "runtimeClassName: nvidia" in one["remedy"]
    assert "edgeagent.dev/gpu-memory" in one["remedy"]


@pytest.mark.parametrize("key", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"])
def test_other_resources_of_a_plugin(tmp_path: Path, capsys: Capture, key: str) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{PODS: pods(waiting("llm", {key: "1"}))}), ID)
    assert key in one["summary"]


@pytest.mark.parametrize(
    "changes",
    [
        {PODS: pods(waiting("llm", {"edgeagent.dev/gpu-memory": "1Gi"}))},
        {PODS: pods(waiting("llm", {"nvidia.com/gpumem": "3000"}))},
        {PODS: pods(waiting("llm", {GPU: "0"}))},
        {PODS: pods(waiting("llm", {GPU: "1"}, spec={"nodeSelector": {"zone": "b"}}))},
        {PODS: pods(waiting("llm", {GPU: "1"}), plugin())},
        {PODS: ASKS, DAEMON_SETS: daemon_sets(daemon_set("gpu-ds"))},
        {PODS: ASKS, DAEMON_SETS: daemon_sets(daemon_set("nvidia-device-plugin", "registry.lan/mirror/gpu:1"))},
        {PODS: pods()},
    ],
    ids=["memory-of-ours", "memory-of-hami", "none", "elsewhere", "plugin-here", "by-image", "by-name", "nobody-asks"],
)
def test_it_is_not_missing_or_not_missed(tmp_path: Path, capsys: Capture, changes: dict[str, Any]) -> None:
    assert found(capsys, tmp_path, healthy(**changes), ID) == []


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("amdgpu-device-plugin-daemonset", "rocm/k8s-device-plugin"),
        ("nvdp-nvidia-device-plugin-gpu-feature-discovery", "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"),
        ("nvdp-nvidia-device-plugin-mps-control-daemon", "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"),
        ("node-exporter", "prom/node-exporter"),
    ],
)
def test_what_only_looks_like_one(tmp_path: Path, capsys: Capture, name: str, image: str) -> None:
    files = healthy(**{PODS: ASKS, DAEMON_SETS: daemon_sets(daemon_set(name, image))})
    assert len(found(capsys, tmp_path, files, ID)) == 1


def test_one_that_was_taken_away_under_a_pod_that_runs(tmp_path: Path, capsys: Capture) -> None:
    # The kubelet keeps the key, at 0, when a plugin has gone.
    files = healthy(**{PODS: pods(pod(limits={GPU: "1"})), NODE_JSON: offering("0")})
    (one,) = found(capsys, tmp_path, files, ID)
    assert judged(one) == ("warning", "certain", "node edge-07")
    assert "node status.allocatable.nvidia.com/gpu: 0" in one["evidence"]


def test_a_socket_without_a_pod_leaves_a_doubt(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, {**TRIGGER, SOCKET: ""}, ID)
    assert judged(one) == ("error", "suspected", "node edge-07")
    assert any("nvidia-gpu.sock" in row for row in one["evidence"])


def test_a_board_without_a_gpu_has_none_to_give(tmp_path: Path, capsys: Capture) -> None:
    files = {**TRIGGER, "host/proc/device-tree/compatible": "raspberrypi,4-model-b\0brcm,bcm2711\0"}
    assert found(capsys, tmp_path, files, ID) == []


def test_without_the_list_it_cannot_be_told(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, without(TRIGGER, DAEMON_SETS), ID)
    assert judged(one) == ("info", "cannot-tell", "node edge-07")
    assert "daemonsets.json" in one["summary"]
    assert found(capsys, tmp_path / "2", without(healthy(), DAEMON_SETS), ID) == []


def test_the_remedy_names_the_class_of_this_cluster(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, {**TRIGGER, "cluster/runtimeclasses.json": classes(gpu="nvidia")}, ID)
    assert "set: {runtimeClassName: gpu}" in one["remedy"]


def test_a_nodes_credential_names_the_missing_right(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch)
    (one,) = found(capsys, tmp_path, healthy(), ID)
    assert judged(one) == ("info", "cannot-tell", "node edge-07")
    assert "list daemonsets.apps" in one["summary"]
    assert "list daemonsets.apps" in one["remedy"]
    # Where the node offers GPUs, there is a plugin, whoever may list it.
    assert found(capsys, tmp_path / "2", healthy(**{NODE_JSON: offering()}), ID) == []


def test_of_a_cluster(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    document = across(capsys, monkeypatch, TRIGGER, code=1)
    assert [judged(one) for one in document["findings"] if one["id"] == ID] == [("error", "certain", "cluster")]
    document = across(capsys, monkeypatch, TRIGGER, code=0, forbidden=True)
    assert [one["certainty"] for one in document["findings"] if one["id"] == ID] == ["cannot-tell"]
    document = across(capsys, monkeypatch, NEAR_MISS, code=0)
    assert [one for one in document["findings"] if one["id"] == ID] == []

"""A device plugin that has NVIDIA's runtime and does not know the board (NVIDIA/gpu-operator#1794)."""

from __future__ import annotations

from pathlib import Path

from tests.cases.making import pods
from tests.diagnose.making import BINARY, CONTAINERD, NODE_JSON, PODS, Capture, containerd, found, healthy, judged
from tests.diagnose.plugin import offering, plugin

ID = "device-plugin-finds-no-gpu"
WITH_CLASS = {"runtimeClassName": "nvidia"}
TRIGGER = healthy(**{PODS: pods(plugin(spec=WITH_CLASS))})
NEAR_MISS = {**TRIGGER, NODE_JSON: offering()}


def test_its_image_and_its_log_are_named(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("warning", "suspected", "pod kube-system/nvidia-device-plugin-daemonset-x7k2p")
    assert any("k8s-device-plugin:v0.17.1" in row for row in one["evidence"])
    assert "kubectl -n kube-system logs nvidia-device-plugin-daemonset-x7k2p" in one["remedy"]


def test_the_default_runtime_is_as_good_as_a_class(tmp_path: Path, capsys: Capture) -> None:
    files = healthy(**{PODS: pods(plugin()), CONTAINERD: containerd("nvidia", nvidia=BINARY)})
    assert len(found(capsys, tmp_path, files, ID)) == 1
    assert found(capsys, tmp_path / "2", healthy(**{PODS: pods(plugin())}), ID) == []

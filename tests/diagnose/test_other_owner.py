"""Other projects that share out the GPU's memory on the same node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.making import KEY, node, pod, pods
from tests.diagnose.making import NODE_JSON, OFFER, PODS, Capture, found, healthy, judged
from tests.diagnose.plugin import offering, plugin
from tests.diagnose.test_command import across

ID = "other-owner"
TRIGGER = healthy(**{NODE_JSON: node({KEY: OFFER}, labels={"gpu": "on"})})
NEAR_MISS = healthy(**{NODE_JSON: node({KEY: OFFER, "nvidia.com/gpu": "1"}, labels={"gpu": "off"})})


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        ("gpu", "on", "HAMi"),
        ("gpushare", "true", "gpushare"),
        ("SharedGPU", "true", "KubeShare"),
        ("nos.nebuly.com/gpu-partitioning", "mps", "nos"),
    ],
)
def test_by_the_label_of_the_node(tmp_path: Path, capsys: Capture, key: str, value: str, name: str) -> None:
    files = healthy(**{NODE_JSON: node({KEY: OFFER}, labels={key: value})})
    (one,) = found(capsys, tmp_path, files, ID)
    assert judged(one) == ("warning", "certain", "node edge-07")
    assert name in one["summary"]
    assert "only observes" in one["summary"]
    assert key in one["evidence"][0]
    assert one["remedy"].endswith(f"kubectl label node edge-07 {key}-")


@pytest.mark.parametrize("condition", ["gpu-fractioning.nvidia.com/Ready", "gpu-sharing.nvidia.com/Ready"])
def test_by_a_condition(tmp_path: Path, capsys: Capture, condition: str) -> None:
    owned = offering(None)
    owned["status"]["conditions"].append({"type": condition, "status": "True"})
    (one,) = found(capsys, tmp_path, healthy(**{NODE_JSON: owned}), ID)
    assert "KAI" in one["summary"]
    assert condition in one["remedy"]
    owned["status"]["conditions"][-1]["status"] = "False"
    assert found(capsys, tmp_path / "2", healthy(**{NODE_JSON: owned}), ID) == []


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("aliyun.com/gpu-mem", "gpushare"),
        ("volcano.sh/vgpu-memory", "volcano"),
        ("tencent.com/vcuda-memory", "gpu-manager"),
        ("nvidia.com/gpu-10gb", "nos"),
    ],
)
def test_by_what_the_node_offers(tmp_path: Path, capsys: Capture, key: str, name: str) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{NODE_JSON: node({KEY: OFFER, key: "7"})}), ID)
    assert judged(one) == ("warning", "certain", "node edge-07")
    assert name in one["summary"]
    assert f"node status.allocatable.{key}: 7" in one["evidence"]
    assert one["remedy"].endswith("kubectl annotate node edge-07 edgeagent.dev/mode=observe")
    assert found(capsys, tmp_path / "2", healthy(**{NODE_JSON: node({KEY: OFFER, key: "0"})}), ID) == []


@pytest.mark.parametrize(
    ("name", "namespace", "image", "owner"),
    [
        ("hami-device-plugin-k9", "kube-system", "projecthami/hami:v2.5.0", "HAMi"),
        ("gpushare-device-plugin-ds-k9", "kube-system", "registry.lan/gpushare:1", "gpushare"),
        ("gpu-reservation-edge-07-abc", "kai-resource-reservation", "registry.lan/resource-reservation:1", "KAI"),
    ],
)
def test_by_a_pod_it_is_suspected(
    tmp_path: Path, capsys: Capture, name: str, namespace: str, image: str, owner: str
) -> None:
    theirs = pod(name, namespace=namespace)
    theirs["spec"]["containers"][0]["image"] = image
    (one,) = found(capsys, tmp_path, healthy(**{PODS: pods(theirs)}), ID)
    assert judged(one) == ("warning", "suspected", "node edge-07")
    assert owner in one["summary"]


@pytest.mark.parametrize(
    "files",
    [
        {PODS: pods(plugin(spec={"runtimeClassName": "nvidia"})), NODE_JSON: offering()},
        {PODS: pods(pod("chami", limits={KEY: "1Gi"}))},
        {NODE_JSON: node({KEY: OFFER}, labels={"gpushare": "false"})},
    ],
    ids=["nvidias-own-plugin", "a-name-alike", "a-label-that-says-no"],
)
def test_nobody_else_shares_it_out(tmp_path: Path, capsys: Capture, files: dict[str, Any]) -> None:
    assert found(capsys, tmp_path, healthy(**files), ID) == []


def test_where_one_was_told_to_observe_it_is_a_note(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, {**TRIGGER, "config.yaml": {"mode": "observe"}}, ID)
    assert one["severity"] == "info"
    calm = node({KEY: OFFER, "aliyun.com/gpu-mem": "7"}, annotations={"edgeagent.dev/mode": "observe"})
    (one,) = found(capsys, tmp_path / "2", healthy(**{NODE_JSON: calm}), ID)
    assert one["severity"] == "info"


def test_a_board_without_a_gpu_has_no_owner(tmp_path: Path, capsys: Capture) -> None:
    files = {**TRIGGER, "host/proc/device-tree/compatible": "raspberrypi,4-model-b\0brcm,bcm2711\0"}
    assert found(capsys, tmp_path, files, ID) == []


def test_of_a_cluster(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, number in (("jetson", 1), ("none", 0)):
        labels = {"gpu": "on", "edgeagent.dev/gpu.kind": kind}
        document = across(capsys, monkeypatch, healthy(**{NODE_JSON: node({KEY: OFFER}, labels=labels)}), code=0)
        assert len([one for one in document["findings"] if one["id"] == ID]) == number

"""A device plugin that itself lacks NVIDIA's runtime (NVIDIA/k8s-device-plugin#1220, #1470, #1963)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.making import pods
from tests.diagnose.making import (
    BINARY,
    CLASSES,
    CONTAINERD,
    NODE_JSON,
    PODS,
    Capture,
    classes,
    containerd,
    found,
    healthy,
    judged,
)
from tests.diagnose.plugin import offering, plugin
from tests.diagnose.test_command import across

ID = "device-plugin-without-runtime"
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}
CRASHES = plugin(state=BACK_OFF, lastState={"terminated": {"reason": "Error", "exitCode": 1}}, restartCount=7)
TRIGGER = healthy(**{PODS: pods(CRASHES)})
NEAR_MISS = healthy(**{PODS: pods(plugin(spec={"runtimeClassName": "nvidia"})), NODE_JSON: offering()})
PATCH = (
    "kubectl -n kube-system patch daemonset nvidia-device-plugin-daemonset --type merge "
    """-p '{"spec": {"template": {"spec": {"runtimeClassName": "nvidia"}}}}'"""
)


def test_one_that_crashes(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("error", "certain", "pod kube-system/nvidia-device-plugin-daemonset-x7k2p")
    assert "runs under runc" in one["summary"]
    assert "spec.runtimeClassName: absent" in one["evidence"]
    assert any("CrashLoopBackOff" in row for row in one["evidence"])
    assert PATCH in one["remedy"]


@pytest.mark.parametrize("gpus", [None, "0"])
def test_one_that_idles(tmp_path: Path, capsys: Capture, gpus: str | None) -> None:
    files = healthy(**{PODS: pods(plugin()), NODE_JSON: offering(gpus)})
    assert len(found(capsys, tmp_path, files, ID)) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {NODE_JSON: offering()},
        {PODS: pods(plugin(state={"running": {"startedAt": "2026-01-31T11:59:30Z"}}))},  # 30 s ago
        {PODS: pods(plugin(state={"waiting": {"reason": "ContainerCreating"}}))},
        {CONTAINERD: containerd("nvidia", nvidia=BINARY)},
        {CONTAINERD: containerd()},  # nobody has the runtime: that comes first
        {PODS: pods(plugin(spec={"runtimeClassName": "nvidia"}))},
        {PODS: pods(plugin(spec={"runtimeClassName": "gone"}))},
        {"nvml.json": {"library": "present", "init": 18, "devices": []}},  # the driver's versions differ
        {PODS: pods(plugin("amdgpu-device-plugin-daemonset", "rocm/k8s-device-plugin"))},
    ],
    ids=["works", "looks", "is-made", "default", "runtime-missing", "class", "class-missing", "driver", "of-amd"],
)
def test_it_is_something_else_or_nothing(tmp_path: Path, capsys: Capture, changes: dict[str, Any]) -> None:
    assert found(capsys, tmp_path, healthy(**{PODS: pods(plugin()), **changes}), ID) == []


def test_a_class_that_leads_elsewhere(tmp_path: Path, capsys: Capture) -> None:
    files = healthy(
        **{CLASSES: classes(nvidia="nvidia", plain="runc"), PODS: pods(plugin(spec={"runtimeClassName": "plain"}))}
    )
    (one,) = found(capsys, tmp_path, files, ID)
    assert "spec.runtimeClassName: plain" in one["evidence"]


def test_the_class_is_made_where_there_is_none(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, {**TRIGGER, CLASSES: classes()}, ID)
    assert one["remedy"].startswith("kubectl apply -f - <<'EOF'")
    assert PATCH in one["remedy"]


def test_without_containerds_configuration_it_cannot_be_told(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, {**TRIGGER, CONTAINERD: "version = [\n"}, ID)
    assert judged(one)[:2] == ("info", "cannot-tell")
    assert "config.toml" in one["summary"]


def test_of_a_cluster_one_that_crashes_is_suspected(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    document = across(capsys, monkeypatch, TRIGGER, code=1)
    assert [judged(one)[:2] for one in document["findings"] if one["id"] == ID] == [("error", "suspected")]
    document = across(capsys, monkeypatch, healthy(**{PODS: pods(plugin())}), code=0)
    assert [one for one in document["findings"] if one["id"] == ID] == []

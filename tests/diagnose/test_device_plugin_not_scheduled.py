"""A device plugin whose DaemonSet wants no pod here (NVIDIA/k8s-device-plugin#708, #984)."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cases.making import KEY, node, pods
from tests.diagnose.making import NODE_JSON, OFFER, PODS, Capture, found, healthy, judged, waiting, without
from tests.diagnose.plugin import CHART, DAEMON_SETS, GPU, affinity, daemon_set, daemon_sets, offering, plugin
from tests.diagnose.test_command import across

ID = "device-plugin-not-scheduled"
BY_CHART = daemon_set("nvdp-nvidia-device-plugin", affinity=affinity(CHART))
TRIGGER = healthy(**{DAEMON_SETS: daemon_sets(BY_CHART)})
PRESENT = node({KEY: OFFER}, labels={"nvidia.com/gpu.present": "true"})
NEAR_MISS = {**TRIGGER, NODE_JSON: PRESENT}


def tainted(key: str, effect: str = "NoSchedule") -> dict[str, Any]:
    return {**offering(None), "spec": {"taints": [{"key": key, "value": "true", "effect": effect}]}}


def test_a_jetson_has_none_of_the_labels_of_the_chart(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("warning", "certain", "node edge-07")
    assert "kube-system/nvdp-nvidia-device-plugin" in one["summary"]
    assert all(key in one["summary"] for key in ("pci-10de.present", "vendor_id", "nvidia.com/gpu.present"))
    assert one["remedy"].endswith("\nkubectl label node edge-07 nvidia.com/gpu.present=true")
    assert "daemonset kube-system/nvdp-nvidia-device-plugin status.desiredNumberScheduled: 0" in one["evidence"]


def test_a_pod_that_waits_for_it_makes_it_an_error(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, {**TRIGGER, PODS: pods(waiting("llm", {GPU: "1"}))}, ID)
    assert one["severity"] == "error"
    assert "default/llm" in one["summary"]


def test_one_that_serves_other_nodes_may_be_meant_so(tmp_path: Path, capsys: Capture) -> None:
    elsewhere = daemon_set(affinity=affinity(CHART), wanted=2)
    (one,) = found(capsys, tmp_path, healthy(**{DAEMON_SETS: daemon_sets(elsewhere)}), ID)
    assert one["severity"] == "info"


def test_a_label_that_says_no_is_meant_so(tmp_path: Path, capsys: Capture) -> None:
    operators = daemon_set(nodeSelector={"nvidia.com/gpu.deploy.device-plugin": "true"})
    refused = node({KEY: OFFER}, labels={"nvidia.com/gpu.deploy.device-plugin": "false"})
    (one,) = found(capsys, tmp_path, healthy(**{DAEMON_SETS: daemon_sets(operators), NODE_JSON: refused}), ID)
    assert one["severity"] == "info"
    assert "kubectl label --overwrite node edge-07 nvidia.com/gpu.deploy.device-plugin=true" in one["remedy"]


@pytest.mark.parametrize(
    ("spec", "remedy"),
    [
        ({"nodeSelector": {"accelerator": "nvidia"}}, "kubectl label node edge-07 accelerator=nvidia"),
        (
            {"nodeSelector": {"gpu": "on"}, "affinity": affinity([[{"key": "pool", "operator": "Exists"}]])},
            "kubectl label node edge-07 gpu=on pool=true",
        ),
        # A label is whatever a recording says, and a remedy is there to be pasted.
        ({"nodeSelector": {"gpu": "$(reboot)"}}, "kubectl label node edge-07 'gpu=$(reboot)'"),
    ],
    ids=["selector", "both", "odd"],
)
def test_what_to_set(tmp_path: Path, capsys: Capture, spec: dict[str, Any], remedy: str) -> None:
    files = healthy(**{DAEMON_SETS: daemon_sets(daemon_set(**spec)), NODE_JSON: offering(None)})
    (one,) = found(capsys, tmp_path, files, ID)
    assert remedy in one["remedy"]


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"kubernetes.io/arch": "amd64"}},
        {"affinity": affinity([[{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]])},
        {"nodeSelector": {"kubernetes.io/arch": "amd64", "gpu": "on"}, "tolerations": []},
    ],
    ids=["selector", "affinity", "beside-another"],
)
def test_what_serves_nodes_of_another_kind_is_left_to_them(
    tmp_path: Path, capsys: Capture, spec: dict[str, Any]
) -> None:
    files = healthy(**{DAEMON_SETS: daemon_sets(daemon_set(**spec)), NODE_JSON: tainted("edge")})
    (one,) = found(capsys, tmp_path, files, ID)
    assert "kubernetes.io/arch says what a node is" in one["remedy"]
    assert "second DaemonSet" in one["remedy"]
    assert "kubectl" not in one["remedy"]


def test_a_toleration_with_a_quote_in_it_stays_one_word(tmp_path: Path, capsys: Capture) -> None:
    files = healthy(**{DAEMON_SETS: daemon_sets(daemon_set()), NODE_JSON: tainted("it's; reboot")})
    (one,) = found(capsys, tmp_path, files, ID)
    (line,) = [line for line in one["remedy"].splitlines() if "patch daemonset" in line]
    words = shlex.split(line)
    assert words[-2] == "-p"
    assert json.loads(words[-1])[0]["value"][0]["key"] == "it's; reboot"


def test_a_daemonset_by_a_name_that_no_server_takes_is_none(tmp_path: Path, capsys: Capture) -> None:
    odd = daemon_set("nvidia-device-plugin; reboot", affinity=affinity(CHART))
    assert found(capsys, tmp_path, healthy(**{DAEMON_SETS: daemon_sets(odd)}), ID) == []


def test_a_label_that_keeps_it_away_is_taken_off(tmp_path: Path, capsys: Capture) -> None:
    avoids = affinity([[{"key": "no-gpu", "operator": "DoesNotExist"}]])
    labelled = node({KEY: OFFER}, labels={"no-gpu": "1"})
    (one,) = found(
        capsys, tmp_path, healthy(**{DAEMON_SETS: daemon_sets(daemon_set(affinity=avoids)), NODE_JSON: labelled}), ID
    )
    assert "kubectl label --overwrite node edge-07 no-gpu-" in one["remedy"]


@pytest.mark.parametrize(
    ("key", "effect", "tolerations", "number"),
    [
        ("nvidia.com/gpu", "NoSchedule", [], 1),
        ("nvidia.com/gpu", "NoSchedule", [{"key": "nvidia.com/gpu", "operator": "Exists"}], 0),
        ("nvidia.com/gpu", "PreferNoSchedule", [], 0),
        ("node.kubernetes.io/unschedulable", "NoSchedule", [], 0),  # a cordon keeps no DaemonSet away
        ("edge", "NoExecute", [{"key": "nvidia.com/gpu", "operator": "Exists"}], 1),
    ],
)
def test_a_taint(tmp_path: Path, capsys: Capture, key: str, effect: str, tolerations: list[Any], number: int) -> None:
    files = healthy(**{DAEMON_SETS: daemon_sets(daemon_set(tolerations=tolerations)), NODE_JSON: tainted(key, effect)})
    ones = found(capsys, tmp_path, files, ID)
    assert len(ones) == number
    for one in ones:
        assert f"toleration of {key}=true:{effect}" in one["summary"]
        path = "tolerations/-" if tolerations else "tolerations"
        assert f'"op": "add", "path": "/spec/template/spec/{path}"' in one["remedy"]
        assert "kubectl -n kube-system patch daemonset nvidia-device-plugin-daemonset --type json" in one["remedy"]


@pytest.mark.parametrize(
    "changes",
    [
        {DAEMON_SETS: daemon_sets(BY_CHART, daemon_set("second"))},
        {PODS: pods(plugin())},
        {NODE_JSON: offering()},
        {DAEMON_SETS: daemon_sets()},
    ],
    ids=["another-one-comes", "it-is-here", "a-gpu-is-offered", "there-is-none"],
)
def test_there_is_nothing_to_be_said(tmp_path: Path, capsys: Capture, changes: dict[str, Any]) -> None:
    assert found(capsys, tmp_path, {**TRIGGER, **changes}, ID) == []


def test_a_board_without_a_gpu_wants_none(tmp_path: Path, capsys: Capture) -> None:
    files = {**TRIGGER, "host/proc/device-tree/compatible": "raspberrypi,4-model-b\0brcm,bcm2711\0"}
    assert found(capsys, tmp_path, files, ID) == []


def test_without_the_list_nothing_is_made_up(tmp_path: Path, capsys: Capture) -> None:
    assert found(capsys, tmp_path, without(TRIGGER, DAEMON_SETS), ID) == []


def test_of_a_cluster_each_node_with_a_gpu_is_asked(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, number in (("jetson", 1), ("none", 0)):
        labelled = node({KEY: OFFER}, labels={"edgeagent.dev/gpu.kind": kind})
        document = across(capsys, monkeypatch, {**TRIGGER, NODE_JSON: labelled}, code=0)
        assert [one["id"] for one in document["findings"]] == [ID] * number


@pytest.mark.parametrize("bound", ["--5", "5-", "9" * 5000])
def test_a_bound_that_is_no_number_is_none_to_be_met(tmp_path: Path, capsys: Capture, bound: str) -> None:
    term = {"key": "example.com/cards", "operator": "Gt", "values": [bound]}
    files = healthy(**{NODE_JSON: offering(None), DAEMON_SETS: daemon_sets(daemon_set(affinity=affinity([[term]])))})
    (one,) = found(capsys, tmp_path, files, ID)
    assert one["certainty"] == "certain"

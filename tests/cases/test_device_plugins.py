"""The device plugin of NVIDIA: none, kept away, without the runtime, or back too late after a boot.

NVIDIA/k8s-device-plugin#708, #984, #477, #856, #1963, NVIDIA/OpenShell#497, kubernetes/kubernetes#116125, #118559.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.cases.making import KEY, pod, pods
from tests.cases.nodes import (
    ABOVE_NOTES,
    GPU,
    KINDS,
    NODE_NAMED,
    Capture,
    Files,
    also,
    ids,
    judged,
    orin,
    pi,
    shown,
    spark,
    the,
    thor,
    told,
    tower,
    whole,
)
from tests.diagnose.making import BINARY, CONTAINERD, NODE_JSON, PODS, containerd, waiting, without
from tests.diagnose.plugin import CHART, DAEMON_SETS, affinity, daemon_set, daemon_sets, plugin

NVIDIA = {"runtimeClassName": "nvidia"}
NFD = "feature.node.kubernetes.io/pci-10de.present"
PRESENT = "nvidia.com/gpu.present"
MISSING, AWAY, RUNTIME, BLIND = (
    "device-plugin-missing",
    "device-plugin-not-scheduled",
    "device-plugin-without-runtime",
    "device-plugin-finds-no-gpu",
)
LLM = waiting("llm", {GPU: "1"})


def with_labels(files: Files, labels: dict[str, str]) -> Files:
    changed = copy.deepcopy(files[NODE_JSON])
    changed["metadata"]["labels"] = labels
    return {**files, NODE_JSON: changed}


def tainted(files: Files, *taints: dict[str, str]) -> Files:
    changed = copy.deepcopy(files[NODE_JSON])
    changed["spec"] = {"taints": list(taints)}
    return {**files, NODE_JSON: changed}


# --- kept away ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
@pytest.mark.parametrize("namespace", ["nvidia-device-plugin", "kube-system"])
def test_the_charts_affinity_names_labels_that_nobody_sets(
    tmp_path: Path, capsys: Capture, kind: Any, namespace: str
) -> None:
    chart = daemon_set("nvdp-nvidia-device-plugin", affinity=affinity(CHART))
    chart["metadata"]["namespace"] = namespace
    files = kind(**{DAEMON_SETS: daemon_sets(chart), PODS: pods(LLM)})
    found = told(capsys, tmp_path, files)
    one = the(found, AWAY)
    assert judged(one) == ("error", "certain", NODE_NAMED)
    assert all(name in whole(one) for name in (NFD, "cpu-model.vendor_id", PRESENT))
    assert f"{namespace}/nvdp-nvidia-device-plugin" in whole(one)
    assert f"kubectl label node edge-07 {PRESENT}=true" in one["remedy"]
    assert MISSING not in ids(found)


@pytest.mark.parametrize(
    "labels", [{NFD: "true"}, {"feature.node.kubernetes.io/cpu-model.vendor_id": "NVIDIA"}, {PRESENT: "true"}]
)
def test_each_of_the_labels_is_enough(tmp_path: Path, capsys: Capture, labels: dict[str, str]) -> None:
    files = with_labels(orin(**{DAEMON_SETS: daemon_sets(daemon_set(affinity=affinity(CHART)))}), labels)
    assert AWAY not in ids(told(capsys, tmp_path, files))


@pytest.mark.parametrize("labels", [{PRESENT: "True"}, {"nvidia.com/gpu": "true"}])
def test_one_that_looks_like_it_is_not(tmp_path: Path, capsys: Capture, labels: dict[str, str]) -> None:
    files = with_labels(orin(**{DAEMON_SETS: daemon_sets(daemon_set(affinity=affinity(CHART)))}), labels)
    assert AWAY in ids(told(capsys, tmp_path, files), ABOVE_NOTES)


LABELS = {"gpu.count": "2", "zone": "a", "empty": ""}


@pytest.mark.parametrize(
    ("expression", "away"),
    [
        ({"key": "zone", "operator": "In", "values": ["b", "a"]}, False),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, True),
        ({"key": "other", "operator": "NotIn", "values": ["a"]}, False),  # absent is not in it
        ({"key": "empty", "operator": "Exists"}, False),
        ({"key": "other", "operator": "Exists"}, True),
        ({"key": "other", "operator": "DoesNotExist"}, False),
        ({"key": "zone", "operator": "DoesNotExist"}, True),
        ({"key": "gpu.count", "operator": "Gt", "values": ["1"]}, False),
        ({"key": "gpu.count", "operator": "Gt", "values": ["2"]}, True),
        ({"key": "gpu.count", "operator": "Lt", "values": ["10"]}, False),  # numbers, not text
        ({"key": "zone", "operator": "Gt", "values": ["1"]}, True),
        ({"key": "other", "operator": "Lt", "values": ["1"]}, True),
    ],
)
def test_what_a_term_says(tmp_path: Path, capsys: Capture, expression: dict[str, Any], *, away: bool) -> None:
    """Kubernetes, NodeSelectorRequirement."""
    files = orin(**{DAEMON_SETS: daemon_sets(daemon_set(affinity=affinity([[expression]]), wanted=0))})
    assert (AWAY in ids(told(capsys, tmp_path, with_labels(files, LABELS)), ABOVE_NOTES)) == away


@pytest.mark.parametrize(
    ("terms", "away"),
    [
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["edge-07"]}]}], False),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["edge-08"]}]}], True),
        ([{}], True),  # a term without anything matches nothing
        ([{}, {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}], False),
        ([{"matchExpressions": [{"key": "zone", "operator": "Exists"}, {"key": "x", "operator": "Exists"}]}], True),
    ],
    ids=["this-node", "another-node", "empty", "one-of-two", "both-at-once"],
)
def test_what_terms_say_together(tmp_path: Path, capsys: Capture, terms: list[Any], *, away: bool) -> None:
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    files = orin(**{DAEMON_SETS: daemon_sets(daemon_set(affinity=required, wanted=0))})
    assert (AWAY in ids(told(capsys, tmp_path, with_labels(files, LABELS)), ABOVE_NOTES)) == away


def test_what_is_preferred_keeps_nobody_away(tmp_path: Path, capsys: Capture) -> None:
    wish = {"weight": 1, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}
    soft = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    files = orin(**{DAEMON_SETS: daemon_sets(daemon_set(affinity=soft, wanted=0))})
    assert AWAY not in ids(told(capsys, tmp_path, files))


TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taint", "tolerations", "away"),
    [
        (TAINT, [], True),
        (TAINT, [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}], False),
        (TAINT, [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "true"}], False),
        (TAINT, [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}], True),
        (TAINT, [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}], True),
        (TAINT, [{"operator": "Exists"}], False),
        ({**TAINT, "effect": "PreferNoSchedule"}, [], False),
        ({"key": "edge", "effect": "NoExecute"}, [{"key": "nvidia.com/gpu", "operator": "Exists"}], True),
        ({"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}, [], False),  # DaemonSets tolerate it
        ({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}, [], False),
    ],
)
def test_a_taint_that_it_does_not_tolerate(
    tmp_path: Path, capsys: Capture, taint: dict[str, str], tolerations: list[Any], *, away: bool
) -> None:
    tolerant = waiting("llm", {GPU: "1"}, spec={"tolerations": [{"operator": "Exists"}]})
    files = orin(**{DAEMON_SETS: daemon_sets(daemon_set(tolerations=tolerations)), PODS: pods(tolerant)})
    found = told(capsys, tmp_path, tainted(files, taint))
    assert (AWAY in ids(found, ABOVE_NOTES)) == away
    if away:
        one = the(found, AWAY)
        assert taint["key"] in one["summary"]
        assert "tolerations" in one["remedy"]


@pytest.mark.parametrize(
    ("name", "image", "labels"),
    [
        ("nvidia-device-plugin-daemonset", "nvcr.io/nvidia/k8s-device-plugin:v0.14.5", {}),
        ("nvdp-nvidia-device-plugin", "mirror.example/k8s-device-plugin:v0.17.4", {}),
        ("gpu", "registry.local:5000/nvidia/k8s-device-plugin@sha256:" + "0" * 64, {}),
        ("nvidia-device-plugin", "mirror.example/copied:1", {}),
        ("xyz", "mirror.example/copied:1", {"app.kubernetes.io/name": "nvidia-device-plugin"}),
    ],
)
def test_whatever_it_is_called(tmp_path: Path, capsys: Capture, name: str, image: str, labels: dict[str, str]) -> None:
    one = daemon_set(name, image, nodeSelector={"accelerator": "nvidia"})
    one["metadata"]["labels"] = labels
    one["spec"]["template"]["metadata"] = {"labels": labels}
    files = orin(**{DAEMON_SETS: daemon_sets(one), PODS: pods(LLM)})
    found = told(capsys, tmp_path, files)
    assert MISSING not in ids(found)
    assert "accelerator=nvidia" in the(found, AWAY)["remedy"]


@pytest.mark.parametrize(
    ("name", "image"),
    [("gpu-feature-discovery", "nvcr.io/nvidia/gpu-feature-discovery:v0.17"), ("svc", "klipper-lb:1")],
)
def test_what_is_no_device_plugin(tmp_path: Path, capsys: Capture, name: str, image: str) -> None:
    other = daemon_set(name, image, nodeSelector={"accelerator": "nvidia"})
    found = told(capsys, tmp_path, orin(**{DAEMON_SETS: daemon_sets(other), PODS: pods(LLM)}))
    assert AWAY not in ids(found)
    assert MISSING in ids(found, ["error"])


# --- none -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "key"),
    [*((kind, GPU) for kind in KINDS.values()), (tower, "nvidia.com/gpu.shared"), (tower, "nvidia.com/mig-1g.10gb")],
)
def test_nobody_makes_what_a_pod_waits_for(tmp_path: Path, capsys: Capture, kind: Any, key: str) -> None:
    files = kind(**{PODS: pods(waiting("llm", {key: "1"}))})
    one = the(told(capsys, tmp_path, files), MISSING)
    assert judged(one)[:2] == ("error", "certain")
    assert key in whole(one)
    assert "default/llm" in whole(one)
    assert KEY in one["remedy"]


def test_without_a_pod_that_asks_nothing_is_missing(tmp_path: Path, capsys: Capture) -> None:
    for number, kind in enumerate(KINDS.values()):
        files = kind(**{PODS: pods(pod("llm", limits={KEY: "1Gi"}, spec=NVIDIA))})
        assert ids(told(capsys, tmp_path / str(number), files), ABOVE_NOTES) == []


@pytest.mark.parametrize(
    "changes",
    [
        {PODS: pods(waiting("llm", {GPU: "1"}, spec={"nodeSelector": {"zone": "b"}}))},
        {PODS: pods(waiting("llm", {GPU: "0"}))},
        {PODS: pods(waiting("llm", {"amd.com/gpu": "1"}))},
    ],
    ids=["for-another-node", "none-asked", "another-vendor"],
)
def test_not_of_this_node(tmp_path: Path, capsys: Capture, changes: Files) -> None:
    assert ids(told(capsys, tmp_path, orin(**changes)), ABOVE_NOTES) == []


@pytest.mark.parametrize(
    "lists", [{}, {DAEMON_SETS: daemon_sets()}, {DAEMON_SETS: daemon_sets(daemon_set(affinity=affinity(CHART)))}]
)
def test_on_a_cpu_only_node_nothing_is_wrong(tmp_path: Path, capsys: Capture, lists: Files) -> None:
    assert ids(told(capsys, tmp_path, pi(**{**lists, PODS: pods(LLM)}))) == []


def test_without_the_list_of_daemon_sets_it_cannot_be_told(tmp_path: Path, capsys: Capture) -> None:
    found = told(capsys, tmp_path, without(orin(**{PODS: pods(LLM)}), DAEMON_SETS))
    assert [one["certainty"] for one in found if one["id"] == MISSING] == ["cannot-tell"]
    assert ids(found, ["error"]) == []


@pytest.mark.parametrize("name", ["nvidia-gpu.sock", "nvidia.sock"])
def test_a_socket_is_a_sign_of_one(tmp_path: Path, capsys: Capture, name: str) -> None:
    files = orin(**{PODS: pods(LLM), f"host/var/lib/kubelet/device-plugins/{name}": ""})
    one = [one for one in told(capsys, tmp_path, files) if one["id"] == MISSING]
    assert [judged(one)[1] for one in one] != ["certain"]


def test_the_kubelets_own_socket_is_none(tmp_path: Path, capsys: Capture) -> None:
    own = {
        f"host/var/lib/kubelet/device-plugins/{name}": "" for name in ("kubelet.sock", "kubelet_internal_checkpoint")
    }
    one = the(told(capsys, tmp_path, orin(**{PODS: pods(LLM)}, **own)), MISSING)
    assert judged(one)[1] == "certain"


# --- without the runtime --------------------------------------------------------------------------------------------

CRASH = {
    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
    "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": "2026-01-31T11:50:00Z"}},
    "restartCount": 14,
}
ONE_HERE = {DAEMON_SETS: daemon_sets(daemon_set(wanted=1))}


def crashing(**spec: Any) -> dict[str, Any]:
    made = plugin(spec=spec)
    made["status"]["containerStatuses"] = [{"name": "ctr", **CRASH}]
    return made


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
@pytest.mark.parametrize(("made", "offered"), [(crashing(), None), (plugin(), "0")], ids=["crashes", "idles"])
def test_a_plugin_under_runc_sees_no_gpu(
    tmp_path: Path, capsys: Capture, kind: Any, made: dict[str, Any], offered: str | None
) -> None:
    files = kind(**ONE_HERE, **{PODS: pods(made, LLM)})
    found = told(capsys, tmp_path, also(files, **({} if offered is None else {"gpu": offered})))
    one = the(found, RUNTIME)
    assert judged(one) == ("error", "certain", "pod kube-system/nvidia-device-plugin-daemonset-x7k2p")
    assert "runtimeClassName" in one["remedy"]
    assert "nvidia" in one["remedy"]
    assert ids(found, ["error"]) == [RUNTIME]


def test_one_that_gives_out_gpus_is_well(tmp_path: Path, capsys: Capture) -> None:
    """Under runc all the same: NVIDIA_DRIVER_ROOT and device nodes by hostPath do that."""
    assert ids(told(capsys, tmp_path, also(orin(**ONE_HERE, **{PODS: pods(plugin())}), gpu="1")), ABOVE_NOTES) == []


def test_a_driver_that_fails_comes_first(tmp_path: Path, capsys: Capture) -> None:
    """NVML says 18, library and kernel module differ."""
    files = tower(**ONE_HERE, **{PODS: pods(crashing(), LLM)})
    files["nvml.json"] = {"library": "present", "init": 18}
    files["host/proc/driver/nvidia/version"] = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.195.03\n"
    files["host/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.95.05"] = ""
    found = told(capsys, tmp_path, files)
    assert "driver-mismatch" in ids(found, ["error"])
    assert RUNTIME not in ids(found)
    assert BLIND not in ids(found)


@pytest.mark.parametrize("kind", [thor, tower])
def test_a_runtime_that_is_missing_comes_first(tmp_path: Path, capsys: Capture, kind: Any) -> None:
    found = told(capsys, tmp_path, kind(**ONE_HERE, **{PODS: pods(crashing(), LLM), CONTAINERD: containerd()}))
    assert "runtime-missing" in ids(found, ["error"])
    assert RUNTIME not in ids(found)


@pytest.mark.parametrize("kind", [thor, spark])
@pytest.mark.parametrize(("spec", "default"), [(NVIDIA, ""), ({}, "nvidia")], ids=["by-class", "by-default"])
def test_one_that_has_the_runtime_does_not_know_the_board(
    tmp_path: Path, capsys: Capture, kind: Any, spec: Files, default: str
) -> None:
    files = kind(**ONE_HERE, **{PODS: pods(crashing(**spec)), CONTAINERD: containerd(default, nvidia=BINARY)})
    found = told(capsys, tmp_path, files)
    one = the(found, BLIND)
    assert judged(one)[:2] == ("warning", "suspected")
    assert "logs" in one["remedy"]
    assert RUNTIME not in ids(found)


# --- after a boot ---------------------------------------------------------------------------------------------------

LATE = "started-before-device-plugin"
MADE = "2026-01-20T08:00:00Z"
UP = {"host/proc/uptime": "300.00 1000.00\n"}
"""Booted at 11:55:00."""


def since(clock: str, made: dict[str, Any]) -> dict[str, Any]:
    made = copy.deepcopy(made)
    made["metadata"]["creationTimestamp"] = MADE
    made["status"]["containerStatuses"][0] |= {
        "state": {"running": {"startedAt": f"2026-01-31T{clock}Z"}},
        "restartCount": 3,
    }
    return made


USER = pod("llm", limits={GPU: "1"}, spec=NVIDIA, namespace="ns-a")
PLUGIN = plugin(spec=NVIDIA)


@pytest.mark.parametrize("kind", [orin, tower, spark])
def test_a_pod_that_was_there_before_the_plugin(tmp_path: Path, capsys: Capture, kind: Any) -> None:
    files = also(kind(**ONE_HERE, **UP, **{PODS: pods(since("11:55:20", USER), since("11:56:10", PLUGIN))}), gpu="1")
    one = the(told(capsys, tmp_path, files), LATE)
    assert judged(one)[0] == "warning"
    assert judged(one)[2] == "pod ns-a/llm"
    assert "11:55:20" in whole(one)
    assert "11:56:10" in whole(one)
    assert "kubectl -n ns-a" in one["remedy"]


def test_a_pod_that_came_later(tmp_path: Path, capsys: Capture) -> None:
    files = orin(**ONE_HERE, **UP, **{PODS: pods(since("11:56:30", USER), since("11:56:10", PLUGIN))})
    assert LATE not in ids(told(capsys, tmp_path, also(files, gpu="1")), ABOVE_NOTES)


def test_a_plugin_that_was_started_again_a_day_after_the_boot(tmp_path: Path, capsys: Capture) -> None:
    again = since("11:21:00", PLUGIN)
    again["status"]["containerStatuses"][0]["lastState"] = {"terminated": {"startedAt": "2026-01-30T12:01:00Z"}}
    files = orin(**ONE_HERE, **{"host/proc/uptime": "86400.00 1.00\n", PODS: pods(since("11:20:00", USER), again)})
    assert LATE not in ids(told(capsys, tmp_path, also(files, gpu="1")), ABOVE_NOTES)


def test_those_that_failed_are_counted_and_nobody_is_evicted(tmp_path: Path, capsys: Capture) -> None:
    note = "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu"
    status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": note, "containerStatuses": []}
    failed = [pod(f"llm-{number}", limits={GPU: "1"}, status=status) for number in range(3)]
    files = also(orin(**ONE_HERE, **UP, **{PODS: pods(*failed, since("11:56:10", PLUGIN))}), gpu="1")
    document = shown(capsys, tmp_path, files)
    one = the(document["findings"], LATE)
    assert judged(one)[2] == NODE_NAMED
    assert "pods with status.reason UnexpectedAdmissionError: 3" in one["evidence"]
    assert document["plan"]["evictions"] == []

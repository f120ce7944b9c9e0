"""A pod asks for GPU memory of ours and is given no device (k3s-io/k3s#10034)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.making import KEY, pod, pods
from tests.diagnose.containers import closed, process, seen
from tests.diagnose.making import (
    BINARY,
    CLASSES,
    CONTAINERD,
    PODS,
    Capture,
    Files,
    classes,
    containerd,
    creating,
    found,
    healthy,
    judged,
    without,
)

ID = "device-not-injected"
LIMITS = {KEY: "2Gi"}
NVIDIA = {"runtimeClassName": "nvidia"}
TRIGGER = healthy(**{PODS: pods(pod(limits=LIMITS))})
NEAR_MISS = healthy(**{PODS: pods(pod(limits=LIMITS, spec=NVIDIA))})


def variable(value: str, **keys: Any) -> dict[str, Any]:
    """A pod whose manifest sets the variable."""
    made = pod(limits=LIMITS, **keys)
    made["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]
    return made


def test_it_names_what_is_missing_and_how_it_comes_in(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("error", "certain", "pod default/llm")
    assert one["evidence"] == [
        "container main requests edgeagent.dev/gpu-memory: 2147483648",
        "spec.runtimeClassName: not set",
        "/var/lib/rancher/k3s/agent/etc/containerd/config.toml: default_runtime_name not set, which is runc",
        "/var/lib/rancher/k3s/agent/etc/containerd/config.toml: runtimes nvidia, runc",
    ]
    assert '"runtimeClassName": "nvidia"' in one["remedy"]
    assert '{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}' in one["remedy"]


PATCH = '--type strategic -p \'{"spec": '
LINES = "In the pod template of Job default/once, and make it anew:\nspec:\n  runtimeClassName: nvidia\n"


@pytest.mark.parametrize(
    ("owner", "command"),
    [
        (("ReplicaSet", "llm-5d4f8b7c9"), f'kubectl -n default patch deployment llm {PATCH}{{"template": '),
        (("StatefulSet", "db"), f'kubectl -n default patch statefulset db {PATCH}{{"template": '),
        (("Job", "night-29000000"), f'kubectl -n default patch cronjob night {PATCH}{{"jobTemplate": '),
        (("Job", "once"), LINES),
        (None, "kubectl -n default get pod llm -o json \\\n  | kubectl patch --local -f - --type strategic "),
    ],
)
def test_the_command_is_for_who_makes_the_pod(
    tmp_path: Path, capsys: Capture, owner: tuple[str, str] | None, command: str
) -> None:
    made = pod(limits=LIMITS)
    if owner:
        made["metadata"]["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "controller": True}]
    (one,) = found(capsys, tmp_path, healthy(**{PODS: pods(made)}), ID)
    assert command in one["remedy"]


@pytest.mark.parametrize(
    ("made", "number"),
    [
        (creating(limits=LIMITS), 1),
        (pod(limits={"edgeagent.dev/gpu-milli": "250"}), 1),
        (variable("all"), 1),
        (variable("void", spec=NVIDIA), 1),
        (variable("none", spec=NVIDIA), 1),
        (variable("", spec=NVIDIA), 1),
        (variable("all", spec=NVIDIA), 0),
        (variable("GPU-1", spec=NVIDIA), 0),
        (pod(limits={"memory": "2Gi"}), 0),
        (pod(limits={KEY: "0"}), 0),
        (pod(limits={KEY: "2048"}), 0),
        (pod(limits=LIMITS, annotations={"cdi.k8s.io/gpu": "nvidia.com/gpu=all"}), 0),
        (pod(limits=LIMITS, status={"phase": "Succeeded"}), 0),
    ],
    ids=[
        "not-started-yet",
        "a-part-of-a-gpu",
        "runc-does-not-read-the-variable",
        "void",
        "none",
        "empty",
        "all",
        "one",
        "no-gpu",
        "nothing",
        "a-suffix-is-missing",
        "cdi",
        "it-has-ended",
    ],
)
def test_which_pods(tmp_path: Path, capsys: Capture, made: dict[str, Any], number: int) -> None:
    assert len(found(capsys, tmp_path, healthy(**{PODS: pods(made)}), ID)) == number


@pytest.mark.parametrize(
    "field",
    [
        {"securityContext": {"privileged": True}},
        {"volumeMounts": [{"name": "dev", "mountPath": "/dev"}]},
        {"resources": {"limits": LIMITS, "claims": [{"name": "gpu"}]}},
        {"resources": {"limits": {**LIMITS, "squat.ai/nvidia": "1"}}},
    ],
)
@pytest.mark.parametrize("path", ["/dev", "/dev/", "/", "/dev/nvidia0", "/dev/nvmap", "/dev/dxg"])
def test_what_else_may_give_it_one(tmp_path: Path, capsys: Capture, field: dict[str, Any], path: str) -> None:
    made = pod(limits=LIMITS, spec={"volumes": [{"name": "dev", "hostPath": {"path": path}}]})
    made["spec"]["containers"][0].update(field)
    assert found(capsys, tmp_path, healthy(**{PODS: pods(made)}), ID) == []


@pytest.mark.parametrize(
    ("changes", "number"),
    [
        ({CONTAINERD: containerd("nvidia", nvidia=BINARY)}, 0),
        ({CONTAINERD: "[[["}, 0),
        ({CONTAINERD: containerd("kata", kata="/usr/bin/kata", nvidia=BINARY)}, 1),
        ({CONTAINERD: containerd()}, 1),
    ],
    ids=["it-is-the-default", "cannot-tell", "another-is-the-default", "there-is-none"],
)
def test_the_default_runtime_decides(tmp_path: Path, capsys: Capture, changes: Files, number: int) -> None:
    assert len(found(capsys, tmp_path, {**TRIGGER, **changes}, ID)) == number


def test_who_holds_a_device_node_has_one(tmp_path: Path, capsys: Capture) -> None:
    assert seen(capsys, tmp_path / "held", {**TRIGGER, **process("/dev/nvmap")}, ID) == []
    assert len(seen(capsys, tmp_path / "none", {**TRIGGER, **process()}, ID)) == 1
    assert len(seen(capsys, tmp_path / "closed", {**TRIGGER, **closed()}, ID)) == 1


def test_a_class_is_made_where_none_leads_there(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, {**TRIGGER, CLASSES: classes(nvidia="crun")}, ID)
    assert "metadata: {name: nvidia-gpu}\nhandler: nvidia\n" in one["remedy"]
    assert '"runtimeClassName": "nvidia-gpu"' in one["remedy"]
    unlisted = found(capsys, tmp_path / "unlisted", without(TRIGGER, CLASSES), ID)
    assert "kind: RuntimeClass" not in unlisted[0]["remedy"]


def test_a_class_that_nobody_could_list_is_not_judged(tmp_path: Path, capsys: Capture) -> None:
    made = pod(limits=LIMITS, spec={"runtimeClassName": "gpu"})
    assert found(capsys, tmp_path, without(healthy(**{PODS: pods(made)}), CLASSES), ID) == []


def test_without_any_runtime_the_node_comes_first(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, {**TRIGGER, CONTAINERD: containerd()}, ID)
    assert "sudo systemctl restart k3s-agent" in one["remedy"]

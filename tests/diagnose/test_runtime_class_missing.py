"""A RuntimeClass that pods name and the cluster does not have (NVIDIA/gpu-operator#575, NVIDIA/dcgm-exporter#291)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgeagent.cluster.pods import parse
from edgeagent.diagnose.collected import ClusterSeen
from edgeagent.diagnose.diagnosis import across
from edgeagent.facts import Finding
from edgeagent.facts.cluster import Placement
from edgeagent.facts.diagnosis import Listed, RuntimeClassFacts, no_cluster
from tests.cases.making import pod, pods
from tests.diagnose.making import (
    BINARY,
    CLASSES,
    CONTAINERD,
    EVENTS,
    PODS,
    Capture,
    classes,
    containerd,
    creating,
    event,
    found,
    healthy,
    judged,
    without,
)
from tests.diagnose.plugin import GPU

ID = "runtime-class-missing"
NVIDIA = {"runtimeClassName": "nvidia"}
TRIGGER = healthy(**{CLASSES: classes(), PODS: pods(creating(spec=NVIDIA))})
NEAR_MISS = healthy(**{PODS: pods(creating(spec=NVIDIA))})


def test_a_pod_that_cannot_start_for_it(tmp_path: Path, capsys: Capture) -> None:
    (one, _) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("error", "certain", "pod default/llm")
    assert "kind: RuntimeClass\nmetadata: {name: nvidia}\nhandler: nvidia" in one["remedy"]


def stuck(name: str, **handlers: str) -> Finding:
    """What is said of the whole cluster, with these classes, when a pod of a node names ``name``."""
    there = tuple(RuntimeClassFacts(name=one, handler=of, placement=Placement()) for one, of in handlers.items())
    cluster = replace(no_cluster(""), runtime_classes=Listed(items=there))
    bound = {"edge-07": (parse(creating(spec={"runtimeClassName": name}, limits={GPU: "1"})),)}
    (one,) = (one for one in across(ClusterSeen(nodes=(), bound=bound, cluster=cluster)) if one.id == ID)
    return one


@pytest.mark.parametrize(
    ("name", "handlers", "handler"),
    [
        ("nvidia-cdi", {}, "nvidia-cdi"),
        ("gpu", {}, "nvidia"),
        ("gpu", {"crun": "crun", "fast": "nvidia-legacy"}, "nvidia-legacy"),
    ],
)
def test_by_the_api_alone_the_handler_is_a_likely_one(name: str, handlers: dict[str, str], handler: str) -> None:
    remedy = stuck(name, **handlers).remedy
    assert f"metadata: {{name: {name}}}\nhandler: {handler}\n" in remedy
    assert "sudo edgeagent doctor" in remedy


def test_a_pod_that_runs_is_not_started_again(tmp_path: Path, capsys: Capture) -> None:
    files = healthy(**{CLASSES: classes(nvidia="nvidia"), PODS: pods(pod(spec={"runtimeClassName": "nvidia-cdi"}))})
    (one,) = found(capsys, tmp_path, files, ID)
    assert judged(one) == ("warning", "certain", "pod default/llm")


def test_a_deployment_whose_pods_are_refused(tmp_path: Path, capsys: Capture) -> None:
    told = 'Error creating: pods "llm-7d-" is forbidden: pod rejected: RuntimeClass "nvidia-gpu" not found'
    refused = {"items": [event("FailedCreate", told, "ReplicaSet", "llm-7d")]}
    (one,) = found(capsys, tmp_path, healthy(**{EVENTS: refused}), ID)
    assert judged(one) == ("error", "certain", "replicaset default/llm-7d")
    assert "nvidia-gpu" in one["summary"]
    # A controller that has failed for long tries again after 1000 s (client-go, DefaultTypedControllerRateLimiter).
    again = 'kubectl -n default annotate replicaset llm-7d retried-at="$(date +%s)" --overwrite'
    assert one["remedy"].splitlines()[-1] == again
    # The event stands for an hour. Once the class is there it says nothing any more.
    repaired = healthy(**{EVENTS: refused, CLASSES: classes(nvidia="nvidia", **{"nvidia-gpu": "nvidia"})})
    assert found(capsys, tmp_path, repaired, ID) == []


@pytest.mark.parametrize("why", ["Insufficient memory", 'serviceaccount "x" not found'])
def test_pods_that_are_refused_for_something_else(tmp_path: Path, capsys: Capture, why: str) -> None:
    refused = {"items": [event("FailedCreate", f"Error creating: {why}", "ReplicaSet", "llm-7d")]}
    assert found(capsys, tmp_path, healthy(**{EVENTS: refused}), ID) == []


def test_without_the_list_it_cannot_be_told(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, without(NEAR_MISS, CLASSES), ID)
    assert judged(one) == ("info", "cannot-tell", "node edge-07")
    assert "runtimeclasses.json" in one["summary"]


def test_nor_is_it_asked_where_every_pod_runs(tmp_path: Path, capsys: Capture) -> None:
    assert found(capsys, tmp_path, without(healthy(**{PODS: pods(pod(spec=NVIDIA))}), CLASSES), ID) == []


@pytest.mark.parametrize(
    ("changes", "number"),
    [
        ({CLASSES: classes(crun="crun")}, 1),
        ({CLASSES: classes(gpu="nvidia")}, 0),
        ({CLASSES: classes(), CONTAINERD: containerd("nvidia", nvidia=BINARY)}, 0),
        ({CLASSES: classes(), CONTAINERD: containerd()}, 0),
        ({CLASSES: classes(), "host/etc/cdi/nvidia.yaml": "kind: nvidia.com/gpu\ndevices: [{name: all}]\n"}, 0),
    ],
    ids=["none-leads-to-it", "another-name", "it-is-the-default", "there-is-no-runtime", "devices-by-name"],
)
def test_a_runtime_that_no_class_leads_to(
    tmp_path: Path, capsys: Capture, changes: dict[str, Any], number: int
) -> None:
    assert len(found(capsys, tmp_path, healthy(**changes), ID)) == number


def test_a_class_that_is_not_for_the_gpu_is_not_made_with_nvidias_handler(tmp_path: Path, capsys: Capture) -> None:
    """Pods under kata or gVisor are there to be kept apart."""
    files = healthy(**{PODS: pods(creating(spec={"runtimeClassName": "kata"}))})
    (one,) = found(capsys, tmp_path, files, ID)
    assert "kubectl" not in one["remedy"]
    assert "handler: nvidia" not in one["remedy"]
    told = 'Error creating: pods "x" is forbidden: RuntimeClass "gvisor" not found'
    files = healthy(**{EVENTS: {"items": [event("FailedCreate", told, "ReplicaSet", "x")]}})
    (one,) = found(capsys, tmp_path / "refused", files, ID)
    assert "handler: nvidia" not in one["remedy"]


@pytest.mark.parametrize(
    ("last", "certainty"),
    [
        ("11:58:00", "certain"),  # 120 s before the snapshot, which is of 12:00
        ("11:57:59", "suspected"),
        ("11:41:40", "suspected"),  # 1100 s: a controller's longest wait of 1000 s, and 100 s
        ("11:41:39", None),
    ],
)
def test_an_event_that_is_not_repeated_is_of_the_past(
    tmp_path: Path, capsys: Capture, last: str, certainty: str | None
) -> None:
    """It stands for an hour, also where the Deployment was corrected and names another class."""
    told = event("FailedCreate", 'RuntimeClass "nvidia-gpu" not found', "ReplicaSet", "llm-7d")
    told["lastTimestamp"] = f"2026-01-31T{last}Z"
    rows = found(capsys, tmp_path, healthy(**{EVENTS: {"items": [told]}}), ID)
    assert [one["certainty"] for one in rows] == ([certainty] if certainty else [])

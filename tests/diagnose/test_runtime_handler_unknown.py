"""A class leads to a handler that this node does not have (NVIDIA/k8s-device-plugin#1304, #332)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgeagent.cluster.pods import parse
from edgeagent.diagnose.collected import ClusterSeen
from edgeagent.diagnose.diagnosis import across
from edgeagent.facts.diagnosis import EventFacts, Listed, no_cluster
from tests.cases.making import KEY, UID, about, conditions, explain, node, pod, pods
from tests.diagnose.making import (
    CLASSES,
    CONTAINERD,
    EVENTS,
    NODE_JSON,
    OFFER,
    PODS,
    Capture,
    Files,
    classes,
    containerd,
    creating,
    event,
    found,
    healthy,
    judged,
    without,
)

ID = "runtime-handler-unknown"
NVIDIA = {"runtimeClassName": "nvidia"}
TRIGGER = healthy(**{CLASSES: classes(nvidia="docker")})
# K3s makes classes for runtimes that hardly any node has.
NEAR_MISS = healthy(
    **{CLASSES: classes(nvidia="nvidia", crun="crun", **{"nvidia-experimental": "nvidia-experimental"})}
)


def test_a_handler_that_nobody_has(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("error", "certain", "runtimeclass nvidia")
    assert "handler docker" in one["summary"]
    assert "kubectl delete runtimeclass nvidia" in one["remedy"]


def test_a_node_that_lacks_the_handler(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{CONTAINERD: containerd()}), ID)
    assert "exists in the cluster" in one["summary"]
    assert "systemctl restart k3s-agent" in one["remedy"]


def test_a_pod_that_needs_it(tmp_path: Path, capsys: Capture) -> None:
    files = healthy(
        **{CLASSES: classes(nvidia="nvidia", wasm="spin"), PODS: pods(creating(spec={"runtimeClassName": "wasm"}))}
    )
    (one,) = found(capsys, tmp_path, files, ID)
    assert judged(one) == ("error", "certain", "pod default/llm")


def test_a_pod_that_runs_cannot_be_started_again(tmp_path: Path, capsys: Capture) -> None:
    files = healthy(
        **{CLASSES: classes(nvidia="nvidia", old="gone"), PODS: pods(pod(spec={"runtimeClassName": "old"}))}
    )
    (one,) = found(capsys, tmp_path, files, ID)
    assert judged(one) == ("warning", "certain", "pod default/llm")


@pytest.mark.parametrize(("label", "number"), [({}, 0), ({"gpu": "yes"}, 1)])
def test_a_class_that_is_not_for_this_node(tmp_path: Path, capsys: Capture, label: dict[str, str], number: int) -> None:
    listed = classes(nvidia="docker")
    listed["items"][0]["scheduling"] = {"nodeSelector": {"gpu": "yes"}}
    files = healthy(**{CLASSES: listed, NODE_JSON: node({KEY: OFFER}, labels=label)})
    assert len(found(capsys, tmp_path, files, ID)) == number


def test_by_the_api_alone_the_node_is_named() -> None:
    waits = parse(creating(spec=NVIDIA))
    told = EventFacts(
        reason="FailedCreatePodSandBox",
        note='no runtime for "nvidia" is configured',
        kind="Pod",
        namespace="default",
        name="llm",
        uid=waits.uid,
    )
    cluster = replace(no_cluster(""), events=Listed(items=(told,)))
    found_there = across(ClusterSeen(nodes=(), bound={"edge-07": (waits,)}, cluster=cluster))
    (one,) = (one for one in found_there if one.id == ID)
    first, last = one.remedy.splitlines()
    assert "on the node edge-07" in first
    assert last == "sudo edgeagent doctor"


@pytest.mark.parametrize("started", [False, True])
def test_what_containerd_has_said_where_its_file_cannot_be_read(
    tmp_path: Path, capsys: Capture, *, started: bool
) -> None:
    uid = f"{UID[:-4]}0001"
    told = 'Failed to create pod sandbox: failed to get sandbox runtime: no runtime for "nvidia" is configured'
    changes: dict[str, Any] = {
        PODS: pods((pod if started else creating)(spec=NVIDIA)),
        EVENTS: {"items": [event("FailedCreatePodSandBox", told, "Pod", "llm", uid)]},
    }
    rows = found(capsys, tmp_path, without(healthy(**changes), CONTAINERD), ID)
    assert [judged(one) for one in rows] == ([] if started else [("error", "certain", "pod default/llm")])


def without_sandbox(limits: dict[str, str]) -> Files:
    """A pod that is to run under kata, which this node does not have."""
    return healthy(
        **{
            CLASSES: classes(nvidia="nvidia", kata="kata"),
            PODS: pods(creating(spec={"runtimeClassName": "kata"}, limits=limits)),
        }
    )


def test_a_pod_that_wants_to_be_kept_apart_is_not_sent_to_nvidias_runtime(tmp_path: Path, capsys: Capture) -> None:
    files = without_sandbox({})
    (one,) = found(capsys, tmp_path, files, ID)
    assert judged(one) == ("error", "certain", "pod default/llm")
    assert one["remedy"] == "Give containerd the handler kata on this node, or let the pod run on a node that has it."
    (document,) = explain(capsys, tmp_path, files)
    assert conditions(document)["GPURuntimeMisconfigured"] == "False"


def test_a_pod_that_asks_for_the_gpu_is(tmp_path: Path, capsys: Capture) -> None:
    files = without_sandbox({KEY: "1Gi"})
    (one,) = found(capsys, tmp_path, files, ID)
    assert "handler: nvidia" in one["remedy"]
    (document,) = explain(capsys, tmp_path, files)
    assert conditions(document)["GPURuntimeMisconfigured"] == "True"


@pytest.mark.parametrize(("handler", "condition"), [("kata", ""), ("nvidia", "RuntimeHandlerUnknown")])
def test_what_containerd_says_of_a_handler_is_about_the_gpu_if_its_name_is(handler: str, condition: str) -> None:
    waits = parse(creating(spec={"runtimeClassName": handler}))
    told = EventFacts(
        reason="FailedCreatePodSandBox",
        note=f'no runtime for "{handler}" is configured',
        kind="Pod",
        namespace="default",
        name="llm",
        uid=waits.uid,
    )
    cluster = replace(no_cluster(""), events=Listed(items=(told,)))
    seen = ClusterSeen(nodes=(), bound={"edge-07": (waits,)}, cluster=cluster)
    (one,) = (one for one in across(seen) if one.id == ID)
    assert one.condition == condition
    assert ("nvidia" in one.remedy or "edgeagent doctor" in one.remedy) == (handler == "nvidia")


@pytest.mark.parametrize(("text", "number"), [('disabled_plugins = ["cri"]\n', 0), ("version = 2\n", 1)])
def test_a_containerd_that_runs_no_pods_proves_nothing(tmp_path: Path, capsys: Capture, text: str, number: int) -> None:
    """CRI-O runs them, or Docker, and the packages of Docker have brought a file of containerd's."""
    k3s = [name for name in healthy() if "rancher" in name]
    changes = {PODS: pods(pod(spec=NVIDIA)), "host/etc/containerd/config.toml": text}
    rows = found(capsys, tmp_path, without(healthy(**changes), *k3s), ID)
    assert len([one for one in rows if one["subject"] == "pod default/llm"]) == number
    assert bool(rows) == bool(number)


def test_a_node_without_a_gpu_needs_no_toolkit_of_nvidias(tmp_path: Path, capsys: Capture) -> None:
    changes = {
        "snapshot.yaml": about(arch="x86_64"),
        CONTAINERD: containerd(),
        PODS: pods(creating(spec=NVIDIA)),
    }
    files = without(healthy(**changes), "host/proc/device-tree/compatible")
    (one,) = found(capsys, tmp_path, files, ID)
    assert "run on a node that has it" in one["remedy"]
    (document,) = explain(capsys, tmp_path, files)
    assert conditions(document).get("GPURuntimeMisconfigured") != "True"

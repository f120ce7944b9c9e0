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
from tests.cases.making import KEY, UID, node, pod, pods
from tests.diagnose.making import (
    CLASSES,
    CONTAINERD,
    EVENTS,
    NODE_JSON,
    OFFER,
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

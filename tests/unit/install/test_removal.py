"""What an uninstall takes off a node: exactly what is listed, nothing that a pod needs, nothing by guess."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from edgeagent.facts import GPU_MEMORY, GPU_MILLI, NodeFacts, PodFacts
from edgeagent.plan.removal import Removal, blind, command, removal, rest
from tests.unit.factories import GIB, node, pod

OWNED = "edgeagent.dev/owned-keys"
LISTED: dict[str, list[str]] = {
    "capacity": [GPU_MEMORY, GPU_MILLI],
    "conditions": ["GPUMemoryPressure", "GPUUnavailable"],
    "labels": ["ai-capable", "edgeagent.dev/gpu.kind"],
}
PATH = "/api/v1/nodes/edge-1/status"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"


def published(listed: Any = LISTED, **fields: Any) -> NodeFacts:
    """A node with what the agent has put there, beside what others have."""
    given: dict[str, Any] = {
        "capacity": {"cpu": "8", "memory": "8Gi", GPU_MEMORY: "5827Mi", GPU_MILLI: "1k"},
        "allocatable": {"cpu": "8", "memory": "7Gi", GPU_MEMORY: "5827Mi", GPU_MILLI: "1k"},
        "labels": {"ai-capable": "true", "edgeagent.dev/gpu.kind": "jetson", "site": "berlin"},
        "conditions": tuple({"type": kind} for kind in ("Ready", "GPUMemoryPressure", "GPUUnavailable")),
        "annotations": {
            OWNED: listed if isinstance(listed, str) else json.dumps(listed),
            "edgeagent.dev/mode": "observe",
        },
    }
    return node(**{**given, **fields})


def bodies(found: Removal) -> list[Any]:
    return [request.body for request in found.requests]


def needing(label: str, name: str = "llm", **fields: Any) -> PodFacts:
    return pod(name, required_labels=frozenset({label}), **fields)


def test_exactly_the_listed_keys_go_and_the_list_itself_last() -> None:
    found = removal(published(), (), force=False)

    assert [(request.method, request.path, request.content_type) for request in found.requests] == [
        ("PATCH", PATH, MERGE),
        ("PATCH", PATH, STRATEGIC),
        ("PATCH", PATH, MERGE),
        ("PATCH", PATH, MERGE),
    ]
    gone = {GPU_MEMORY: None, GPU_MILLI: None}
    assert bodies(found) == [
        {"status": {"capacity": gone, "allocatable": gone}},
        {
            "status": {
                "conditions": [
                    {"type": "GPUMemoryPressure", "$patch": "delete"},
                    {"type": "GPUUnavailable", "$patch": "delete"},
                ]
            }
        },
        {"metadata": {"labels": {"ai-capable": None, "edgeagent.dev/gpu.kind": None}}},
        {"metadata": {"annotations": {OWNED: None}}},
    ]
    assert (found.problem, found.needed, found.foreign) == ("", {}, ())


def test_a_key_of_our_prefix_that_is_not_listed_is_someone_elses() -> None:
    foreign = published(
        labels={"edgeagent.dev/gpu.kind": "jetson", "edgeagent.dev/rack": "7"},
        capacity={GPU_MEMORY: "5827Mi", "edgeagent.dev/licences": "3"},
        allocatable={},
    )

    found = removal(foreign, (), force=True)

    assert bodies(found)[0] == {"status": {"capacity": {GPU_MEMORY: None}}}
    assert bodies(found)[2] == {"metadata": {"labels": {"edgeagent.dev/gpu.kind": None}}}


def test_what_is_listed_and_gone_already_needs_no_write() -> None:
    found = removal(published(capacity={}, allocatable={}, labels={}, conditions=()), (), force=False)

    assert bodies(found) == [{"metadata": {"annotations": {OWNED: None}}}]


@pytest.mark.parametrize("force", [False, True])
def test_a_node_without_anything_that_the_agent_writes_needs_no_write(force: bool) -> None:  # noqa: FBT001 (a case)
    foreign = node(labels={"ai-capable": "true", "edgeagent.dev/rack": "7"}, capacity={"edgeagent.dev/licences": "3"})

    assert removal(foreign, (), force=force) == Removal()


# --- labels can kill -----------------------------------------------------------------


def test_a_label_that_a_running_pod_requires_stays_and_stays_listed() -> None:
    pods = (needing("ai-capable"), needing("ai-capable", "asr"), needing("site", "other"))

    found = removal(published(), pods, force=False)

    assert found.needed == {"ai-capable": ("apps/asr", "apps/llm")}
    assert bodies(found)[2] == {"metadata": {"labels": {"edgeagent.dev/gpu.kind": None}}}
    left = json.loads(bodies(found)[3]["metadata"]["annotations"][OWNED])
    assert left == {"capacity": [], "conditions": [], "labels": ["ai-capable"]}


def test_what_was_left_for_pods_is_removed_later_by_two_writes() -> None:
    found = removal(published(), (needing("ai-capable"),), force=False)

    label, annotation = rest("edge-1", found)

    assert label.body == {"metadata": {"labels": {"ai-capable": None}}}
    assert annotation.body == {"metadata": {"annotations": {OWNED: None}}}
    assert (label.path, label.content_type) == (PATH, MERGE)
    assert rest("edge-1", removal(published(), (), force=False)) == ()


def test_a_list_that_has_keys_of_others_stays_when_the_labels_go() -> None:
    listed = {**LISTED, "labels": [*LISTED["labels"], "kubernetes.io/hostname"]}

    (label,) = rest("edge-1", removal(published(listed), (needing("ai-capable"),), force=False))

    assert label.body == {"metadata": {"labels": {"ai-capable": None}}}


def test_force_removes_it() -> None:
    found = removal(published(), (needing("ai-capable"),), force=True)

    assert bodies(found)[2] == {"metadata": {"labels": {"ai-capable": None, "edgeagent.dev/gpu.kind": None}}}
    assert found.needed == {}


@pytest.mark.parametrize(
    "unaffected",
    [needing("ai-capable", phase="Succeeded"), needing("ai-capable", phase="Pending", start_time=None)],
    ids=["finished", "not admitted"],
)
def test_a_pod_that_a_kubelet_would_not_check_again_keeps_no_label(unaffected: PodFacts) -> None:
    assert removal(published(), (unaffected,), force=False).needed == {}


def test_a_terminating_pod_counts_until_it_is_gone() -> None:
    found = removal(published(), (needing("ai-capable", terminating=True),), force=False)

    assert list(found.needed) == ["ai-capable"]


def test_while_the_pods_are_not_known_every_label_may_be_needed() -> None:
    found = removal(published(), None, force=False)

    assert found.needed == {"ai-capable": (), "edgeagent.dev/gpu.kind": ()}
    assert removal(published(), None, force=True).needed == {}


def test_capacity_goes_although_pods_hold_it_and_they_are_named() -> None:
    # A key that is absent is not checked when the kubelet admits its pods again
    # (kubernetes/kubernetes, pkg/kubelet/lifecycle/predicate.go, removeMissingExtendedResources).
    found = removal(published(), (pod("llm", gpu=2 * GIB), pod("web", memory=GIB)), force=False)

    assert found.needed == {}
    assert found.holders == ("apps/llm",)
    assert bodies(found)[0]["status"]["capacity"] == {GPU_MEMORY: None, GPU_MILLI: None}


# --- a list that cannot be trusted ---------------------------------------------------


@pytest.mark.parametrize(
    "listed",
    ["", "{", "[]", "null", '{"capacity": []}', '{"capacity": "x", "conditions": [], "labels": []}',
     '{"capacity": [1], "conditions": [], "labels": []}', "[" * 100_000,
     '{"capacity": [], "conditions": [], "labels": [], "taints": []}'],
    ids=range(9),
)  # fmt: skip
def test_a_list_that_is_not_as_the_agent_writes_it_removes_nothing(listed: str) -> None:
    found = removal(published(listed), (), force=False)

    assert found.requests == ()
    assert OWNED in found.problem
    assert "ai-capable" not in found.problem
    assert all(key in found.problem for key in (GPU_MEMORY, "edgeagent.dev/gpu.kind", "GPUUnavailable"))


def test_a_node_without_a_list_is_not_cleaned_by_guess() -> None:
    found = removal(published(annotations={}), (), force=False)

    assert found.requests == ()
    assert "is not there" in found.problem


@pytest.mark.parametrize("annotations", [{}, {OWNED: "{", "edgeagent.dev/mode": "observe"}])
def test_force_then_removes_all_that_bears_the_prefix_but_what_people_set(annotations: dict[str, str]) -> None:
    found = removal(
        published(annotations=annotations, labels={"edgeagent.dev/rack": "7", "ai-capable": "true"}), (), force=True
    )

    written = bodies(found)
    assert written[0]["status"]["capacity"] == {GPU_MEMORY: None, GPU_MILLI: None}
    assert [item["type"] for item in written[1]["status"]["conditions"]] == ["GPUMemoryPressure", "GPUUnavailable"]
    assert written[2] == {"metadata": {"labels": {"edgeagent.dev/rack": None}}}
    assert written[3:] == ([{"metadata": {"annotations": {OWNED: None}}}] if annotations else [])
    # It has no prefix, and people set it by hand too.
    assert found.doubtful == ("ai-capable",)


def test_a_broken_list_alone_goes_by_force() -> None:
    alone = node(annotations={OWNED: "{"})

    assert removal(alone, (), force=False).problem
    assert bodies(removal(alone, (), force=True)) == [{"metadata": {"annotations": {OWNED: None}}}]


def test_a_list_that_was_tampered_with_reaches_nothing_of_kubernetes() -> None:
    tampered = published(
        {
            "capacity": ["cpu", GPU_MEMORY],
            "conditions": ["Ready"],
            "labels": ["kubernetes.io/hostname", "node.k8s.io/x"],
        },
        labels={"kubernetes.io/hostname": "edge-1", "node.k8s.io/x": "y"},
    )

    found = removal(tampered, (), force=True)

    assert bodies(found)[0] == {"status": {"capacity": {GPU_MEMORY: None}, "allocatable": {GPU_MEMORY: None}}}
    assert found.foreign == ("Ready", "cpu", "kubernetes.io/hostname", "node.k8s.io/x")
    left = json.loads(bodies(found)[1]["metadata"]["annotations"][OWNED])
    assert left == {"capacity": ["cpu"], "conditions": ["Ready"], "labels": ["kubernetes.io/hostname", "node.k8s.io/x"]}


# --- by hand -------------------------------------------------------------------------


def test_the_kubectl_command_is_the_same_write() -> None:
    (_, conditions, _, _) = removal(published(), (), force=False).requests

    words = shlex.split(command(conditions))

    assert words[:4] == ["kubectl", "patch", "node", "edge-1"]
    assert words[4:7] == ["--subresource=status", "--type=strategic", "-p"]
    assert json.loads(words[7]) == conditions.body
    assert len(words) == 8


def test_a_node_that_cannot_be_asked_is_rid_of_every_name_that_the_agent_has() -> None:
    capacity, conditions, labels, annotation = (request.body for request in blind("n", "example.com/ai"))

    assert set(capacity["status"]["capacity"]) == {GPU_MEMORY, "edgeagent.dev/igpu-memory", GPU_MILLI}
    assert capacity["status"]["allocatable"] == capacity["status"]["capacity"]
    assert {item["type"] for item in conditions["status"]["conditions"]} == {
        "GPUMemoryPressure",
        "GPUUnavailable",
        "GPURuntimeMisconfigured",
    }
    assert {"edgeagent.dev/gpu.kind", "edgeagent.dev/jetson.l4t", "example.com/ai"} <= set(labels["metadata"]["labels"])
    assert annotation["metadata"]["annotations"] == {OWNED: None}
    assert "ai-capable" not in labels["metadata"]["labels"]

"""Conditions, and the writes that make a node carry what it should: own keys, numbers as numbers, nothing twice."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from edgeagent.facts import GPU_MEMORY, GPU_MILLI, BoardFiles, NodeFacts, NvmlDevice, RuntimeFacts
from edgeagent.plan import node as writes
from edgeagent.plan.conditions import conditions
from edgeagent.plan.owners import other_owner
from edgeagent.plan.types import Condition, Plan, Request
from tests.unit.factories import (
    ABSENT,
    NO_RUNTIME,
    RUNTIME,
    Run,
    Scene,
    at,
    card,
    card_files,
    card_scene,
    meminfo,
    node,
    nvml,
    pod,
)

PATH = "/api/v1/nodes/edge-1/status"
HEALTHY = Condition(type="GPUUnavailable", status="False", reason="DevicesHealthy", message="Every GPU answers.")


def due(
    found: NodeFacts, capacity: dict[str, str], labels: dict[str, str] | None = None, *wanted: Condition
) -> tuple[Request, ...]:
    return writes.requests(found, capacity, labels or {}, wanted)


def status(found: NodeFacts, capacity: dict[str, str]) -> dict[str, Any]:
    body = due(found, capacity)[0].body
    return dict(body.get("status", {}))


def owned_keys(capacity: list[str], conditions_: list[str], labels: list[str]) -> dict[str, str]:
    text = json.dumps({"capacity": capacity, "conditions": conditions_, "labels": labels}, separators=(",", ":"))
    return {"edgeagent.dev/owned-keys": text}


def test_the_first_publication() -> None:
    first, second = due(node(), {GPU_MEMORY: "6083Mi"}, {"edgeagent.dev/gpu.kind": "jetson"}, HEALTHY)
    assert (first.method, first.path, first.content_type) == ("PATCH", PATH, "application/merge-patch+json")
    assert first.body == {
        "status": {"capacity": {GPU_MEMORY: "6083Mi"}, "allocatable": {GPU_MEMORY: "6083Mi"}},
        "metadata": {
            "labels": {"edgeagent.dev/gpu.kind": "jetson"},
            "annotations": {
                "edgeagent.dev/owned-keys": (
                    '{"capacity":["edgeagent.dev/gpu-memory"],"conditions":["GPUUnavailable"],'
                    '"labels":["edgeagent.dev/gpu.kind"]}'
                )
            },
        },
    }
    assert (second.method, second.path, second.content_type) == (
        "PATCH",
        PATH,
        "application/strategic-merge-patch+json",
    )
    assert second.body == {
        "status": {
            "conditions": [
                {
                    "type": "GPUUnavailable",
                    "status": "False",
                    "reason": "DevicesHealthy",
                    "message": "Every GPU answers.",
                }
            ]
        }
    }


def test_nothing_is_sent_when_nothing_differs() -> None:
    settled = node(
        capacity={GPU_MEMORY: "6083Mi", "cpu": "6"},
        allocatable={GPU_MEMORY: "6083Mi", "cpu": "6"},
        labels={"edgeagent.dev/gpu.kind": "jetson", "other": "x"},
        annotations=owned_keys([GPU_MEMORY], ["GPUUnavailable"], ["edgeagent.dev/gpu.kind"]),
        conditions=(
            {"type": "Ready", "status": "True", "reason": "KubeletReady"},
            {"type": "GPUUnavailable", "status": "False", "reason": "DevicesHealthy", "message": "other words"},
        ),
    )
    assert due(settled, {GPU_MEMORY: "6083Mi"}, {"edgeagent.dev/gpu.kind": "jetson"}, HEALTHY) == ()


@pytest.mark.parametrize("text", ["6378487808", "6229Ki", "6083Mi", "5.940429687500Gi", "6378487808000m"])
def test_numbers_are_compared_as_numbers(text: str) -> None:
    # 6083 MiB = 6 378 487 808 B = 5.9404296875 GiB; 6229 KiB is another number
    found = node(capacity={GPU_MEMORY: text}, allocatable={GPU_MEMORY: text})
    assert status(found, {GPU_MEMORY: "6083Mi"}) == (
        {"capacity": {GPU_MEMORY: "6083Mi"}, "allocatable": {GPU_MEMORY: "6083Mi"}} if text == "6229Ki" else {}
    )


@pytest.mark.parametrize(
    ("capacity", "allocatable", "expected"),
    [
        ("0", "0", {"capacity": "6083Mi", "allocatable": "6083Mi"}),  # reset by a kubelet that started
        (None, None, {"capacity": "6083Mi", "allocatable": "6083Mi"}),
        ("5Gi", "5Gi", {"capacity": "6083Mi", "allocatable": "6083Mi"}),
        ("6083Mi", "0", {"allocatable": "6083Mi"}),
        ("6083Mi", None, {"allocatable": "6083Mi"}),
        ("6083Mi", "5Gi", {}),  # another difference is the kubelet's
        ("rubbish", "6083Mi", {"capacity": "6083Mi", "allocatable": "6083Mi"}),
    ],
)
def test_allocatable(capacity: str | None, allocatable: str | None, expected: dict[str, str]) -> None:
    found = node(
        capacity={GPU_MEMORY: capacity} if capacity else {},
        allocatable={GPU_MEMORY: allocatable} if allocatable else {},
    )
    assert status(found, {GPU_MEMORY: "6083Mi"}) == {part: {GPU_MEMORY: text} for part, text in expected.items()}


def test_a_capacity_of_zero_is_published_once() -> None:
    assert status(node(), {GPU_MEMORY: "0Mi"}) == {"capacity": {GPU_MEMORY: "0Mi"}, "allocatable": {GPU_MEMORY: "0Mi"}}
    assert status(node(capacity={GPU_MEMORY: "0"}, allocatable={GPU_MEMORY: "0"}), {GPU_MEMORY: "0Mi"}) == {}


def test_keys_that_should_not_be_there_are_removed_and_others_never_touched() -> None:
    found = node(
        capacity={GPU_MEMORY: "1Gi", GPU_MILLI: "1k", "nvidia.com/gpu": "1", "memory": "8Gi"},
        allocatable={GPU_MEMORY: "1Gi", "edgeagent.dev/old": "1", "edgeagent.dev/theirs": "1", "nvidia.com/gpu": "1"},
        annotations=owned_keys(["edgeagent.dev/old", "memory", "nvidia.com/gpu"], [], []),
    )
    assert status(found, {GPU_MILLI: "1000"}) == {
        "capacity": {GPU_MEMORY: None},
        "allocatable": {GPU_MEMORY: None, "edgeagent.dev/old": None, GPU_MILLI: "1000"},
    }


def test_labels_of_ours_go_by_name_or_by_what_the_annotation_tells_and_never_those_of_kubernetes() -> None:
    labels = {
        "edgeagent.dev/jetson.soc": "tegra194",  # a name of ours
        "edgeagent.dev/theirs": "x",
        "gpu-node": "true",  # a former ai-capable key
        "kubernetes.io/hostname": "edge-1",
        "node.kubernetes.io/instance-type": "k3s",
        "topology.k8s.io/zone": "a",
    }
    told = ["gpu-node", "kubernetes.io/hostname", "node.kubernetes.io/instance-type", "topology.k8s.io/zone"]
    found = node(labels=labels, annotations=owned_keys([], [], told))
    assert writes.own_labels(found) == {"edgeagent.dev/jetson.soc", "gpu-node"}


def test_no_gpu_beside_a_sign_of_one_takes_three_readings_to_count() -> None:
    # The kernel module is loaded, NVML lists nothing: at a start that may pass.
    found = node(capacity={GPU_MEMORY: "5000Mi"})
    scene = Scene(files=card_files(pci_displays=0, proc_driver="580.1"), nvml=nvml(), node=found)
    run = Run()
    assert [bool(run.step(at(scene, second)).node.requests) for second in (0.0, 2.0, 4.0)] == [False, False, True]
    # Without any sign there is nothing to wait for.
    bare = Scene(files=BoardFiles(arch="x86_64"), nvml=ABSENT, node=found)
    assert Run().step(bare).node.requests


@pytest.mark.parametrize("text", ["", "not json", "[]", '{"labels": 7}', '{"labels": [7]}'])
def test_a_spoilt_annotation_is_written_anew(text: str) -> None:
    found = node(annotations={"edgeagent.dev/owned-keys": text})
    assert writes.owned(found, "labels") == frozenset()
    body = due(found, {GPU_MEMORY: "1Mi"})[0].body
    assert body["metadata"]["annotations"] == owned_keys([GPU_MEMORY], [], [])


@pytest.mark.parametrize(
    ("present", "sent"),
    [
        ({"status": "False", "reason": "DevicesHealthy"}, False),
        ({"status": "True", "reason": "DevicesHealthy"}, True),
        ({"status": "False", "reason": "Other"}, True),
    ],
)
def test_conditions_are_written_on_a_change_of_status_or_reason(present: dict[str, str], *, sent: bool) -> None:
    found = node(
        annotations=owned_keys([], ["GPUUnavailable"], []), conditions=({"type": "GPUUnavailable", **present},)
    )
    assert bool(due(found, {}, {}, HEALTHY)) is sent


def test_conditions_of_ours_that_no_longer_apply_are_deleted_and_others_kept() -> None:
    found = node(conditions=({"type": "Ready", "status": "True"}, {"type": "GPUMemoryPressure", "status": "True"}))
    assert due(found, {})[-1].body == {"status": {"conditions": [{"type": "GPUMemoryPressure", "$patch": "delete"}]}}


# --- the conditions themselves -------------------------------------------------------


def by_type(scene: Scene, *seconds: float) -> dict[str, tuple[str, str]]:
    plan = Run().steps(scene, *(seconds or (0.0,)))
    return {found.type: (found.status, found.reason) for found in plan.node.conditions}


def test_a_healthy_board_has_all_three() -> None:
    assert by_type(Scene()) == {
        "GPUMemoryPressure": ("False", "MemoryAboveFloor"),
        "GPUUnavailable": ("False", "DevicesHealthy"),
        "GPURuntimeMisconfigured": ("False", "RuntimeConfigured"),
    }


def test_none_without_a_gpu() -> None:
    assert by_type(Scene(files=BoardFiles(arch="aarch64"))) == {}


def test_all_three_while_the_kind_is_unknown() -> None:
    found = by_type(Scene(files=BoardFiles(arch="aarch64"), nvml=None))
    assert set(found) == {"GPUMemoryPressure", "GPUUnavailable", "GPURuntimeMisconfigured"}
    assert found["GPUUnavailable"][0] == "Unknown"


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        (NvmlDevice(handle=15), "DeviceLost"),
        (NvmlDevice(handle=16), "ResetRequired"),
        (NvmlDevice(handle=999), "DeviceDegraded"),
    ],
)
def test_a_device_that_is_not_well(device: NvmlDevice, reason: str) -> None:
    assert by_type(card_scene(device))["GPUUnavailable"] == ("True", reason)


def test_driver_and_library_of_different_versions() -> None:
    assert by_type(card_scene(card(), nvml=nvml(init=18, count=None)))["GPUUnavailable"] == ("True", "DeviceDegraded")


def test_a_broken_driver_is_broken_after_it_worked_too() -> None:
    run = Run()
    run.step(card_scene(card()))
    plan = run.step(at(card_scene(card(), nvml=nvml(init=18, count=None)), 2.0))
    assert [(device.uuid, device.health) for device in plan.board.devices] == [
        ("GPU-bbbbbbbb-0000-4000-8000-000000000002", "degraded")
    ]


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        (RUNTIME, ("False", "RuntimeConfigured")),
        (RuntimeFacts(readable=True, path="c"), ("True", "RuntimeMissing")),
        (RuntimeFacts(readable=True, path="c", nvidia={"n": ("/gone", False)}), ("True", "RuntimeBinaryMissing")),
        (
            RuntimeFacts(readable=True, path="c", nvidia={"n": ("/gone", False), "m": ("/there", True)}),
            ("False", "RuntimeConfigured"),
        ),
        (NO_RUNTIME, ("False", "NotReadable")),  # not readable proves nothing
    ],
)
def test_the_runtime(runtime: RuntimeFacts, expected: tuple[str, str]) -> None:
    assert by_type(Scene(runtime=runtime))["GPURuntimeMisconfigured"] == expected


def test_messages_carry_no_live_figures() -> None:
    plan = Run().step(Scene())
    one = conditions(plan.board, RUNTIME, replace(plan.danger, by_floor=True), None)
    assert not any(character.isdigit() for found in one for character in found.message)


def test_what_is_said_of_the_memory_when_nothing_is_known_of_it() -> None:
    # No reading yet, and a reading after which one failed: only the first leaves nothing to say.
    agent = Run()
    assert by_type_of(agent.step(Scene(at=0.0, meminfo=replace(meminfo(), available=None)))) == "NotReadable"
    assert by_type_of(agent.step(Scene(at=2.0))) == "MemoryAboveFloor"
    assert by_type_of(agent.step(Scene(at=4.0, meminfo=replace(meminfo(), available=None)))) == "MemoryAboveFloor"


def test_the_memory_of_a_host_with_a_card_is_not_judged() -> None:
    assert by_type_of(Run().step(card_scene(card()))) == "MemoryNotShared"


def by_type_of(plan: Plan) -> str:
    """The reason that the first condition gives; it states no problem."""
    (pressure,) = (one for one in plan.node.conditions if one.type == "GPUMemoryPressure")
    assert pressure.status == "False"
    return pressure.reason


# --- another owner -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"labels": {"gpu": "on"}}, "HAMi"),
        ({"labels": {"gpushare": "true"}}, "gpushare"),
        ({"labels": {"SharedGPU": "true"}}, "KubeShare"),
        ({"labels": {"nos.nebuly.com/gpu-partitioning": "mps"}}, "nos"),
        ({"conditions": ({"type": "gpu-fractioning.nvidia.com/Ready", "status": "True"},)}, "KAI"),
        ({"conditions": ({"type": "gpu-sharing.nvidia.com/Ready", "status": "True"},)}, "KAI"),
    ],
)
def test_other_owners(fields: dict[str, Any], name: str) -> None:
    found = other_owner(node(**fields))
    assert found is not None
    assert found.startswith(name)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"labels": {"gpu": "off", "gpushare": "false", "nvidia.com/gpu.present": "true"}},
        {"conditions": ({"type": "gpu-fractioning.nvidia.com/Ready", "status": "False"},)},
    ],
)
def test_no_other_owner(fields: dict[str, Any]) -> None:
    assert other_owner(node(**fields)) is None
    assert other_owner(None) is None


# --- without a cluster ---------------------------------------------------------------


def test_standalone_shows_what_should_be_there_and_writes_nothing() -> None:
    plan = Run().step(Scene(cluster=False))
    assert plan.node.capacity[GPU_MEMORY] == "6656Mi"  # 8192 − 768 os − 512 k3s − 0 cma − 256 headroom
    assert plan.node.labels["edgeagent.dev/gpu.kind"] == "jetson"
    assert plan.node.requests == ()
    without = Run().step(replace(Scene(pods=(pod("a"),)), node=None))
    assert without.node.requests == ()

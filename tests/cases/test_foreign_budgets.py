"""Pods that name their GPU memory in another project's way, each in its own unit, and nodes that others hand out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.making import GIB, KEY, MIB, device, explain, gpu, meminfo, node, nvml, pod, pods, stated

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]

TOTAL = 33554432
"""32 GiB in kB; less os 1024 and k3s 512 MiB: 31232 MiB."""
ROOM = 31232
OURS = "edgeagent.dev/gpu-memory-limit"
KAI = "nvidia.com/container.main.gpu-memory.limit"


def on_orin(*items: dict[str, Any], **files: Any) -> dict[str, Any]:
    return {
        "host/proc/device-tree/compatible": b"nvidia,p3701-0004\0nvidia,tegra234\0",
        "host/proc/meminfo": meminfo(TOTAL),
        "config.yaml": stated(),
        "cluster/pods.json": pods(*items),
        **files,
    }


def reasons(document: Any) -> list[str]:
    return sorted(one["reason"] for one in document["plan"]["events"] if one["regarding"] == "pod default/llm")


IN_LIMITS = [
    ("nvidia.com/gpumem", "3000", 3000 * MIB),  # HAMi: MiB
    ("volcano.sh/gpu-memory", "1024", GIB),  # volcano device plugin: MiB
    ("volcano.sh/vgpu-memory", "2048", 2 * GIB),  # volcano vGPU plugin: MiB
    ("tencent.com/vcuda-memory", "8", 2 * GIB),  # gpu-manager: units of 256 MiB
    ("tencent.com/vcuda-memory", "1", 256 * MIB),
    ("aliyun.com/gpu-mem", "3", 3 * GIB),  # gpushare: GiB
    ("nvidia.com/gpu-10gb", "1", 10 * 10**9),  # nos: slices of 10 GB
    ("nvidia.com/gpu-5gb", "2", 10 * 10**9),
    ("kube-share/gpu-mem", "2048Mi", 2 * GIB),  # a quantity
    ("kube-share/gpu-mem", "2Gi", 2 * GIB),
]
IN_ANNOTATIONS = [
    ("gpu-memory", "2000", 2000 * MIB),  # KAI: MiB
    (KAI, "2Gi", 2 * GIB),  # KAI 0.18: a quantity
    (KAI, "1500M", 1500 * 10**6),
    ("tensor-fusion.ai/vram-limit", "4Gi", 4 * GIB),  # a quantity
]


@pytest.mark.parametrize(("key", "text", "budget"), IN_LIMITS)
def test_a_limit_in_another_projects_unit_is_a_budget(
    tmp_path: Path, capsys: Capture, key: str, text: str, budget: int
) -> None:
    (document,) = explain(capsys, tmp_path, on_orin(pod(limits={key: text})))
    assert document["pods"][0]["gpu_budget_bytes"] == budget
    # No request of ours carries it, so it leaves what is offered.
    assert document["pools"][0]["gpu_committed_bytes"] == 0
    assert gpu(document) == f"{ROOM - -(-budget // MIB)}Mi"
    assert reasons(document) == []


@pytest.mark.parametrize(("key", "text", "budget"), IN_ANNOTATIONS)
def test_an_annotation_in_another_projects_unit_is_a_budget(
    tmp_path: Path, capsys: Capture, key: str, text: str, budget: int
) -> None:
    (document,) = explain(capsys, tmp_path, on_orin(pod(annotations={key: text})))
    assert document["pods"][0]["gpu_budget_bytes"] == budget
    assert gpu(document) == f"{ROOM - -(-budget // MIB)}Mi"
    assert reasons(document) == []


@pytest.mark.parametrize(("unit", "budget"), [("Gi", 4 * GIB), ("Mi", 4 * MIB)])
def test_the_unit_of_gpushare_is_a_choice_of_its_operator(
    tmp_path: Path, capsys: Capture, unit: str, budget: int
) -> None:
    # AliyunContainerService/gpushare-scheduler-extender#16: the same number in either unit
    config = {**stated(), "policy": {"aliyun_unit": unit}}
    (document,) = explain(capsys, tmp_path, on_orin(pod(limits={"aliyun.com/gpu-mem": "4"}), **{"config.yaml": config}))
    assert document["pods"][0]["gpu_budget_bytes"] == budget


def test_containers_of_one_pod_are_summed(tmp_path: Path, capsys: Capture) -> None:
    spec = {
        "containers": [
            {"name": "a", "resources": {"limits": {"nvidia.com/gpumem": "1000"}}},
            {"name": "b", "resources": {"limits": {"nvidia.com/gpumem": "2000"}}},
            {"name": "c"},
        ]
    }
    (document,) = explain(capsys, tmp_path / "limits", on_orin(pod(spec=spec)))
    assert document["pods"][0]["gpu_budget_bytes"] == 3000 * MIB

    quantities = {"nvidia.com/container.a.gpu-memory.limit": "1Gi", "nvidia.com/container.b.gpu-memory.limit": "512Mi"}
    spec = {"containers": [{"name": name} for name in "abc"]}
    (document,) = explain(capsys, tmp_path / "notes", on_orin(pod(spec=spec, annotations=quantities)))
    assert document["pods"][0]["gpu_budget_bytes"] == 1536 * MIB


@pytest.mark.parametrize(
    ("limits", "annotations"),
    [
        ({"nvidia.com/gpu": "1"}, {}),
        ({"nvidia.com/gpu.shared": "1"}, {}),
        ({"nvidia.com/mig-1g.10gb": "1"}, {}),  # a count of instances
        ({"nvidia.com/gpumem-percentage": "50", "nvidia.com/gpu": "1"}, {}),  # a share of what is not known here
        ({"nvidia.com/gpucores": "30"}, {}),
        ({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-cores": "50"}, {}),
        ({"volcano.sh/vgpu-memory-percentage": "50"}, {}),
        ({"tencent.com/vcuda-core": "50"}, {}),
        ({"aliyun.com/gpu-count": "1"}, {}),
        ({"nvshare.com/gpu": "1"}, {}),
        ({"cnvrg.io/metagpu": "50"}, {}),
        ({"k8s.amazonaws.com/vgpu": "1"}, {}),
        ({}, {"gpu-fraction": "0.5"}),
        ({}, {"nvidia.com/container.main.gpu-compute.portion": "0.5"}),
        ({}, {"tensor-fusion.ai/tflops-request": "10"}),
    ],
)
def test_a_key_that_names_no_memory_is_no_budget(
    tmp_path: Path, capsys: Capture, limits: dict[str, str], annotations: dict[str, str]
) -> None:
    (document,) = explain(capsys, tmp_path, on_orin(pod(limits=limits, annotations=annotations)))
    assert document["pods"][0]["gpu_budget_bytes"] is None
    assert gpu(document) == f"{ROOM}Mi"
    assert reasons(document) == []


# Which of several counts


@pytest.mark.parametrize(("key", "text", "budget"), IN_LIMITS)
def test_our_resource_and_our_annotation_come_first(
    tmp_path: Path, capsys: Capture, key: str, text: str, budget: int
) -> None:
    assert budget != 5 * GIB
    (document,) = explain(capsys, tmp_path / "resource", on_orin(pod(limits={key: text, KEY: "5Gi"})))
    assert document["pods"][0]["gpu_budget_bytes"] == 5 * GIB
    assert gpu(document) == f"{ROOM}Mi"  # a request carries it
    (document,) = explain(capsys, tmp_path / "note", on_orin(pod(limits={key: text}, annotations={OURS: "5Gi"})))
    assert document["pods"][0]["gpu_budget_bytes"] == 5 * GIB
    assert gpu(document) == f"{ROOM - 5120}Mi"


@pytest.mark.parametrize(("key", "text", "budget"), IN_LIMITS)
def test_the_one_quantity_per_container_comes_before_all_others(
    tmp_path: Path, capsys: Capture, key: str, text: str, budget: int
) -> None:
    assert budget != 5 * GIB
    (document,) = explain(capsys, tmp_path, on_orin(pod(limits={key: text}, annotations={KAI: "5Gi"})))
    assert document["pods"][0]["gpu_budget_bytes"] == 5 * GIB


def test_the_default_budget_comes_last(tmp_path: Path, capsys: Capture) -> None:
    config = {**stated(), "policy": {"default_budget": "7Gi"}}
    items = [pod("hami", limits={"nvidia.com/gpumem": "3000"}), pod("none", limits={"nvidia.com/gpu": "1"})]
    (document,) = explain(capsys, tmp_path, on_orin(*items, **{"config.yaml": config}))
    assert {one["name"]: one["gpu_budget_bytes"] for one in document["pods"]} == {"hami": 3000 * MIB, "none": 7 * GIB}


# What cannot be parsed


@pytest.mark.parametrize(
    "annotations",
    [
        {"gpu-memory": "lots"},
        {"gpu-memory": "0.5"},
        {"gpu-memory": "-1"},
        {"gpu-memory": ""},
        {KAI: "2GB"},
        {KAI: "-2Gi"},
        {"tensor-fusion.ai/vram-limit": "much"},
    ],
)
def test_what_cannot_be_parsed_is_skipped_and_said(
    tmp_path: Path, capsys: Capture, annotations: dict[str, str]
) -> None:
    (document,) = explain(capsys, tmp_path / "alone", on_orin(pod(annotations=annotations)))
    assert document["pods"][0]["gpu_budget_bytes"] is None
    assert reasons(document) == ["BudgetInvalid"]
    # the next one is taken
    (document,) = explain(
        capsys, tmp_path / "next", on_orin(pod(annotations=annotations, limits={"aliyun.com/gpu-mem": "3"}))
    )
    assert document["pods"][0]["gpu_budget_bytes"] == 3 * GIB


# On cards, and beside their owners


def test_on_a_card_a_foreign_budget_leaves_the_offer_too(tmp_path: Path, capsys: Capture) -> None:
    card = nvml(device("NVIDIA L4", "GPU-bbbbbbbb-0000-4000-8000-000000000001", 23034 * MIB, 434 * MIB))
    files = {
        "host/proc/meminfo": meminfo(TOTAL),
        "nvml.json": card,
        "cluster/pods.json": pods(pod(limits={"nvidia.com/gpumem": "3000"})),
    }
    (document,) = explain(capsys, tmp_path, files)
    assert document["pods"][0]["gpu_budget_bytes"] == 3000 * MIB
    assert gpu(document) == "19600Mi"  # 23034 - 434 - 3000


def test_hami_names_the_memory_of_each_gpu_and_not_of_all(tmp_path: Path, capsys: Capture) -> None:
    # Project-HAMi/HAMi, README: with nvidia.com/gpu 2 and gpumem 3000, each of the two has 3000 MiB
    cards = [
        device("NVIDIA L4", f"GPU-bbbbbbbb-0000-4000-8000-00000000000{number}", 23034 * MIB, 434 * MIB)
        for number in (1, 2)
    ]
    files = {
        "host/proc/meminfo": meminfo(TOTAL),
        "nvml.json": nvml(*cards),
        "cluster/pods.json": pods(pod(limits={"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3000"})),
    }
    (document,) = explain(capsys, tmp_path, files)
    assert document["pods"][0]["gpu_budget_bytes"] == 6000 * MIB


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_gives_its_budget_back(tmp_path: Path, capsys: Capture, phase: str) -> None:
    finished = pod(limits={"nvidia.com/gpumem": "3000"}, annotations={OURS: "5Gi"}, status={"phase": phase})
    (document,) = explain(capsys, tmp_path, on_orin(finished))
    assert document["pods"] == []
    assert gpu(document) == f"{ROOM}Mi"


@pytest.mark.parametrize(
    "mark",
    [
        {"labels": {"gpu": "on"}},  # HAMi
        {"labels": {"gpushare": "true"}},
        {"labels": {"SharedGPU": "true"}},  # KubeShare
        {"labels": {"nos.nebuly.com/gpu-partitioning": "mps"}},
        {"conditions": [{"type": "gpu-fractioning.nvidia.com/Ready", "status": "True"}]},  # KAI
        {"conditions": [{"type": "gpu-sharing.nvidia.com/Ready", "status": "True"}]},
    ],
)
def test_beside_another_owner_only_what_was_given_is_offered(
    tmp_path: Path, capsys: Capture, mark: dict[str, Any]
) -> None:
    there = node(labels=mark.get("labels", {}))
    there["status"]["conditions"] += mark.get("conditions", [])
    held = pod("held", limits={KEY: "2Gi"})
    (document,) = explain(capsys, tmp_path / "held", on_orin(held, **{"cluster/node.json": there}))
    assert gpu(document) == "2048Mi"
    (document,) = explain(capsys, tmp_path / "empty", on_orin(**{"cluster/node.json": there}))
    assert gpu(document) == "0Mi"


@pytest.mark.parametrize(
    "mark",
    [
        {"labels": {"gpu": "off"}},
        {"labels": {"gpu": "true"}},
        {"labels": {"gpushare": "false"}},
        {"labels": {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.sharing-strategy": "time-slicing"}},
        {"conditions": [{"type": "gpu-fractioning.nvidia.com/Ready", "status": "False"}]},
        {"conditions": [{"type": "gpu-sharing.nvidia.com/Ready", "status": "Unknown"}]},
    ],
)
def test_a_mark_that_says_no_is_no_owner(tmp_path: Path, capsys: Capture, mark: dict[str, Any]) -> None:
    there = node(labels=mark.get("labels", {}))
    there["status"]["conditions"] += mark.get("conditions", [])
    (document,) = explain(capsys, tmp_path, on_orin(**{"cluster/node.json": there}))
    assert gpu(document) == f"{ROOM}Mi"

"""What a pod may use: which source counts, in which unit, and what is no budget at all."""

from __future__ import annotations

from typing import Any

import pytest

from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY, MemoryKind, PodFacts
from edgeagent.memory.budgets import budget
from edgeagent.memory.types import Budget
from tests.unit.factories import GIB, MIB, config, container, pod, resources

OURS = "edgeagent.dev/gpu-memory-limit"


def of(
    given: PodFacts, policy: str = "{}", *, key: str = GPU_MEMORY, kind: MemoryKind = "unified", primary: bool = True
) -> Budget:
    return budget(given, key, kind, config(f"policy: {policy}").policy, primary=primary)


def limited(limits: dict[str, int], **fields: Any) -> PodFacts:
    return pod(containers=(container(limits=limits, requests=limits),), **fields)


def reasons(found: Budget) -> list[str]:
    return [problem.reason for problem in found.problems]


def test_the_limit_of_the_resource_comes_first() -> None:
    given = pod(gpu=2 * GIB, annotations={OURS: "3Gi", "gpu-memory": "4096"})
    found = of(given, "{default_budget: 1Gi}")
    assert (found.gpu, found.source, found.key) == (2 * GIB, "limit", GPU_MEMORY)
    assert (found.gpu_request, found.booked) == (2 * GIB, 2 * GIB)


def test_then_our_annotation_then_others_keys_then_the_default() -> None:
    annotated = pod(annotations={OURS: "3Gi", "gpu-memory": "4096"})
    found = of(annotated, "{default_budget: 1Gi}")
    assert (found.gpu, found.source, found.key, found.booked) == (3 * GIB, "annotation", OURS, 3 * GIB)
    foreign = of(pod(annotations={"gpu-memory": "4096"}), "{default_budget: 1Gi}")
    assert (foreign.gpu, foreign.source, foreign.key, foreign.booked) == (4 * GIB, "foreign", "gpu-memory", 4 * GIB)
    default = of(pod(), "{default_budget: 1Gi}")
    # nobody asked for it, so it is a budget but nothing is booked
    assert (default.gpu, default.source, default.booked) == (GIB, "default", 0)
    assert (of(pod()).gpu, of(pod()).source) == (None, "none")


def test_zero_is_a_budget() -> None:
    assert (of(pod(gpu=0)).gpu, of(pod(gpu=0)).source) == (0, "limit")
    assert of(pod(annotations={OURS: "0"})).gpu == 0
    assert of(pod(), "{default_budget: 0}").gpu == 0


@pytest.mark.parametrize(
    ("limit", "likely"), [(2, "2Gi"), (128, "128Gi"), (2048, "2048Mi"), (6083, "6083Mi"), (MIB - 1, "1048575Ki")]
)
def test_a_limit_below_one_mib_is_a_missing_suffix(limit: int, likely: str) -> None:
    found = of(pod(gpu=limit), "{default_budget: 1Gi}")
    assert (found.gpu, found.total) == (None, None)
    assert reasons(found) == ["UnderRequested"]
    assert likely in found.problems[0].note


@pytest.mark.parametrize("limits", [(2 * GIB, 2), (400_000, 400_000, 400_000), (0, 2048)])
def test_a_sum_over_containers_does_not_hide_a_missing_suffix(limits: tuple[int, ...]) -> None:
    # 2 GiB + 2 B and 3 × 400 000 B are both above 1 MiB = 1 048 576 B.
    each = [resources(limit) for limit in limits]
    given = pod(containers=tuple(container(f"c{n}", requests=one, limits=one) for n, one in enumerate(each)))
    found = of(given)
    assert (found.gpu, reasons(found)) == (None, ["UnderRequested"])
    assert f"{GPU_MEMORY}: {limits[-1]} means" in found.problems[0].note


def test_one_mib_is_a_budget() -> None:
    assert of(pod(gpu=MIB)).gpu == MIB


def test_a_suffix_can_be_missing_in_an_annotation_too() -> None:
    found = of(pod(annotations={OURS: "2048"}))
    assert (found.gpu, reasons(found)) == (None, ["UnderRequested"])
    assert "2048Mi" in found.problems[0].note


@pytest.mark.parametrize("text", ["", "lots", "2 Gi", "-1Gi", "0.5gb"])
def test_an_unparsable_annotation_is_skipped_and_told(text: str) -> None:
    found = of(pod(annotations={OURS: text, "gpu-memory": "1024"}))
    assert (found.gpu, found.source, reasons(found)) == (GIB, "foreign", ["BudgetInvalid"])


@pytest.mark.parametrize(
    ("key", "count", "amount"),
    [
        ("nvidia.com/gpumem", 3000, 3000 * MIB),
        ("volcano.sh/gpu-memory", 512, 512 * MIB),
        ("volcano.sh/vgpu-memory", 512, 512 * MIB),
        ("tencent.com/vcuda-memory", 4, GIB),  # 4 × 256 MiB
        ("kube-share/gpu-mem", 2 * GIB, 2 * GIB),  # a quantity of bytes
        ("aliyun.com/gpu-mem", 2, 2 * GIB),
        ("nvidia.com/gpu-10gb", 2, 20 * 10**9),  # two slices of 10 GB
    ],
)
def test_resources_of_other_projects_with_their_units(key: str, count: int, amount: int) -> None:
    found = of(limited({key: count}))
    assert (found.gpu, found.source, found.key) == (amount, "foreign", key)


def test_the_unit_of_aliyun_is_its_operators() -> None:
    assert of(limited({"aliyun.com/gpu-mem": 512}), "{aliyun_unit: Mi}").gpu == 512 * MIB


@pytest.mark.parametrize(
    "key", ["nvidia.com/gpu", "nvidia.com/gpucores", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"]
)
def test_counts_and_shares_are_no_memory(key: str) -> None:
    assert of(limited({key: 1})).gpu is None


def test_annotations_of_other_projects() -> None:
    assert of(pod(annotations={"gpu-memory": "2048"})).gpu == 2 * GIB  # MiB
    assert of(pod(annotations={"tensor-fusion.ai/vram-limit": "3Gi"})).gpu == 3 * GIB
    each = {"nvidia.com/container.a.gpu-memory.limit": "1Gi", "nvidia.com/container.b.gpu-memory.limit": "512Mi"}
    assert of(pod(annotations=each)).gpu == 1536 * MIB
    first = {**each, "gpu-memory": "4096"}
    assert of(pod(annotations=first)).gpu == 1536 * MIB


def test_one_unparsable_container_annotation_spoils_their_sum() -> None:
    odd = {"nvidia.com/container.a.gpu-memory.limit": "1Gi", "nvidia.com/container.b.gpu-memory.limit": "x"}
    found = of(pod(annotations=odd))
    assert (found.gpu, reasons(found)) == (None, ["BudgetInvalid"])


def test_keys_that_name_no_pool_belong_to_the_nodes_first_one() -> None:
    given = pod(annotations={OURS: "3Gi"})
    found = of(given, "{default_budget: 1Gi}", key=IGPU_MEMORY, primary=False)
    assert (found.gpu, found.source) == (None, "none")
    own = pod(gpu=GIB, key=IGPU_MEMORY)
    assert of(own, key=IGPU_MEMORY, primary=False).gpu == GIB


# --- the total budget ----------------------------------------------------------------


def test_total_is_gpu_and_the_host_part_of_the_limits() -> None:
    # 4 GiB for the whole board, 2 of it GPU: host part 2, total 4
    found = of(pod(gpu=2 * GIB, memory=4 * GIB))
    assert (found.gpu, found.total, found.host_request) == (2 * GIB, 4 * GIB, 2 * GIB)
    assert found.booked == 4 * GIB


def test_a_small_memory_figure_counts_beside_the_gpu() -> None:
    found = of(pod(gpu=2 * GIB, memory=GIB))
    assert (found.total, found.host_request, reasons(found)) == (3 * GIB, GIB, ["UnderRequested"])


def test_no_total_without_a_gpu_budget_or_a_memory_limit() -> None:
    assert of(pod(memory=4 * GIB)).total is None
    assert of(pod(gpu=2 * GIB)).total is None
    beside = pod(containers=(container(limits={GPU_MEMORY: GIB, "memory": 2 * GIB}), container("b")))
    assert of(beside).total is None


def test_the_annotation_is_read_against_the_pods_sums() -> None:
    parts = tuple(container(name, requests={"memory": GIB}, limits={"memory": 2 * GIB}) for name in ("a", "b"))
    found = of(pod(containers=parts, annotations={OURS: "1536Mi"}))
    # requests: 2 GiB ≥ 1.5 + 0.25, host part 0.5 · limits: 4 GiB, host part 2.5, total 4
    assert (found.host_request, found.total) == (512 * MIB, 4 * GIB)
    assert found.booked == 2 * GIB


def test_host_memory_is_no_matter_on_a_discrete_pool() -> None:
    found = of(pod(gpu=2 * GIB, memory=GIB), kind="discrete")
    assert (found.gpu, found.total, found.host_request, reasons(found)) == (2 * GIB, None, 0, [])

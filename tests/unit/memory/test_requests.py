"""What a pod asks for, as the scheduler counts it, and what of its memory figure is host memory."""

from __future__ import annotations

from typing import Any

import pytest

from edgeagent.facts import GPU_MEMORY, ContainerFacts, PodFacts
from edgeagent.memory import requests
from tests.unit.factories import GIB, MIB, container, pod, resources


def of(*containers: ContainerFacts, **fields: Any) -> PodFacts:
    return pod(containers=containers, **fields)


def asks(name: str, kind: str, gpu: int | None = None, memory: int | None = None) -> ContainerFacts:
    amounts = resources(gpu, memory)
    return container(name, kind, requests=amounts, limits=amounts)  # type: ignore[arg-type]


def total(given: PodFacts, key: str = "memory") -> int:
    return requests.total(given, key, "requests")


def test_regular_containers_add_up() -> None:
    assert total(of(asks("a", "regular", memory=100), asks("b", "regular", memory=30))) == 130


def test_init_containers_run_one_after_the_other() -> None:
    given = of(asks("i", "init", memory=80), asks("j", "init", memory=50), asks("a", "regular", memory=60))
    assert total(given) == 80  # max(60, 80, 50)


def test_a_sidecar_runs_beside_what_comes_after_it() -> None:
    sidecar, init, main = (
        asks("s", "sidecar", memory=20),
        asks("i", "init", memory=100),
        asks("a", "regular", memory=60),
    )
    assert total(of(sidecar, init, main)) == 120  # max(60 + 20, 20 + 100)
    assert total(of(init, sidecar, main)) == 100  # max(60 + 20, 100): the init container was done before


def test_ephemeral_containers_count_nothing() -> None:
    assert total(of(asks("a", "regular", memory=60), asks("e", "ephemeral", memory=40))) == 60


def test_overhead_comes_on_top() -> None:
    assert total(of(asks("a", "regular", memory=60), overhead={"memory": 7})) == 67


def test_pod_level_resources_replace_the_sum_of_what_they_name() -> None:
    given = of(asks("a", "regular", gpu=5, memory=60), pod_requests={"memory": 200}, overhead={"memory": 7})
    assert total(given) == 207
    assert total(given, GPU_MEMORY) == 5


@pytest.mark.parametrize(
    ("memory", "gpu", "part"),
    [
        (4 * GIB, 2 * GIB, 2 * GIB),  # the whole-board figure: 4 − 2
        (2 * GIB + 256 * MIB, 2 * GIB, 256 * MIB),  # just large enough
        (2 * GIB + 256 * MIB - 1, 2 * GIB, 2 * GIB + 256 * MIB - 1),  # cannot have meant both
        (GIB, 2 * GIB, GIB),
        (GIB, 0, GIB),
        (64 * MIB, 0, 64 * MIB),
        (0, 2 * GIB, 0),
    ],
)
def test_host_part(memory: int, gpu: int, part: int) -> None:
    assert requests.host_part(memory, gpu) == part


def parts(given: PodFacts, pod_gpu: int | None = None) -> int:
    return requests.host_parts(given, GPU_MEMORY, pod_gpu, "requests")


def test_host_parts_are_read_container_by_container() -> None:
    # infer: 4 − 2 = 2 GiB · web has no GPU: 1 GiB whole
    assert parts(of(asks("infer", "regular", 2 * GIB, 4 * GIB), asks("web", "regular", None, GIB))) == 3 * GIB


def test_no_memory_request_no_host_part() -> None:
    assert parts(of(asks("infer", "regular", 2 * GIB))) == 0


def test_a_pods_own_gpu_figure_is_read_once_on_its_sums() -> None:
    # memory 1 + 2 = 3 GiB, gpu 2 GiB by annotation: 3 ≥ 2.25, so 1 GiB is host memory
    given = of(asks("a", "regular", None, GIB), asks("b", "regular", None, 2 * GIB))
    assert parts(given, 2 * GIB) == GIB
    # container by container 1 GiB and 2 GiB would both have been too small to contain it
    assert parts(given) == 3 * GIB


def test_pod_level_memory_is_read_once_too() -> None:
    given = of(asks("a", "regular", 2 * GIB), pod_requests={"memory": 3 * GIB}, overhead={"memory": MIB})
    assert parts(given) == GIB + MIB


def test_host_parts_of_init_containers_follow_the_schedulers_rule() -> None:
    # init: 5 − 4 = 1 GiB · main: 3 − 1 = 2 GiB: the larger
    assert parts(of(asks("i", "init", 4 * GIB, 5 * GIB), asks("a", "regular", GIB, 3 * GIB))) == 2 * GIB


def test_memory_limited() -> None:
    full, none = asks("a", "regular", None, GIB), asks("b", "regular", GIB)
    assert requests.memory_limited(of(full))
    assert not requests.memory_limited(of(full, none))
    assert not requests.memory_limited(of(full, asks("s", "sidecar", GIB)))
    assert requests.memory_limited(of(full, asks("i", "init", GIB)))  # done before the pod runs
    assert requests.memory_limited(of(none, pod_limits={"memory": GIB}))
    assert not requests.memory_limited(of())


def test_under_requested_names_the_container() -> None:
    given = of(
        asks("infer", "regular", 2 * GIB, GIB), asks("web", "regular", None, MIB), asks("b", "regular", GIB, 2 * GIB)
    )
    assert requests.under_requested(given, GPU_MEMORY, None) == ("infer",)
    assert requests.under_requested(of(asks("infer", "regular", 2 * GIB)), GPU_MEMORY, None) == ()


def test_under_requested_by_the_pods_own_figure() -> None:
    given = of(asks("a", "regular", None, 2 * GIB))
    assert requests.under_requested(given, GPU_MEMORY, 2 * GIB) == ("a",)
    assert requests.under_requested(given, GPU_MEMORY, GIB) == ()
    assert requests.under_requested(of(asks("a", "regular")), GPU_MEMORY, GIB) == ()

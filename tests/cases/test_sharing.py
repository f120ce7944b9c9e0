"""Several pods on one GPU, and pods that use one without asking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.holders import (
    SYSTEM,
    TWO_SMALL,
    by_container,
    card,
    cards,
    cluster,
    entry,
    evicted,
    held_gpu,
    listed,
    pod_task,
    series,
    show,
    shown,
    simple,
    states,
    task,
    thor,
)
from tests.cases.making import GIB, MIB, device, node, nvml

# Several pods on one card (NVIDIA/dcgm-exporter#151, #186, #201, #307, #582; NVIDIA/k8s-device-plugin#323, #732)


def test_three_pods_that_share_a_t4_hold_what_their_processes_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # T4: 15109 MiB. Ids like GPU-…::3 and a count of 50 replicas say nothing of memory.
    shared = {"limits": {"nvidia.com/gpu.shared": "1"}}
    pods = [simple(number, f"pod-{number}") for number in (1, 2, 3)]
    for pod in pods:
        pod["spec"]["containers"][0]["resources"] = shared
        pod["metadata"]["annotations"] = {"kubernetes.io/device-ids": f"GPU-bbbb::{pod['metadata']['name'][-1]}"}
    files = {
        **cards(card(entry(4242, 9000 * MIB), entry(5151, 4000 * MIB), total=15109 * MIB, used=13000 * MIB)),
        **pod_task(1, 4242), **pod_task(2, 5151), **cluster(*pods),
        "cluster/node.json": node({"nvidia.com/gpu.shared": "50"}),
    }  # fmt: skip
    document = show(capsys, tmp_path, files)
    assert held_gpu(document) == {"pod-1": 9000 * MIB, "pod-2": 4000 * MIB, "pod-3": 0}
    assert [pool["total_bytes"] for pool in document["pools"]] == [15109 * MIB]
    assert document["host"]["unattributed_gpu_bytes"] == 0
    assert document["host"]["system_gpu_bytes"] == 0


def test_the_display_and_two_pods_on_one_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 2000 + 3000 + 400 = 5400; 600 MiB more are used, and nobody is listed for them
    lists: dict[str, Any] = {"graphics": listed(entry(900, 400 * MIB))}
    files = {
        **cards(card(entry(4242, 2000 * MIB), entry(5151, 3000 * MIB), used=6000 * MIB, **lists)),
        **pod_task(1, 4242), **pod_task(2, 5151), **task(900, SYSTEM, name="Xorg"), **TWO_SMALL,
    }  # fmt: skip
    document = show(capsys, tmp_path, files)
    assert held_gpu(document) == {"pod-a": 2000 * MIB, "pod-b": 3000 * MIB}
    assert document["host"]["system_gpu_bytes"] == 400 * MIB
    assert document["host"]["unattributed_gpu_bytes"] == 600 * MIB


def test_a_board_with_both_kinds_of_memory_keeps_them_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # IGX Thor with a card (NVIDIA/daqiri#241): 4242 holds 2 GiB of the board's and 7 GiB of the card's memory.
    chip = device("NVIDIA Thor", "aaaaaaaa-0000-4000-8000-000000000001", compute=listed(entry(4242, 2 * GIB)))
    files = {
        **thor(),
        "nvml.json": nvml(chip, card(entry(4242, 7 * GIB), entry(5151, GIB), used=8 * GIB)),
        **pod_task(1, 4242), **pod_task(2, 5151), **TWO_SMALL,
    }  # fmt: skip
    document = show(capsys, tmp_path, files)
    assert document["board"]["kind"] == "mixed"
    assert held_gpu(document) == {"pod-a": None, "pod-b": None}
    figures = {
        pod["name"]: {pool["resource"].split("/")[1]: pool["gpu_bytes"] for pool in pod["pools"]}
        for pod in document["pods"]
    }
    assert figures == {
        "pod-a": {"gpu-memory": 7 * GIB, "igpu-memory": 2 * GIB},
        "pod-b": {"gpu-memory": GIB, "igpu-memory": 0},
    }
    assert by_container(document, "pod-a") == {"main": 9 * GIB}


# Used without a request (NVIDIA/dcgm-exporter#138)


def unrequested() -> list[dict[str, Any]]:
    """Two pods that reach the GPU without asking: by environment and runtime class, and by privilege."""
    by_environment = simple(1, "by-env", spec={"runtimeClassName": "nvidia"})
    by_environment["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    privileged = simple(2, "privileged", spec={"volumes": [{"name": "dev", "hostPath": {"path": "/dev"}}]})
    privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    return [by_environment, privileged]


@pytest.mark.parametrize(
    ("default_budget", "state", "budget"),
    [(None, "unbudgeted", None), ("0", "breach", 0), ("2Gi", "breach", 2 * GIB), ("4Gi", "ok", 4 * GIB)],
)
def test_a_pod_that_never_asked_has_what_it_holds(
    default_budget: str | None, state: str, budget: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        **cards(card(entry(4242, 3 * GIB), entry(5151, 3 * GIB), used=6 * GIB)),
        **pod_task(1, 4242), **pod_task(2, 5151), **cluster(*unrequested()),
        "config.yaml": {"policy": {"default_budget": default_budget}},
    }  # fmt: skip
    documents = shown(capsys, tmp_path, files, series([0, 8, 16]))
    assert held_gpu(documents[0]) == {"by-env": 3 * GIB, "privileged": 3 * GIB}
    assert set(states(documents[0]).values()) == {state}
    assert {pod["gpu_budget_bytes"] for pod in documents[0]["pods"]} == {budget}
    assert len(evicted(documents)[2]) == (1 if state == "breach" else 0)

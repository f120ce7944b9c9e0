"""An integrated and a discrete GPU on one board: two pools that are never mistaken for each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases.machines import COMPATIBLE, IGX_ORIN, Capture, board
from tests.cases.making import GIB, KEY, MIB, device, explain, frames, gpu, node, nvml, pod, pods

# Integrated and discrete on one board (NVIDIA/daqiri#241 and #246, NVIDIA/nvidia-container-toolkit#1561)

IGX_THOR = (
    b"nvidia,p3740-0002+p3834-0008\0nvidia,p3834-0008\0nvidia,tegra264\0",
    128651324,
    device("NVIDIA Thor", "aaaaaaaa-0000-4000-8000-000000000001"),
    device("NVIDIA RTX PRO 6000 Blackwell", "GPU-bbbbbbbb-0000-4000-8000-000000000002", 97887 * MIB),
)
IGX_THOR_GPU_UUID = (
    *IGX_THOR[:2],
    device("NVIDIA Thor", "GPU-aaaaaaaa-0000-4000-8000-000000000001"),
    device("NVIDIA RTX PRO 6000 Blackwell", "GPU-00000000-0000-4000-8000-000000000002", 97887 * MIB),
)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("igx", "card_offer", "igpu_offer"),
    [
        (IGX_THOR, "97887Mi", "124100Mi"),  # 128651324 kB = 125636.06 MiB, less 1536
        (IGX_THOR_GPU_UUID, "97887Mi", "124100Mi"),
        (IGX_ORIN, "48516Mi", "61303Mi"),  # 49140 - 624; 64347136 kB = 62839.0 MiB, less 1536
    ],
)
def test_two_kinds_of_gpu_are_two_pools_in_either_order(
    tmp_path: Path, capsys: Capture, igx: tuple[Any, ...], card_offer: str, igpu_offer: str, *, swapped: bool
) -> None:
    compatible, total, igpu, dgpu = igx
    order = (dgpu, igpu) if swapped else (igpu, dgpu)
    (document,) = explain(capsys, tmp_path, board(total, **{COMPATIBLE: compatible, "nvml.json": nvml(*order)}))
    assert document["board"]["kind"] == "mixed"
    assert {found["uuid"]: found["memory"] for found in document["devices"]} == {
        igpu["uuid"]: "unified",
        dgpu["uuid"]: "discrete",
    }
    assert [found["uuid"] for found in document["devices"]] == sorted([igpu["uuid"], dgpu["uuid"]])
    assert gpu(document) == card_offer
    assert gpu(document, "edgeagent.dev/igpu-memory") == igpu_offer
    assert {pool["resource"]: pool["kind"] for pool in document["pools"]} == {
        KEY: "discrete",
        "edgeagent.dev/igpu-memory": "unified",
    }
    assert document["node"]["labels"]["edgeagent.dev/gpu.kind"] == "mixed"
    assert document["node"]["labels"]["edgeagent.dev/gpu.count"] == "2"
    both = int(card_offer[:-2]) + int(igpu_offer[:-2])
    assert f"{both}Mi" not in json.dumps(document)


def test_pods_of_a_board_with_both_book_each_pool_by_its_own_key(tmp_path: Path, capsys: Capture) -> None:
    compatible, total, igpu, dgpu = IGX_THOR
    running = pods(
        pod("camera", limits={"edgeagent.dev/igpu-memory": "2Gi", "memory": "3Gi"}),
        pod("trainer", limits={KEY: "20Gi", "memory": "3Gi"}),
        pod("broker", limits={"memory": "1Gi"}),
    )
    files = board(total, **{COMPATIBLE: compatible, "nvml.json": nvml(igpu, dgpu), "cluster/pods.json": running})
    (document,) = explain(capsys, tmp_path, files)
    pools = {pool["resource"]: pool for pool in document["pools"]}
    assert pools[KEY]["gpu_committed_bytes"] == 20 * GIB
    assert pools["edgeagent.dev/igpu-memory"]["gpu_committed_bytes"] == 2 * GIB
    # The host's parts: 3 - 2 beside the integrated GPU; 3, for a card's memory is not the host's; 1.
    assert pools["edgeagent.dev/igpu-memory"]["host_committed_bytes"] == 5 * GIB
    assert gpu(document) == "97887Mi"
    assert gpu(document, "edgeagent.dev/igpu-memory") == "118980Mi"  # 124100.06 - 5120
    found = {one["name"]: one for one in document["pods"]}
    assert found["trainer"]["total_budget_bytes"] is None
    assert (found["trainer"]["gpu_budget_bytes"], found["trainer"]["gpu_bytes"]) == (None, None)
    assert {one["resource"]: one["gpu_budget_bytes"] for one in found["trainer"]["pools"]} == {
        KEY: 20 * GIB,
        "edgeagent.dev/igpu-memory": None,
    }


def test_a_card_that_is_lost_does_not_turn_its_key_into_the_other_pools(tmp_path: Path, capsys: Capture) -> None:
    compatible, total, igpu, dgpu = IGX_THOR
    both = {"nvml.json": nvml(igpu, dgpu)}
    alone = {"nvml.json": nvml(igpu)}
    files = board(total, **{COMPATIBLE: compatible, **frames(both, alone, alone, alone, alone)})
    *_, last = explain(capsys, tmp_path, files)
    # the only card is gone: its key goes, and gpu-memory never becomes the integrated GPU's
    assert gpu(last) is None
    assert gpu(last, "edgeagent.dev/igpu-memory") == "124100Mi"
    assert {found["uuid"]: found["health"] for found in last["devices"]} == {igpu["uuid"]: "ok", dgpu["uuid"]: "lost"}


def test_a_start_without_the_card_leaves_the_keys_their_meaning(tmp_path: Path, capsys: Capture) -> None:
    # the node's own keys tell that the board had both
    compatible, total, igpu, _ = IGX_THOR
    had = node({KEY: "97887Mi", "edgeagent.dev/igpu-memory": "124100Mi"})
    files = board(
        total,
        **{
            COMPATIBLE: compatible,
            "nvml.json": nvml(igpu),
            "cluster/node.json": had,
            "cluster/pods.json": pods(),
            **frames({}, {}, {}, {}),
        },
    )
    documents = explain(capsys, tmp_path, files)
    for document in documents:
        assert gpu(document) in ("97887Mi", None)
        assert gpu(document, "edgeagent.dev/igpu-memory") == "124100Mi"


@pytest.mark.parametrize(
    "answers",
    [
        {"memory": {"code": 3}, "memory_v2": {"code": 3}},
        {"memory": {"code": 13}, "memory_v2": {"code": 13}},
        {"memory": {"code": 0, "total": 0, "used": 0, "free": 0}, "memory_v2": {"code": 3}},
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_fault_of_the_card_does_not_make_it_a_second_integrated_gpu(
    tmp_path: Path, capsys: Capture, answers: dict[str, Any], *, swapped: bool
) -> None:
    compatible, total, igpu, dgpu = IGX_ORIN
    order = ({**dgpu, **answers}, igpu) if swapped else (igpu, {**dgpu, **answers})
    files = board(total, **{COMPATIBLE: compatible, "nvml.json": nvml(*order), **frames({}, {}, {})})
    for document in explain(capsys, tmp_path, files):
        found = {one["uuid"]: (one["memory"], one["health"]) for one in document["devices"]}
        assert found[igpu["uuid"]] == ("unified", "ok")
        assert found[dgpu["uuid"]][0] == "discrete"
        assert found[dgpu["uuid"]][1] != "ok"
        assert gpu(document, "edgeagent.dev/igpu-memory") == "61303Mi"
        assert gpu(document) is None


def test_a_card_as_large_as_the_hosts_memory_is_still_a_card(tmp_path: Path, capsys: Capture) -> None:
    compatible, _, igpu, dgpu = IGX_ORIN
    files = board(49140 * 1024, **{COMPATIBLE: compatible, "nvml.json": nvml(igpu, dgpu)})
    (document,) = explain(capsys, tmp_path, files)
    assert document["board"]["kind"] == "mixed"
    assert gpu(document) == "48516Mi"
    assert gpu(document, "edgeagent.dev/igpu-memory") == "47604Mi"  # 49140 - 1536


def test_an_igx_in_discrete_mode_has_the_card_alone(tmp_path: Path, capsys: Capture) -> None:
    # nvidia-holoscan/holohub#543: the integrated GPU is switched off then
    compatible, total, _, dgpu = IGX_ORIN
    (document,) = explain(capsys, tmp_path, board(total, **{COMPATIBLE: compatible, "nvml.json": nvml(dgpu)}))
    assert document["board"]["kind"] == "discrete"
    assert [found["memory"] for found in document["devices"]] == ["discrete"]
    assert document["node"]["capacity"][KEY] == "48516Mi"
    assert gpu(document, "edgeagent.dev/igpu-memory") is None

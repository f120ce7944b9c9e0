"""Whose memory a GPU uses where the board is no Tegra: GB10, superchips, cards, WSL guests, MIG instances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.machines import (
    COMPATIBLE,
    GB10_KIB,
    GB10_OFFER,
    GB10_UUID,
    THOR,
    Capture,
    board,
    card,
    card_uuid,
    gb10,
    instance,
    on_x86,
)
from tests.cases.making import GIB, MIB, about, device, explain, frames, gpu, nvml, stated

# Unified without a Tegra (kai-scheduler/KAI-Scheduler#706 and #1967, NVIDIA/gpu-operator#1794, XuehaiPan/nvitop#208)


@pytest.mark.parametrize(
    "found",
    [
        gb10(),
        {**gb10(), "name": "NVIDIA GB10\0"},
        gb10(memory={"code": 13}, memory_v2={"code": 13}),
        gb10(memory={"code": 3}, memory_v2={"code": 13}),
        gb10(memory={"code": 0, "total": 0, "used": 0, "free": 0}, memory_v2={"code": 3}),
        gb10(memory={"code": 3}, memory_v2={"code": 0, "total": 0, "reserved": 0, "used": 0, "free": 0}),
        # nvitop#208, nvtop#449: some drivers answer, with about the host's memory or with something else
        gb10(memory={"code": 0, "total": GB10_KIB * 1024, "used": 20 * GIB, "free": 100 * GIB}),
        gb10(memory={"code": 0, "total": 64 * GIB, "used": 20 * GIB, "free": 44 * GIB}),
        {**gb10(), "name": "GB10"},
        {key: value for key, value in gb10().items() if key not in ("memory", "memory_v2", "minor", "pci_bus_id")},
    ],
)
def test_a_gb10_offers_the_hosts_memory_less_the_reserves(
    tmp_path: Path, capsys: Capture, found: dict[str, Any]
) -> None:
    files = board(GB10_KIB, **{"config.yaml": stated(os="4Gi", k3s="1Gi"), "nvml.json": nvml(found)})
    (document,) = explain(capsys, tmp_path, files)
    assert (document["board"]["kind"], document["board"]["unified"]) == ("unified", True)
    assert [(one["memory"], one["health"], one["total_bytes"]) for one in document["devices"]] == [
        ("unified", "ok", None)
    ]
    assert document["pools"][0]["total_bytes"] == GB10_KIB * 1024
    assert gpu(document) == GB10_OFFER
    labels = document["node"]["labels"]
    assert labels["edgeagent.dev/gpu.kind"] == "unified"
    assert labels["edgeagent.dev/memory.unified"] == "true"
    assert labels["edgeagent.dev/gpu.memory-mib"] == "124610"
    assert not [key for key in labels if "jetson" in key]


def test_arm64_is_another_word_for_aarch64(tmp_path: Path, capsys: Capture) -> None:
    files = board(GB10_KIB, **{"config.yaml": stated(os="4Gi", k3s="1Gi"), "nvml.json": nvml(gb10())})
    (document,) = explain(capsys, tmp_path, {"snapshot.yaml": about(arch="arm64"), **files})
    assert gpu(document) == GB10_OFFER


@pytest.mark.parametrize(
    ("arch", "name"),
    [
        ("x86_64", "NVIDIA GeForce RTX 4070"),
        ("x86_64", "NVIDIA GB10"),  # there is no such machine: the name alone proves nothing
        ("aarch64", "NVIDIA A2"),
        ("aarch64", "NVIDIA GB200"),
        ("aarch64", "NVIDIA GB100"),  # not a GB10
        ("aarch64", "NVIDIA GH200 480GB"),
    ],
)
@pytest.mark.parametrize(
    "answers",
    [
        {"memory": {"code": 3}, "memory_v2": {"code": 3}},
        {"memory": {"code": 0, "total": 0, "used": 0, "free": 0}, "memory_v2": {"code": 3}},
    ],
)
def test_a_card_that_does_not_know_its_memory_is_a_fault_and_not_the_hosts_memory(
    tmp_path: Path, capsys: Capture, arch: str, name: str, answers: dict[str, Any]
) -> None:
    files = board(65671988, **{"nvml.json": nvml(device(name, card_uuid(1), **answers)), **frames({}, {}, {})})
    for document in explain(capsys, tmp_path, {"snapshot.yaml": about(arch=arch), **files}):
        assert [found["memory"] for found in document["devices"]] == ["discrete"]
        assert document["devices"][0]["health"] != "ok"
        assert gpu(document) is None
        assert document["board"]["unified"] is not True


@pytest.mark.parametrize(
    ("name", "total_mib"), [("NVIDIA GH200 480GB", 97871), ("NVIDIA GB200", 189471), ("NVIDIA GB100", 189471)]
)
def test_a_superchips_gpu_memory_stays_the_cards_though_the_host_lists_it(
    tmp_path: Path, capsys: Capture, name: str, total_mib: int
) -> None:
    # go-nvml, nvml.h: in coherent NUMA mode the card's memory is a node without CPUs, inside MemTotal.
    numa = {
        "host/sys/devices/system/node/node0/cpulist": "0-71\n",
        "host/sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       502000000 kB\n",
        "host/sys/devices/system/node/node1/cpulist": "\n",
        "host/sys/devices/system/node/node1/meminfo": f"Node 1 MemTotal:       {total_mib * 1024} kB\n",
    }
    found = device(name, card_uuid(1), total_mib * MIB, 700 * MIB)
    (document,) = explain(capsys, tmp_path, board(502000000 + total_mib * 1024, **numa, **{"nvml.json": nvml(found)}))
    assert document["board"]["kind"] == "discrete"
    assert [pool["kind"] for pool in document["pools"]] == ["discrete"]
    assert gpu(document) == f"{total_mib - 700}Mi"


@pytest.mark.parametrize(
    "files",
    [
        {COMPATIBLE: b"raspberrypi,5-model-b\0brcm,bcm2712\0"},  # a card on the PCIe connector of a Pi 5
        {"host/sys/class/dmi/id/product_name": "Ampere Altra\n"},
    ],
)
def test_a_card_in_another_arm_machine_is_discrete(tmp_path: Path, capsys: Capture, files: dict[str, Any]) -> None:
    (document,) = explain(capsys, tmp_path, board(**files, **{"nvml.json": nvml(card(1, 16380, 380))}))
    assert document["board"]["kind"] == "discrete"
    assert gpu(document) == "16000Mi"


@pytest.mark.parametrize(("forced", "memory"), [("yes", "unified"), ("no", "discrete")])
def test_the_verdict_on_memory_can_be_overruled(tmp_path: Path, capsys: Capture, forced: str, memory: str) -> None:
    files = board(GB10_KIB, **{"nvml.json": nvml(device("NVIDIA N1X", GB10_UUID, 100 * GIB))})
    files["config.yaml"] = {**stated(os="4Gi", k3s="1Gi"), "unified": {"detect": forced}}
    (document,) = explain(capsys, tmp_path, files)
    assert [found["memory"] for found in document["devices"]] == [memory]
    assert gpu(document) == (GB10_OFFER if forced == "yes" else "102400Mi")


# WSL2 (gpuopenanalytics/pynvml#53: a name with byte 0xf8)


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 3080", "\udcf8\udc9a", "", {"code": 3}])
@pytest.mark.parametrize(
    "signs",
    [
        {"host/dev/dxg": "", "host/proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2\n"},
        {"host/dev/dxg": "", "host/proc/sys/kernel/osrelease": "6.6.87-custom\n"},
        {"host/proc/sys/kernel/osrelease": "6.6.87.2-microsoft-standard-WSL2\n"},
    ],
)
def test_a_card_in_a_wsl_guest(tmp_path: Path, capsys: Capture, signs: dict[str, Any], name: Any) -> None:
    found = {**card(1, 10240, 256), "name": name}
    (document,) = explain(capsys, tmp_path, board(**on_x86(), **signs, **{"nvml.json": nvml(found)}))
    assert document["board"]["kind"] == "wsl"
    assert "wsl" in document["board"]["signals"]
    assert document["devices"][0]["name"] not in ("", None)
    assert gpu(document) == "9984Mi"
    assert document["node"]["labels"]["edgeagent.dev/gpu.kind"] == "wsl"


def test_a_wsl_guest_without_nvidia_offers_nothing(tmp_path: Path, capsys: Capture) -> None:
    # every GPU of a Windows host gives its guest a /dev/dxg, an AMD one too
    (document,) = explain(capsys, tmp_path, board(**on_x86(), **{"host/dev/dxg": ""}))
    assert document["node"]["capacity"] == {}
    assert document["board"]["unified"] is not True


# MIG


def test_mig_instances_count_and_their_card_does_not(tmp_path: Path, capsys: Capture) -> None:
    split = card(1, 40960, 600, mig={"mode": 1, "instances": [instance(1, 19968, 10), instance(2, 9856, 5)]})
    (document,) = explain(capsys, tmp_path, board(**on_x86(), **{"nvml.json": nvml(split)}))
    # 19968 - 10 + 9856 - 5
    assert gpu(document) == "29809Mi"
    assert document["pools"][0]["total_bytes"] == (19968 + 9856) * MIB


def test_a_card_in_mig_mode_without_instances_offers_nothing(tmp_path: Path, capsys: Capture) -> None:
    split = card(1, 40960, 600, mig={"mode": 1, "instances": []})
    (document,) = explain(capsys, tmp_path, board(**on_x86(), **{"nvml.json": nvml(split)}))
    assert gpu(document) in (None, "0", "0Mi")
    (beside,) = explain(capsys, tmp_path, board(**on_x86(), **{"nvml.json": nvml(split, card(2, 24576, 512))}))
    assert gpu(beside) == "24064Mi"


@pytest.mark.parametrize("mig", [{"mode": 0, "instances": []}, {"code": 3}, None])
def test_a_card_without_mig_counts_itself(tmp_path: Path, capsys: Capture, mig: dict[str, Any] | None) -> None:
    found = card(1, 24576, 512, **({"mig": mig} if mig else {}))
    (document,) = explain(capsys, tmp_path, board(**on_x86(), **{"nvml.json": nvml(found)}))
    assert gpu(document) == "24064Mi"


@pytest.mark.parametrize("instances", [[], [instance(1, None)], [instance(1, None), instance(2, None)]])
def test_mig_on_a_thor_has_no_memory_of_its_own(tmp_path: Path, capsys: Capture, instances: list[Any]) -> None:
    thor = device("NVIDIA Thor", "GPU-aaaaaaaa-0000-4000-8000-000000000001", mig={"mode": 1, "instances": instances})
    (document,) = explain(capsys, tmp_path, board(128651324, **{COMPATIBLE: THOR, "nvml.json": nvml(thor)}))
    assert document["board"]["kind"] == "jetson"
    assert [pool["kind"] for pool in document["pools"]] == ["unified"]
    assert gpu(document) == "124100Mi"
    assert {found["health"] for found in document["devices"]} == {"ok"}

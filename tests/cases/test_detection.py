"""Which GPUs a machine has, what memory they use, and how one that fails is told from one that is not there."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.making import (
    GIB,
    KEY,
    MIB,
    about,
    conditions,
    device,
    explain,
    frames,
    gpu,
    meminfo,
    node,
    nvml,
    pod,
    pods,
    stated,
)

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]

COMPATIBLE = "host/proc/device-tree/compatible"
MODEL = "host/proc/device-tree/model"
FAMILY = "host/sys/devices/soc0/family"
RELEASE = "host/etc/nv_tegra_release"
ORIN_NANO = b"nvidia,p3768-0000+p3767-0005\0nvidia,p3767-0005\0nvidia,tegra234\0"
THOR = b"nvidia,p4071-0000+p3834-0008\0nvidia,p3834-0008\0nvidia,tegra264\0"
R36 = "# R36 (release), REVISION: 4.7, GCID: 41062509, BOARD: generic, EABI: aarch64, DATE: Thu Sep 18 2025\n"
ORIN_UUID = "aaaaaaaa-0000-4000-8000-000000000001"  # an Orin's iGPU has no "GPU-" in front
SMALL = 7802368
OFFER = "6083Mi"
"""7802368 kB = 7619.5 MiB, less os 1024 and k3s 512 = 6083.5, down to whole MiB."""
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
OWN = "edgeagent.dev/"


def board(total_kib: int = SMALL, /, **files: Any) -> dict[str, Any]:
    """A machine with the reserves os 1 GiB and k3s 512 MiB."""
    return {"host/proc/meminfo": meminfo(total_kib), "config.yaml": stated(), **files}


def on_x86() -> dict[str, Any]:
    return {"snapshot.yaml": about(arch="x86_64")}


def pci(address: str, vendor: str, kind: str) -> dict[str, Any]:
    """One function on the PCI bus; ``kind`` is its class."""
    where = f"host/sys/bus/pci/devices/{address}"
    return {f"{where}/vendor": f"{vendor}\n", f"{where}/class": f"{kind}\n"}


NVIDIA_CARD = pci("0000:01:00.0", "0x10de", "0x030000")
INTEL_GRAPHICS = pci("0000:00:02.0", "0x8086", "0x030000")


def card(number: int, total_mib: int = 24576, reserved_mib: int = 512, **fields: Any) -> dict[str, Any]:
    return device("NVIDIA RTX A5000", card_uuid(number), total_mib * MIB, reserved_mib * MIB, **fields)


def card_uuid(number: int) -> str:
    return f"GPU-bbbbbbbb-0000-4000-8000-{number:012}"


# A Tegra: each sign alone is enough (NVIDIA/k8s-device-plugin#678 and #1963, JuliaGPU/CUDA.jl#2251)


@pytest.mark.parametrize(
    ("files", "signals"),
    [
        ({COMPATIBLE: ORIN_NANO}, {"device-tree"}),
        ({FAMILY: "Tegra\n"}, {"soc0"}),
        ({FAMILY: "tegra\n"}, {"soc0"}),  # go-nvlib compares in lower case
        ({RELEASE: R36}, {"l4t-release"}),
        ({"nvml.json": nvml(device("Orin (nvgpu)", ORIN_UUID))}, {"nvml"}),
        ({"nvml.json": nvml(device("Xavier (nvgpu)", ORIN_UUID))}, {"nvml"}),
        ({"nvml.json": nvml(device("NVIDIA Thor", "GPU-aaaaaaaa-0000-4000-8000-000000000001"))}, {"nvml"}),
        ({COMPATIBLE: THOR}, {"device-tree"}),
        # without the last NUL, and with the SoC in the middle
        ({COMPATIBLE: b"acme,box\0nvidia,tegra234"}, {"device-tree"}),
        ({COMPATIBLE: b"nvidia,p3737-0000+p3701-0005\0nvidia,tegra234\0nvidia,tegra23x\0"}, {"device-tree"}),
        ({"host/dev/nvmap": ""}, {"nvmap"}),  # only a Tegra kernel makes this device
    ],
)
def test_one_sign_of_a_tegra_is_enough(
    tmp_path: Path, capsys: Capture, files: dict[str, Any], signals: set[str]
) -> None:
    (document,) = explain(capsys, tmp_path, board(**files))
    assert (document["board"]["kind"], document["board"]["unified"]) == ("jetson", True)
    assert set(document["board"]["signals"]) == signals
    assert [(found["memory"], found["health"]) for found in document["devices"]] == [("unified", "ok")]
    assert gpu(document) == OFFER
    assert conditions(document)["GPUUnavailable"] == "False"
    assert document["node"]["labels"]["edgeagent.dev/gpu.kind"] == "jetson"
    assert document["node"]["labels"]["edgeagent.dev/memory.unified"] == "true"


def test_all_signs_of_a_tegra_agree_and_a_memory_answer_does_not_make_it_a_card(
    tmp_path: Path, capsys: Capture
) -> None:
    files = board(
        **{
            COMPATIBLE: ORIN_NANO,
            FAMILY: "Tegra\n",
            RELEASE: R36,
            "nvml.json": nvml(device("Orin (nvgpu)", ORIN_UUID, SMALL * 1024)),
        }
    )
    (document,) = explain(capsys, tmp_path, files)
    assert document["board"]["kind"] == "jetson"
    assert {"device-tree", "soc0", "l4t-release", "nvml"} <= set(document["board"]["signals"])
    assert document["board"]["warnings"] == []
    assert gpu(document) == OFFER


def test_signs_that_contradict_each_other_are_a_warning(tmp_path: Path, capsys: Capture) -> None:
    (document,) = explain(capsys, tmp_path, board(**{COMPATIBLE: ORIN_NANO, FAMILY: "Raspberry Pi\n"}))
    assert document["board"]["kind"] == "jetson"
    assert document["board"]["warnings"] != []


@pytest.mark.parametrize(
    "files",
    [
        {FAMILY: "Raspberry Pi\n"},
        {COMPATIBLE: b"raspberrypi,4-model-b\0brcm,bcm2711\0"},
        {COMPATIBLE: b"raspberrypi,4-compute-module\0brcm,bcm2711\0"},  # NVIDIA/k8s-device-plugin#377
        {COMPATIBLE: b"", FAMILY: "", RELEASE: ""},
        {COMPATIBLE: b"\0\0"},
        {COMPATIBLE: b"rockchip,rk3588-evb1-v10\0rockchip,rk3588\0", MODEL: b"NVIDIA Jetson look-alike\0"},
        {COMPATIBLE: b"fsl,imx8mp-evk\0fsl,imx8mp\0", FAMILY: "i.MX8MP\n"},
        {COMPATIBLE: b"qcom,qcs8550\0", FAMILY: "Snapdragon\n"},
        {"host/sys/class/dmi/id/product_name": "Ampere Altra\n"},  # an ARM server without a device tree
        on_x86(),
        {**on_x86(), **INTEL_GRAPHICS},
        {**on_x86(), **pci("0000:03:00.0", "0x1002", "0x030000")},  # AMD
        # The vendor number alone is no GPU: nForce chipsets are NVIDIA's too, here a USB controller and a bridge.
        {**on_x86(), **pci("0000:00:02.0", "0x10de", "0x0c0310"), **pci("0000:00:09.0", "0x10de", "0x060401")},
        {**on_x86(), **INTEL_GRAPHICS, "nvml.json": {"library": "absent"}},
        {**on_x86(), **INTEL_GRAPHICS, "nvml.json": nvml()},
        # The library is installed with an image, and there is neither card nor driver.
        {**on_x86(), **INTEL_GRAPHICS, "nvml.json": {"library": "present", "init": 9}},
    ],
)
def test_a_machine_without_an_nvidia_gpu_is_left_alone(tmp_path: Path, capsys: Capture, files: dict[str, Any]) -> None:
    (document,) = explain(capsys, tmp_path, board(**files))
    assert document["board"]["kind"] == "none"
    assert document["board"]["unified"] is not True
    assert document["devices"] == []
    assert document["pools"] == []
    assert document["node"]["capacity"] == {}
    assert document["node"]["labels"] == {"edgeagent.dev/gpu.kind": "none"}
    assert document["node"]["conditions"] == []


def test_a_former_life_of_the_node_is_cleaned_up_exactly(tmp_path: Path, capsys: Capture) -> None:
    owned = {"capacity": [KEY], "conditions": ["GPUUnavailable"], "labels": ["ai-capable", "edgeagent.dev/gpu.kind"]}
    there = node(
        {KEY: "6083Mi", "nvidia.com/gpu": "1"},
        labels={
            "ai-capable": "true",
            "edgeagent.dev/gpu.kind": "jetson",
            "nvidia.com/gpu.present": "true",
            "edge.example.com/x": "y",
        },
        annotations={"edgeagent.dev/owned-keys": json.dumps(owned, separators=(",", ":"))},
    )
    there["status"]["conditions"].append({"type": "GPUUnavailable", "status": "False", "reason": "DevicesHealthy"})
    files = board(
        **{
            COMPATIBLE: b"raspberrypi,4-compute-module\0brcm,bcm2711\0",
            "cluster/node.json": there,
            "cluster/pods.json": pods(),
            **frames({}, {}, {}),
        }
    )
    *_, last = explain(capsys, tmp_path, files)
    merge, *others = last["node"]["requests"]
    assert merge["path"] == "/api/v1/nodes/edge-07/status"
    assert merge["content_type"] == "application/merge-patch+json"
    status = merge["body"]["status"]
    assert (status["capacity"], status["allocatable"]) == ({KEY: None}, {KEY: None})
    labels = merge["body"]["metadata"]["labels"]
    assert labels == {"ai-capable": None, "edgeagent.dev/gpu.kind": "none"}
    assert [condition["type"] for request in others for condition in request["body"]["status"]["conditions"]] == [
        "GPUUnavailable"
    ]


# Jetson generations and names (NVIDIA/go-nvlib, rbonghi/jetson_stats#181, #277, #301, #357, #703, #711)


@pytest.mark.parametrize(
    ("compatible", "release", "expected"),
    [
        (b"nvidia,p3450-0000\0nvidia,p3448-0000\0nvidia,tegra210\0", (32, "7.1"),
         ("tegra210", "p3448-0000", "32.7.1", "4.6.1", "5.3")),
        (b"nvidia,lanai-3636\0nvidia,tegra186\0", (32, "6.1"), ("tegra186", None, "32.6.1", "4.6", "6.2")),
        (b"nvidia,p3449-0000+p3668-0001\0nvidia,p3509-0000+p3668-0001\0nvidia,tegra194\0", (35, "4.1"),
         ("tegra194", "p3668-0001", "35.4.1", "5.1.2", "7.2")),
        (b"nvidia,p2822-0000+p2888-0004\0nvidia,tegra194\0", (35, "3.1"),
         ("tegra194", "p2888-0004", "35.3.1", "5.1.1", "7.2")),
        (ORIN_NANO, (36, "4.4"), ("tegra234", "p3767-0005", "36.4.4", "6.2.1", "8.7")),
        (b"nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0nvidia,tegra234\0nvidia,tegra23x\0", (36, "3.0"),
         ("tegra234", "p3701-0005", "36.3.0", "6.0", "8.7")),
        (THOR, (38, "2.0"), ("tegra264", "p3834-0008", "38.2.0", "7.0", "11.0")),
        (b"nvidia,p3663-a01-f0100-b\0nvidia,tegra234\0", None, ("tegra234", None, None, None, "8.7")),  # DRIVE Orin
        (b"acme,edgebox7\0nvidia,p3767-0000\0nvidia,tegra234\0", None,
         ("tegra234", "p3767-0000", None, None, "8.7")),
        # a SoC of the future
        (b"nvidia,p9999-0000\0nvidia,tegra301\0", (42, "1.0"), ("tegra301", "p9999-0000", "42.1.0", None, None)),
    ],
)  # fmt: skip
def test_a_jetson_without_nvml_is_known_by_its_device_tree(
    tmp_path: Path,
    capsys: Capture,
    compatible: bytes,
    release: tuple[int, str] | None,
    expected: tuple[str | None, ...],
) -> None:
    soc, module, l4t, jetpack, arch = expected
    files = board(**{COMPATIBLE: compatible})
    if release:
        files[RELEASE] = (
            f"# R{release[0]} (release), REVISION: {release[1]}, GCID: 1, BOARD: x, EABI: aarch64, DATE: x\n"
        )
    (document,) = explain(capsys, tmp_path, files)
    found = document["board"]
    assert found["kind"] == "jetson"
    assert (found["soc"], found["module"], found["l4t"], found["jetpack"]) == (soc, module, l4t, jetpack)
    assert gpu(document) == OFFER
    labels = document["node"]["labels"]
    wanted = {"jetson.soc": soc, "jetson.module": module, "jetson.l4t": l4t, "jetson.jetpack": jetpack}
    for key, value in {**wanted, "cuda.arch": arch}.items():
        assert labels.get(OWN + key) == value, key


@pytest.mark.parametrize(
    ("model", "label"),
    [
        (b"ACME Edge Box 7\0", "ACME-Edge-Box-7"),
        (b"jakku\0", "jakku"),
        (b"lanai-3636\0", "lanai-3636"),
        (b"NVIDIA Orin Nano Developer Kit\0", "NVIDIA-Orin-Nano-Developer-Kit"),
        (b"NVIDIA IGX Orin Development Kit\0", "NVIDIA-IGX-Orin-Development-Kit"),
    ],
)
def test_the_name_on_the_carrier_is_a_label_and_nothing_more(
    tmp_path: Path, capsys: Capture, model: bytes, label: str
) -> None:
    files = board(**{MODEL: model, COMPATIBLE: b"acme,edgebox7\0nvidia,p3767-0000\0nvidia,tegra234\0"})
    (document,) = explain(capsys, tmp_path, files)
    assert (document["board"]["kind"], document["board"]["soc"]) == ("jetson", "tegra234")
    assert document["board"]["module"] == "p3767-0000"
    assert document["board"]["product"] == model.rstrip(b"\0").decode()
    assert document["node"]["labels"]["edgeagent.dev/gpu.product"] == label


def test_an_unknown_gpu_of_an_unknown_tegra_shares_the_hosts_memory(tmp_path: Path, capsys: Capture) -> None:
    files = board(
        **{
            COMPATIBLE: b"nvidia,p9999-0000\0nvidia,tegra301\0",
            "nvml.json": nvml(device("NVIDIA Whatever", "GPU-aaaaaaaa-0000-4000-8000-000000000009")),
        }
    )
    (document,) = explain(capsys, tmp_path, files)
    assert document["board"]["kind"] == "jetson"
    assert [(found["memory"], found["health"]) for found in document["devices"]] == [("unified", "ok")]
    assert gpu(document) == OFFER


# No NVML (NVIDIA/k8s-device-plugin#132, #297, #334; ultralytics/ultralytics#20680)


@pytest.mark.parametrize("library", [None, {"library": "absent"}])
def test_jetpack_5_has_no_nvml_and_that_is_no_fault(
    tmp_path: Path, capsys: Capture, library: dict[str, Any] | None
) -> None:
    files = board(**{COMPATIBLE: b"nvidia,p2972-0000\0nvidia,tegra194\0", FAMILY: "Tegra\n"})
    files[RELEASE] = "# R35 (release), REVISION: 4.1, GCID: 1, BOARD: t186ref, EABI: aarch64, DATE: x\n"
    if library:
        files["nvml.json"] = library
    (document,) = explain(capsys, tmp_path, files)
    assert document["board"]["kind"] == "jetson"
    assert document["board"]["warnings"] == []
    assert [found["health"] for found in document["devices"]] == ["ok"]
    assert conditions(document)["GPUUnavailable"] == "False"
    assert not [found for found in document["findings"] if found["severity"] == "error"]


@pytest.mark.parametrize("display", ["0x030000", "0x030200"])  # VGA, and the 3D controller of a server card
@pytest.mark.parametrize("library", [None, {"library": "absent"}, {"library": "present", "init": 9}])
def test_a_card_on_the_bus_without_nvml_is_a_fault(
    tmp_path: Path, capsys: Capture, display: str, library: dict[str, Any] | None
) -> None:
    files = board(**on_x86(), **pci("0000:01:00.0", "0x10de", display), **frames({}, {}, {}))
    if library:
        files["nvml.json"] = library
    document = explain(capsys, tmp_path, files)[-1]
    assert document["board"]["kind"] != "none"
    assert "ok" not in [found["health"] for found in document["devices"]]
    assert gpu(document) is None
    assert conditions(document)["GPUUnavailable"] == "True"


@pytest.mark.parametrize(
    "answer", [{"init": 9}, {"init": 12}, {"init": 999}, {"init": 0, "count": {"code": 0, "value": 0}}]
)
@pytest.mark.parametrize("compatible", [ORIN_NANO, THOR])
def test_a_tegra_stays_one_when_nvml_fails(
    tmp_path: Path, capsys: Capture, answer: dict[str, Any], compatible: bytes
) -> None:
    files = board(**{COMPATIBLE: compatible, FAMILY: "Tegra\n", "nvml.json": {"library": "present", **answer}})
    (document,) = explain(capsys, tmp_path, files)
    assert document["board"]["kind"] == "jetson"
    assert [found["memory"] for found in document["devices"]] == ["unified"]
    assert gpu(document) == OFFER


@pytest.mark.parametrize("library", [None, {"library": "absent"}, nvml(device("NVIDIA Thor", "GPU-a"))])
def test_what_a_tegra_has_on_its_bus_is_no_second_gpu(
    tmp_path: Path, capsys: Capture, library: dict[str, Any] | None
) -> None:
    # Thor's own GPU is 10de:2b00 at 0000:01:00.0 (open-gpu-kernel-modules, nv-pci.c); the root ports of each Tegra
    # are NVIDIA's too.
    files = board(
        128651324,
        **{COMPATIBLE: THOR},
        **pci("0000:00:00.0", "0x10de", "0x060400"),
        **pci("0000:01:00.0", "0x10de", "0x030000"),
    )
    files["host/sys/bus/pci/devices/0000:01:00.0/device"] = "0x2b00\n"
    if library:
        files["nvml.json"] = library
    (document,) = explain(capsys, tmp_path, files)
    assert document["board"]["kind"] == "jetson"
    assert [(found["memory"], found["health"]) for found in document["devices"]] == [("unified", "ok")]
    assert document["node"]["labels"]["edgeagent.dev/gpu.count"] == "1"
    assert gpu(document) == "124100Mi"


def test_the_device_tree_is_read_through_its_link(tmp_path: Path, capsys: Capture) -> None:
    # /proc/device-tree is a link to /sys/firmware/devicetree/base on every kernel
    link = tmp_path / "host/proc/device-tree"
    link.parent.mkdir(parents=True)
    link.symlink_to("/sys/firmware/devicetree/base")
    files = board(**{"host/sys/firmware/devicetree/base/compatible": ORIN_NANO})
    (document,) = explain(capsys, tmp_path, files)
    assert (document["board"]["kind"], document["board"]["soc"]) == ("jetson", "tegra234")


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
IGX_ORIN = (
    b"nvidia,p3740-0002+p3701-0008\0nvidia,p3701-0008\0nvidia,tegra234\0",
    64347136,
    device("Orin (nvgpu)", ORIN_UUID),
    device("NVIDIA RTX 6000 Ada Generation", "GPU-bbbbbbbb-0000-4000-8000-000000000003", 49140 * MIB, 624 * MIB),
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


# Unified without a Tegra (kai-scheduler/KAI-Scheduler#706 and #1967, NVIDIA/gpu-operator#1794, XuehaiPan/nvitop#208)

GB10_KIB = 127600748
GB10_OFFER = "119490Mi"
"""127600748 kB = 124610.1 MiB, less os 4096 and k3s 1024 = 119490.1."""
GB10_UUID = "GPU-aaaaaaaa-0000-4000-8000-000000000010"


def gb10(**fields: Any) -> dict[str, Any]:
    return device("NVIDIA GB10", GB10_UUID, **{"pci_bus_id": "0000000F:01:00.0", **fields})


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


def instance(number: int, total_mib: int | None, reserved_mib: int = 0) -> dict[str, Any]:
    found = device("", f"MIG-cccccccc-0000-4000-8000-{number:012}", total_mib and total_mib * MIB, reserved_mib * MIB)
    return {key: found[key] for key in ("uuid", "memory", "memory_v2", "compute", "graphics")}


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


# A GPU that falls off the bus (NVIDIA/k8s-device-plugin#231 and #2038, leptonai/gpud#604)

SIZES = {1: 24576, 2: 16384, 3: 49152}


def three(**failing: dict[str, Any]) -> dict[str, Any]:
    """``nvml.json`` of three cards, 256 MiB of each kept by the driver; ``second={…}`` replaces fields of one."""
    names = ("first", "second", "third")
    found = [card(number, SIZES[number], 256, minor=number - 1) for number in SIZES]
    return nvml(*({**one, **failing[name]} if name in failing else one for one, name in zip(found, names, strict=True)))


def without_second() -> dict[str, Any]:
    """The driver has renumbered: two cards, the third at index 1."""
    return nvml(card(1, SIZES[1], 256, minor=0), card(3, SIZES[3], 256, minor=2))


def broken(how: str, code: int) -> dict[str, Any]:
    if how == "handle":
        return {"handle": code}
    fields = ("memory", "memory_v2") if how == "memory" else ("name", "uuid", "memory", "memory_v2", "compute")
    return {field: {"code": code} for field in fields}


ALL = "89344Mi"  # 24576 + 16384 + 49152 - 3 x 256


@pytest.mark.parametrize(
    ("name", "uuid", "rest"),
    [
        ("first", card_uuid(1), "65024Mi"),  # 16384 + 49152 - 512
        ("second", card_uuid(2), "73216Mi"),  # 24576 + 49152 - 512
        ("third", card_uuid(3), "40448Mi"),  # 24576 + 16384 - 512
    ],
)
@pytest.mark.parametrize("how", ["handle", "memory", "all"])
@pytest.mark.parametrize(("code", "health"), [(15, "lost"), (16, "reset-required"), (999, None)])
def test_a_lost_card_leaves_the_sum_after_three_readings(
    tmp_path: Path, capsys: Capture, name: str, uuid: str, rest: str, how: str, code: int, health: str | None
) -> None:
    good, bad = {"nvml.json": three()}, {"nvml.json": three(**{name: broken(how, code)})}
    files = board(**on_x86(), **frames(good, good, bad, bad, bad, bad))
    documents = explain(capsys, tmp_path, files)
    assert [gpu(document) for document in documents] == [ALL, ALL, ALL, ALL, rest, rest]
    last = documents[-1]
    found = {one["uuid"]: one["health"] for one in last["devices"]}
    assert found.keys() == {card_uuid(1), card_uuid(2), card_uuid(3)}
    assert found.pop(uuid) == health if health else found.pop(uuid) != "ok"
    assert set(found.values()) == {"ok"}
    (condition,) = [one for one in last["node"]["conditions"] if one["type"] == "GPUUnavailable"]
    assert condition["status"] == "True"
    assert uuid in condition["message"]


def test_a_card_that_drops_out_of_the_count_is_the_one_whose_uuid_is_missing(tmp_path: Path, capsys: Capture) -> None:
    good, bad = {"nvml.json": three()}, {"nvml.json": without_second()}
    documents = explain(capsys, tmp_path, board(**on_x86(), **frames(good, bad, bad, bad)))
    assert [gpu(document) for document in documents] == [ALL, ALL, ALL, "73216Mi"]
    last = documents[-1]
    assert {one["uuid"]: one["health"] for one in last["devices"]} == {
        card_uuid(1): "ok",
        card_uuid(2): "lost",
        card_uuid(3): "ok",
    }
    assert conditions(last)["GPUUnavailable"] == "True"


@pytest.mark.parametrize("bad", [three(second={"handle": 15}), three(first=broken("memory", 999)), without_second()])
def test_one_or_two_bad_readings_do_not_flap_the_node(tmp_path: Path, capsys: Capture, bad: dict[str, Any]) -> None:
    good = {"nvml.json": three()}
    bad = {"nvml.json": bad}
    documents = explain(capsys, tmp_path, board(**on_x86(), **frames(good, bad, good, bad, bad, good)))
    assert [gpu(document) for document in documents] == [ALL] * 6


@pytest.mark.parametrize("code", [3, 4, 10, 13, 15, 16, 999])
@pytest.mark.parametrize("field", ["name", "memory", "uuid"])
@pytest.mark.parametrize("which", ["GB10", "Thor", "Orin", "IGX", "card"])
def test_one_field_that_fails_once_changes_nothing(
    tmp_path: Path, capsys: Capture, which: str, field: str, code: int
) -> None:
    fields = {"memory": {"code": code}, "memory_v2": {"code": code}} if field == "memory" else {field: {"code": code}}
    found, files = {
        "GB10": ([gb10()], {}),
        "Thor": ([device("NVIDIA Thor", "GPU-aaaaaaaa-0000-4000-8000-000000000001")], {COMPATIBLE: THOR}),
        "Orin": ([device("Orin (nvgpu)", ORIN_UUID)], {COMPATIBLE: ORIN_NANO}),
        "IGX": ([IGX_ORIN[3], IGX_ORIN[2]], {COMPATIBLE: IGX_ORIN[0]}),
        "card": ([card(1)], {}),
    }[which]
    good = {"nvml.json": nvml(*found)}
    bad = {"nvml.json": nvml({**found[0], **fields}, *found[1:])}
    documents = explain(capsys, tmp_path, board(64347136, **files, **frames(good, good, bad, good)))
    kinds = {document["board"]["kind"] for document in documents}
    assert kinds == {documents[0]["board"]["kind"]}
    assert [document["node"]["capacity"] for document in documents] == [documents[0]["node"]["capacity"]] * 4
    assert gpu(documents[0]) is not None
    for document in documents:
        assert [(one["uuid"], one["memory"]) for one in document["devices"]] == [
            (one["uuid"], one["memory"]) for one in documents[0]["devices"]
        ]


def test_a_card_that_comes_back_counts_again(tmp_path: Path, capsys: Capture) -> None:
    good, bad = {"nvml.json": three()}, {"nvml.json": three(second={"handle": 15})}
    documents = explain(
        capsys, tmp_path, board(**on_x86(), **frames(good, bad, bad, bad, good, good, good, good, good))
    )
    assert gpu(documents[3]) == "73216Mi"
    assert gpu(documents[-1]) == ALL
    assert conditions(documents[-1])["GPUUnavailable"] == "False"


@pytest.mark.parametrize("how", ["handle", "memory", "compute", "all"])
@pytest.mark.parametrize(
    ("name", "compatible"), [("NVIDIA GB10", None), ("NVIDIA Thor", THOR), ("Orin (nvgpu)", ORIN_NANO)]
)
def test_a_lost_gpu_without_memory_of_its_own_takes_its_key_along(
    tmp_path: Path, capsys: Capture, name: str, compatible: bytes | None, how: str
) -> None:
    # 15 from any call about a device says that it has fallen off the bus (nvml.h)
    uuid = "GPU-aaaaaaaa-0000-4000-8000-000000000001"
    whole = device(name, uuid)
    fields = {"compute": {"code": 15}} if how == "compute" else broken(how, 15)
    good, bad = {"nvml.json": nvml(whole)}, {"nvml.json": nvml({**whole, **fields})}
    files = board(128651324, **({COMPATIBLE: compatible} if compatible else {}), **frames(good, bad, bad, bad, bad))
    documents = explain(capsys, tmp_path, files)
    assert [gpu(document) for document in documents[:3]] == ["124100Mi"] * 3
    last = documents[-1]
    assert [(one["uuid"], one["memory"], one["health"]) for one in last["devices"]] == [(uuid, "unified", "lost")]
    assert gpu(last) is None
    assert conditions(last)["GPUUnavailable"] == "True"


def test_a_lost_mig_instance_leaves_the_sum_too(tmp_path: Path, capsys: Capture) -> None:
    def split(second: dict[str, Any]) -> dict[str, Any]:
        return {"nvml.json": nvml(card(1, 40960, 600, mig={"mode": 1, "instances": [instance(1, 19968), second]}))}

    whole = instance(2, 9856)
    bad = split({**whole, "memory": {"code": 15}, "memory_v2": {"code": 15}})
    documents = explain(capsys, tmp_path, board(**on_x86(), **frames(split(whole), bad, bad, bad)))
    assert [gpu(document) for document in documents] == ["29824Mi", "29824Mi", "29824Mi", "19968Mi"]


def test_a_lost_card_takes_only_its_own_key_where_each_has_one(tmp_path: Path, capsys: Capture) -> None:
    good, bad = {"nvml.json": three()}, {"nvml.json": three(second={"handle": 15})}
    files = board(**on_x86(), **frames(good, bad, bad, bad))
    files["config.yaml"] = {"discrete": {"pools": "device"}}
    documents = explain(capsys, tmp_path, files)
    sizes = [[gpu(document, f"{KEY}-{minor}") for minor in range(3)] for document in documents]
    whole = ["24320Mi", "16128Mi", "48896Mi"]  # each less 256
    assert sizes == [whole, whole, whole, ["24320Mi", None, "48896Mi"]]


def test_a_driver_that_fails_from_the_start_leaves_a_new_node_alone(tmp_path: Path, capsys: Capture) -> None:
    files = board(
        **on_x86(),
        **NVIDIA_CARD,
        **{
            "nvml.json": {"library": "present", "init": 18},
            "cluster/node.json": node(),
            "cluster/pods.json": pods(),
            **frames({}, {}, {}),
        },
    )
    for document in explain(capsys, tmp_path, files):
        assert document["node"]["capacity"] == {}
        assert "null" not in json.dumps(document["node"]["requests"])
        assert KEY not in json.dumps(document["node"]["requests"])


@pytest.mark.parametrize(("held", "milli"), [("250", "3000"), (None, "2000")])
def test_thousandths_of_a_gpu_do_not_change_while_a_pod_holds_some(
    tmp_path: Path, capsys: Capture, held: str | None, milli: str
) -> None:
    running = [pod(limits={"edgeagent.dev/gpu-milli": held})] if held else []
    good, bad = {"nvml.json": three()}, {"nvml.json": three(second={"handle": 15})}
    files = board(**on_x86(), **{"cluster/pods.json": pods(*running), **frames(good, bad, bad, bad)})
    documents = explain(capsys, tmp_path, files)
    assert gpu(documents[0], "edgeagent.dev/gpu-milli") == "3000"
    assert gpu(documents[-1], "edgeagent.dev/gpu-milli") == milli
    assert gpu(documents[-1]) == "73216Mi"


def test_capacity_stays_at_what_admitted_pods_hold_when_a_card_is_lost(tmp_path: Path, capsys: Capture) -> None:
    running = [pod(name, limits={KEY: "20Gi"}) for name in ("a", "b", "c", "d")]
    good, bad = {"nvml.json": three()}, {"nvml.json": three(third={"handle": 15})}
    files = board(**on_x86(), **{"cluster/pods.json": pods(*running), **frames(good, bad, bad, bad)})
    last = explain(capsys, tmp_path, files)[-1]
    assert gpu(last) == "81920Mi"  # 4 x 20 GiB, though 40448 MiB are left
    assert last["pools"][0]["overcommitted"] is True
    assert last["plan"]["evictions"] == []


def test_cards_without_a_uuid_count_each(tmp_path: Path, capsys: Capture) -> None:
    found = [{**card(number, 24576, 512), "uuid": {"code": 999}} for number in (1, 2)]
    (document,) = explain(capsys, tmp_path, board(**on_x86(), **{"nvml.json": nvml(*found)}))
    assert gpu(document) == "48128Mi"
    assert len(document["devices"]) == 2


def test_a_start_beside_a_lost_card_keeps_what_the_node_says_until_it_is_proven(
    tmp_path: Path, capsys: Capture
) -> None:
    bad = {"nvml.json": three(second={"handle": 15})}
    files = board(
        **on_x86(), **{"cluster/node.json": node({KEY: ALL}), "cluster/pods.json": pods(), **frames(bad, bad, bad)}
    )
    documents = explain(capsys, tmp_path, files)
    assert [gpu(document) for document in documents] == [ALL, ALL, "73216Mi"]


@pytest.mark.parametrize("held", [False, True])
def test_when_all_cards_are_lost_the_key_goes_held_or_not(tmp_path: Path, capsys: Capture, *, held: bool) -> None:
    # A restarted kubelet skips a key that is not there; 0 would fail the pod that holds some of it.
    good = {"nvml.json": nvml(card(1))}
    bad = {"nvml.json": nvml({"handle": 15})}
    running = [pod(limits={KEY: "2Gi"})] if held else []
    files = board(**on_x86(), **{"cluster/pods.json": pods(*running), **frames(good, bad, bad, bad)})
    documents = explain(capsys, tmp_path, files)
    assert [gpu(document) for document in documents] == ["24064Mi", "24064Mi", "24064Mi", None]
    assert [(one["uuid"], one["health"]) for one in documents[-1]["devices"]] == [(card_uuid(1), "lost")]
    assert documents[-1]["plan"]["evictions"] == []


# A GPU that is gone, and a driver that merely fails (NVIDIA/gpu-operator#1391, NVIDIA/NVSentinel#723)


def former(pool: str, **labels: str) -> dict[str, Any]:
    """The node of a PC with one card, as the agent left it."""
    mine = {"edgeagent.dev/gpu.kind": "discrete", "edgeagent.dev/gpu.count": "1", "ai-capable": "true"}
    owned = {"capacity": [KEY], "conditions": [], "labels": sorted(mine)}
    return node(
        {KEY: pool},
        labels={**mine, "nvidia.com/gpu.present": "true", "edge.example.com/x": "1", **labels},
        annotations={"edgeagent.dev/owned-keys": json.dumps(owned, separators=(",", ":"))},
    )


@pytest.mark.parametrize("held", [False, True])
def test_a_card_taken_out_takes_exactly_our_keys_along(tmp_path: Path, capsys: Capture, *, held: bool) -> None:
    running = [pod(limits={KEY: "2Gi"})] if held else []
    files = board(
        **on_x86(),
        **INTEL_GRAPHICS,
        **{"cluster/node.json": former("24064Mi"), "cluster/pods.json": pods(*running), **frames({}, {}, {})},
    )
    *_, last = explain(capsys, tmp_path, files)
    body = last["node"]["requests"][0]["body"]
    assert (body["status"]["capacity"][KEY], body["status"]["allocatable"][KEY]) == (None, None)
    labels = body["metadata"]["labels"]
    assert (labels["ai-capable"], labels["edgeagent.dev/gpu.count"]) == (None, None)
    assert labels["edgeagent.dev/gpu.kind"] == "none"
    assert all(key == "ai-capable" or key.startswith(OWN) for key in labels)


@pytest.mark.parametrize(
    "asks",
    [
        {"nodeSelector": {"ai-capable": "true"}},
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "ai-capable", "operator": "In", "values": ["true"]}]}
                        ]
                    }
                }
            }
        },
    ],
)
def test_a_label_that_a_running_pod_requires_outlives_the_card(
    tmp_path: Path, capsys: Capture, asks: dict[str, Any]
) -> None:
    # A restarted kubelet checks both again and stops the pods that no longer match.
    files = board(
        **on_x86(),
        **INTEL_GRAPHICS,
        **{
            "cluster/node.json": former("24064Mi"),
            "cluster/pods.json": pods(pod(limits={KEY: "2Gi"}, spec=asks)),
            **frames({}, {}, {}),
        },
    )
    *_, last = explain(capsys, tmp_path, files)
    assert last["node"]["labels"]["ai-capable"] == "true"
    labels = last["node"]["requests"][0]["body"]["metadata"]["labels"]
    assert "ai-capable" not in labels
    assert labels["edgeagent.dev/gpu.count"] is None


@pytest.mark.parametrize("init", [9, 18, 999])
@pytest.mark.parametrize(
    "bus",
    [
        NVIDIA_CARD,
        {"host/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  x\n"},
        {"host/dev/dxg": ""},
    ],
)
def test_a_driver_that_fails_changes_a_condition_and_nothing_else(
    tmp_path: Path, capsys: Capture, init: int, bus: dict[str, Any]
) -> None:
    files = board(
        **on_x86(),
        **bus,
        **{
            "nvml.json": {"library": "present", "init": init},
            "cluster/node.json": former("24064Mi"),
            "cluster/pods.json": pods(pod(limits={KEY: "2Gi"})),
            **frames({}, {}, {}, {}),
        },
    )
    for document in explain(capsys, tmp_path, files):
        assert gpu(document) == "24064Mi"
        assert document["plan"]["evictions"] == []
        for request in document["node"]["requests"]:
            assert "null" not in json.dumps(request["body"])
            assert KEY not in request["body"].get("status", {}).get("capacity", {})
            assert "labels" not in request["body"].get("metadata", {})
    if "host/dev/dxg" not in bus:
        assert conditions(document)["GPUUnavailable"] == "True"


# Driver and library of different versions (NVIDIA/k8s-device-plugin#221 and #1431)


def test_an_upgrade_without_a_reboot_names_both_versions_and_heals_by_itself(tmp_path: Path, capsys: Capture) -> None:
    running = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025\n"
    failing = {"nvml.json": {"library": "present", "init": 18}}
    files = board(
        **on_x86(),
        **NVIDIA_CARD,
        **{
            "host/proc/driver/nvidia/version": running,
            "host/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.126.09": "",
            "cluster/node.json": former("24064Mi"),
            "cluster/pods.json": pods(pod(limits={KEY: "2Gi"})),
            **frames(failing, failing, failing, {"nvml.json": nvml(card(1))}),
        },
    )
    *failed, healed = explain(capsys, tmp_path, files)
    for document in failed:
        assert gpu(document) == "24064Mi"
        assert document["plan"]["evictions"] == []
        said = json.dumps([document["board"]["warnings"], document["findings"], document["node"]["conditions"]])
        assert "580.95.05" in said
        assert "580.126.09" in said
    assert gpu(healed) == "24064Mi"
    assert conditions(healed)["GPUUnavailable"] == "False"


# Fields that fail one by one (Atoptool/atop#236 and #243, vllm-project/vllm#12904, nvidia-cosmos/cosmos-reason1#61)

OPTIONAL = (
    "name",
    "uuid",
    "pci_bus_id",
    "minor",
    "cuda_capability",
    "compute",
    "graphics",
    "mps",
    "mig",
    "utilization",
)


@pytest.mark.parametrize("field", OPTIONAL)
@pytest.mark.parametrize("answer", [{"code": 3}, {"code": 13}, {"code": 999}, {"code": 4}, None])
def test_any_field_but_the_memory_may_fail_on_a_card(
    tmp_path: Path, capsys: Capture, field: str, answer: dict[str, int] | None
) -> None:
    found = card(1, 24576, 512, pci_bus_id="00000000:01:00.0", cuda_capability=[8, 6])
    found["minor"] = 0
    if answer is None:
        found.pop(field, None)
    else:
        found[field] = answer
    files = board(**on_x86(), **{"nvml.json": {**nvml(), "count": {"code": 0, "value": 1}, "devices": [found]}})
    (document,) = explain(capsys, tmp_path, files)
    assert gpu(document) == "24064Mi"
    (one,) = document["devices"]
    assert one["health"] == "ok"
    assert one["name"] not in ("", None)
    assert all(LABEL.fullmatch(value) for value in document["node"]["labels"].values())


@pytest.mark.parametrize("field", [*OPTIONAL, "memory", "memory_v2"])
@pytest.mark.parametrize("answer", [{"code": 3}, {"code": 13}, None])
@pytest.mark.parametrize(("compatible", "name"), [(ORIN_NANO, "Orin (nvgpu)"), (THOR, "NVIDIA Thor")])
def test_on_a_tegra_even_the_memory_may_fail(
    tmp_path: Path, capsys: Capture, field: str, answer: dict[str, int] | None, compatible: bytes, name: str
) -> None:
    found = {**device(name, ORIN_UUID), "minor": 0}
    if answer is None:
        found.pop(field, None)
    else:
        found[field] = answer
    files = board(**{COMPATIBLE: compatible, "nvml.json": {**nvml(), "count": {"code": 0, "value": 1}}})
    files["nvml.json"]["devices"] = [found]
    (document,) = explain(capsys, tmp_path, files)
    assert document["board"]["kind"] == "jetson"
    assert gpu(document) == OFFER
    assert [one["health"] for one in document["devices"]] == ["ok"]


def test_functions_that_the_library_does_not_know_are_not_zero(tmp_path: Path, capsys: Capture) -> None:
    found = {"handle": 0, "memory": {"code": 0, "total": 24576 * MIB}}
    files = board(**on_x86(), **{"nvml.json": {"library": "present", "init": 0, "devices": [found]}})
    (document,) = explain(capsys, tmp_path, files)
    (one,) = document["devices"]
    assert (one["uuid"], one["total_bytes"]) == (None, 24576 * MIB)
    # v1 alone: 3 % of 24576 = 737.28 for the driver, so 23838.72
    assert gpu(document) == "23838Mi"
    assert document["host"]["system_gpu_bytes"] is None


@pytest.mark.parametrize("code", [3, 999, 10])
def test_a_count_that_fails_is_unknown_and_not_zero_cards(tmp_path: Path, capsys: Capture, code: int) -> None:
    files = board(
        **on_x86(),
        **NVIDIA_CARD,
        **{
            "nvml.json": {"library": "present", "init": 0, "count": {"code": code}, "devices": []},
            "cluster/node.json": former("24064Mi"),
            "cluster/pods.json": pods(),
            **frames({}, {}, {}, {}),
        },
    )
    for document in explain(capsys, tmp_path, files):
        assert gpu(document) == "24064Mi"


# Labels that the API server would refuse (ROCm/k8s-device-plugin#218, NVIDIA/gpu-feature-discovery#53, NFD#308)

LONG = "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Orin (nvgpu)", "Orin-nvgpu"),
        ("NVIDIA TITAN X (Pascal)", "NVIDIA-TITAN-X-Pascal"),
        ("4.9.140-l4t-r32.3.1+g47e7e1cb0b49", "4.9.140-l4t-r32.3.1-g47e7e1cb0b49"),
        ("X9SRA/X9SRA-3", "X9SRA-X9SRA-3"),
        (LONG, LONG.replace(" ", "-")[:63]),
        ("A" * 62 + " B", "A" * 62),  # the cut leaves a separator behind
        ("A" * 60 + " - . B", "A" * 60),
        ("A" * 63, "A" * 63),
        (" Thor", "Thor"),
        ("(Thor)", "Thor"),
        ("-_.Thor._-", "Thor"),
    ],
)
@pytest.mark.parametrize("where", ["card", "model"])
def test_a_product_name_becomes_a_valid_label(
    tmp_path: Path, capsys: Capture, text: str, label: str, where: str
) -> None:
    if where == "card":
        files = board(**on_x86(), **{"nvml.json": nvml(device(text, card_uuid(1), 8 * GIB))})
    else:
        files = board(**{COMPATIBLE: ORIN_NANO, MODEL: text.encode() + b"\0"})
    (document,) = explain(capsys, tmp_path, files)
    assert document["node"]["labels"]["edgeagent.dev/gpu.product"] == label
    assert all(LABEL.fullmatch(value) for value in document["node"]["labels"].values())


@pytest.mark.parametrize("model", [b"\0", b"-\0", b"--..__\0", b"()\0", b" Thor\x00\0", b"Jetson\xf8\0", b"\xff\xfe\0"])
def test_a_label_that_cannot_be_made_valid_is_left_out_and_the_rest_goes_out(
    tmp_path: Path, capsys: Capture, model: bytes
) -> None:
    files = board(**{COMPATIBLE: ORIN_NANO, MODEL: model, "cluster/node.json": node(), "cluster/pods.json": pods()})
    (document,) = explain(capsys, tmp_path, files)
    labels = document["node"]["labels"]
    assert labels["edgeagent.dev/jetson.soc"] == "tegra234"
    product = labels.get("edgeagent.dev/gpu.product")
    assert product is None or (product and LABEL.fullmatch(product))
    body = document["node"]["requests"][0]["body"]
    assert body["status"]["capacity"][KEY] == OFFER
    assert body["metadata"]["labels"]["edgeagent.dev/gpu.kind"] == "jetson"
    assert explain(capsys, tmp_path) == [document]  # the same each time


def test_words_of_the_release_file_do_not_break_labels(tmp_path: Path, capsys: Capture) -> None:
    release = "# R36 (release), REVISION: 4.4+patch/1, GCID: 1, BOARD: generic, EABI: aarch64, DATE: x\n"
    (document,) = explain(capsys, tmp_path, board(**{COMPATIBLE: ORIN_NANO, RELEASE: release}))
    assert all(LABEL.fullmatch(value) for value in document["node"]["labels"].values())
    assert gpu(document) == OFFER

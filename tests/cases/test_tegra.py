"""Which machines are a Tegra, which Jetson one is, and which are left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases.machines import (
    COMPATIBLE,
    FAMILY,
    INTEL_GRAPHICS,
    MODEL,
    OFFER,
    ORIN_NANO,
    ORIN_UUID,
    OWN,
    R36,
    RELEASE,
    SMALL,
    THOR,
    Capture,
    board,
    on_x86,
    pci,
)
from tests.cases.making import KEY, conditions, device, explain, frames, gpu, node, nvml, pods

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

"""What kind of board it is: each signal alone, devices by themselves, nothing from a single switch."""

from __future__ import annotations

from typing import Any

import pytest

from edgeagent.facts import BoardFiles, Nvml, NvmlDevice, NvmlMemory, Reading
from edgeagent.memory.board import detect
from edgeagent.memory.types import Board
from tests.unit.factories import (
    ABSENT,
    CARD_UUID,
    GIB,
    KIB,
    MIB,
    ORIN_TREE,
    ORIN_UUID,
    card,
    card_files,
    igpu,
    meminfo,
    nvml,
    orin_files,
)

ARM = "aarch64"


def verdict(files: BoardFiles, answer: Nvml | None = ABSENT, **options: Any) -> Board:
    return detect(files, Reading(0.0, answer, "" if answer else "timed out"), meminfo(), **options)


@pytest.mark.parametrize(
    ("files", "answer", "signal"),
    [
        (BoardFiles(arch=ARM, compatible=ORIN_TREE), ABSENT, "device-tree"),
        (BoardFiles(arch=ARM, compatible=("acme,box", "nvidia,tegra264")), ABSENT, "device-tree"),
        (BoardFiles(arch=ARM, soc_family="Tegra"), ABSENT, "soc0"),
        (BoardFiles(arch=ARM, soc_family="tegra\n"), ABSENT, "soc0"),
        (BoardFiles(arch=ARM, l4t_release="# R36 (release), REVISION: 4.7, GCID: 1"), ABSENT, "l4t-release"),
        (BoardFiles(arch=ARM, nvmap=True), ABSENT, "nvmap"),
        (BoardFiles(arch=ARM), nvml(igpu("Orin (nvgpu)")), "nvml"),
        (BoardFiles(arch=ARM), nvml(igpu("NVIDIA Thor", uuid="GPU-1")), "nvml"),
    ],
    ids=["tree", "thor-tree", "soc0", "soc0-newline", "release", "nvmap", "nvml-orin", "nvml-thor"],
)
def test_each_tegra_signal_alone_is_enough(files: BoardFiles, answer: Nvml, signal: str) -> None:
    found = verdict(files, answer)
    assert (found.kind, found.unified) == ("jetson", True)
    assert found.signals == (signal,)
    assert [(device.memory, device.tegra, device.health) for device in found.devices] == [("unified", True, "ok")]
    assert found.readable


@pytest.mark.parametrize(
    "files",
    [
        BoardFiles(arch=ARM),
        BoardFiles(arch=ARM, soc_family="Raspberry Pi"),
        BoardFiles(arch=ARM, compatible=("raspberrypi,4-model-b", "brcm,bcm2711")),
        BoardFiles(arch=ARM, soc_family="", l4t_release="", compatible=()),
        BoardFiles(arch=ARM, model="NVIDIA Jetson lookalike"),  # the model text proves nothing
        BoardFiles(arch="x86_64"),
    ],
)
def test_no_gpu(files: BoardFiles) -> None:
    found = verdict(files)
    assert (found.kind, found.unified, found.devices) == ("none", False, ())
    assert found.readable
    assert found.warnings == ()


@pytest.mark.parametrize("model", ["ACME Edge Box 7", "jakku"])
def test_a_vendor_carrier_board(model: str) -> None:
    tree = ("acme,edgebox7", "nvidia,p3767-0000", "nvidia,tegra234")
    found = verdict(BoardFiles(arch=ARM, compatible=tree, model=model))
    assert (found.kind, found.soc, found.module, found.product) == ("jetson", "tegra234", "p3767-0000", model)


def test_an_orin_nano_in_full() -> None:
    files = orin_files(
        l4t_release="# R36 (release), REVISION: 4.4, GCID: 41062509, BOARD: generic", soc_family="Tegra", nvmap=True
    )
    found = verdict(files, nvml(igpu(), driver_version="540.4.0", cuda_version=12060))
    assert found.signals == ("device-tree", "soc0", "l4t-release", "nvml", "nvmap")
    assert (found.soc, found.module) == ("tegra234", "p3767-0005")
    assert (found.l4t, found.jetpack) == ("36.4.4", "6.2.1")
    assert (found.driver_version, found.cuda_version, found.cuda_arch) == ("540.4.0", "12.6", "8.7")
    assert [(device.uuid, device.name) for device in found.devices] == [(ORIN_UUID, "Orin (nvgpu)")]


def test_a_soc_without_a_known_name_is_a_jetson_all_the_same() -> None:
    found = verdict(BoardFiles(arch=ARM, compatible=("nvidia,tegra999",)))
    assert (found.kind, found.soc, found.cuda_arch) == ("jetson", "tegra999", None)


@pytest.mark.parametrize(
    ("revision", "jetpack"),
    [
        ("R32 (release), REVISION: 7.1", "4.6.1"),
        ("R35 (release), REVISION: 3.1", "5.1.1"),
        ("R36 (release), REVISION: 3.0", "6.0"),
        ("R38 (release), REVISION: 4.0", "7.1"),
        ("R99 (release), REVISION: 1", None),
    ],
)
def test_jetpack_by_release(revision: str, jetpack: str | None) -> None:
    assert verdict(orin_files(l4t_release=f"# {revision}, GCID: 1")).jetpack == jetpack


def test_gb10_is_unified_and_no_jetson() -> None:
    unsupported = NvmlMemory(code=3)
    spark = NvmlDevice(handle=0, name="NVIDIA GB10", uuid="GPU-1", memory=unsupported, memory_v2=unsupported)
    found = verdict(BoardFiles(arch=ARM, pci_displays=1), nvml(spark))
    assert (found.kind, found.unified, found.soc) == ("unified", True, None)
    (device,) = found.devices
    assert (device.memory, device.health, device.total_bytes, device.tegra) == ("unified", "ok", None, False)


@pytest.mark.parametrize("total", [0, 128_651_324 * KIB])
def test_gb10_is_unified_whatever_nvml_says_of_its_memory(total: int) -> None:
    told = NvmlMemory(code=0, total=total, used=20 * GIB, free=0)
    spark = NvmlDevice(handle=0, name="NVIDIA GB10", uuid="GPU-1", memory=told, memory_v2=told)
    (device,) = verdict(BoardFiles(arch=ARM, pci_displays=1), nvml(spark)).devices
    assert (device.memory, device.health, device.total_bytes) == ("unified", "ok", None)


def test_thor_is_unified_although_nvml_answers_with_the_whole_memory() -> None:
    told = NvmlMemory(code=0, total=131_738_955_776, used=20 * GIB)  # = 128 651 324 KiB
    thor = igpu("NVIDIA Thor", uuid="GPU-1", memory=told, memory_v2=told)
    found = verdict(BoardFiles(arch=ARM, compatible=("nvidia,tegra264",)), nvml(thor))
    assert (found.kind, found.cuda_arch) == ("jetson", "11.0")
    assert [(device.memory, device.total_bytes) for device in found.devices] == [("unified", None)]


def test_arm64_is_another_name_of_aarch64() -> None:
    spark = NvmlDevice(handle=0, name="NVIDIA GB10", uuid="GPU-1", memory=NvmlMemory(code=3))
    assert verdict(BoardFiles(arch="arm64"), nvml(spark)).kind == "unified"


def test_what_a_board_is_does_not_depend_on_the_order_of_its_devices() -> None:
    thor = igpu("NVIDIA Thor", uuid="aaaaaaaa-0000-4000-8000-000000000001", cuda_capability=(11, 0))
    ada = card("GPU-bbbbbbbb-0000-4000-8000-000000000002", name="NVIDIA RTX 6000 Ada", cuda_capability=(8, 9))
    files = BoardFiles(arch=ARM, compatible=("nvidia,tegra264",))
    found = verdict(files, nvml(thor, ada))
    assert found == verdict(files, nvml(ada, thor))
    # The first by uuid: "G" stands before "a".
    assert (found.product, found.cuda_arch) == ("NVIDIA RTX 6000 Ada", "8.9")


def test_a_driver_that_fails_on_a_machine_without_other_signs_proves_nothing() -> None:
    for answer in (nvml(init=9, count=None), nvml(init=18, count=None), nvml(count=None)):
        found = verdict(BoardFiles(arch="x86_64"), answer)
        assert (found.kind, found.unified, found.readable) == ("unknown", None, False)


def test_gb10_by_name_needs_an_arm_machine() -> None:
    spark = NvmlDevice(handle=0, name="NVIDIA GB10", uuid="GPU-1", memory=NvmlMemory(code=3))
    found = verdict(card_files(), nvml(spark))
    assert found.kind == "discrete"
    assert [device.health for device in found.devices] == ["degraded"]


@pytest.mark.parametrize("swapped", [False, True])
def test_integrated_and_discrete_on_one_board(*, swapped: bool) -> None:
    thor = igpu("NVIDIA Thor")
    big = card(total=97_887 * MIB, reserved=0, name="NVIDIA RTX PRO 6000", minor=1)
    both = (big, thor) if swapped else (thor, big)
    found = verdict(BoardFiles(arch=ARM, compatible=("nvidia,tegra264",), pci_displays=1), nvml(*both))
    assert (found.kind, found.unified) == ("mixed", True)
    # by uuid: aaaaaaaa-… before GPU-bbbbbbbb-… is not so in ASCII, capitals come first
    assert [(device.uuid, device.memory, device.tegra) for device in found.devices] == [
        (CARD_UUID, "discrete", False),
        (ORIN_UUID, "unified", True),
    ]
    assert [device.total_bytes for device in found.devices] == [97_887 * MIB, None]


def test_a_tegra_in_discrete_mode_has_the_card_only() -> None:
    found = verdict(orin_files(), nvml(card(name="NVIDIA RTX A6000")))
    assert (found.kind, found.unified) == ("discrete", False)


def test_a_lost_name_of_an_integrated_gpu_is_made_up_for_by_its_uuid() -> None:
    found = verdict(orin_files(), nvml(igpu("\ufffd", uuid=ORIN_UUID)))
    assert [(device.memory, device.tegra) for device in found.devices] == [("unified", True)]


def test_wsl() -> None:
    found = verdict(BoardFiles(arch="x86_64", wsl=True), nvml(card()))
    assert (found.kind, found.unified) == ("wsl", False)


@pytest.mark.parametrize(("override", "memory"), [("yes", "unified"), ("no", "discrete"), ("auto", "discrete")])
def test_the_setting_overrules_detection(override: str, memory: str) -> None:
    found = verdict(card_files(), nvml(card()), override=override)
    assert [device.memory for device in found.devices] == [memory]


def test_jetpack_5_has_no_nvml_and_that_is_no_fault() -> None:
    found = verdict(BoardFiles(arch=ARM, compatible=("nvidia,tegra194",), l4t_release="# R35 (release), REVISION: 4.1"))
    assert (found.kind, found.readable, found.warnings) == ("jetson", True, ())
    assert [device.health for device in found.devices] == ["ok"]


def test_an_x86_machine_with_a_card_and_no_nvml_is_a_fault() -> None:
    found = verdict(BoardFiles(arch="x86_64", pci_displays=1))
    assert (found.kind, found.readable) == ("discrete", False)
    assert [(device.health, device.total_bytes) for device in found.devices] == [("degraded", None)]
    assert len(found.warnings) == 1


@pytest.mark.parametrize("total", [None, 0])
def test_an_x86_card_of_unknown_size_is_a_fault(total: int | None) -> None:
    told = NvmlMemory(code=3) if total is None else NvmlMemory(code=0, total=total)
    found = verdict(card_files(), nvml(card(memory=told, memory_v2=told)))
    assert found.kind == "discrete"
    assert [(device.health, device.total_bytes) for device in found.devices] == [("degraded", None)]


def test_driver_and_library_of_different_versions() -> None:
    found = verdict(card_files(), nvml(init=18, count=None))
    assert (found.kind, found.readable) == ("discrete", False)
    (device,) = found.devices
    assert device.health == "degraded"
    assert "18" in device.why
    assert found.driver_version == "580.95.05"  # the kernel's own word
    assert any("18" in warning for warning in found.warnings)


def test_a_driver_that_does_not_answer_is_unknown_not_gone() -> None:
    found = verdict(card_files(), None)
    assert not found.readable
    assert [device.health for device in found.devices] == ["unknown"]
    bare = verdict(BoardFiles(arch="x86_64"), None)
    assert (bare.kind, bare.unified, bare.readable) == ("unknown", None, False)


def test_a_tegra_whose_nvml_does_not_answer_has_a_gpu_of_unknown_health() -> None:
    found = verdict(orin_files(), None)
    assert (found.kind, found.readable) == ("jetson", False)
    assert [device.health for device in found.devices] == ["unknown"]


@pytest.mark.parametrize(("code", "health"), [(15, "lost"), (16, "reset-required"), (999, "degraded")])
def test_codes_of_the_handle_and_of_the_memory_call(code: int, health: str) -> None:
    by_handle = verdict(card_files(), nvml(NvmlDevice(handle=code)))
    assert [device.health for device in by_handle.devices] == [health]
    failed = NvmlMemory(code=code)
    by_memory = verdict(card_files(), nvml(card(memory=failed, memory_v2=failed)))
    assert [device.health for device in by_memory.devices] == [health]


def test_a_device_whose_single_fields_fail_is_kept() -> None:
    bare = NvmlDevice(handle=0, memory_v2=NvmlMemory(code=0, total=8 * GIB, reserved=0))
    (device,) = verdict(card_files(), nvml(bare)).devices
    assert (device.name, device.uuid, device.health, device.total_bytes) == ("NVIDIA GPU", None, "ok", 8 * GIB)


def test_signals_that_disagree_are_a_warning() -> None:
    found = verdict(BoardFiles(arch=ARM, soc_family="Tegra", compatible=("acme,box",)))
    assert found.kind == "jetson"
    assert len(found.warnings) == 1

"""What kind of board it is: each signal alone, devices by themselves, nothing from a single switch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgeagent.facts import BoardFiles, MigInstance, Nvml, NvmlDevice, NvmlMemory, NvmlProcesses, Reading
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
    processes,
)

ARM = "aarch64"


def verdict(files: BoardFiles, answer: Nvml | None = ABSENT, **options: Any) -> Board:
    return detect(files, Reading(0.0, answer, "" if answer else "timed out"), meminfo(), **options)


@pytest.mark.parametrize("figure", [2**64 - 1, 2**63, 2**52 + 1])
@pytest.mark.parametrize("name", ["total", "reserved", "used"])
@pytest.mark.parametrize("query", ["memory", "memory_v2"])
def test_a_figure_above_four_pebibytes_is_a_fault(query: str, name: str, figure: int) -> None:
    told: dict[str, Any] = {"total": 16 * GIB, "reserved": GIB, "used": GIB, "free": 14 * GIB} | {name: figure}
    if query == "memory":
        told["reserved"] = None if name != "reserved" else figure
    faulty: dict[str, Any] = {"memory": None, "memory_v2": None} | {query: NvmlMemory(code=0, **told)}
    (device,) = verdict(card_files(), nvml(card(**faulty))).devices
    assert (device.health, device.total_bytes) == ("degraded", None)
    assert device.why == f"{name} memory of {figure} bytes is not plausible"


def test_four_pebibytes_are_no_fault() -> None:
    most = NvmlMemory(code=0, total=2**52, reserved=0, used=0, free=2**52)
    (device,) = verdict(card_files(), nvml(card(memory_v2=most))).devices
    assert (device.health, device.total_bytes) == ("ok", 2**52)


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


def test_a_library_without_a_driver_on_a_bus_without_a_card_is_no_gpu() -> None:
    # An image has brought the library along. 9: no driver is loaded.
    found = verdict(BoardFiles(arch="x86_64", pci_listed=True), nvml(init=9, count=None))
    assert (found.kind, found.readable, found.devices, found.warnings) == ("none", True, (), ())
    guest = verdict(BoardFiles(arch="x86_64", pci_listed=True, wsl=True), nvml(init=9, count=None))
    assert guest.kind == "unknown"
    card_there = verdict(card_files(pci_listed=True, proc_driver=None, proc_gpus=0), nvml(init=9, count=None))
    assert [device.health for device in card_there.devices] == ["degraded"]


@pytest.mark.parametrize("name", ["NVIDIA GB10", "NVIDIA-GB10"])
def test_an_architecture_that_is_not_known_does_not_contradict_a_gb10(name: str) -> None:
    spark = NvmlDevice(handle=0, name=name, uuid="GPU-1", memory=NvmlMemory(code=3))
    found = verdict(BoardFiles(arch="unknown"), nvml(spark))
    assert (found.kind, found.unified) == ("unified", True)
    assert [(device.memory, device.health) for device in found.devices] == [("unified", "ok")]
    # It makes no other card integrated.
    assert verdict(BoardFiles(arch="unknown"), nvml(card())).kind == "discrete"


@pytest.mark.parametrize("arch", ["x86_64", "riscv64"])
def test_gb10_by_name_needs_an_arm_machine(arch: str) -> None:
    spark = NvmlDevice(handle=0, name="NVIDIA GB10", uuid="GPU-1", memory=NvmlMemory(code=3))
    found = verdict(card_files(arch=arch), nvml(spark))
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
    assert (found.kind, found.unified, found.signals) == ("wsl", False, ("nvml", "wsl"))
    assert [(device.health, device.total_bytes) for device in found.devices] == [("ok", 46068 * MIB)]


def test_a_wsl_guest_without_an_nvidia_card_has_none_and_one_whose_driver_fails_is_unknown() -> None:
    guest = BoardFiles(arch="x86_64", wsl=True)
    assert verdict(guest).kind == "none"  # its /dev/dxg may be another maker's
    assert verdict(guest, nvml(init=999, count=None)).kind == "unknown"


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


def test_a_driver_that_is_loaded_without_the_library_is_a_fault() -> None:
    # Two cards by the driver's own word; the PCI bus is not to be seen, as in some containers.
    found = verdict(BoardFiles(arch="x86_64", proc_driver="580.95.05", proc_gpus=2))
    assert (found.kind, found.readable, found.signals) == ("discrete", False, ("proc-driver",))
    assert [(device.health, device.total_bytes) for device in found.devices] == [("degraded", None)] * 2
    assert len(found.warnings) == 1


@pytest.mark.parametrize("arch", [ARM, "unknown"])
@pytest.mark.parametrize("gpus", [0, 1])
def test_a_driver_alone_is_a_jetsons_or_a_cards(arch: str, gpus: int) -> None:
    # JetPack 5 has /proc/driver/nvidia, and neither NVML nor, in a container, a Tegra's own signs.
    bare = BoardFiles(arch=arch, proc_driver="35.4.1", proc_gpus=gpus)
    found = verdict(bare)
    assert (found.kind, found.unified, found.readable, found.devices) == ("unknown", None, False, ())
    assert found.signals == ("proc-driver",)
    assert len(found.warnings) == 1
    # A bus, a card on it or a library settles that.
    for files in (replace(bare, pci_listed=True), replace(bare, pci_displays=1)):
        assert [(device.memory, device.health) for device in verdict(files).devices] == [("discrete", "degraded")]
    assert [device.health for device in verdict(bare, nvml(init=9, count=None)).devices] == ["degraded"]
    assert verdict(replace(bare, nvmap=True)).kind == "jetson"


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


@pytest.mark.parametrize(
    "files", [card_files(nvml_library="580.126.09"), orin_files(proc_driver="580.95.05", nvml_library="580.126.09")]
)
def test_a_mismatch_names_both_versions(files: BoardFiles) -> None:
    found = verdict(files, nvml(init=18, count=None))
    (warning,) = found.warnings
    assert "580.95.05" in warning
    assert "580.126.09" in warning
    assert [(device.health, device.why) for device in found.devices] == [("degraded", warning)]


def test_a_mismatch_with_files_that_tell_no_version() -> None:
    (warning,) = verdict(card_files(proc_driver=""), nvml(init=18, count=None)).warnings
    assert warning.count("unknown") == 2


def test_another_error_at_the_start_is_no_matter_of_versions() -> None:
    (warning,) = verdict(card_files(nvml_library="580.126.09"), nvml(init=9, count=None)).warnings
    assert "580" not in warning


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


LISTS = ("compute", "graphics", "mps")


@pytest.mark.parametrize("place", ["name", "uuid", "minor", "mig_mode", *LISTS])
@pytest.mark.parametrize(
    ("code", "health", "failing"),
    [(15, "lost", True), (16, "reset-required", True), (999, "ok", False), (3, "ok", False)],
)
def test_any_call_may_tell_that_a_device_is_lost(place: str, code: int, health: str, *, failing: bool) -> None:
    # 999 and 3 of a call that says nothing of the memory are no fault of the card.
    answer = {place: NvmlProcesses(code)} if place in LISTS else {"errors": {place: code}}
    (device,) = verdict(card_files(), nvml(card(**answer))).devices
    assert (device.health, device.failing, device.total_bytes) == (health, failing, 46068 * MIB)


@pytest.mark.parametrize(("code", "health"), [(15, "lost"), (16, "reset-required"), (3, "ok"), (999, "ok")])
def test_an_integrated_gpu_can_be_lost_as_well(code: int, health: str) -> None:
    thor = igpu("NVIDIA Thor", uuid="GPU-1", compute=NvmlProcesses(code))
    assert [device.health for device in verdict(BoardFiles(arch=ARM), nvml(thor)).devices] == [health]


@pytest.mark.parametrize(
    ("v1", "v2", "total", "reserved", "health", "failing"),
    [
        (0, 0, 8 * GIB, GIB, "ok", False),
        (0, None, 8 * GIB, None, "ok", False),  # before 510 there is no second query
        (0, 3, 8 * GIB, None, "ok", False),
        (0, 999, 8 * GIB, None, "ok", False),
        (999, 0, 8 * GIB, GIB, "ok", False),
        (3, 3, None, None, "degraded", False),
        (4, 4, None, None, "degraded", False),
        (999, 999, None, None, "degraded", True),
        (None, None, None, None, "degraded", False),
        (15, 15, None, None, "lost", True),
        (0, 15, 8 * GIB, None, "lost", True),
        (16, 16, None, None, "reset-required", True),
    ],
)
def test_two_memory_queries(
    v1: int | None, v2: int | None, total: int | None, reserved: int | None, health: str, *, failing: bool
) -> None:
    def told(code: int | None, **more: int) -> NvmlMemory | None:
        good = {"total": 8 * GIB, **more}
        return None if code is None else NvmlMemory(code=code, **(good if code == 0 else {}))

    (device,) = verdict(card_files(), nvml(card(memory=told(v1), memory_v2=told(v2, reserved=GIB)))).devices
    assert (device.total_bytes, device.reserved_bytes) == (total, reserved)
    assert (device.health, device.failing) == (health, failing)


# --- MIG -----------------------------------------------------------------------------


def mig(*instances: MigInstance, **fields: Any) -> NvmlDevice:
    """A card in MIG mode; what it says of itself needs a right that the agent does not have: code 4."""
    closed = NvmlMemory(code=4)
    return card(mig_mode=1, mig=instances, memory=closed, memory_v2=closed, compute=NvmlProcesses(4), **fields)


def instance(number: int, total: int | None = GIB, code: int = 0, **fields: Any) -> MigInstance:
    memory = NvmlMemory(code=code, total=total, reserved=0) if code == 0 else NvmlMemory(code=code)
    return MigInstance(**{"uuid": f"MIG-{number}", "memory_v2": memory, "compute": processes(), **fields})


def test_the_instances_stand_for_a_card_in_mig_mode() -> None:
    found = verdict(card_files(), nvml(mig(instance(1), instance(2, 2 * GIB))))
    assert [(device.uuid, device.total_bytes, device.health) for device in found.devices] == [
        ("MIG-1", GIB, "ok"),
        ("MIG-2", 2 * GIB, "ok"),
    ]


@pytest.mark.parametrize(
    ("code", "health", "failing"),
    [
        (3, "degraded", False),
        (4, "degraded", False),
        (999, "degraded", True),
        (15, "lost", True),
        (16, "reset-required", True),
    ],
)
def test_an_instance_whose_memory_is_not_readable(code: int, health: str, *, failing: bool) -> None:
    found = verdict(card_files(), nvml(mig(instance(1), instance(2, code=code))))
    assert [(device.total_bytes, device.health, device.failing) for device in found.devices] == [
        (GIB, "ok", False),
        (None, health, failing),
    ]


def test_a_thor_in_mig_mode_is_one_gpu_that_shares_the_boards_memory() -> None:
    none = NvmlMemory(code=3)
    parts = [MigInstance(uuid=f"MIG-{number}", memory=none, memory_v2=none) for number in (1, 2)]
    thor = igpu("NVIDIA Thor", uuid="GPU-1", mig_mode=1, mig=tuple(parts))
    found = verdict(BoardFiles(arch=ARM, compatible=("nvidia,tegra264",)), nvml(thor))
    assert found.kind == "jetson"
    assert [(device.uuid, device.memory, device.health) for device in found.devices] == [("GPU-1", "unified", "ok")]


# --- asleep --------------------------------------------------------------------------

A, B = "0000:01:00.0", "0000:65:00.0"
LAPTOP = card_files(pci_asleep=(A,))


@pytest.mark.parametrize(
    "answer",
    [ABSENT, nvml(count=None)],  # a recording without NVML, and an agent that did not ask
    ids=["absent", "not-asked"],
)
def test_a_card_that_sleeps_and_was_never_asked_is_there_and_of_unknown_size(answer: Nvml) -> None:
    found = verdict(LAPTOP, answer)
    assert (found.kind, found.unified, found.readable, found.warnings) == ("discrete", False, False, ())
    assert [(device.health, device.total_bytes, device.uuid, device.why) for device in found.devices] == [
        ("asleep", None, None, "")
    ]


def test_a_placeholder_of_the_agent_is_that_card_and_no_second_one() -> None:
    found = verdict(LAPTOP, nvml(NvmlDevice(handle=0, pci_address=A), count=None))
    assert [device.health for device in found.devices] == ["asleep"]
    assert not found.readable


@pytest.mark.parametrize("address", [A, None])
def test_a_card_that_sleeps_has_the_size_that_nvml_tells(address: str | None) -> None:
    found = verdict(LAPTOP, nvml(card(pci_address=address)))
    assert found.readable
    assert [(device.uuid, device.health, device.total_bytes) for device in found.devices] == [
        (CARD_UUID, "asleep", 46068 * MIB)
    ]


@pytest.mark.parametrize("code", [3, 15, 16, 999])
def test_what_calls_about_a_sleeping_card_answer_is_no_fault(code: int) -> None:
    failed = NvmlMemory(code=code)
    (device,) = verdict(LAPTOP, nvml(card(pci_address=A, memory=failed, memory_v2=failed))).devices
    assert (device.health, device.failing) == ("asleep", False)


@pytest.mark.parametrize("listed", [True, False])
def test_one_of_two_sleeps(*, listed: bool) -> None:
    second = card("GPU-2", GIB, 0, pci_address=B, name="NVIDIA RTX A2000")
    first = (card("GPU-1", pci_address=A),) if listed else ()
    found = verdict(card_files(pci_displays=2, pci_asleep=(A,)), nvml(second, *first, count=2))
    assert [(device.uuid, device.health) for device in found.devices] == [
        ("GPU-1" if listed else None, "asleep"),
        ("GPU-2", "ok"),
    ]
    assert found.readable
    assert found.product != "NVIDIA GPU"  # no name where another is known


def test_of_two_cards_without_a_library_one_sleeps_and_one_is_a_fault() -> None:
    found = verdict(card_files(pci_displays=2, pci_asleep=(A,)))
    assert [device.health for device in found.devices] == ["asleep", "degraded"]
    assert len(found.warnings) == 1


@pytest.mark.parametrize(("answer", "health"), [(None, "unknown"), (nvml(init=18, count=None), "degraded")])
def test_a_driver_that_fails_is_seen_although_the_card_sleeps(answer: Nvml | None, health: str) -> None:
    assert [device.health for device in verdict(LAPTOP, answer).devices] == [health]


def test_the_gpu_of_a_tegra_is_never_asleep() -> None:
    # It is powered down between two kernels, with all that it holds still in the board's memory.
    files = BoardFiles(arch=ARM, compatible=("nvidia,tegra264",), pci_displays=1, pci_asleep=(A,))
    thor = igpu("NVIDIA Thor", uuid="GPU-1", pci_address=A)
    assert [device.health for device in verdict(files, nvml(thor)).devices] == ["ok"]
    assert [device.health for device in verdict(files).devices] == ["ok"]


@pytest.mark.parametrize(
    ("memory", "odd"),
    [
        # 46068 = 450 + 45618, what the driver keeps counted as used or not
        (NvmlMemory(code=0, total=46068, reserved=450, used=450, free=45618), False),
        (NvmlMemory(code=0, total=46068, reserved=450, used=0, free=45618), False),
        (NvmlMemory(code=0, total=46068, used=0, free=46068 - 460), False),  # 1 % is 460.68
        (NvmlMemory(code=0, total=46068, used=0, free=46068 - 461), True),
        (NvmlMemory(code=0, total=46068, used=462, free=46068), True),
        # a board in the field (leptonai/gpud#1170)
        (NvmlMemory(code=0, total=128_501_256_192, used=6_910_320_640, free=7_976_902_656), True),
        (NvmlMemory(code=0, total=46068, used=None, free=1), False),
    ],
)
def test_figures_that_do_not_add_up_are_a_warning_and_the_total_stands(memory: NvmlMemory, *, odd: bool) -> None:
    found = verdict(card_files(), nvml(card(memory_v2=memory)))
    assert bool(found.warnings) is odd
    assert [(device.total_bytes, device.health) for device in found.devices] == [(memory.total, "ok")]


def test_on_a_tegra_with_its_gpu_a_faulty_card_stays_a_card() -> None:
    faulty = card(memory_v2=NvmlMemory(code=3), memory=NvmlMemory(code=3))
    as_large = card(total=8 * GIB, reserved=0)  # the host's memory
    for second, health in ((faulty, "degraded"), (as_large, "ok")):
        found = verdict(orin_files(), nvml(igpu(), second))
        assert found.kind == "mixed"
        assert [(device.memory, device.health) for device in found.devices] == [("discrete", health), ("unified", "ok")]


def test_a_device_whose_single_fields_fail_is_kept() -> None:
    bare = NvmlDevice(handle=0, memory_v2=NvmlMemory(code=0, total=8 * GIB, reserved=0))
    (device,) = verdict(card_files(), nvml(bare)).devices
    assert (device.name, device.uuid, device.health, device.total_bytes) == ("NVIDIA GPU", None, "ok", 8 * GIB)


def test_signals_that_disagree_are_a_warning() -> None:
    found = verdict(BoardFiles(arch=ARM, soc_family="Tegra", compatible=("acme,box",)))
    assert found.kind == "jetson"
    assert len(found.warnings) == 1
    other = verdict(orin_files(soc_family="Raspberry Pi"))
    assert other.kind == "jetson"
    assert len(other.warnings) == 1

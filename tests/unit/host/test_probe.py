"""What the files of a board say, each sign by itself."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeagent.facts import BoardFiles
from edgeagent.host.files import Entry, TreeFiles
from edgeagent.host.probe import probe
from tests.unit.host.trees import EACCES, FaultyFiles


def board(entries: dict[str, Entry]) -> BoardFiles:
    return probe(TreeFiles(entries), arch="aarch64", page_size=4096)


def test_an_empty_tree_says_nothing() -> None:
    assert board({}) == BoardFiles(arch="aarch64", page_size=4096)


def test_without_a_recording_the_machine_tells_itself() -> None:
    found = probe(TreeFiles({}))
    assert (found.arch, found.page_size) == (os.uname().machine, os.sysconf("SC_PAGE_SIZE"))


def test_a_whole_orin_nano() -> None:
    # compatible and release file as on a developer kit with JetPack 6 (public test fixture of ODS)
    found = board(
        {
            "proc/device-tree": "/sys/firmware/devicetree/base",
            "sys/firmware/devicetree/base/compatible": b"nvidia,p3768-0000+p3767-0005\0nvidia,tegra234\0",
            "sys/firmware/devicetree/base/model": b"NVIDIA Jetson Orin Nano Developer Kit\0",
            "sys/devices/soc0/family": b"Tegra\n",
            "etc/nv_tegra_release": b"# R36 (release), REVISION: 4.0, GCID: 41062509\n# KERNEL_VARIANT: oot\n",
            "sys/class/devfreq/17000000.gpu": "../../devices/platform/17000000.gpu/devfreq/17000000.gpu",
            "sys/devices/platform/17000000.gpu/devfreq/17000000.gpu/device": "../..",
            "sys/devices/platform/17000000.gpu/of_node": "../../../firmware/devicetree/base/bus@0/gpu@17000000",
            "sys/firmware/devicetree/base/bus@0/gpu@17000000/name": b"gpu\0",
            "sys/firmware/devicetree/base/bus@0/gpu@17000000/compatible": b"nvidia,ga10b\0",
            "sys/kernel/debug/nvmap/iovmm/clients": b"",
            "etc/machine-id": b"0123456789abcdef0123456789abcdef\n",
            "proc/sys/kernel/random/boot_id": b"11111111-2222-3333-4444-555555555555\n",
            "proc/sys/kernel/osrelease": b"5.15.148-tegra\n",
        }
    )
    assert found == BoardFiles(
        kernel="5.15.148-tegra",
        arch="aarch64",
        compatible=("nvidia,p3768-0000+p3767-0005", "nvidia,tegra234"),
        model="NVIDIA Jetson Orin Nano Developer Kit",
        soc_family="Tegra",
        l4t_release="# R36 (release), REVISION: 4.0, GCID: 41062509",
        devfreq=("gpu",),
        nvmap=True,
        machine_id="0123456789abcdef0123456789abcdef",
        boot_id="11111111-2222-3333-4444-555555555555",
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a,b\0c,d\0", ("a,b", "c,d")),
        (b"a,b\0c,d", ("a,b", "c,d")),
        (b"nvidia,tegra234\0nvidia,tegra\0\0", ("nvidia,tegra234", "nvidia,tegra")),
        (b"\xff\xfe,x\0nvidia,tegra234\0", ("��,x", "nvidia,tegra234")),
        (b"", ()),
    ],
)
def test_compatible_is_separated_by_nul(content: bytes, expected: tuple[str, ...]) -> None:
    assert board({"proc/device-tree/compatible": content}).compatible == expected


@pytest.mark.parametrize("name", ["gv11b", "gp10b", "ga10b", "gb10b", "gpu"])
def test_a_tegra_gpu_under_devfreq(name: str) -> None:
    node = "sys/class/devfreq/17000000.x/device/of_node"
    assert board({f"{node}/name": name.encode() + b"\0"}).devfreq == (name,)


def test_thor_is_its_entry_alone_and_others_are_no_gpu_of_nvidia() -> None:
    found = board(
        {
            "sys/class/devfreq/gpu-gpc-0/device/vendor": b"0x10de\n",
            "sys/class/devfreq/dmc/device/of_node/name": b"memory-controller\0",
            "sys/class/devfreq/fb000000.gpu/device/of_node/name": b"gpu\0",
            "sys/class/devfreq/fb000000.gpu/device/of_node/compatible": b"rockchip,rk3588-mali\0arm,mali-valhall-csf\0",
        }
    )
    assert found.devfreq == ("gpu-gpc-0",)


# The last rows as a Jetson Nano with L4T 32 has them; newer kernels print none.
OLD_MEMINFO = b"MemTotal:        4059240 kB\nNvMapMemFree:        1020 kB\nNvMapMemUsed:      740388 kB\n"


@pytest.mark.parametrize(
    ("path", "content"),
    [("dev/nvmap", b""), ("sys/kernel/debug/nvmap/iovmm/clients", b""), ("proc/meminfo", OLD_MEMINFO)],
)
def test_each_sign_of_nvmap_is_enough(path: str, content: bytes) -> None:
    assert board({path: content}).nvmap
    assert not board({"proc/meminfo": b"MemTotal:        4059240 kB\nCmaTotal:         475136 kB\n"}).nvmap


def pci(address: str, vendor: str, kind: str) -> dict[str, Entry]:
    real = f"sys/devices/pci0000:00/{address}"
    return {
        f"sys/bus/pci/devices/{address}": f"../../../devices/pci0000:00/{address}",
        f"{real}/vendor": f"{vendor}\n".encode(),
        f"{real}/class": f"{kind}\n".encode(),
    }


def test_only_displays_of_nvidia_count_on_the_pci_bus() -> None:
    found = board(
        {
            **pci("0000:01:00.0", "0x10de", "0x030000"),  # VGA
            **pci("0000:02:00.0", "0x10de", "0x030200"),  # 3D controller
            **pci("0000:01:00.1", "0x10de", "0x040300"),  # its sound
            **pci("0000:03:00.0", "0x15b3", "0x020000"),
            **pci("0000:00:02.0", "0x8086", "0x030000"),
            "sys/bus/pci/devices/0000:09:00.0": "../../../devices/gone",
        }
    )
    assert found.pci_displays == 2
    assert found.pci_asleep == ()


def test_a_display_that_is_powered_down() -> None:
    found = board(
        {
            **pci("0000:01:00.0", "0x10de", "0x030000"),
            "sys/devices/pci0000:00/0000:01:00.0/power/runtime_status": b"suspended\n",
            "sys/devices/pci0000:00/0000:01:00.0/driver": "../../../bus/pci/drivers/nvidia",
            **pci("0000:01:00.1", "0x10de", "0x040300"),  # its sound, which is no GPU
            "sys/devices/pci0000:00/0000:01:00.1/power/runtime_status": b"suspended\n",
            **pci("0000:02:00.0", "0x10de", "0x030200"),
            "sys/devices/pci0000:00/0000:02:00.0/power/runtime_status": b"active\n",
        }
    )
    assert (found.pci_listed, found.pci_displays, found.pci_asleep) == (True, 2, ("0000:01:00.0",))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version: gcc 12.3.0\n", "535.183.01"),
        (b"Open Kernel Module for aarch64  580.00  Release Build  (bugfix_main)\n", "580.00"),
        (b"Open Kernel Module for x86_64  580.95.05  Release Build\n", "580.95.05"),
        (b"", ""),  # there, but it does not tell
    ],
)
def test_the_loaded_driver(content: bytes, expected: str) -> None:
    found = board(
        {"proc/driver/nvidia/version": content, "proc/driver/nvidia/gpus/0000:01:00.0/information": b"Model: x\n"}
    )
    assert (found.proc_driver, found.proc_gpus) == (expected, 1)


DRIVER = {"proc/driver/nvidia/version": b"NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue\n"}
UBUNTU = "usr/lib/x86_64-linux-gnu"


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({}, None),
        ({f"{UBUNTU}/libnvidia-ml.so.580.126.09": b""}, "580.126.09"),
        ({f"{UBUNTU}/libnvidia-ml.so.1": b""}, None),  # a copy, as in some containers
        # an older file was left behind: the link by the soname is what programs load
        (
            {
                f"{UBUNTU}/libnvidia-ml.so.1": "libnvidia-ml.so.570.195.03",
                f"{UBUNTU}/libnvidia-ml.so.570.195.03": b"",
                f"{UBUNTU}/libnvidia-ml.so.580.95.05": b"",
            },
            "570.195.03",
        ),
        (
            {f"{UBUNTU}/libnvidia-ml.so.99.1": b"", f"{UBUNTU}/libnvidia-ml.so.580.95": b""},
            "580.95",
        ),
        # Debian: the first link leads to the alternatives
        (
            {
                f"{UBUNTU}/libnvidia-ml.so.1": "/etc/alternatives/glx--libnvidia-ml.so.1-x86_64-linux-gnu",
                f"{UBUNTU}/nvidia/current/libnvidia-ml.so.1": "libnvidia-ml.so.535.183.01",
            },
            "535.183.01",
        ),
        ({"usr/lib64/libnvidia-ml.so.1": "libnvidia-ml.so.580.95.05"}, "580.95.05"),
        ({"usr/lib/libnvidia-ml.so.580.95.05": b""}, "580.95.05"),
        ({"usr/lib/aarch64-linux-gnu/nvidia/libnvidia-ml.so.1": "libnvidia-ml.so.540.4.0"}, "540.4.0"),
        ({"lib": "usr/lib", f"{UBUNTU}/libnvidia-ml.so.580.126.09.bak": b""}, None),
    ],
)
def test_the_version_of_the_library(entries: dict[str, Entry], expected: str | None) -> None:
    assert board({**DRIVER, **entries}).nvml_library == expected


def test_the_library_is_looked_for_only_beside_a_loaded_driver() -> None:
    assert board({f"{UBUNTU}/libnvidia-ml.so.580.126.09": b""}).nvml_library is None


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({"proc/sys/kernel/osrelease": b"5.15.167.4-microsoft-standard-WSL2\n"}, True),
        ({"dev/dxg": b""}, True),
        ({"proc/sys/kernel/osrelease": b"6.8.0-48-generic\n"}, False),
    ],
)
def test_wsl(entries: dict[str, Entry], expected: bool) -> None:  # noqa: FBT001 (a table's column)
    assert board(entries).wsl is expected


def node(number: int, cpus: bytes, total: int) -> dict[str, Entry]:
    folder = f"sys/devices/system/node/node{number}"
    meminfo = f"Node {number} MemTotal:       {total} kB\nNode {number} MemFree:         1 kB\n"
    return {f"{folder}/cpulist": cpus, f"{folder}/meminfo": meminfo.encode()}


@pytest.mark.parametrize(
    ("nodes", "kib"),
    [
        # a GB200 superchip: two CPUs with their memory, the HBM of the GPUs as nodes without CPUs
        ({**node(0, b"0-71\n", 500), **node(1, b"72-143\n", 500), **node(2, b"\n", 190), **node(10, b"\n", 3)}, 193),
        (node(0, b"0-11\n", 500), 0),
        (node(0, b"\n", 500), 0),  # no node has a CPU: the list says nothing
        ({**node(0, b"0\n", 500), "sys/devices/system/node/node1/meminfo": b"Node 1 MemTotal: 7 kB\n"}, 0),
        ({**node(0, b"0\n", 500), "sys/devices/system/node/node1/cpulist": b"\n"}, 0),
        ({**node(0, b"0\n", 500), "sys/devices/system/node/possible": b"0-1\n"}, 0),
    ],
)
def test_memory_of_nodes_without_cpus(nodes: dict[str, Entry], kib: int) -> None:
    assert board(nodes).cpuless_numa_bytes == kib * 1024


def test_dmi_and_another_place_of_the_machine_id() -> None:
    found = board(
        {
            "sys/class/dmi/id": "../../devices/virtual/dmi/id",
            "sys/devices/virtual/dmi/id/product_name": b"NVIDIA_DGX_Spark\n",
            "etc/machine-id": b"\n",  # a read-only image before its first boot
            "var/lib/dbus/machine-id": b"abc\n",
        }
    )
    assert (found.product, found.machine_id, found.boot_id) == ("NVIDIA_DGX_Spark", "abc", None)


def test_what_cannot_be_read_is_left_out() -> None:
    entries: dict[str, Entry] = {
        "proc/device-tree/compatible": b"nvidia,tegra234\0",
        "sys/devices/soc0/family": b"Tegra\n",
        "dev/nvmap": b"",
        "sys/bus/pci/devices/x/vendor": b"0x10de\n",
    }
    found = probe(FaultyFiles(entries, dict.fromkeys([*entries, "sys/bus/pci/devices"], EACCES)), arch="x")
    assert (found.compatible, found.soc_family, found.nvmap, found.pci_displays) == ((), None, False, 0)


PLACES = [
    "proc/device-tree/compatible",
    "proc/device-tree/model",
    "sys/devices/soc0/family",
    "etc/nv_tegra_release",
    "proc/driver/nvidia/version",
    "sys/devices/system/node/node1/cpulist",
    "sys/devices/system/node/node1/meminfo",
    "sys/class/devfreq/x/device/of_node/name",
    "etc/machine-id",
]


@given(st.fixed_dictionaries({}, optional={place: st.binary() for place in PLACES}))
def test_any_bytes_are_a_board(entries: dict[str, bytes]) -> None:
    board(dict(entries))

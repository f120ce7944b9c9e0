"""What the readers of a diagnosis make of files."""

from __future__ import annotations

from typing import Any

import pytest

from edgeagent.facts import PodCgroup
from edgeagent.facts.diagnosis import CdiSpec, DeviceNode, DeviceParams, Holder, Swap
from edgeagent.host.closer import cdi, csvlists, devices, holders, kernel, runtimes
from edgeagent.host.files import TreeFiles
from tests.unit.host.trees import EACCES, FaultyFiles

K3S = "/var/lib/rancher/k3s"
POD = "11111111-2222-3333-4444-000000000001"
ID = "a" * 64


def tree(**files: Any) -> TreeFiles:
    return TreeFiles({path: text.encode() if isinstance(text, str) else text for path, text in files.items()})


# --- devices by name ---------------------------------------------------------------------


def test_a_specification_is_read_in_both_syntaxes() -> None:
    files = tree(
        **{
            "etc/cdi/a.json": '{"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": [{"name": "0"}]}',
            "etc/cdi/b.yaml": "kind: nvidia.com/gpu\ndevices:\n- name: 0\n- name: all\n- containerEdits: {}\n",
            "etc/cdi/readme.txt": "kind: none",
        }
    )
    assert list(cdi.specs(files)) == [
        CdiSpec(path="/etc/cdi/a.json", kind="nvidia.com/gpu", devices=("0",)),
        CdiSpec(path="/etc/cdi/b.yaml", kind="nvidia.com/gpu", devices=("0", "all")),
    ]


@pytest.mark.parametrize("text", ["kind: [", "- 1", "devices: []", "kind: ''", "kind: 3\n\x00"])
def test_one_that_is_none_is_named(text: str) -> None:
    (one,) = cdi.specs(tree(**{"etc/cdi/x.yaml": text}))
    assert (one.kind, one.devices) == ("", ())
    assert one.problem.startswith("/etc/cdi/x.yaml: ")


def test_one_folder_under_two_names_is_read_once() -> None:
    text = b"kind: a/b\ndevices: [{name: x}]\n"
    linked = TreeFiles({"run/cdi/a.yaml": text, "var/run": "/run"})
    assert [one.path for one in cdi.specs(linked)] == ["/var/run/cdi/a.yaml"]
    apart = TreeFiles({"run/cdi/a.yaml": text, "var/run/cdi/a.yaml": b"kind: c/d\n"})
    assert [one.kind for one in cdi.specs(apart)] == ["c/d", "a/b"]


# --- lists of files ----------------------------------------------------------------------


def test_what_the_lists_name_is_looked_for() -> None:
    folder = csvlists.FOLDER.strip("/")
    rows = (
        "dev, /dev/nvmap\nlib, /usr/lib/libcuda.so.1.1\nsym, /usr/lib/libcuda.so\ndir, /etc/gone\n"
        "lib, /usr/lib/*.so\n# lib, /no\nnothing\nother, /usr/lib/x\n"
    )
    files = TreeFiles(
        {
            f"{folder}/drivers.csv": rows.encode(),
            f"{folder}/l4t.csv": b"dev, /dev/nvmap\n",
            f"{folder}/old.csv.bak": b"lib, /no\n",
            "dev/nvmap": b"",
            "usr/lib/libcuda.so": "libcuda.so.1.1",
        }
    )
    found = csvlists.lists(files)
    assert found.files == ("drivers.csv", "l4t.csv")
    assert (found.listed, found.missing) == (4, ("/usr/lib/libcuda.so.1.1", "/etc/gone"))


def test_no_folder_is_not_the_same_as_an_empty_one() -> None:
    assert csvlists.lists(TreeFiles({})).files is None
    assert csvlists.lists(TreeFiles({csvlists.FOLDER.strip("/"): None})).files == ()


def test_a_library_is_there_and_not_only_its_link() -> None:
    folder = csvlists.FOLDER.strip("/")
    found = csvlists.lists(
        TreeFiles({f"{folder}/l.csv": b"lib, /a.so\nsym, /b.so\ndev, /dev/nvmap\n", "a.so": "gone", "b.so": "gone"})
    )
    assert (found.missing, found.listed, found.devices) == (("/a.so", "/dev/nvmap"), 3, 1)


def test_whether_there_are_settings_beside_the_lists() -> None:
    assert csvlists.lists(tree(**{"etc/nvidia-container-runtime/config.toml": ""})).settings
    assert not csvlists.lists(TreeFiles({})).settings


def test_what_may_not_be_read_is_neither_there_nor_missing() -> None:
    folder = csvlists.FOLDER.strip("/")
    files = {f"{folder}/l.csv": b"lib, /a.so\n", "etc/cdi/a.json": b"{}"}
    closed = FaultyFiles(files, {f"/{folder}": EACCES})
    assert (csvlists.lists(closed).files, csvlists.lists(closed).problem) == (None, f"/{folder}: Permission denied")
    closed = FaultyFiles(files, {f"/{folder}/l.csv": EACCES, "/etc/cdi/a.json": EACCES})
    assert csvlists.lists(closed).problem == f"/{folder}/l.csv: Permission denied"
    assert [one.closed for one in cdi.specs(closed)] == [True]


def test_the_lists_matter_on_a_tegra_alone() -> None:
    assert csvlists.wanted(tree(**{"proc/device-tree/compatible": "nvidia,p3767\0nvidia,tegra234\0"}))
    assert not csvlists.wanted(tree(**{"proc/device-tree/compatible": "raspberrypi,5\0"}))
    assert csvlists.wanted(tree(**{"etc/nv_tegra_release": "# R36"}))
    assert not csvlists.wanted(TreeFiles({}))


# --- runtimes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "base", "nvidia"),
    [
        ('{{ template "base" . }}\n', True, False),
        ("{{- template \"base\" . -}}\n[plugins.'x'.containerd.runtimes.'nvidia']\n", True, True),
        ('[plugins."x".containerd.runtimes."nvidia".options]\n', False, True),
        ("[plugins.x.containerd.runtimes.nvidia]\n", False, True),
        ('# {{ template "base" . }}\n# [x.runtimes.nvidia]\n', False, False),
    ],
)
def test_what_a_template_takes_in(text: str, *, base: bool, nvidia: bool) -> None:
    (one,) = runtimes.templates(tree(**{f"{K3S[1:]}/agent/etc/containerd/config.toml.tmpl": text}), K3S)
    assert (one.base, one.nvidia) == (base, nvidia)


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ('[nvidia-container-runtime]\nmode = "legacy"\n', "legacy"),
        ("[nvidia-container-runtime]\n", None),
        ("nvidia-container-runtime = 1\n", None),
        ("[", None),
    ],
)
def test_the_mode_of_the_toolkit(text: str, mode: str | None) -> None:
    assert runtimes.toolkit_mode(tree(**{"etc/nvidia-container-runtime/config.toml": text})) == mode


# --- the kernel ------------------------------------------------------------------------------


def test_rows_of_swaps() -> None:
    text = "Filename Type Size Used Priority\n/dev/zram0 partition 650000 1000 5\n/swapfile file 2048 0 -2\nodd row\n"
    assert kernel.swaps(tree(**{"proc/swaps": text})) == (
        Swap(path="/dev/zram0", bytes=650000 * 1024, used=1000 * 1024),
        Swap(path="/swapfile", bytes=2048 * 1024, used=0),
    )
    assert [one.zram for one in kernel.swaps(tree(**{"proc/swaps": text})) or ()] == [True, False]
    assert kernel.swaps(TreeFiles({})) is None
    assert kernel.swaps(tree(**{"proc/swaps": "Filename Type Size Used Priority\n"})) == ()


@pytest.mark.parametrize(
    ("paths", "version"),
    [
        (["cgroup.controllers"], "v2"),
        (["memory/x"], "v1"),
        (["memory/x", "unified/cgroup.controllers"], "hybrid"),
        ([], None),
    ],
)
def test_the_version_of_cgroups(paths: list[str], version: str | None) -> None:
    assert kernel.cgroups(tree(**{f"sys/fs/cgroup/{path}": "" for path in paths})) == version


def pods(path: str) -> dict[str, PodCgroup]:
    return {POD: PodCgroup(host_bytes=1, exact=True, path=path, container_paths={ID: f"{path}/{ID}"})}


def test_cpu_time_of_containers_in_both_versions() -> None:
    new = "sys/fs/cgroup/kubepods/pod1"
    files = tree(**{f"{new}/{ID}/cpu.stat": "usage_usec 2500000\nuser_usec 1\n"})
    assert kernel.cpu_seconds(files, pods(new)) == {ID: 2.5}
    old = "sys/fs/cgroup/cpu,cpuacct/kubepods/pod1"
    files = tree(**{f"{old}/{ID}/cpuacct.usage": "1500000000\n"})
    assert kernel.cpu_seconds(files, pods("sys/fs/cgroup/memory/kubepods/pod1")) == {ID: 1.5}
    assert kernel.cpu_seconds(TreeFiles({}), pods(new)) == {}


def test_uptime() -> None:
    assert kernel.uptime(tree(**{"proc/uptime": "350735.47 234388.90\n"})) == 350735.47
    assert kernel.uptime(TreeFiles({})) is None


# --- devices -----------------------------------------------------------------------------------


def test_device_nodes_of_nvidia() -> None:
    names = ("nvidia0", "nvidiactl", "nvmap", "nvhost-gpu", "nvme0", "nvram", "nvhost-vic", "sda")
    assert devices.nodes(tree(**{f"dev/{name}": "" for name in names})) == (
        "nvhost-gpu",
        "nvidia0",
        "nvidiactl",
        "nvmap",
    )


def test_who_may_open_them() -> None:
    files = tree(
        **{
            "dev/nvmap": "uid=0 gid=44 mode=660\n",
            "dev/nvgpu/igpu0/ctrl": "uid=0 gid=44 mode=666\n",
            "dev/nvidia0": "",  # nobody noted it
            "dev/sda": "uid=0 gid=6 mode=660\n",
        }
    )
    assert list(devices.owned(files)) == [
        DeviceNode(path="/dev/nvmap", uid=0, gid=44, mode=0o660),
        DeviceNode(path="/dev/nvgpu/igpu0/ctrl", uid=0, gid=44, mode=0o666),
    ]


def test_whether_all_devices_are_seen() -> None:
    assert devices.listed(tree(**{"dev/null": "", "dev/nvmap": ""}))
    assert not devices.listed(tree(**{"dev/nvmap": ""}))


def test_the_mode_that_the_driver_gives_them() -> None:
    text = (
        "ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 44\nDeviceFileMode: 432\n"
    )
    # 432 = 0o660
    wanted = DeviceParams(uid=0, gid=44, mode=0o660, modify=True)
    assert devices.params(tree(**{"proc/driver/nvidia/params": text})) == wanted
    assert devices.params(tree(**{"proc/driver/nvidia/params": "DeviceFileUID: 0\n"})) is None


def test_sockets_of_plugins() -> None:
    folder = "var/lib/kubelet/device-plugins"
    files = tree(
        **{f"{folder}/{name}": "" for name in ("kubelet.sock", "nvidia-gpu.sock", "kubelet_internal_checkpoint")}
    )
    assert devices.plugin_sockets(files) == ("nvidia-gpu.sock",)
    assert devices.plugin_sockets(TreeFiles({})) is None


# --- who holds them ------------------------------------------------------------------------------


def process(pid: int, cgroup: str, *nodes: str, fd: bool = True) -> dict[str, Any]:
    stat = f"{pid} (p{pid}) S 1 {pid} {pid} 0 -1 4194560 " + "0 " * 8 + "20 0 1 0 88123 " + "0 " * 30 + "\n"
    links: dict[str, Any] = {f"proc/{pid}/fd/{number}": node for number, node in enumerate(nodes)}
    return {
        f"proc/{pid}/stat": stat.encode(),
        f"proc/{pid}/cgroup": f"0::{cgroup}\n".encode(),
        **({f"proc/{pid}/fd": None, **links} if fd else {}),
    }


def test_holders_and_those_that_cannot_be_looked_into() -> None:
    inside = f"/kubepods/pod{POD}"
    files = TreeFiles(
        {
            **process(10, f"{inside}/{ID}", "/dev/nvidia0", "/dev/null", "/dev/nvidia0"),
            **process(11, f"{inside}/{'b' * 64}", fd=False),
            **process(12, f"{inside}/{'c' * 64}", "/dev/nvme0"),
            **process(13, "/system.slice/ollama.service", "/dev/nvmap"),
            **process(14, "/system.slice/x.service", fd=False),
        }
    )
    found = holders.holders(files)
    assert found.processes == (
        Holder(pid=10, name="p10", nodes=("/dev/nvidia0",), pod_uid=POD, container_id=ID),
        Holder(pid=13, name="p13", nodes=("/dev/nvmap",), pod_uid=None, container_id=None),
    )
    assert found.closed == {"b" * 64}
    assert found.seen == {ID, "b" * 64, "c" * 64}
    assert found.inside == {10, 11, 12}
    assert holders.holders(files, among=[12]).processes == ()


def test_without_processes_nothing_is_known() -> None:
    assert holders.holders(TreeFiles({})).problem
    assert holders.holders(TreeFiles({"proc": None})).problem

"""What is wrong with the board itself: driver, files of the toolkit, devices by name, swap, cgroup, clock, sharing.

NVIDIA/k8s-device-plugin#1431, #231, NVIDIA/nvidia-container-runtime#123, #173, dusty-nv/jetson-containers#342.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cases.machines import R36, RELEASE, SMALL, card, instance
from tests.cases.making import KEY, about, gpu, meminfo, node, nvml, pod, pods
from tests.cases.nodes import (
    ABOVE_NOTES,
    GPU,
    KINDS,
    NODE_NAMED,
    Capture,
    Files,
    ids,
    judged,
    orin,
    pi,
    shown,
    spark,
    the,
    thor,
    told,
    tower,
    whole,
)
from tests.diagnose.making import CSV, K3S_CONFIG, LIBCUDA, PODS, without
from tests.diagnose.plugin import DAEMON_SETS, daemon_set, daemon_sets, plugin

NVIDIA = {"runtimeClassName": "nvidia"}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_nothing_is_wrong(tmp_path: Path, capsys: Capture, kind: Any) -> None:
    assert ids(told(capsys, tmp_path, kind())) == []


def test_nothing_is_wrong_without_a_gpu_either(tmp_path: Path, capsys: Capture) -> None:
    assert ids(told(capsys, tmp_path, pi())) == []


# --- the driver -----------------------------------------------------------------------------------------------------

MODULE = "host/proc/driver/nvidia/version"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for {arch}  {version}  Release Build\nGCC version: 13\n"
CLOSED = "NVRM version: NVIDIA UNIX {arch} Kernel Module  {version}  Tue Sep 23 18:14:38 UTC 2025\nGCC version:  gcc\n"


@pytest.mark.parametrize("text", [OPEN, CLOSED], ids=["open", "closed"])
@pytest.mark.parametrize(
    ("kind", "folder"),
    [(tower, "usr/lib/x86_64-linux-gnu"), (tower, "usr/lib64"), (spark, "usr/lib/aarch64-linux-gnu")],
)
def test_an_upgrade_without_a_restart(tmp_path: Path, capsys: Capture, kind: Any, folder: str, text: str) -> None:
    arch, loaded, library = "x86_64" if kind is tower else "aarch64", "580.95.05", "580.126.09"
    files = kind(**{
        "nvml.json": {"library": "present", "init": 18},
        MODULE: text.format(arch=arch, version=loaded),
        f"host/{folder}/libnvidia-ml.so.{library}": "",
        "host/proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: NVIDIA\n",
    })  # fmt: skip
    document = shown(capsys, tmp_path, files)
    one = the(document["findings"], "driver-mismatch")
    assert judged(one) == ("error", "certain", NODE_NAMED)
    assert loaded in whole(one)
    assert library in whole(one)
    assert "reboot" in one["remedy"]
    assert document["plan"]["evictions"] == []
    # What is already offered stays for a while: pods that run go on.
    assert gpu(document) == {tower: "24064Mi", spark: "117509Mi"}[kind]


def test_versions_that_cannot_be_read_are_not_made_up(tmp_path: Path, capsys: Capture) -> None:
    one = the(told(capsys, tmp_path, tower(**{"nvml.json": {"library": "present", "init": 18}})), "driver-mismatch")
    assert judged(one)[:2] == ("error", "certain")


@pytest.mark.parametrize("code", [9, 12, 4, 999])
def test_another_failure_is_none(tmp_path: Path, capsys: Capture, code: int) -> None:
    files = tower(
        **{"nvml.json": {"library": "present", "init": code}, MODULE: CLOSED.format(arch="x86_64", version="580.95.05")}
    )
    files["host/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.95.05"] = ""
    assert "driver-mismatch" not in ids(told(capsys, tmp_path, files))


def test_the_same_version_twice_is_well(tmp_path: Path, capsys: Capture) -> None:
    files = tower(**{MODULE: OPEN.format(arch="x86_64", version="580.82.09")})
    files["host/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.82.09"] = ""
    assert ids(told(capsys, tmp_path, files)) == []


# --- lists of files -------------------------------------------------------------------------------------------------

LISTS = "host/etc/nvidia-container-runtime/host-files-for-container.d"
TOOLKIT = "host/etc/nvidia-container-runtime/config.toml"
OLD_CUDA = "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1"
GONE = "csv-files-missing"


@pytest.mark.parametrize("kind", [orin, thor])
def test_no_list_at_all(tmp_path: Path, capsys: Capture, kind: Any) -> None:
    files = {**without(kind(), CSV), TOOLKIT: '[nvidia-container-runtime]\nmode = "auto"\n'}
    one = the(told(capsys, tmp_path / "1", files), GONE)
    assert judged(one) == ("error", "certain", NODE_NAMED)
    assert LISTS.removeprefix("host") in whole(one)
    # Without the toolkit's own settings beside them they may be where nobody looked.
    unseen = the(told(capsys, tmp_path / "2", without(kind(), CSV)), GONE)
    assert judged(unseen)[:2] == ("info", "suspected")


@pytest.mark.parametrize(
    ("text", "missing", "listed"),
    [
        (f"lib, {OLD_CUDA}\n", 1, 1),
        (f"lib, {LIBCUDA}\nlib,{OLD_CUDA}\n", 1, 2),
        (f"# lib, /usr/lib/x\n\n  lib ,  {OLD_CUDA}  \n#dir, /lib/firmware\n", 1, 1),
        (f"lib, {OLD_CUDA}\r\nlib, {LIBCUDA}\r\n", 1, 2),
        (f"dev, /dev/nvhost-gpu\ndev, /dev/nvmap\nlib, {OLD_CUDA}\n", 1, 1),
        (
            "".join(f"lib, /usr/lib/aarch64-linux-gnu/nvidia/libnv{name}.so.1\n" for name in "abcde")
            + f"lib, {OLD_CUDA}\n",
            6,
            6,
        ),
    ],
    ids=["one", "one-of-two", "comments", "windows", "devices", "many"],
)
def test_a_list_that_is_stale(tmp_path: Path, capsys: Capture, text: str, missing: int, listed: int) -> None:
    one = the(told(capsys, tmp_path, orin(**{CSV: text})), GONE)
    assert judged(one) == ("error", "certain", NODE_NAMED)
    assert f"{missing} of {listed}" in one["summary"]
    named = set(re.findall(r"/usr/lib/[\w./-]+\.so[\w.]*\w", whole(one)))
    assert OLD_CUDA in named
    assert len(named) == min(missing, 3)


@pytest.mark.parametrize(
    "changes",
    [
        {CSV: "dev, /dev/nvhost-gpu\n" + f"lib, {LIBCUDA}\n"},
        {CSV: f"# lib, {OLD_CUDA}\nlib, {LIBCUDA}\n"},
        {CSV: f"lib, {OLD_CUDA}\n", TOOLKIT: '[nvidia-container-runtime]\nmode = "cdi"\n'},
        {CSV: f"lib, {LIBCUDA}\n", TOOLKIT: "[nvidia-container-runtime]\nmode = 'csv'\n"},
        {CSV: f"lib, {LIBCUDA}\n", TOOLKIT: '# mode = "legacy"\n[nvidia-container-runtime]\nmode = "auto"\n'},
    ],
    ids=["devices", "comment", "cdi", "csv", "auto"],
)
def test_lists_that_are_right(tmp_path: Path, capsys: Capture, changes: Files) -> None:
    assert GONE not in ids(told(capsys, tmp_path, orin(**changes)), ABOVE_NOTES)


@pytest.mark.parametrize("mode", ['mode = "legacy"', "mode='legacy'"])
@pytest.mark.parametrize(
    ("kind", "judgement"), [(orin, ("error", "certain")), (thor, ("warning", "suspected"))], ids=["orin", "thor"]
)
def test_legacy_mounts_no_lists_on_a_jetson(
    tmp_path: Path, capsys: Capture, kind: Any, mode: str, judgement: tuple[str, str]
) -> None:
    """A Thor's driver is that of a card, and has what the legacy way needs."""
    one = the(told(capsys, tmp_path, kind(**{TOOLKIT: f"[nvidia-container-runtime]\n{mode}\n"})), GONE)
    assert judged(one)[:2] == judgement
    assert "legacy" in whole(one)
    assert TOOLKIT.removeprefix("host") in whole(one)


@pytest.mark.parametrize("kind", [spark, tower, pi])
def test_no_other_machine_has_lists(tmp_path: Path, capsys: Capture, kind: Any) -> None:
    files = kind(**{TOOLKIT: '[nvidia-container-runtime]\nmode = "legacy"\n', CSV: f"lib, {OLD_CUDA}\n"})
    assert ids(told(capsys, tmp_path, files)) == []


# --- devices by name ------------------------------------------------------------------------------------------------


def spec(kind: str = "nvidia.com/gpu", *names: str) -> str:
    return json.dumps({"cdiVersion": "0.6.0", "kind": kind, "devices": [{"name": name} for name in names]})


@pytest.mark.parametrize(
    ("files", "wrong"),
    [
        ({"etc/cdi/a.yaml": spec("nvidia.com/gpu", "0", "all"), "etc/cdi/b.json": spec("nvidia.com/gpu", "0")}, True),
        ({"etc/cdi/a.yaml": spec("nvidia.com/gpu", "0"), "etc/cdi/b.yaml": spec("nvidia.com/gpu", "1")}, False),
        ({"etc/cdi/a.yaml": spec("nvidia.com/gpu", "0"), "etc/cdi/b.yaml": spec("nvidia.com/pva", "0")}, False),
        ({"etc/cdi/a.yaml": spec("nvidia.com/gpu", "0"), "var/run/cdi/b.yaml": spec("nvidia.com/gpu", "0")}, False),
        ({"etc/cdi/a.yaml": spec("nvidia.com/gpu", "0"), "etc/cdi/b.yaml.bak": spec("nvidia.com/gpu", "0")}, False),
        ({"etc/cdi/a.yaml": spec("amd.com/gpu", "0"), "etc/cdi/b.yaml": spec("amd.com/gpu", "0")}, False),
    ],
    ids=["both-syntaxes", "two-names", "two-kinds", "two-folders", "another-ending", "another-vendor"],
)
def test_two_files_of_one_kind(tmp_path: Path, capsys: Capture, files: Files, *, wrong: bool) -> None:
    found = told(capsys, tmp_path, orin(**{f"host/{name}": text for name, text in files.items()}))
    assert ("cdi-duplicate-kind" in ids(found, ABOVE_NOTES)) == wrong
    if wrong:
        one = the(found, "cdi-duplicate-kind")
        assert judged(one) == ("error", "certain", NODE_NAMED)
        assert all(f"/{name}" in whole(one) for name in files)


@pytest.mark.parametrize("name", ["nvidia.com/gpu=7", "nvidia.com/gpu=GPU-0", "nvidia.com/gpu=mig1:0"])
def test_a_name_that_nobody_defines(tmp_path: Path, capsys: Capture, name: str) -> None:
    made = pod("llm", annotations={"cdi.k8s.io/x": name}, status={"phase": "Pending", "containerStatuses": []})
    files = tower(**{"host/etc/cdi/nvidia.yaml": spec("nvidia.com/gpu", "0", "all"), PODS: pods(made)})
    one = the(told(capsys, tmp_path, files), "cdi-name-unresolved")
    assert judged(one)[0] == "error"
    assert judged(one)[2] == "pod default/llm"
    assert name in whole(one)
    assert "nvidia-ctk cdi" in one["remedy"]


@pytest.mark.parametrize("name", ["nvidia.com/gpu=0", "nvidia.com/gpu=all", "nvidia.com/gpu=0,nvidia.com/gpu=all"])
def test_a_name_that_is_defined(tmp_path: Path, capsys: Capture, name: str) -> None:
    made = pod("llm", annotations={"cdi.k8s.io/x": name})
    files = tower(**{"host/etc/cdi/nvidia.yaml": spec("nvidia.com/gpu", "0", "all"), PODS: pods(made)})
    assert ids(told(capsys, tmp_path, files), ABOVE_NOTES) == []


# --- swap -----------------------------------------------------------------------------------------------------------

ZRAM = "Filename Type Size Used Priority\n" + "".join(f"/dev/zram{n} partition 650192 0 5\n" for n in range(6))


def swapping(kind: Any, total_kib: int, free_kib: int | None = None, swaps: str = "") -> Files:
    files: Files = kind()
    rows = {"SwapTotal": total_kib, "SwapFree": total_kib if free_kib is None else free_kib}
    size = {orin: SMALL, thor: 128651324, spark: 127600748, tower: 64 << 20}[kind]
    return {**files, "host/proc/meminfo": meminfo(size, **rows), **({"host/proc/swaps": swaps} if swaps else {})}


@pytest.mark.parametrize(("kind", "swap"), [(orin, 23068672), (thor, 134217728), (spark, 268435456)])
def test_a_large_swap_on_one_memory(tmp_path: Path, capsys: Capture, kind: Any, swap: int) -> None:
    text = f"{ZRAM}/swapfile file {swap - 6 * 650192} 0 -2\n"
    document = shown(capsys, tmp_path / "swap", swapping(kind, swap, swaps=text))
    one = the(document["findings"], "swap-hides-pressure")
    assert judged(one)[0] == "warning"
    assert judged(one)[2] == NODE_NAMED
    assert "swapoff" in one["remedy"]
    assert gpu(document) == gpu(shown(capsys, tmp_path / "none", kind()))


@pytest.mark.parametrize(
    ("kind", "swap", "free"),
    [
        (orin, SMALL // 2, SMALL // 2),
        (orin, 0, 0),
        (orin, SMALL // 2, SMALL // 2 - 1000),
        (tower, 256 << 20, 256 << 20),
        (spark, 16 << 20, 16 << 20),
    ],
    ids=["zram-of-a-jetson", "none", "a-little-used", "a-card", "16-GiB-of-121"],
)
def test_swap_that_hides_nothing(tmp_path: Path, capsys: Capture, kind: Any, swap: int, free: int) -> None:
    assert "swap-hides-pressure" not in ids(told(capsys, tmp_path, swapping(kind, swap, free)))


# --- control groups -------------------------------------------------------------------------------------------------

V2 = "host/sys/fs/cgroup/cgroup.controllers"


def grouped(version: str | None, *, kind: Any = orin, hybrid: bool = False) -> Files:
    files = without(kind(), V2)
    files |= {
        "host/sys/fs/cgroup/memory/memory.usage_in_bytes": "1000000\n",
        "host/sys/fs/cgroup/memory/memory.stat": "total_active_file 0\ntotal_inactive_file 0\n",
    }
    if hybrid:
        files["host/sys/fs/cgroup/unified/cgroup.controllers"] = "\n"
    if version is not None:
        files["cluster/node.json"]["status"]["nodeInfo"] = {"kubeletVersion": version}
    return files


@pytest.mark.parametrize(
    ("version", "severity"),
    [
        ("v1.27.4+k3s1", "info"), ("v1.34.3+k3s1", "info"), ("v1.35.0+k3s1", "warning"), ("v1.36.1+k3s1", "warning"),
        ("v1.35.0-rc1+k3s1", "warning"), ("v1.100.0", "warning"), (None, "info"), ("", "info"), ("v2.0.0", "warning"),
    ],
)  # fmt: skip
def test_the_first_version_of_control_groups(
    tmp_path: Path, capsys: Capture, version: str | None, severity: str
) -> None:
    one = the(told(capsys, tmp_path, grouped(version, hybrid=version == "v1.35.0+k3s1")), "cgroup-v1")
    assert judged(one)[0] == severity
    assert judged(one)[2] == NODE_NAMED
    assert "unified_cgroup_hierarchy=1" in one["remedy"]


@pytest.mark.parametrize("version", ["v1.34.3+k3s1", "v1.36.0+k3s1"])
def test_the_second_version_is_well(tmp_path: Path, capsys: Capture, version: str) -> None:
    files = orin()
    files["cluster/node.json"]["status"]["nodeInfo"] = {"kubeletVersion": version}
    assert ids(told(capsys, tmp_path / "1", files)) == []
    assert "cgroup-v1" not in ids(told(capsys, tmp_path / "2", without(files, V2)))  # it was not recorded


# --- the clock ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "taken", ["1970-01-01T00:03:20Z", "1970-01-01T00:00:00Z", "2000-01-01T00:10:00Z", "2014-12-31T23:59:59Z"]
)
@pytest.mark.parametrize("kind", [orin, pi])
def test_a_clock_that_nobody_has_set(tmp_path: Path, capsys: Capture, kind: Any, taken: str) -> None:
    one = the(told(capsys, tmp_path, kind(**{"snapshot.yaml": about(taken=taken)})), "clock-invalid")
    assert judged(one)[0] == "error"
    assert judged(one)[2] == NODE_NAMED
    assert taken[:10] in whole(one)
    assert "timedatectl" in one["remedy"]


@pytest.mark.parametrize("ahead", ["2026-01-31T12:00:02Z", "2026-01-31T11:59:59Z", "2026-01-31T12:00:20Z"])
def test_seconds_between_two_machines_are_nothing(tmp_path: Path, capsys: Capture, ahead: str) -> None:
    made = pod("llm", limits={KEY: "1Gi"}, spec=NVIDIA, status={"startTime": ahead})
    assert "clock-invalid" not in ids(told(capsys, tmp_path, orin(**{PODS: pods(made)})))


def test_pods_from_the_future(tmp_path: Path, capsys: Capture) -> None:
    """The board lost an hour when its power went; what the API server holds is of later."""
    made = pod("llm", limits={KEY: "1Gi"}, spec=NVIDIA, status={"startTime": "2026-02-03T12:00:00Z"})
    made["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = "2026-02-03T12:00:05Z"
    one = the(told(capsys, tmp_path, orin(**{PODS: pods(made)})), "clock-invalid")
    assert one["severity"] in ABOVE_NOTES
    assert "default/llm" in whole(one)


# --- reserves -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", ["9000Mi", "7620Mi", "7802368Ki", "100%"])
def test_reserves_that_take_it_all(tmp_path: Path, capsys: Capture, size: str) -> None:
    """7802368 KiB is the whole of it: 7619.5 MiB."""
    document = shown(capsys, tmp_path, orin(**{"config.yaml": {"reserves": {"os": size}}, "cluster/node.json": node()}))
    one = the(document["findings"], "reserves-exceed-pool")
    assert judged(one)[:2] == ("error", "certain")
    assert "os" in whole(one)
    assert gpu(document) == "0Mi"


@pytest.mark.parametrize(
    ("config", "told_of"),
    [
        ("", True),
        ('kubelet-arg: ["max-pods=50"]\n', True),
        ('kubelet-arg: ["eviction-hard=nodefs.available<5%"]\n', True),
        ('kubelet-arg: ["eviction-hard=memory.available<100Mi"]\n', False),
        ("kubelet-arg: eviction-hard=memory.available<5%\n", False),
        (
            'kubelet-arg: ["eviction-hard=memory.available<100Mi", "eviction-hard=nodefs.available<5%"]\n',
            False,
        ),  # they add up
    ],
)
def test_a_kubelet_that_evicts_nobody_is_a_note(tmp_path: Path, capsys: Capture, config: str, *, told_of: bool) -> None:
    found = told(capsys, tmp_path, orin(**{K3S_CONFIG: config}))
    assert ids(found) == ["no-memory-eviction"] * told_of
    for one in found:
        assert judged(one)[0] == "info"
        assert "memory.available" in one["remedy"]


# --- sharing --------------------------------------------------------------------------------------------------------

T4 = card(0, 15109, 450)


def sharing(number: str, *items: dict[str, Any], key: str = GPU, **labels: str) -> Files:
    has = {
        "nvml.json": nvml(T4),
        PODS: pods(plugin(spec=NVIDIA), *items),
        DAEMON_SETS: daemon_sets(daemon_set(wanted=1)),
    }
    return tower(**has, **{"cluster/node.json": node({KEY: "14659Mi", key: number}, labels=labels)})


def sharer(name: str, key: str = GPU, **limits: str) -> dict[str, Any]:
    return pod(name, limits={key: "1", **limits}, spec=NVIDIA)


@pytest.mark.parametrize("key", [GPU, "nvidia.com/gpu.shared"])
@pytest.mark.parametrize("number", ["2", "50"])
def test_replicas_are_no_wall(tmp_path: Path, capsys: Capture, key: str, number: str) -> None:
    """15109 MiB less the driver's 450 are 14659, however many replicas there are."""
    document = shown(capsys, tmp_path, sharing(number, sharer("a", key), sharer("b", key), key=key))
    one = the(document["findings"], "time-slicing-no-wall")
    assert judged(one)[0] == "info"
    assert number in whole(one)
    assert gpu(document) == "14659Mi"
    assert ids(document["findings"], ABOVE_NOTES) == []


def test_one_gpu_for_one_pod_is_not_shared(tmp_path: Path, capsys: Capture) -> None:
    assert ids(told(capsys, tmp_path, sharing("1", sharer("a")))) == []


def test_mps_is_a_wall(tmp_path: Path, capsys: Capture) -> None:
    files = sharing("10", sharer("a"), sharer("b"), **{"nvidia.com/gpu.sharing-strategy": "mps"})
    assert ids(told(capsys, tmp_path, files)) == []


def test_instances_of_a_card_have_walls_between_them(tmp_path: Path, capsys: Capture) -> None:
    """Seven instances offered as seven GPUs (MIG strategy "single")."""
    whole_card = card(0, 40960, 512, mig={"mode": 1, "instances": [instance(number, 4864) for number in range(7)]})
    files = sharing("7", sharer("a"), sharer("b"))
    assert "time-slicing-no-wall" not in ids(told(capsys, tmp_path, {**files, "nvml.json": nvml(whole_card)}))


@pytest.mark.parametrize("lost", [{"memory": {"code": 15}, "memory_v2": {"code": 15}}, {"handle": 15}, {}])
def test_as_many_gpus_as_there_are(tmp_path: Path, capsys: Capture, lost: Files) -> None:
    """Two cards, of which one may have fallen off the bus (NVIDIA/k8s-device-plugin#231): no replica of either."""
    second = {"handle": 15} if "handle" in lost else card(1, 15109, 450, **lost)
    files = {**sharing("2", sharer("a"), sharer("b")), "nvml.json": nvml(T4, second)}
    assert "time-slicing-no-wall" not in ids(told(capsys, tmp_path, files))


# --- images ---------------------------------------------------------------------------------------------------------

NEW = "image-too-new"


def running_image(image: str) -> dict[str, Any]:
    made = pod("llm", limits={KEY: "1Gi"}, spec=NVIDIA)
    made["spec"]["containers"][0]["image"] = image
    return made


@pytest.mark.parametrize(
    ("release", "image"),
    [
        ("# R35 (release), REVISION: 4.1, GCID: 1, BOARD: t186ref\n", "nvcr.io/nvidia/l4t-jetpack:r36.4.0"),
        ("# R35 (release), REVISION: 4.1, GCID: 1, BOARD: t186ref\n", "dustynv/ollama:r36.2.0"),
        (R36, "mirror.example:5000/dustynv/l4t-pytorch:r38.2.0"),
    ],
)
def test_an_image_for_a_later_jetpack(tmp_path: Path, capsys: Capture, release: str, image: str) -> None:
    one = the(told(capsys, tmp_path, orin(**{RELEASE: release, PODS: pods(running_image(image))})), NEW)
    assert judged(one) == ("warning", "suspected", "pod default/llm")
    assert image.rpartition(":")[2] in whole(one)


@pytest.mark.parametrize(
    "image",
    [
        "nvcr.io/nvidia/l4t-jetpack:r36.4.0", "dustynv/l4t-pytorch:r36.2.0", "nginx:1.36", "app:r36", "app:latest", "",
    ],
)  # fmt: skip
def test_an_image_that_fits_or_says_nothing(tmp_path: Path, capsys: Capture, image: str) -> None:
    found = told(capsys, tmp_path, orin(**{RELEASE: R36, PODS: pods(running_image(image))}))
    assert NEW not in ids(found, ABOVE_NOTES)


@pytest.mark.parametrize(
    ("cuda", "image", "new"),
    [
        (12040, "nvidia/cuda:13.0.1-runtime-ubuntu24.04", True),
        (13000, "nvidia/cuda:13.0.1-runtime-ubuntu24.04", False),
        (12040, "vllm/vllm-openai:v0.11-cu130", True),
        (12080, "pytorch/pytorch:2.7.0-cuda12.6-cudnn9-runtime", False),
        (12020, "pytorch/pytorch:2.7.0-cuda12.6-cudnn9-runtime", False),  # minor versions are compatible
    ],
)
def test_an_image_for_a_later_cuda(tmp_path: Path, capsys: Capture, cuda: int, image: str, *, new: bool) -> None:
    files = tower(**{"nvml.json": nvml(card(0), cuda_version=cuda), PODS: pods(running_image(image))})
    assert (NEW in ids(told(capsys, tmp_path, files), ABOVE_NOTES)) == new

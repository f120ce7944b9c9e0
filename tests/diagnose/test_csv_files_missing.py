"""A Jetson's lists of files for containers (NVIDIA/nvidia-container-runtime#123, dusty-nv/jetson-inference#1448)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.machines import COMPATIBLE, THOR
from tests.diagnose.making import BINARY, CONTAINERD, CSV, LIBCUDA, Capture, containerd, found, healthy, judged, without

ID = "csv-files-missing"
FOLDER = CSV.rpartition("/")[0]
SETTINGS = "host/etc/nvidia-container-runtime/config.toml"
LIB = "/usr/lib/aarch64-linux-gnu"
TRIGGER = without(healthy(), f"host{LIBCUDA}")
NEAR_MISS = healthy(
    **{CSV: f"lib, {LIBCUDA}\ndev, /dev/fb1\ndev, /dev/dri/card*\nsym, /usr/lib/x.so\n", "host/usr/lib/x.so": ""}
)


def mode(name: str) -> dict[str, str]:
    return {SETTINGS: f'[nvidia-container-runtime]\nmode = "{name}"\n'}


def rows(*names: str) -> str:
    return "".join(f"lib, {LIB}/{name}\n" for name in names)


def test_the_first_that_are_missing_are_named(tmp_path: Path, capsys: Capture) -> None:
    names = [
        "weston/x.so",
        "nvidia/libnvrm_gpu.so",
        "nvidia/libnvos.so",
        "nvidia/libnvrm_mem.so",
        "nvidia/libcuda.so.1.1",
    ]
    (one,) = found(capsys, tmp_path, healthy(**{CSV: rows(*names)}), ID)
    assert judged(one) == ("error", "certain", "node edge-07")
    # libcuda is there; what CUDA needs is named before the rest.
    needed = ", ".join(f"{LIB}/{name}" for name in names[1:4])
    assert f"4 of 5 listed files are missing: {needed} …" in one["summary"]
    assert "sudo apt-get install --reinstall" in one["remedy"]


def test_what_cuda_does_not_need_is_a_note(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{CSV: rows("nvidia/libcuda.so.1.1", "weston/x.so")}), ID)
    assert judged(one) == ("info", "suspected", "node edge-07")


def test_unless_it_is_most_of_the_list(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{CSV: rows("nvidia/libcuda.so.1.1", "a.so", "b.so")}), ID)
    assert judged(one) == ("error", "certain", "node edge-07")


def test_a_link_to_a_file_that_is_gone_is_no_library(tmp_path: Path, capsys: Capture) -> None:
    gone = healthy(**{CSV: f"lib, {LIBCUDA}\n"})
    del gone[f"host{LIBCUDA}"]
    (tmp_path / f"host{LIBCUDA}").parent.mkdir(parents=True)
    (tmp_path / f"host{LIBCUDA}").symlink_to("libcuda.so.35")
    assert len(found(capsys, tmp_path, gone, ID)) == 1


@pytest.mark.parametrize(
    ("files", "judgement"),
    [
        (mode("auto"), ("error", "certain")),
        (mode("csv"), ("error", "certain")),
        ({}, ("info", "suspected")),  # nothing of the settings was seen
        ({f"{FOLDER}/readme.txt": "no list"}, ("error", "certain")),
        ({"host/etc/cdi/nvidia.yaml": "kind: nvidia.com/gpu\ndevices: [{name: all}]\n", **mode("auto")}, None),
        (mode("cdi"), None),
    ],
    ids=["auto", "csv", "unseen", "empty", "by-name", "cdi"],
)
def test_there_are_no_lists(
    tmp_path: Path, capsys: Capture, files: dict[str, str], judgement: tuple[str, str] | None
) -> None:
    told = [judged(one)[:2] for one in found(capsys, tmp_path, {**without(healthy(), CSV), **files}, ID)]
    assert told == ([judgement] if judgement else [])


def test_without_a_runtime_of_nvidias_that_is_what_is_missing(tmp_path: Path, capsys: Capture) -> None:
    files = without(healthy(**{CONTAINERD: containerd()}), CSV, f"host{BINARY}")
    assert found(capsys, tmp_path, files, ID) == []


@pytest.mark.parametrize(
    ("text", "judgement"),
    [
        ("", ("error", "certain")),
        ("# only a comment\n", ("error", "certain")),
        ("dev, /dev/x\n", ("warning", "suspected")),
    ],
)
def test_lists_that_name_no_library(tmp_path: Path, capsys: Capture, text: str, judgement: tuple[str, str]) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{CSV: text}), ID)
    assert judged(one)[:2] == judgement


def test_in_the_legacy_mode_no_list_is_read(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, healthy(**mode("legacy")), ID)
    assert judged(one) == ("error", "certain", "node edge-07")
    assert "sudo nvidia-ctk config --in-place --set nvidia-container-runtime.mode=auto" in one["remedy"]
    (one,) = found(capsys, tmp_path, healthy(**mode("legacy"), **{COMPATIBLE: THOR}), ID)
    assert judged(one)[:2] == ("warning", "suspected")


@pytest.mark.parametrize("compatible", [b"raspberrypi,5\0", b"qcom,x\0"])
def test_on_other_boards_the_lists_mean_nothing(tmp_path: Path, capsys: Capture, compatible: bytes) -> None:
    files: dict[str, Any] = {**TRIGGER, COMPATIBLE: compatible}
    assert found(capsys, tmp_path, files, ID) == []

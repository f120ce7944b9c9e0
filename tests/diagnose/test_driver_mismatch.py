"""Kernel module and libraries of different versions (NVIDIA/k8s-device-plugin#1431)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.machines import COMPATIBLE, NVIDIA_CARD, R36, RELEASE, THOR, card, on_x86
from tests.cases.making import nvml
from tests.diagnose.making import CSV, Capture, Files, found, healthy, judged, without

ID = "driver-mismatch"
MODULE = "580.95.05"
LIBRARY = "580.126.09"
VERSION = "host/proc/driver/nvidia/version"
KERNEL = "host/proc/sys/kernel/osrelease"
MISMATCH = 18
UNCOUNTED = {"library": "present", "init": MISMATCH}


def version(number: str) -> str:
    return f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {number}  Release Build\n"


def server(module: str, library: str, answers: dict[str, Any] | None) -> Files:
    """A server with a card, its driver's module and libraries, and NVML's answers."""
    files = without(healthy(**on_x86(), **NVIDIA_CARD), COMPATIBLE, CSV)
    files |= {VERSION: version(module), f"host/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{library}": ""}
    return {**files, "nvml.json": answers} if answers else files


def jetson(release: str = R36, **files: Any) -> Files:
    return healthy(**{RELEASE: release, **files})


TRIGGER = server(MODULE, LIBRARY, UNCOUNTED)
NEAR_MISS = server(MODULE, MODULE, nvml(card(0)))


def test_nvml_says_so_itself(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("error", "certain", "node edge-07")
    assert MODULE in one["summary"]
    assert LIBRARY in one["summary"]
    assert one["evidence"][0] == "nvmlInit: 18"
    assert "sudo reboot" in one["remedy"].splitlines()


def test_its_answer_is_enough(tmp_path: Path, capsys: Capture) -> None:
    files = without(healthy(**on_x86(), **{"nvml.json": UNCOUNTED}), COMPATIBLE, CSV)
    (one,) = found(capsys, tmp_path, files, ID)
    assert judged(one) == ("error", "certain", "node edge-07")


def test_where_no_library_is_found_its_version_is_not_known(tmp_path: Path, capsys: Capture) -> None:
    files = without(TRIGGER, f"host/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{LIBRARY}")
    (one,) = found(capsys, tmp_path, files, ID)
    assert judged(one) == ("error", "certain", "node edge-07")
    assert "libnvidia-ml.so: version not found" in one["evidence"]


def test_a_container_from_before_the_upgrade_has_the_old_library(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, server(LIBRARY, LIBRARY, UNCOUNTED), ID)
    assert judged(one) == ("error", "certain", "node edge-07")
    assert "reboot" not in one["remedy"]
    assert "kubectl delete pods" in one["remedy"]


@pytest.mark.parametrize(
    ("module", "library", "answers", "severity"),
    [
        (MODULE, LIBRARY, True, "warning"),  # the agent has had NVML open since before the upgrade
        (LIBRARY, MODULE, True, None),  # older ones lie around beside a driver that brings its own
        (MODULE, LIBRARY, False, "error"),
        (LIBRARY, MODULE, False, "error"),
        ("580.142", "580.142.0", False, None),
    ],
)
def test_the_files_alone_are_a_suspicion(
    tmp_path: Path, capsys: Capture, module: str, library: str, *, answers: bool, severity: str | None
) -> None:
    files = server(module, library, nvml(card(0)) if answers else None)
    one = [judged(one) for one in found(capsys, tmp_path, files, ID)]
    assert one == ([(severity, "suspected", "node edge-07")] if severity else [])


@pytest.mark.parametrize("code", [9, 12, 999])
def test_another_failure_is_none(tmp_path: Path, capsys: Capture, code: int) -> None:
    assert found(capsys, tmp_path, server(MODULE, MODULE, {"library": "present", "init": code}), ID) == []


@pytest.mark.parametrize(
    ("release", "files", "number"),
    [
        (R36, {KERNEL: "5.15.148-tegra\n", VERSION: version("540.4.0")}, 0),
        (R36, {KERNEL: "5.10.120-tegra\n"}, 1),  # the kernel of release 35
        (R36, {KERNEL: "6.6.23-yocto-standard\n"}, 0),  # another kernel may go with any release
        (R36, {VERSION: version("35.4.1")}, 1),
        ("# R35 (release), REVISION: 4.1, GCID: 1\n", {KERNEL: "5.10.120-tegra\n", VERSION: version("35.4.1")}, 0),
        ("# R35 (release), REVISION: 5.0, GCID: 1\n", {VERSION: version("35.4.1")}, 1),
        ("# R32 (release), REVISION: 7.1, GCID: 1\n", {KERNEL: "4.9.253-tegra\n"}, 0),
        ("# R38 (release), REVISION: 2.0, GCID: 1\n", {COMPATIBLE: THOR, KERNEL: "6.8.12-tegra\n"}, 0),
        ("# R38 (release), REVISION: 2.0, GCID: 1\n", {COMPATIBLE: THOR, VERSION: version("580.00")}, 0),
        ("# R41 (release), REVISION: 1.0, GCID: 1\n", {KERNEL: "7.2.1-tegra\n"}, 0),  # not known yet
    ],
)
def test_a_jetson_runs_the_kernel_of_another_release(
    tmp_path: Path, capsys: Capture, release: str, files: dict[str, Any], number: int
) -> None:
    told = [judged(one) for one in found(capsys, tmp_path, jetson(release, **files), ID)]
    assert told == [("warning", "suspected", "node edge-07")] * number

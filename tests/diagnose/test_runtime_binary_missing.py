"""A runtime is configured whose binary is not there."""

from __future__ import annotations

from pathlib import Path

from tests.diagnose.making import BINARY, CONTAINERD, Capture, containerd, found, healthy, judged, without

ID = "runtime-binary-missing"
TRIGGER = without(healthy(), f"host{BINARY}")
NEAR_MISS = healthy(**{CONTAINERD: containerd(nvidia="nvidia-container-runtime")})  # looked for where programs are


def test_without_any_that_exists_it_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("error", "certain", "node edge-07")
    assert BINARY in one["summary"]


def test_beside_one_that_exists_it_is_a_warning(tmp_path: Path, capsys: Capture) -> None:
    text = containerd(nvidia=BINARY, **{"nvidia-experimental": f"{BINARY}-experimental"})
    (one,) = found(capsys, tmp_path, healthy(**{CONTAINERD: text}), ID)
    assert judged(one) == ("warning", "certain", "node edge-07")
    assert f"{BINARY}-experimental does not exist" in one["summary"]


def test_of_the_default_runtime_it_is_an_error_all_the_same(tmp_path: Path, capsys: Capture) -> None:
    text = containerd("nvidia-cdi", nvidia=BINARY, **{"nvidia-cdi": f"{BINARY}.cdi"})
    (one,) = found(capsys, tmp_path, healthy(**{CONTAINERD: text}), ID)
    assert one["severity"] == "error"


def test_a_runtime_without_a_binary_of_its_own_is_runc(tmp_path: Path, capsys: Capture) -> None:
    text = containerd() + "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]\nruntime_type = 'x'\n"
    (one,) = found(capsys, tmp_path, healthy(**{CONTAINERD: text}), ID)
    assert "so it is runc" in one["summary"]

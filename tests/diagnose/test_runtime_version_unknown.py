"""A configuration of a version that nobody here knows is read as well as can be (NVIDIA/cloud-native-stack#142)."""

from __future__ import annotations

from pathlib import Path

from tests.diagnose.making import BINARY, CONTAINERD, Capture, containerd, findings, healthy

ID = "runtime-version-unknown"
TRIGGER = healthy(**{CONTAINERD: containerd(nvidia=BINARY).replace("version = 3", "version = 4")})
NEAR_MISS = healthy()


def test_what_is_in_it_counts_all_the_same(tmp_path: Path, capsys: Capture) -> None:
    (one,) = findings(capsys, tmp_path, TRIGGER)
    assert (one["id"], one["severity"], one["certainty"]) == (ID, "info", "suspected")

"""cgroup v1: a note, and from kubelet 1.35 on, which does not start there by default, a warning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.making import KEY, node
from tests.diagnose.making import NODE_JSON, OFFER, Capture, Files, found, healthy, judged, without

ID = "cgroup-v1"
V2 = "host/sys/fs/cgroup/cgroup.controllers"
V1 = {"host/sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n"}
TRIGGER = without(healthy(**V1), V2)
NEAR_MISS = healthy()


def of_version(version: str) -> dict[str, Any]:
    found = node({KEY: OFFER})
    found["status"]["nodeInfo"] = {"kubeletVersion": version}
    return found


@pytest.mark.parametrize(
    ("version", "severity"),
    [("v1.34.9+k3s1", "info"), ("v1.35.0+k3s1", "warning"), ("v1.36.1", "warning"), ("v1.9.0", "info"), ("", "info")],
)
def test_the_kubelet_decides_how_bad_it_is(tmp_path: Path, capsys: Capture, version: str, severity: str) -> None:
    (one,) = found(capsys, tmp_path, {**TRIGGER, NODE_JSON: of_version(version)}, ID)
    assert judged(one) == (severity, "certain", "node edge-07")


@pytest.mark.parametrize(
    "files",
    [without(healthy(), V2), healthy(**V1)],
    ids=["no-hierarchy-is-seen", "memory-is-counted-with-version-2"],
)
def test_it_is_not_guessed(tmp_path: Path, capsys: Capture, files: Files) -> None:
    assert found(capsys, tmp_path, files, ID) == []

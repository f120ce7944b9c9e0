"""The runtime is configured in a file that K3s never reads (NVIDIA/k8s-device-plugin#406, k3s-io/k3s#4391)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnose.making import BINARY, CONTAINERD, CONTAINERD_PATH, Capture, containerd, found, healthy, judged

ID = "runtime-config-wrong-file"
DOCKER = f'{{"default-runtime": "nvidia", "runtimes": {{"nvidia": {{"path": "{BINARY}"}}}}}}'
PLACES = {
    "/etc/docker/daemon.json": DOCKER,
    "/etc/containerd/config.toml": containerd(nvidia=BINARY),
    "/etc/containerd/conf.d/99-nvidia.toml": containerd(nvidia=BINARY),
}
TRIGGER = healthy(**{CONTAINERD: containerd(), **{f"host{path}": text for path, text in PLACES.items()}})
NEAR_MISS = healthy(**{f"host{path}": text for path, text in PLACES.items()})  # K3s has found it all the same


@pytest.mark.parametrize("place", PLACES)
def test_both_files_are_named(tmp_path: Path, capsys: Capture, place: str) -> None:
    files = healthy(**{CONTAINERD: containerd(), f"host{place}": PLACES[place]})
    (one,) = found(capsys, tmp_path, files, ID)
    assert judged(one) == ("warning", "certain", "node edge-07")
    assert place in one["summary"]
    assert CONTAINERD_PATH in one["summary"]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("/etc/docker/daemon.json", "{}"),
        ("/etc/docker/daemon.json", '{"runtimes": {"crun": {"path": "/usr/bin/crun"}}}'),
        ("/etc/docker/daemon.json", "not json"),
        ("/etc/containerd/config.toml", containerd()),
        ("/etc/containerd/config.toml", ""),
    ],
)
def test_a_file_that_names_none_misleads_nobody(tmp_path: Path, capsys: Capture, place: str, text: str) -> None:
    assert found(capsys, tmp_path, healthy(**{CONTAINERD: containerd(), f"host{place}": text}), ID) == []

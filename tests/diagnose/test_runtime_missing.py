"""containerd's own configuration names no NVIDIA runtime (NVIDIA/k8s-device-plugin#406, k3s-io/k3s#8248)."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeagent.host.containerd import runtime
from edgeagent.host.files import TreeFiles
from tests.cases.making import about
from tests.diagnose.making import (
    BINARY,
    CONTAINERD,
    CONTAINERD_PATH,
    K3S_CONFIG,
    TEMPLATE,
    Capture,
    Files,
    containerd,
    found,
    healthy,
    judged,
    without,
)

ID = "runtime-missing"
TRIGGER = healthy(**{CONTAINERD: containerd()})
NEAR_MISS = healthy(**{CONTAINERD: containerd(**{"nvidia-cdi": f"{BINARY}.cdi"}), f"host{BINARY}.cdi": ""})


def test_the_file_that_counts_is_named(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("error", "certain", "node edge-07")
    assert CONTAINERD_PATH in one["summary"]


def test_the_condition_says_so(tmp_path: Path, capsys: Capture) -> None:
    from tests.cases.making import conditions, explain  # noqa: PLC0415

    (document,) = explain(capsys, tmp_path, TRIGGER)
    assert conditions(document)["GPURuntimeMisconfigured"] == "True"


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({}, "sudo systemctl restart k3s-agent"),
        ({"host/var/lib/rancher/k3s/server/token": "x"}, "sudo systemctl restart k3s\n"),
        ({TEMPLATE: "version = 3\n"}, '{{ template "base" . }}'),
    ],
)
def test_the_advice_is_for_what_is_there(tmp_path: Path, capsys: Capture, changes: Files, advice: str) -> None:
    (one,) = found(capsys, tmp_path, {**TRIGGER, **changes}, ID)
    assert advice in f"{one['remedy']}\n"
    assert "apt-get install" not in one["remedy"]


def test_without_the_toolkit_it_is_to_be_installed_first(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, without(TRIGGER, f"host{BINARY}"), ID)
    assert "apt-get install -y nvidia-container-toolkit" in one["remedy"]


@pytest.mark.parametrize("text", ["", "version = 3\n[plugins.'io.contain"])
def test_a_file_that_is_empty_or_cut_off_proves_nothing(tmp_path: Path, capsys: Capture, text: str) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{CONTAINERD: text}), ID)
    assert judged(one) == ("info", "cannot-tell", "node edge-07")


def test_nothing_is_said_of_a_file_that_is_not_there(tmp_path: Path, capsys: Capture) -> None:
    assert found(capsys, tmp_path, without(TRIGGER, CONTAINERD), ID) == []


def test_a_runtime_in_a_comment_is_none(tmp_path: Path, capsys: Capture) -> None:
    text = containerd() + "# [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'nvidia']\n"
    assert found(capsys, tmp_path, healthy(**{CONTAINERD: text}), ID)


def test_nothing_is_missing_on_a_machine_without_a_gpu(tmp_path: Path, capsys: Capture) -> None:
    files = without({**TRIGGER, "snapshot.yaml": about(arch="x86_64")}, "host/proc/device-tree/compatible")
    assert found(capsys, tmp_path, files, ID) == []


def test_a_containerd_that_runs_no_pods_needs_none(tmp_path: Path, capsys: Capture) -> None:
    """As Docker's packages bring it, on a board without Kubernetes."""
    k3s = [name for name in TRIGGER if "rancher" in name]
    files = without({**TRIGGER, "host/etc/containerd/config.toml": 'disabled_plugins = ["cri"]\n'}, *k3s)
    assert found(capsys, tmp_path, files, ID) == []


def test_another_distribution_keeps_its_file_elsewhere(tmp_path: Path, capsys: Capture) -> None:
    k3s = [name for name in TRIGGER if "rancher" in name]
    place = "/var/lib/rancher/rke2/agent/etc/containerd/config.toml"
    files = without({**TRIGGER, "host/etc/containerd/config.toml": containerd(nvidia=BINARY)}, *k3s)
    assert found(capsys, tmp_path, files, ID) == []
    (tmp_path / "rke2").mkdir()
    (one,) = found(capsys, tmp_path / "rke2", {**files, f"host{place}": containerd()}, ID)
    assert place in one["summary"]


PLAIN = 'plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options'
OUTSIDE = f'version = 2\n[{PLAIN}]\nBinaryName = "{BINARY}"\n'


@pytest.mark.parametrize(
    ("flag", "file", "text"),
    [
        ("container-runtime-endpoint: unix:///run/containerd/containerd.sock", "containerd/config.toml", OUTSIDE),
        ("docker: true", "docker/daemon.json", f'{{"runtimes": {{"nvidia": {{"path": "{BINARY}"}}}}}}'),
    ],
)
def test_k3s_own_file_does_not_count_where_another_runtime_is_used(
    tmp_path: Path, capsys: Capture, flag: str, file: str, text: str
) -> None:
    # NVIDIA/gpu-operator#1453 runs a Jetson Orin Nano that way.
    changed = {K3S_CONFIG: f"{flag}\n", f"host/etc/{file}": text}
    assert found(capsys, tmp_path, {**TRIGGER, **changed}, ID) == []
    (tmp_path / "bare").mkdir()
    (one,) = found(
        capsys,
        tmp_path / "bare",
        {**TRIGGER, **changed, f"host/etc/{file}": "{}" if "json" in file else "version = 2\n"},
        ID,
    )
    assert f"/etc/{file}" in one["summary"]


@pytest.mark.parametrize(
    ("external", "text", "readable"),
    [
        ("docker", "version = 2\n", False),
        (None, 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n', False),
        (None, "version = 2\n", True),
    ],
    ids=["docker-runs-them", "it-runs-no-pods", "it-runs-them"],
)
def test_containerds_file_proves_something_only_where_it_runs_pods(
    external: str | None, text: str, *, readable: bool
) -> None:
    files = TreeFiles({"etc/containerd/config.toml": text.encode()})
    assert runtime(files, "/var/lib/rancher/k3s", external).readable is readable

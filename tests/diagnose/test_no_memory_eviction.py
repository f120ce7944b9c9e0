"""K3s sets no memory.available threshold by itself (K3s, pkg/daemons/agent: evictionHard)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnose.making import K3S_CONFIG, Capture, found, healthy, judged, without

ID = "no-memory-eviction"
TRIGGER = without(healthy(), K3S_CONFIG)
NEAR_MISS = healthy(**{K3S_CONFIG: "kubelet-arg: [eviction-hard=memory.available<1%]\n"})


def test_it_is_a_note_with_the_lines_to_add(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("info", "certain", "node edge-07")
    # os 768 MiB, k3s 512 MiB, headroom 256 MiB: the defaults of a board of 7.4 GiB
    for row in ("system-reserved=memory=768Mi", "kube-reserved=memory=512Mi", "eviction-hard=memory.available<256Mi"):
        assert row in one["remedy"]
    assert one["remedy"].splitlines()[1] == "sudo edgeagent install --k3s-reserves"


@pytest.mark.parametrize("threshold", ["memory.available<0", "nodefs.available<5%", "memory.available<0%"])
def test_a_threshold_of_nothing_is_none(tmp_path: Path, capsys: Capture, threshold: str) -> None:
    files = healthy(**{K3S_CONFIG: f"kubelet-arg: ['eviction-hard={threshold}']\n"})
    assert len(found(capsys, tmp_path, files, ID)) == 1


def test_where_settings_cannot_be_read_it_is_suspected(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{K3S_CONFIG: "kubelet-arg: [\n"}), ID)
    assert one["certainty"] == "suspected"


def test_a_kubelet_of_its_own_has_a_threshold(tmp_path: Path, capsys: Capture) -> None:
    k3s = [name for name in healthy() if "rancher" in name]
    files = without(healthy(**{"host/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n"}), *k3s)
    assert found(capsys, tmp_path, files, ID) == []

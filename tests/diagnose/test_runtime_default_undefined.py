"""The default runtime is one that is not defined (containerd/containerd#5340, k0sproject/k0s#6547)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.making import conditions, explain
from tests.diagnose.making import BINARY, CONTAINERD, TEMPLATE, Capture, containerd, found, healthy, judged

ID = "runtime-default-undefined"
TRIGGER = healthy(**{CONTAINERD: containerd("nvidia")})
NEAR_MISS = healthy(**{CONTAINERD: containerd("nvidia", nvidia=BINARY)})


def test_every_pod_fails(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("error", "certain", "node edge-07")
    assert one["summary"].startswith("Every pod on this node will fail")


def test_so_it_does_when_the_key_is_there_twice(tmp_path: Path, capsys: Capture) -> None:
    text = containerd("nvidia", nvidia=BINARY).replace(
        'default_runtime_name = "nvidia"\n', 'default_runtime_name = "runc"\ndefault_runtime_name = "nvidia"\n'
    )
    (one,) = found(capsys, tmp_path, healthy(**{CONTAINERD: text, TEMPLATE: '{{ template "base" . }}\n'}), ID)
    assert judged(one) == ("error", "certain", "node edge-07")
    assert "default_runtime_name twice" in one["summary"]
    assert "config-v3.toml.tmpl" in one["remedy"]
    assert found(capsys, tmp_path, healthy(**{CONTAINERD: text}), "runtime-missing") == []


def test_runc_needs_no_table(tmp_path: Path, capsys: Capture) -> None:
    text = "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd]\ndefault_runtime_name = 'runc'\n"
    assert found(capsys, tmp_path, healthy(**{CONTAINERD: text}), ID) == []


def test_the_condition_names_what_is_wrong(tmp_path: Path, capsys: Capture) -> None:
    text = containerd("crun", nvidia=BINARY)
    (document,) = explain(capsys, tmp_path, healthy(**{CONTAINERD: text}))
    assert conditions(document)["GPURuntimeMisconfigured"] == "True"
    (one,) = [one for one in document["node"]["conditions"] if one["type"] == "GPURuntimeMisconfigured"]
    assert one["reason"] == "RuntimeDefaultUndefined"


@pytest.mark.parametrize("name", ["nvidia", "nvidia-cdi", "kata"])
def test_the_name_is_told(tmp_path: Path, capsys: Capture, name: str) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{CONTAINERD: containerd(name)}), ID)
    assert f"default runtime {name} " in one["summary"]

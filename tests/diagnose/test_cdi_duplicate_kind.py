"""Specifications that define the same devices (cncf-tags/container-device-interface, pkg/cdi/cache.go)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnose.making import Capture, found, healthy, judged

ID = "cdi-duplicate-kind"
YAML = "host/etc/cdi/nvidia.yaml"
JSON = "host/etc/cdi/nvidia.json"
DYNAMIC = "host/var/run/cdi/nvidia.yaml"


def spec(*names: str, kind: str = "nvidia.com/gpu") -> str:
    return f"kind: {kind}\ndevices: [{', '.join(f'{{name: {name}}}' for name in names)}]\n"


TRIGGER = healthy(**{YAML: spec("0", "all"), JSON: spec("0", "1")})
NEAR_MISS = healthy(**{YAML: spec("0"), JSON: spec("1")})


def test_what_both_define_is_dropped(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("error", "certain", "node edge-07")
    assert "both define nvidia.com/gpu=0:" in one["summary"]
    # The one that NVIDIA's instructions name is kept.
    assert "sudo mv /etc/cdi/nvidia.json /etc/cdi/nvidia.json.off" in one["remedy"].splitlines()
    assert "sudo mv /etc/cdi/nvidia.yaml" not in one["remedy"]


def test_a_name_of_a_file_stays_one_word_of_a_command(tmp_path: Path, capsys: Capture) -> None:
    files = healthy(**{YAML: spec("0"), "host/etc/cdi/a; reboot.json": spec("0")})
    (one,) = found(capsys, tmp_path, files, ID)
    assert "sudo mv '/etc/cdi/a; reboot.json' '/etc/cdi/a; reboot.json.off'" in one["remedy"].splitlines()


def test_of_two_folders_the_second_counts(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{YAML: spec("all"), DYNAMIC: spec("all", "0")}), ID)
    assert judged(one) == ("info", "suspected", "node edge-07")
    assert one["summary"].startswith("/var/run/cdi/nvidia.yaml takes the place of /etc/cdi/nvidia.yaml")


def test_a_name_that_is_twice_in_one_file_spoils_it(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{YAML: spec("0", "all", "0")}), ID)
    assert judged(one) == ("error", "certain", "node edge-07")
    assert "/etc/cdi/nvidia.yaml defines nvidia.com/gpu=0 more than once" in one["summary"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (JSON, spec("0", kind="management.nvidia.com/gpu")),
        (JSON, spec("0", kind="intel.com/gpu")),
        ("host/etc/cdi/nvidia.yml", spec("0")),  # not read, by its ending
        ("host/etc/cdi/nvidia.yaml.off", spec("0")),
        (JSON, "kind: ["),
    ],
)
def test_what_is_no_second_definition(tmp_path: Path, capsys: Capture, path: str, text: str) -> None:
    assert found(capsys, tmp_path, healthy(**{YAML: spec("0"), path: text}), ID) == []


def test_files_of_a_folder_that_has_two_names_are_together(tmp_path: Path, capsys: Capture) -> None:
    files = healthy(**{DYNAMIC: spec("0"), "host/run/cdi/other.yaml": spec("0")})
    (one,) = found(capsys, tmp_path, files, ID)
    assert one["severity"] == "error"

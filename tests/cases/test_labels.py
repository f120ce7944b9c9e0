"""Labels of names that the API server would refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.machines import COMPATIBLE, LABEL, MODEL, OFFER, ORIN_NANO, RELEASE, Capture, board, card_uuid, on_x86
from tests.cases.making import GIB, KEY, device, explain, gpu, node, nvml, pods

# Labels that the API server would refuse (ROCm/k8s-device-plugin#218, NVIDIA/gpu-feature-discovery#53, NFD#308)

LONG = "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Orin (nvgpu)", "Orin-nvgpu"),
        ("NVIDIA TITAN X (Pascal)", "NVIDIA-TITAN-X-Pascal"),
        ("4.9.140-l4t-r32.3.1+g47e7e1cb0b49", "4.9.140-l4t-r32.3.1-g47e7e1cb0b49"),
        ("X9SRA/X9SRA-3", "X9SRA-X9SRA-3"),
        (LONG, LONG.replace(" ", "-")[:63]),
        ("A" * 62 + " B", "A" * 62),  # the cut leaves a separator behind
        ("A" * 60 + " - . B", "A" * 60),
        ("A" * 63, "A" * 63),
        (" Thor", "Thor"),
        ("(Thor)", "Thor"),
        ("-_.Thor._-", "Thor"),
    ],
)
@pytest.mark.parametrize("where", ["card", "model"])
def test_a_product_name_becomes_a_valid_label(
    tmp_path: Path, capsys: Capture, text: str, label: str, where: str
) -> None:
    if where == "card":
        files = board(**on_x86(), **{"nvml.json": nvml(device(text, card_uuid(1), 8 * GIB))})
    else:
        files = board(**{COMPATIBLE: ORIN_NANO, MODEL: text.encode() + b"\0"})
    (document,) = explain(capsys, tmp_path, files)
    assert document["node"]["labels"]["edgeagent.dev/gpu.product"] == label
    assert all(LABEL.fullmatch(value) for value in document["node"]["labels"].values())


@pytest.mark.parametrize("model", [b"\0", b"-\0", b"--..__\0", b"()\0", b" Thor\x00\0", b"Jetson\xf8\0", b"\xff\xfe\0"])
def test_a_label_that_cannot_be_made_valid_is_left_out_and_the_rest_goes_out(
    tmp_path: Path, capsys: Capture, model: bytes
) -> None:
    files = board(**{COMPATIBLE: ORIN_NANO, MODEL: model, "cluster/node.json": node(), "cluster/pods.json": pods()})
    (document,) = explain(capsys, tmp_path, files)
    labels = document["node"]["labels"]
    assert labels["edgeagent.dev/jetson.soc"] == "tegra234"
    product = labels.get("edgeagent.dev/gpu.product")
    assert product is None or (product and LABEL.fullmatch(product))
    body = document["node"]["requests"][0]["body"]
    assert body["status"]["capacity"][KEY] == OFFER
    assert body["metadata"]["labels"]["edgeagent.dev/gpu.kind"] == "jetson"
    assert explain(capsys, tmp_path) == [document]  # the same each time


def test_words_of_the_release_file_do_not_break_labels(tmp_path: Path, capsys: Capture) -> None:
    release = "# R36 (release), REVISION: 4.4+patch/1, GCID: 1, BOARD: generic, EABI: aarch64, DATE: x\n"
    (document,) = explain(capsys, tmp_path, board(**{COMPATIBLE: ORIN_NANO, RELEASE: release}))
    assert all(LABEL.fullmatch(value) for value in document["node"]["labels"].values())
    assert gpu(document) == OFFER

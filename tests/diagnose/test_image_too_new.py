"""Images for a newer driver, or for another JetPack, by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgeagent.cluster.node import parse
from edgeagent.cluster.pods import parse as parse_pod
from edgeagent.diagnose.collected import ClusterSeen
from edgeagent.diagnose.diagnosis import across
from edgeagent.facts import PREFIX
from edgeagent.facts.diagnosis import no_cluster
from tests.cases.machines import COMPATIBLE, NVIDIA_CARD, R36, RELEASE, card, on_x86
from tests.cases.making import KEY, NODE, node, nvml, pod, pods
from tests.diagnose.making import CSV, PODS, Capture, Files, creating, found, healthy, judged, without

ID = "image-too-new"
R35 = "# R35 (release), REVISION: 4.1, GCID: 1\n"


def of(image: str, item: dict[str, Any]) -> dict[str, Any]:
    item["spec"]["containers"][0]["image"] = image
    return item


def jetson(image: str, release: str = R36, **files: Any) -> Files:
    return healthy(**{RELEASE: release, PODS: pods(of(image, creating(limits={KEY: "1Gi"}))), **files})


def server(image: str, answers: dict[str, Any] | None, **files: Any) -> Files:
    item = of(image, creating(limits={"nvidia.com/gpu": "1"}))
    files = without(healthy(**on_x86(), **NVIDIA_CARD, **{PODS: pods(item), **files}), COMPATIBLE, CSV)
    return {**files, "nvml.json": answers} if answers else files


TRIGGER = jetson("example.com:5000/nvidia/l4t-jetpack:r36.4.0", R35)
NEAR_MISS = jetson("example.com:5000/nvidia/l4t-jetpack:r36.4.0")


def test_it_is_a_suspicion(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("warning", "suspected", "pod default/llm")
    assert "Jetson Linux 36.4 by its name, and the node has Jetson Linux 35.4" in one["summary"]
    assert "/etc/nv_tegra_release: 35.4.1" in one["evidence"]


@pytest.mark.parametrize(
    ("image", "release", "severity"),
    [
        ("dustynv/ollama:r36.4-cu126-22.04", R36, None),
        ("dustynv/ollama:r36.4-cu126-22.04", R35, "warning"),
        ("dustynv/l4t-pytorch:r32.7.1", R36, "warning"),  # its system is too old for the libraries of the host
        ("nvcr.io/nvidia/l4t-base:r36.2.0", R36, None),
        ("l4t-jetpack:r36.5.0", R36, "info"),  # R36 here is 36.4.7
        ("l4t-jetpack:r35.2.1", R35, None),
        ("ultralytics/ultralytics:latest-jetson-jetpack6", R36, None),
        ("ultralytics/ultralytics:latest-jetson-jetpack6", R35, "warning"),
        ("ultralytics/ultralytics:latest-jetson-jetpack4", R36, "warning"),
        ("x/detector:1.2-jp62", R36, None),
        ("x/detector:1.2-jp7", R36, "warning"),
        ("x/llama.cpp:server-cuda13", R36, "warning"),  # CUDA 12 is JetPack 6's
        ("x/llama.cpp:server-cuda12", R36, None),
        ("x/vllm:v0.11-cu130", R36, "warning"),
        ("x/vllm@sha256:" + "cu13" * 16, R36, None),
        ("ubuntu:24.04", R36, None),
        ("", R36, None),
    ],
)
def test_on_a_jetson(tmp_path: Path, capsys: Capture, image: str, release: str, severity: str | None) -> None:
    told = [judged(one) for one in found(capsys, tmp_path, jetson(image, release), ID)]
    assert told == ([(severity, "suspected", "pod default/llm")] if severity else [])


@pytest.mark.parametrize(
    ("image", "cuda", "number"),
    [
        ("nvidia/cuda:13.0.1-base-ubuntu24.04", 12080, 1),
        ("nvidia/cuda:13.1.0-base-ubuntu24.04", 13000, 0),  # within one major number
        ("nvidia/cuda:12.8.1-base-ubuntu24.04", 12020, 0),
        ("nvidia/cuda:11.8.0-base-ubuntu22.04", 13000, 0),
        ("pytorch/pytorch:2.8.0-cuda12.9-cudnn9-runtime", 11080, 1),
        ("nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0", 11080, 1),
        ("nvcr.io/nvidia/l4t-jetpack:r36.4.0", 12080, 0),  # no Jetson: nothing to compare with
        ("cupy/cupy:13.0", 11080, 0),
    ],
)
def test_beside_a_card(tmp_path: Path, capsys: Capture, image: str, cuda: int, number: int) -> None:
    assert len(found(capsys, tmp_path, server(image, nvml(card(0), cuda_version=cuda)), ID)) == number


@pytest.mark.parametrize(("driver", "number"), [("570.124.04", 1), ("580.95.05", 0)])
def test_without_nvml_the_version_of_the_driver_tells(
    tmp_path: Path, capsys: Capture, driver: str, number: int
) -> None:
    text = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {driver}  Release Build\n"
    files = server("nvidia/cuda:13.0.1-base", None, **{"host/proc/driver/nvidia/version": text})
    assert len(found(capsys, tmp_path, files, ID)) == number


def test_of_a_pod_that_asks_for_no_gpu_only_a_jetsons_image_tells(tmp_path: Path, capsys: Capture) -> None:
    files = jetson("")
    for image, number in (("nvidia/cuda:13.0.1-base", 0), ("l4t-base:r38.2", 1)):
        files[PODS] = pods(of(image, creating()))
        assert len(found(capsys, tmp_path, files, ID)) == number


def test_across_the_cluster_labels_tell() -> None:
    labels = {f"{PREFIX}jetson.l4t": "35.4.1", f"{PREFIX}cuda.version": "11.4"}
    bound = {NODE: (parse_pod(of("l4t-base:r36.2.0", pod())),)}
    for given, number in ((labels, 1), ({}, 0)):
        seen = ClusterSeen(nodes=(parse(node(labels=given)),), bound=bound, cluster=no_cluster("not asked"))
        assert [one.id for one in across(seen)] == [ID] * number


def test_a_tag_of_thousands_of_digits_is_no_release(tmp_path: Path, capsys: Capture) -> None:
    assert found(capsys, tmp_path, jetson(f"l4t-base:r36.{'9' * 5000}"), ID) == []

"""An amount below 1 MiB: 2048 was meant to be 2048Mi."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.making import KEY, pod, pods
from tests.diagnose.making import PODS, Capture, found, healthy, judged, waiting

ID = "request-without-suffix"
TRIGGER = healthy(**{PODS: pods(pod(limits={KEY: "2048"}))})
NEAR_MISS = healthy(**{PODS: pods(pod(limits={KEY: "1Mi"}))})


@pytest.mark.parametrize(
    ("amount", "likely"),
    [("2", "2Gi"), ("2048", "2048Mi"), ("1", "1Gi"), ("1048575", "1048575Ki"), ("512Ki", "524288Ki")],
)
def test_the_likely_suffix_is_named(tmp_path: Path, capsys: Capture, amount: str, likely: str) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{PODS: pods(pod(limits={KEY: amount}))}), ID)
    assert judged(one) == ("warning", "certain", "pod default/llm")
    assert likely in one["remedy"]


@pytest.mark.parametrize("amount", ["0", "1048576", "2Gi", "1M"])
def test_an_amount_that_was_meant(tmp_path: Path, capsys: Capture, amount: str) -> None:
    # 1M is 1000000, and so below 1048576.
    number = 1 if amount == "1M" else 0
    assert len(found(capsys, tmp_path, healthy(**{PODS: pods(pod(limits={KEY: amount}))}), ID)) == number


def test_a_pod_that_waits_is_looked_at_too(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{PODS: pods(waiting("new", {KEY: "4096"}))}), ID)
    assert one["subject"] == "pod default/new"


def test_an_annotation_is_an_amount_too(tmp_path: Path, capsys: Capture) -> None:
    given = pod(annotations={"edgeagent.dev/gpu-memory-limit": "2048"})
    (one,) = found(capsys, tmp_path, healthy(**{PODS: pods(given)}), ID)
    assert "annotation" in one["summary"]


def test_an_annotation_of_thousands_of_digits_is_no_amount(tmp_path: Path, capsys: Capture) -> None:
    given = pod(annotations={"edgeagent.dev/gpu-memory-limit": "1" * 5000})
    assert found(capsys, tmp_path, healthy(**{PODS: pods(given)}), ID) == []

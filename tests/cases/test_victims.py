"""Who goes and who must not: what a breach is, and what pressure makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.cases.holders import (
    CLIENTS,
    HASH,
    MIRROR,
    TWO_SMALL,
    Files,
    cid,
    client,
    cluster,
    entry,
    evicted,
    gb10,
    held_codes,
    held_gpu,
    pod_task,
    series,
    shown,
    simple,
    states,
    table,
    task,
    uid,
    unified,
)
from tests.cases.making import GIB, MIB, meminfo

if TYPE_CHECKING:
    import pytest

# Who must not go, and what a breach is (kubernetes/kubernetes#39059, #73572; vllm-project/vllm#13131)


def test_what_cannot_go_is_passed_over_for_what_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    daemon = [{"kind": "DaemonSet", "name": "d", "apiVersion": "apps/v1", "uid": "d", "controller": True}]
    critical = {"priorityClassName": "system-node-critical", "priority": 2000001000}
    pods = [
        simple(1, "mirror", "4Gi", annotations=MIRROR),
        simple(2, "critical", "4Gi", spec=critical),
        simple(3, "daemon", "4Gi", ownerReferences=daemon),
        simple(4, "pod-a", "4Gi"),
    ]
    system = simple(5, "coredns", "4Gi")
    system["metadata"]["namespace"] = "kube-system"
    files = {
        **unified((101, 20 * 1024), (102, 12 * 1024), (103, 10 * 1024), (104, 5 * 1024), (105, 6 * 1024)),
        **task(101, f"0::/kubepods/burstable/pod{HASH}/{cid(1)}"),
        **{name: content for number in (2, 3, 4, 5) for name, content in pod_task(number, 100 + number).items()},
        **cluster(*pods, system),
    }
    documents = shown(capsys, tmp_path, files, series([0, 8, 16]))
    assert evicted(documents) == [[], [], ["pod-a"]]
    assert states(documents[0]) == {
        "coredns": "protected", "critical": "protected", "daemon": "breach", "mirror": "protected", "pod-a": "breach",
    }  # fmt: skip
    codes = held_codes(documents[2])
    assert {codes[uid(number)] for number in (1, 2, 5)} == {"protected"}
    assert codes[uid(3)] == "daemonset"


def samples(*mib: int | None) -> list[Files]:
    """A frame per figure of process 4242 on an Orin; None: the table is cut."""
    whole = [table(client(b"vllm", 4242, (one or 1) * 1024)) for one in mib]
    return [{CLIENTS: one[:-7] if value is None else one} for one, value in zip(whole, mib, strict=True)]


def watched(capsys: pytest.CaptureFixture[str], folder: Path, *mib: int | None) -> list[list[str]]:
    """Evictions in samples each 5 s of a pod with a budget of 10240 MiB."""
    base = {**unified((4242, 1)), **pod_task(1, 4242), **cluster(simple(1, "vllm", "10240Mi"))}
    at = [5.0 * number for number in range(len(mib))]
    return evicted(shown(capsys, folder, base, series(at, *samples(*mib))))


def test_peaks_that_never_last_are_no_breach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert watched(capsys, tmp_path, *[9000, 13000] * 8) == [[]] * 16


def test_a_breach_that_lasts_is_one_eviction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 10300 − 10240 = 60 MiB > tolerance of 0.5 % = 51.2 MiB; 15 s at the fourth sample
    assert watched(capsys, tmp_path, *[10300] * 12) == [[], [], [], ["vllm"], *[[]] * 8]


def test_within_the_tolerance_is_no_breach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 51 < 51.2 MiB
    assert watched(capsys, tmp_path, *[10291] * 12) == [[]] * 12


def test_a_missing_sample_pauses_the_window(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 0, 5 over (5 s); 10 missing; 15, 20, 25 over: 5 + 5 + 5 = 15 s at 25
    assert watched(capsys, tmp_path, 13000, 13000, None, 13000, 13000, 13000) == [[]] * 5 + [["vllm"]]


def test_another_pods_release_is_not_this_pods_breach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # vllm-project/vllm#46307: others free memory while this one measures. Its own figure does not move.
    frames = [
        {CLIENTS: table(client(b"a", 4242, 3000 * 1024), client(b"b", 5151, mib * 1024))} for mib in (3900, 100, 3900)
    ]
    files = {**unified((4242, 1)), **pod_task(1, 4242), **pod_task(2, 5151), **TWO_SMALL}
    documents = shown(capsys, tmp_path, files, series([0, 8, 16], *frames))
    assert [held_gpu(document)["pod-a"] for document in documents] == [3000 * MIB] * 3
    assert evicted(documents) == [[]] * 3


# A loader that outruns the poll (NVIDIA/open-gpu-kernel-modules#1358, nanoporetech/dorado#408)


def falling(*gib: int) -> list[Files]:
    """Samples of a GB10 on which available memory falls to these GiB while pod-a grows by as much."""
    return [
        {
            "host/proc/meminfo": meminfo(127600748, MemAvailable=one * 1024 * 1024),
            "nvml.json": gb10(entry(4242, (80 - one) * GIB))["nvml.json"],
        }
        for one in gib
    ]


def test_the_pod_that_outgrows_its_budget_goes_before_the_floor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 6 GiB/s, horizon 3 s, floor 8 GiB: usable − 18 < 8 below 26 GiB, at 22 and 16 (two readings). At 10 it is late.
    files = {
        **gb10(), **pod_task(1, 4242), "config.yaml": {"pressure": {"floor": "8Gi"}},
        **cluster(simple(1, "pod-a", "30Gi"), simple(2, "pod-b", "30Gi")),
    }  # fmt: skip
    documents = shown(capsys, tmp_path, files, series([0, 1, 2, 3, 4, 5], *falling(40, 34, 28, 22, 16, 10)))
    assert evicted(documents) == [[], [], [], [], ["pod-a"], []]
    assert [document["host"]["pressure"] for document in documents] == [False, False, False, False, True, True]
    # 80 − 16 GiB
    assert held_gpu(documents[4]) == {"pod-a": 64 * GIB, "pod-b": 0}


def test_under_the_floor_with_everybody_within_budget_nobody_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        **gb10(), **pod_task(1, 4242), "config.yaml": {"pressure": {"floor": "8Gi"}},
        **cluster(simple(1, "pod-a", "100Gi"), simple(2, "pod-b", "1Gi")),
    }  # fmt: skip
    documents = shown(capsys, tmp_path, files, series([0, 1, 2, 3, 4, 5], *falling(40, 34, 28, 22, 16, 5)))
    assert evicted(documents) == [[]] * 6
    assert documents[-1]["host"]["pressure"]


def test_a_pod_without_a_figure_does_not_go_under_pressure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blind = {"nvml.json": gb10(entry(4242, None))["nvml.json"]}
    frames = [{**frame, **blind} for frame in falling(40, 34, 28, 22, 16, 5)]
    files = {
        **gb10(),
        **pod_task(1, 4242),
        "config.yaml": {"pressure": {"floor": "8Gi"}},
        **cluster(simple(1, "pod-a", "1Gi")),
    }
    documents = shown(capsys, tmp_path, files, series([0, 1, 2, 3, 4, 5], *frames))
    assert evicted(documents) == [[]] * 6
    assert documents[-1]["host"]["pressure"]

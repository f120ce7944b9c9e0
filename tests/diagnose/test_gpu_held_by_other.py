"""A pod waits for a GPU that another one holds by number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.making import KEY, explain, node, pod, pods
from tests.diagnose.making import NODE_JSON, OFFER, PODS, Capture, found, healthy, judged, waiting
from tests.diagnose.plugin import GPU, offering, refuse
from tests.diagnose.test_command import across

ID = "gpu-held-by-other"
HERE = {"nodeSelector": {"kubernetes.io/hostname": "edge-07"}}
HOLDER = pod("old", limits={GPU: "1"})
TRIGGER = healthy(**{NODE_JSON: offering(), PODS: pods(HOLDER, waiting("new", {GPU: "1"}))})
NEAR_MISS = healthy(**{NODE_JSON: offering("2"), PODS: pods(HOLDER, waiting("new", {GPU: "1"}))})


def test_the_holder_and_the_way_out_are_named(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("error", "certain", "pod default/new")
    assert "default/old (1)" in one["summary"]
    assert "pod default/old requests nvidia.com/gpu: 1" in one["evidence"]
    # 6083 MiB are offered, for two
    assert "{edgeagent.dev/gpu-memory: 3041Mi}" in one["remedy"]
    assert "runtimeClassName: nvidia" in one["remedy"]
    assert "kubectl -n default delete pod old" in one["remedy"]


def test_the_share_is_no_more_than_what_is_left(tmp_path: Path, capsys: Capture) -> None:
    # 6083 - 4096 = 1987
    booked = pod("booked", limits={KEY: "4Gi"})
    files = healthy(**{NODE_JSON: offering(), PODS: pods(HOLDER, booked, waiting("new", {GPU: "1"}))})
    (one,) = found(capsys, tmp_path, files, ID)
    assert "{edgeagent.dev/gpu-memory: 1987Mi}" in one["remedy"]


@pytest.mark.parametrize("key", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"])
def test_other_resources_of_a_plugin(tmp_path: Path, capsys: Capture, key: str) -> None:
    holders = [pod(f"old-{number}", limits={key: "1"}) for number in range(4)]
    files = healthy(**{NODE_JSON: node({KEY: OFFER, key: "4"}), PODS: pods(*holders, waiting("new", {key: "1"}))})
    (one,) = found(capsys, tmp_path, files, ID)
    assert key in one["summary"]
    assert "and 1 more" in one["summary"]


@pytest.mark.parametrize(
    ("holder", "asks"),
    [
        (HOLDER, waiting("new", {KEY: "1Gi"})),
        (HOLDER, waiting("new", {GPU: "2"})),  # never fits: nobody is in its way
        (HOLDER, waiting("new", {GPU: "1"}, spec={"nodeSelector": {"zone": "b"}})),
        (pod("old", limits={KEY: "1Gi"}), waiting("new", {GPU: "1"})),
        (pod("old", limits={GPU: "1"}, status={"phase": "Succeeded"}), waiting("new", {GPU: "1"})),
    ],
    ids=["memory", "too-many", "elsewhere", "nobody-holds-it", "ended"],
)
def test_nobody_is_in_its_way(tmp_path: Path, capsys: Capture, holder: dict[str, Any], asks: dict[str, Any]) -> None:
    assert found(capsys, tmp_path, healthy(**{NODE_JSON: offering(), PODS: pods(holder, asks)}), ID) == []


def test_a_holder_that_is_ending_is_waited_for(tmp_path: Path, capsys: Capture) -> None:
    ending = pod("old", limits={GPU: "1"}, deletionTimestamp="2026-01-31T12:00:20Z")
    (one,) = found(capsys, tmp_path, {**TRIGGER, PODS: pods(ending, waiting("new", {GPU: "1"}))}, ID)
    assert one["severity"] == "info"
    assert "is ending" in one["summary"]


def test_a_nodes_credential_names_the_missing_right(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch)
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("info", "cannot-tell", "node edge-07")
    assert "list pods in all namespaces" in one["summary"]
    assert found(capsys, tmp_path / "2", NEAR_MISS, ID) == []  # one is free: nobody waits for it


def test_of_a_cluster(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    document = across(capsys, monkeypatch, TRIGGER, code=1)
    (one,) = [one for one in document["findings"] if one["id"] == ID]
    assert judged(one) == ("error", "certain", "pod default/new")
    assert "default/old" in one["summary"]
    document = across(capsys, monkeypatch, NEAR_MISS, code=0)
    assert [one for one in document["findings"] if one["id"] == ID] == []


def test_an_amount_that_is_no_number_is_none(tmp_path: Path, capsys: Capture) -> None:
    assert found(capsys, tmp_path, {**TRIGGER, NODE_JSON: offering("one")}, ID) == []


@pytest.mark.parametrize(
    ("said", "spec", "severity"),
    [
        ("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", {}, "error"),
        ("0/7 nodes are available: 7 Insufficient nvidia.com/gpu.", {}, "warning"),
        ("0/7 nodes are available: 1 Insufficient nvidia.com/gpu, 6 node(s) didn't match.", HERE, "error"),
        ("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.", {}, ""),
        ("Scheduling is blocked due to non-empty scheduling gates", {}, ""),
    ],
    ids=["one-node", "many-nodes", "one-of-many-by-name", "a-volume", "a-gate"],
)
def test_a_full_node_is_no_error_to_a_pod_that_waits_for_something_else(
    tmp_path: Path, capsys: Capture, said: str, spec: dict[str, Any], severity: str
) -> None:
    asks = waiting("new", {GPU: "1"}, spec=spec)
    asks["status"]["conditions"][0]["message"] = said
    named = node({KEY: OFFER, GPU: "1"}, labels={"kubernetes.io/hostname": "edge-07"})
    ones = found(capsys, tmp_path, healthy(**{NODE_JSON: named, PODS: pods(HOLDER, asks)}), ID)
    assert [one["severity"] for one in ones] == ([severity] if severity else [])
    (document,) = explain(capsys, tmp_path)
    events = [one for one in document["plan"]["events"] if one["reason"] == "GPUHeldByOther"]
    assert len(events) == (1 if severity == "error" else 0)

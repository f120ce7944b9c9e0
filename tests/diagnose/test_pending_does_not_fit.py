"""A pod that waits, by how many bytes it does not fit, and on which line of the node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases.making import GIB, KEY, MIB, explain, node, pod, pods
from tests.diagnose.making import NODE_JSON, OFFER, PODS, Capture, found, healthy, judged, waiting

ID = "pending-does-not-fit"
BOUND = pod("old", limits={KEY: "4Gi"})
TRIGGER = healthy(**{PODS: pods(BOUND, waiting("new", {KEY: "2Gi"}))})
# 6083 MiB are offered and 4096 booked: 1987 are left
NEAR_MISS = healthy(**{PODS: pods(BOUND, waiting("new", {KEY: "1987Mi"}))})


def test_beside_what_is_booked_it_is_short_of_the_difference(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    assert judged(one) == ("warning", "certain", "pod default/new")
    assert "asks for 2.00 GiB" in one["summary"]
    assert "has 5.94 GiB and 4.00 GiB are booked: 61 MiB short" in one["summary"]
    assert f"of {KEY}" in one["summary"]
    assert "node edge-07" in one["summary"]
    assert "default/old" in one["remedy"]
    assert f"61Mi less of {KEY}, 1987Mi at most" in one["remedy"]


def test_exact_bytes_are_evidence(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, TRIGGER, ID)
    short = 2 * GIB - (6083 * MIB - 4 * GIB)
    assert one["evidence"][:3] == [
        f"node edge-07 status.allocatable.{KEY}: {6083 * MIB}",
        f"node edge-07 requests of its live pods, {KEY}: {4 * GIB}",
        f"pod default/new requests {KEY}: {2 * GIB}, {short} more than is left",
    ]


def test_less_than_a_mebibyte_is_told_in_bytes(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{PODS: pods(waiting("new", {KEY: str(6083 * MIB + 7)}))}), ID)
    assert ": 7 bytes short" in one["summary"]
    assert f"1Mi less of {KEY}, {OFFER} at most" in one["remedy"]


def test_a_pods_maker_is_patched_to_what_is_left(tmp_path: Path, capsys: Capture) -> None:
    asks = waiting("llm-7d9f-x2", {KEY: "2Gi"})
    asks["metadata"] |= {
        "labels": {"pod-template-hash": "7d9f"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "llm-7d9f", "uid": "1", "controller": True}],
    }
    (one,) = found(capsys, tmp_path, healthy(**{PODS: pods(BOUND, asks)}), ID)
    command = one["remedy"].splitlines()[-1]
    assert command.startswith("kubectl -n default patch deployment llm --type strategic -p '")
    (container,) = json.loads(command.partition("'")[2][:-1])["spec"]["template"]["spec"]["containers"]
    assert container == {"name": "main", "resources": {"requests": {KEY: "1987Mi"}, "limits": {KEY: "1987Mi"}}}


def test_a_model_is_not_told_to_do_with_less_than_half(tmp_path: Path, capsys: Capture) -> None:
    # 6083 less 4096 MiB are 1987, and half of 3975 MiB is more
    (one,) = found(capsys, tmp_path, healthy(**{PODS: pods(BOUND, waiting("new", {KEY: "3975Mi"}))}), ID)
    assert one["remedy"] == f"End or shrink what holds {KEY}: default/old (4.00 GiB)."


def test_a_unit_that_is_no_byte_stays_a_number(tmp_path: Path, capsys: Capture) -> None:
    milli = "edgeagent.dev/gpu-milli"
    files = healthy(**{NODE_JSON: node({KEY: OFFER, milli: "1000"}), PODS: pods(waiting("new", {milli: "1200"}))})
    (one,) = found(capsys, tmp_path, files, ID)
    assert f"asks for 1200 of {milli}, node edge-07 has 1000 and 0 are booked: 200 short" in one["summary"]
    assert f"200 less of {milli}, 1000 at most" in one["remedy"]


def test_what_no_empty_node_has_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    (one,) = found(capsys, tmp_path, healthy(**{PODS: pods(waiting("new", {KEY: "6084Mi"}))}), ID)
    assert one["severity"] == "error"
    assert ": 1 MiB short. Not even empty would it fit." in one["summary"]
    assert f"{OFFER} at most, or run it on a larger node." in one["remedy"]


def test_the_nodes_own_memory_is_a_line_too(tmp_path: Path, capsys: Capture) -> None:
    asks = {KEY: "1Gi", "memory": "8Gi"}
    (one,) = found(capsys, tmp_path, healthy(**{PODS: pods(waiting("new", asks))}), ID)
    # allocatable memory is 7802736Ki
    assert any(f", {8 * GIB - 7802736 * 1024} more than is left" in row for row in one["evidence"])
    assert "asks for 8.00 GiB of memory" in one["summary"]
    assert KEY not in one["summary"]


@pytest.mark.parametrize(
    ("spec", "number"),
    [
        ({"nodeSelector": {"zone": "b"}}, 0),
        ({"nodeSelector": {"zone": "a"}}, 1),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, 1),
    ],
)
def test_a_pod_for_other_nodes_is_none_of_ours(
    tmp_path: Path, capsys: Capture, spec: dict[str, Any], number: int
) -> None:
    found_node = node({KEY: OFFER}, labels={"zone": "a"})
    files = healthy(**{NODE_JSON: found_node, PODS: pods(BOUND, waiting("new", {KEY: "2Gi"}, spec=spec))})
    assert len(found(capsys, tmp_path, files, ID)) == number


@pytest.mark.parametrize(
    ("tolerations", "number"),
    [([], 0), ([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}], 1), ([{"operator": "Exists"}], 1)],
)
def test_a_taint_keeps_it_away(tmp_path: Path, capsys: Capture, tolerations: list[Any], number: int) -> None:
    tainted = node({KEY: OFFER})
    tainted["spec"] = {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}
    asks = waiting("new", {KEY: "2Gi"}, spec={"tolerations": tolerations})
    assert len(found(capsys, tmp_path, healthy(**{NODE_JSON: tainted, PODS: pods(BOUND, asks)}), ID)) == number


def test_a_resource_that_this_node_does_not_have(tmp_path: Path, capsys: Capture) -> None:
    asks = pods(waiting("new", {"edgeagent.dev/igpu-memory": "1Gi"}))
    (one,) = found(capsys, tmp_path, healthy(**{PODS: asks}), ID)
    assert one["severity"] == "error"
    assert "is not offered by node edge-07" in one["remedy"]


@pytest.mark.parametrize(
    ("said", "spec", "severity"),
    [
        ("0/1 nodes are available: 1 Insufficient edgeagent.dev/gpu-memory.", {}, "error"),
        ("0/7 nodes are available: 7 Insufficient edgeagent.dev/gpu-memory.", {}, "warning"),
        ("0/7 nodes are available.", {"nodeSelector": {"kubernetes.io/hostname": "edge-07"}}, "error"),
    ],
)
def test_where_others_may_take_it_this_node_is_not_to_blame(
    tmp_path: Path, capsys: Capture, said: str, spec: dict[str, Any], severity: str
) -> None:
    asks = waiting("new", {KEY: "9Gi"}, spec=spec)
    asks["status"]["conditions"][0]["message"] = said
    named = node({KEY: OFFER}, labels={"kubernetes.io/hostname": "edge-07"})
    files = healthy(**{NODE_JSON: named, PODS: pods(asks)})
    (one,) = found(capsys, tmp_path, files, ID)
    assert one["severity"] == severity
    (document,) = explain(capsys, tmp_path)
    events = [one for one in document["plan"]["events"] if one["reason"] == "PendingDoesNotFit"]
    assert len(events) == (1 if severity == "error" else 0)
    assert f"scheduler: {said}" in one["evidence"]


def test_a_line_of_the_node_that_is_no_quantity_is_not_judged(tmp_path: Path, capsys: Capture) -> None:
    files = healthy(**{NODE_JSON: node({KEY: "a lot"}), PODS: pods(waiting("new", {KEY: "9Gi"}))})
    assert found(capsys, tmp_path, files, ID) == []

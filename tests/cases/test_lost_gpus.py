"""How a GPU that fails is told from one that is not there, and both from a driver that fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases.machines import (
    COMPATIBLE,
    IGX_ORIN,
    INTEL_GRAPHICS,
    NVIDIA_CARD,
    ORIN_NANO,
    ORIN_UUID,
    OWN,
    THOR,
    Capture,
    board,
    card,
    card_uuid,
    gb10,
    instance,
    on_x86,
)
from tests.cases.making import KEY, conditions, device, explain, frames, gpu, node, nvml, pod, pods

# A GPU that falls off the bus (NVIDIA/k8s-device-plugin#231 and #2038, leptonai/gpud#604)

SIZES = {1: 24576, 2: 16384, 3: 49152}


def three(**failing: dict[str, Any]) -> dict[str, Any]:
    """``nvml.json`` of three cards, 256 MiB of each kept by the driver; ``second={…}`` replaces fields of one."""
    names = ("first", "second", "third")
    found = [card(number, SIZES[number], 256, minor=number - 1) for number in SIZES]
    return nvml(*({**one, **failing[name]} if name in failing else one for one, name in zip(found, names, strict=True)))


def without_second() -> dict[str, Any]:
    """The driver has renumbered: two cards, the third at index 1."""
    return nvml(card(1, SIZES[1], 256, minor=0), card(3, SIZES[3], 256, minor=2))


def broken(how: str, code: int) -> dict[str, Any]:
    if how == "handle":
        return {"handle": code}
    fields = ("memory", "memory_v2") if how == "memory" else ("name", "uuid", "memory", "memory_v2", "compute")
    return {field: {"code": code} for field in fields}


ALL = "89344Mi"  # 24576 + 16384 + 49152 - 3 x 256


@pytest.mark.parametrize(
    ("name", "uuid", "rest"),
    [
        ("first", card_uuid(1), "65024Mi"),  # 16384 + 49152 - 512
        ("second", card_uuid(2), "73216Mi"),  # 24576 + 49152 - 512
        ("third", card_uuid(3), "40448Mi"),  # 24576 + 16384 - 512
    ],
)
@pytest.mark.parametrize("how", ["handle", "memory", "all"])
@pytest.mark.parametrize(("code", "health"), [(15, "lost"), (16, "reset-required"), (999, None)])
def test_a_lost_card_leaves_the_sum_after_three_readings(
    tmp_path: Path, capsys: Capture, name: str, uuid: str, rest: str, how: str, code: int, health: str | None
) -> None:
    good, bad = {"nvml.json": three()}, {"nvml.json": three(**{name: broken(how, code)})}
    files = board(**on_x86(), **frames(good, good, bad, bad, bad, bad))
    documents = explain(capsys, tmp_path, files)
    assert [gpu(document) for document in documents] == [ALL, ALL, ALL, ALL, rest, rest]
    last = documents[-1]
    found = {one["uuid"]: one["health"] for one in last["devices"]}
    assert found.keys() == {card_uuid(1), card_uuid(2), card_uuid(3)}
    assert found.pop(uuid) == health if health else found.pop(uuid) != "ok"
    assert set(found.values()) == {"ok"}
    (condition,) = [one for one in last["node"]["conditions"] if one["type"] == "GPUUnavailable"]
    assert condition["status"] == "True"
    assert uuid in condition["message"]


def test_a_card_that_drops_out_of_the_count_is_the_one_whose_uuid_is_missing(tmp_path: Path, capsys: Capture) -> None:
    good, bad = {"nvml.json": three()}, {"nvml.json": without_second()}
    documents = explain(capsys, tmp_path, board(**on_x86(), **frames(good, bad, bad, bad)))
    assert [gpu(document) for document in documents] == [ALL, ALL, ALL, "73216Mi"]
    last = documents[-1]
    assert {one["uuid"]: one["health"] for one in last["devices"]} == {
        card_uuid(1): "ok",
        card_uuid(2): "lost",
        card_uuid(3): "ok",
    }
    assert conditions(last)["GPUUnavailable"] == "True"


@pytest.mark.parametrize("bad", [three(second={"handle": 15}), three(first=broken("memory", 999)), without_second()])
def test_one_or_two_bad_readings_do_not_flap_the_node(tmp_path: Path, capsys: Capture, bad: dict[str, Any]) -> None:
    good = {"nvml.json": three()}
    bad = {"nvml.json": bad}
    documents = explain(capsys, tmp_path, board(**on_x86(), **frames(good, bad, good, bad, bad, good)))
    assert [gpu(document) for document in documents] == [ALL] * 6


@pytest.mark.parametrize("code", [3, 4, 10, 13, 15, 16, 999])
@pytest.mark.parametrize("field", ["name", "memory", "uuid"])
@pytest.mark.parametrize("which", ["GB10", "Thor", "Orin", "IGX", "card"])
def test_one_field_that_fails_once_changes_nothing(
    tmp_path: Path, capsys: Capture, which: str, field: str, code: int
) -> None:
    fields = {"memory": {"code": code}, "memory_v2": {"code": code}} if field == "memory" else {field: {"code": code}}
    found, files = {
        "GB10": ([gb10()], {}),
        "Thor": ([device("NVIDIA Thor", "GPU-aaaaaaaa-0000-4000-8000-000000000001")], {COMPATIBLE: THOR}),
        "Orin": ([device("Orin (nvgpu)", ORIN_UUID)], {COMPATIBLE: ORIN_NANO}),
        "IGX": ([IGX_ORIN[3], IGX_ORIN[2]], {COMPATIBLE: IGX_ORIN[0]}),
        "card": ([card(1)], {}),
    }[which]
    good = {"nvml.json": nvml(*found)}
    bad = {"nvml.json": nvml({**found[0], **fields}, *found[1:])}
    documents = explain(capsys, tmp_path, board(64347136, **files, **frames(good, good, bad, good)))
    kinds = {document["board"]["kind"] for document in documents}
    assert kinds == {documents[0]["board"]["kind"]}
    assert [document["node"]["capacity"] for document in documents] == [documents[0]["node"]["capacity"]] * 4
    assert gpu(documents[0]) is not None
    for document in documents:
        assert [(one["uuid"], one["memory"]) for one in document["devices"]] == [
            (one["uuid"], one["memory"]) for one in documents[0]["devices"]
        ]


def test_a_card_that_comes_back_counts_again(tmp_path: Path, capsys: Capture) -> None:
    good, bad = {"nvml.json": three()}, {"nvml.json": three(second={"handle": 15})}
    documents = explain(
        capsys, tmp_path, board(**on_x86(), **frames(good, bad, bad, bad, good, good, good, good, good))
    )
    assert gpu(documents[3]) == "73216Mi"
    assert gpu(documents[-1]) == ALL
    assert conditions(documents[-1])["GPUUnavailable"] == "False"


@pytest.mark.parametrize("how", ["handle", "memory", "compute", "all"])
@pytest.mark.parametrize(
    ("name", "compatible"), [("NVIDIA GB10", None), ("NVIDIA Thor", THOR), ("Orin (nvgpu)", ORIN_NANO)]
)
def test_a_lost_gpu_without_memory_of_its_own_takes_its_key_along(
    tmp_path: Path, capsys: Capture, name: str, compatible: bytes | None, how: str
) -> None:
    # 15 from any call about a device says that it has fallen off the bus (nvml.h)
    uuid = "GPU-aaaaaaaa-0000-4000-8000-000000000001"
    whole = device(name, uuid)
    fields = {"compute": {"code": 15}} if how == "compute" else broken(how, 15)
    good, bad = {"nvml.json": nvml(whole)}, {"nvml.json": nvml({**whole, **fields})}
    files = board(128651324, **({COMPATIBLE: compatible} if compatible else {}), **frames(good, bad, bad, bad, bad))
    documents = explain(capsys, tmp_path, files)
    assert [gpu(document) for document in documents[:3]] == ["124100Mi"] * 3
    last = documents[-1]
    assert [(one["uuid"], one["memory"], one["health"]) for one in last["devices"]] == [(uuid, "unified", "lost")]
    assert gpu(last) is None
    assert conditions(last)["GPUUnavailable"] == "True"


def test_a_lost_mig_instance_leaves_the_sum_too(tmp_path: Path, capsys: Capture) -> None:
    def split(second: dict[str, Any]) -> dict[str, Any]:
        return {"nvml.json": nvml(card(1, 40960, 600, mig={"mode": 1, "instances": [instance(1, 19968), second]}))}

    whole = instance(2, 9856)
    bad = split({**whole, "memory": {"code": 15}, "memory_v2": {"code": 15}})
    documents = explain(capsys, tmp_path, board(**on_x86(), **frames(split(whole), bad, bad, bad)))
    assert [gpu(document) for document in documents] == ["29824Mi", "29824Mi", "29824Mi", "19968Mi"]


def test_a_lost_card_takes_only_its_own_key_where_each_has_one(tmp_path: Path, capsys: Capture) -> None:
    good, bad = {"nvml.json": three()}, {"nvml.json": three(second={"handle": 15})}
    files = board(**on_x86(), **frames(good, bad, bad, bad))
    files["config.yaml"] = {"discrete": {"pools": "device"}}
    documents = explain(capsys, tmp_path, files)
    sizes = [[gpu(document, f"{KEY}-{minor}") for minor in range(3)] for document in documents]
    whole = ["24320Mi", "16128Mi", "48896Mi"]  # each less 256
    assert sizes == [whole, whole, whole, ["24320Mi", None, "48896Mi"]]


def test_a_driver_that_fails_from_the_start_leaves_a_new_node_alone(tmp_path: Path, capsys: Capture) -> None:
    files = board(
        **on_x86(),
        **NVIDIA_CARD,
        **{
            "nvml.json": {"library": "present", "init": 18},
            "cluster/node.json": node(),
            "cluster/pods.json": pods(),
            **frames({}, {}, {}),
        },
    )
    for document in explain(capsys, tmp_path, files):
        assert document["node"]["capacity"] == {}
        assert "null" not in json.dumps(document["node"]["requests"])
        assert KEY not in json.dumps(document["node"]["requests"])


@pytest.mark.parametrize(("held", "milli"), [("250", "3000"), (None, "2000")])
def test_thousandths_of_a_gpu_do_not_change_while_a_pod_holds_some(
    tmp_path: Path, capsys: Capture, held: str | None, milli: str
) -> None:
    running = [pod(limits={"edgeagent.dev/gpu-milli": held})] if held else []
    good, bad = {"nvml.json": three()}, {"nvml.json": three(second={"handle": 15})}
    files = board(**on_x86(), **{"cluster/pods.json": pods(*running), **frames(good, bad, bad, bad)})
    documents = explain(capsys, tmp_path, files)
    assert gpu(documents[0], "edgeagent.dev/gpu-milli") == "3000"
    assert gpu(documents[-1], "edgeagent.dev/gpu-milli") == milli
    assert gpu(documents[-1]) == "73216Mi"


def test_capacity_stays_at_what_admitted_pods_hold_when_a_card_is_lost(tmp_path: Path, capsys: Capture) -> None:
    running = [pod(name, limits={KEY: "20Gi"}) for name in ("a", "b", "c", "d")]
    good, bad = {"nvml.json": three()}, {"nvml.json": three(third={"handle": 15})}
    files = board(**on_x86(), **{"cluster/pods.json": pods(*running), **frames(good, bad, bad, bad)})
    last = explain(capsys, tmp_path, files)[-1]
    assert gpu(last) == "81920Mi"  # 4 x 20 GiB, though 40448 MiB are left
    assert last["pools"][0]["overcommitted"] is True
    assert last["plan"]["evictions"] == []


def test_cards_without_a_uuid_count_each(tmp_path: Path, capsys: Capture) -> None:
    found = [{**card(number, 24576, 512), "uuid": {"code": 999}} for number in (1, 2)]
    (document,) = explain(capsys, tmp_path, board(**on_x86(), **{"nvml.json": nvml(*found)}))
    assert gpu(document) == "48128Mi"
    assert len(document["devices"]) == 2


def test_a_start_beside_a_lost_card_keeps_what_the_node_says_until_it_is_proven(
    tmp_path: Path, capsys: Capture
) -> None:
    bad = {"nvml.json": three(second={"handle": 15})}
    files = board(
        **on_x86(), **{"cluster/node.json": node({KEY: ALL}), "cluster/pods.json": pods(), **frames(bad, bad, bad)}
    )
    documents = explain(capsys, tmp_path, files)
    assert [gpu(document) for document in documents] == [ALL, ALL, "73216Mi"]


@pytest.mark.parametrize("held", [False, True])
def test_when_all_cards_are_lost_the_key_goes_held_or_not(tmp_path: Path, capsys: Capture, *, held: bool) -> None:
    # A restarted kubelet skips a key that is not there; 0 would fail the pod that holds some of it.
    good = {"nvml.json": nvml(card(1))}
    bad = {"nvml.json": nvml({"handle": 15})}
    running = [pod(limits={KEY: "2Gi"})] if held else []
    files = board(**on_x86(), **{"cluster/pods.json": pods(*running), **frames(good, bad, bad, bad)})
    documents = explain(capsys, tmp_path, files)
    assert [gpu(document) for document in documents] == ["24064Mi", "24064Mi", "24064Mi", None]
    assert [(one["uuid"], one["health"]) for one in documents[-1]["devices"]] == [(card_uuid(1), "lost")]
    assert documents[-1]["plan"]["evictions"] == []


# A GPU that is gone, and a driver that merely fails (NVIDIA/gpu-operator#1391, NVIDIA/NVSentinel#723)


def former(pool: str, **labels: str) -> dict[str, Any]:
    """The node of a PC with one card, as the agent left it."""
    mine = {"edgeagent.dev/gpu.kind": "discrete", "edgeagent.dev/gpu.count": "1", "ai-capable": "true"}
    owned = {"capacity": [KEY], "conditions": [], "labels": sorted(mine)}
    return node(
        {KEY: pool},
        labels={**mine, "nvidia.com/gpu.present": "true", "edge.example.com/x": "1", **labels},
        annotations={"edgeagent.dev/owned-keys": json.dumps(owned, separators=(",", ":"))},
    )


@pytest.mark.parametrize("held", [False, True])
def test_a_card_taken_out_takes_exactly_our_keys_along(tmp_path: Path, capsys: Capture, *, held: bool) -> None:
    running = [pod(limits={KEY: "2Gi"})] if held else []
    files = board(
        **on_x86(),
        **INTEL_GRAPHICS,
        **{"cluster/node.json": former("24064Mi"), "cluster/pods.json": pods(*running), **frames({}, {}, {})},
    )
    *_, last = explain(capsys, tmp_path, files)
    body = last["node"]["requests"][0]["body"]
    assert (body["status"]["capacity"][KEY], body["status"]["allocatable"][KEY]) == (None, None)
    labels = body["metadata"]["labels"]
    assert (labels["ai-capable"], labels["edgeagent.dev/gpu.count"]) == (None, None)
    assert labels["edgeagent.dev/gpu.kind"] == "none"
    assert all(key == "ai-capable" or key.startswith(OWN) for key in labels)


@pytest.mark.parametrize(
    "asks",
    [
        {"nodeSelector": {"ai-capable": "true"}},
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "ai-capable", "operator": "In", "values": ["true"]}]}
                        ]
                    }
                }
            }
        },
    ],
)
def test_a_label_that_a_running_pod_requires_outlives_the_card(
    tmp_path: Path, capsys: Capture, asks: dict[str, Any]
) -> None:
    # A restarted kubelet checks both again and stops the pods that no longer match.
    files = board(
        **on_x86(),
        **INTEL_GRAPHICS,
        **{
            "cluster/node.json": former("24064Mi"),
            "cluster/pods.json": pods(pod(limits={KEY: "2Gi"}, spec=asks)),
            **frames({}, {}, {}),
        },
    )
    *_, last = explain(capsys, tmp_path, files)
    assert last["node"]["labels"]["ai-capable"] == "true"
    labels = last["node"]["requests"][0]["body"]["metadata"]["labels"]
    assert "ai-capable" not in labels
    assert labels["edgeagent.dev/gpu.count"] is None


@pytest.mark.parametrize("init", [9, 18, 999])
@pytest.mark.parametrize(
    "bus",
    [
        NVIDIA_CARD,
        {"host/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  x\n"},
        {"host/dev/dxg": ""},
    ],
)
def test_a_driver_that_fails_changes_a_condition_and_nothing_else(
    tmp_path: Path, capsys: Capture, init: int, bus: dict[str, Any]
) -> None:
    files = board(
        **on_x86(),
        **bus,
        **{
            "nvml.json": {"library": "present", "init": init},
            "cluster/node.json": former("24064Mi"),
            "cluster/pods.json": pods(pod(limits={KEY: "2Gi"})),
            **frames({}, {}, {}, {}),
        },
    )
    for document in explain(capsys, tmp_path, files):
        assert gpu(document) == "24064Mi"
        assert document["plan"]["evictions"] == []
        for request in document["node"]["requests"]:
            assert "null" not in json.dumps(request["body"])
            assert KEY not in request["body"].get("status", {}).get("capacity", {})
            assert "labels" not in request["body"].get("metadata", {})
    if "host/dev/dxg" not in bus:
        assert conditions(document)["GPUUnavailable"] == "True"


@pytest.mark.parametrize("code", [3, 999, 10])
def test_a_count_that_fails_is_unknown_and_not_zero_cards(tmp_path: Path, capsys: Capture, code: int) -> None:
    files = board(
        **on_x86(),
        **NVIDIA_CARD,
        **{
            "nvml.json": {"library": "present", "init": 0, "count": {"code": code}, "devices": []},
            "cluster/node.json": former("24064Mi"),
            "cluster/pods.json": pods(),
            **frames({}, {}, {}, {}),
        },
    )
    for document in explain(capsys, tmp_path, files):
        assert gpu(document) == "24064Mi"


# Driver and library of different versions (NVIDIA/k8s-device-plugin#221 and #1431)


def test_an_upgrade_without_a_reboot_names_both_versions_and_heals_by_itself(tmp_path: Path, capsys: Capture) -> None:
    running = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025\n"
    failing = {"nvml.json": {"library": "present", "init": 18}}
    files = board(
        **on_x86(),
        **NVIDIA_CARD,
        **{
            "host/proc/driver/nvidia/version": running,
            "host/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.126.09": "",
            "cluster/node.json": former("24064Mi"),
            "cluster/pods.json": pods(pod(limits={KEY: "2Gi"})),
            **frames(failing, failing, failing, {"nvml.json": nvml(card(1))}),
        },
    )
    *failed, healed = explain(capsys, tmp_path, files)
    for document in failed:
        assert gpu(document) == "24064Mi"
        assert document["plan"]["evictions"] == []
        said = json.dumps([document["board"]["warnings"], document["findings"], document["node"]["conditions"]])
        assert "580.95.05" in said
        assert "580.126.09" in said
    assert gpu(healed) == "24064Mi"
    assert conditions(healed)["GPUUnavailable"] == "False"

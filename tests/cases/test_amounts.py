"""Amounts without their suffix, and pods that wait because something does not fit, by how many bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.machines import IGX_ORIN
from tests.cases.making import GIB, KEY, MIB, pod, pods
from tests.cases.nodes import (
    ABOVE_NOTES,
    KINDS,
    Capture,
    Files,
    Finding,
    also,
    ids,
    judged,
    orin,
    proof,
    the,
    told,
    tower,
    whole,
)
from tests.diagnose.making import NODE_JSON, PODS, waiting

SUFFIX, FIT = "request-without-suffix", "pending-does-not-fit"
NVIDIA = {"runtimeClassName": "nvidia"}
LIMIT = "edgeagent.dev/gpu-memory-limit"
ROOM = 6083 * MIB
"""What the Orin offers, in bytes."""


def of(found: list[Finding], name: str) -> list[Finding]:
    return [one for one in found if one["id"] == name]


# --- a suffix that was forgotten ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "meant"),
    [
        ("1", "1Gi"), ("2", "2Gi"), ("16", "16Gi"), ("512", "512Mi"), ("2048", "2048Mi"), ("6000", "6000Mi"),
        ("2k", "2000Mi"), ("1023", "1023Mi"), ("65536", "65536Mi"), ("1048575", ""), ("1Ki", "1024Mi"), ("512Ki", ""),
    ],
)  # fmt: skip
def test_what_is_below_a_mebibyte(tmp_path: Path, capsys: Capture, amount: str, meant: str) -> None:
    one = the(told(capsys, tmp_path, tower(**{PODS: pods(pod(limits={KEY: amount}, spec=NVIDIA))})), SUFFIX)
    assert judged(one)[0] == "warning"
    assert judged(one)[2] == "pod default/llm"
    assert KEY in whole(one)
    assert meant in one["remedy"]


@pytest.mark.parametrize("amount", ["0", "1048576", "1Mi", "1M", "2Gi", "2G", "2147483648"])
def test_what_may_have_been_meant(tmp_path: Path, capsys: Capture, amount: str) -> None:
    found = told(capsys, tmp_path, tower(**{PODS: pods(pod(limits={KEY: amount}, spec=NVIDIA))}))
    # 1M is 1000000 bytes, which is below 1 MiB
    assert (SUFFIX in ids(found)) == (amount == "1M")


def placed(where: str, asked: Files) -> dict[str, Any]:
    """A pod that writes 2048 in one place."""
    made = pod("llm", spec=NVIDIA)
    if where == "second container":
        made["spec"]["containers"].append({"name": "second", "resources": {"limits": asked, "requests": asked}})
    elif where == "requests alone":
        made["spec"]["containers"][0]["resources"] = {"requests": asked}
    elif where == "waits":
        return waiting("llm", asked)
    else:
        again = {"restartPolicy": "Always"} if where == "sidecar" else {}
        made["spec"]["initContainers"] = [{"name": "x", "resources": {"limits": asked, "requests": asked}, **again}]
    return made


@pytest.mark.parametrize("where", ["second container", "sidecar", "init container", "requests alone", "waits"])
@pytest.mark.parametrize("kind", [orin, tower])
def test_wherever_it_stands(tmp_path: Path, capsys: Capture, kind: Any, where: str) -> None:
    one = the(told(capsys, tmp_path, kind(**{PODS: pods(placed(where, {KEY: "2048"}))})), SUFFIX)
    assert judged(one)[0] == "warning"
    assert "2048Mi" in one["remedy"]


@pytest.mark.parametrize(("amount", "number"), [("2048", 1), ("4", 1), ("2Gi", 0), ("0", 0)])
def test_in_an_annotation(tmp_path: Path, capsys: Capture, amount: str, number: int) -> None:
    found = told(capsys, tmp_path, tower(**{PODS: pods(pod(annotations={LIMIT: amount}, spec=NVIDIA))}))
    assert len(of(found, SUFFIX)) == number
    assert all(LIMIT in whole(one) for one in of(found, SUFFIX))


@pytest.mark.parametrize("key", ["edgeagent.dev/gpu-milli", "nvidia.com/gpu", "memory", "cpu"])
def test_other_resources_are_no_bytes_of_ours(tmp_path: Path, capsys: Capture, key: str) -> None:
    found = told(capsys, tmp_path, tower(**{PODS: pods(pod(limits={key: "250"}, spec=NVIDIA))}))
    assert SUFFIX not in ids(found)


def test_the_integrated_gpus_key_is_one_too(tmp_path: Path, capsys: Capture) -> None:
    from tests.cases.machines import COMPATIBLE  # noqa: PLC0415
    from tests.cases.making import meminfo, nvml  # noqa: PLC0415

    compatible, kib, chip, big = IGX_ORIN
    files = orin(**{COMPATIBLE: compatible, "host/proc/meminfo": meminfo(kib), "nvml.json": nvml(chip, big)})
    asked = pod(limits={"edgeagent.dev/igpu-memory": "4096"}, spec=NVIDIA)
    one = the(told(capsys, tmp_path, {**files, PODS: pods(asked)}), SUFFIX)
    assert "4096Mi" in one["remedy"]


# --- what waits -----------------------------------------------------------------------------------------------------


def asks(size: str | int, key: str = KEY) -> Files:
    return {"limits": {key: str(size)}, "requests": {key: str(size)}}


def made_of(
    *containers: str, init: tuple[tuple[str, bool], ...] = (), spec: Files | None = None, key: str = KEY
) -> dict[str, Any]:
    """A pod that waits, with containers of these sizes; init: size, and whether it is a sidecar."""
    made = waiting("new", {}, spec=spec)
    made["spec"]["containers"] = [
        {"name": f"c{number}", "resources": asks(size, key)} for number, size in enumerate(containers)
    ]
    made["spec"]["initContainers"] = [
        {"name": f"i{number}", "resources": asks(size, key), **({"restartPolicy": "Always"} if sidecar else {})}
        for number, (size, sidecar) in enumerate(init)
    ]
    return made


@pytest.mark.parametrize(
    ("waits", "asked"),
    [
        (made_of("7Gi"), 7 * GIB),
        (made_of(str(ROOM + 1)), ROOM + 1),
        (made_of("3Gi", "4Gi"), 7 * GIB),
        (made_of("1Gi", "1Gi", init=(("7Gi", False),)), 7 * GIB),  # max(1 + 1, 7)
        (made_of("4Gi", init=(("3Gi", True),)), 7 * GIB),  # 4 + 3
        (made_of("1Gi", init=(("3Gi", True), ("4Gi", False))), 7 * GIB),  # max(1 + 3, 3 + 4)
        (made_of("6Gi", spec={"overhead": {KEY: "1Gi"}}), 7 * GIB),
        (made_of("7000Mi"), 7000 * MIB),
        (made_of("7G"), 7 * 10**9),
    ],
    ids=["one", "a-byte", "sum", "init", "sidecar", "init-after-sidecar", "overhead", "MiB", "decimal"],
)
def test_it_does_not_fit_even_if_the_node_is_empty(
    tmp_path: Path, capsys: Capture, waits: dict[str, Any], asked: int
) -> None:
    one = the(told(capsys, tmp_path, orin(**{PODS: pods(waits)})), FIT)
    assert judged(one) == ("error", "certain", "pod default/new")
    assert str(asked) in proof(one)
    assert str(asked - ROOM) in proof(one)


@pytest.mark.parametrize(
    "waits",
    [
        made_of("6083Mi"),
        made_of(str(ROOM)),
        made_of("3000Mi", "3083Mi"),
        made_of("1Gi", init=(("6083Mi", False), ("5Gi", False))),  # they run one after another
        made_of("1Gi", init=(("4Gi", False), ("3Gi", True))),  # max(1 + 3, 4)
        made_of("7Gi", key="example.org/other"),
        made_of("7Gi", spec={"nodeSelector": {"zone": "b"}}),
        made_of("7Gi", spec={"nodeName": None, "nodeSelector": {"kubernetes.io/hostname": "other"}}),
    ],
    ids=["all-of-it", "in-bytes", "sum", "inits", "sidecar-after-init", "not-ours", "elsewhere", "another-host"],
)
def test_it_fits_or_is_none_of_this_nodes(tmp_path: Path, capsys: Capture, waits: dict[str, Any]) -> None:
    assert FIT not in ids(told(capsys, tmp_path, orin(**{PODS: pods(waits)})), ABOVE_NOTES)


@pytest.mark.parametrize(("booked", "asked"), [("4Gi", "3Gi"), ("6083Mi", "1Mi"), ("5Gi", "1300Mi")])
def test_it_would_fit_without_those_that_run(tmp_path: Path, capsys: Capture, booked: str, asked: str) -> None:
    runs = pod("old", limits={KEY: booked}, spec=NVIDIA)
    one = the(told(capsys, tmp_path, orin(**{PODS: pods(runs, made_of(asked))})), FIT)
    assert judged(one) == ("warning", "certain", "pod default/new")
    size = {"4Gi": 4 * GIB, "3Gi": 3 * GIB, "6083Mi": ROOM, "1Mi": MIB, "5Gi": 5 * GIB, "1300Mi": 1300 * MIB}
    assert str(size[asked] + size[booked] - ROOM) in proof(one)
    assert "default/old" in whole(one)


def test_those_that_have_ended_hold_nothing(tmp_path: Path, capsys: Capture) -> None:
    for number, phase in enumerate(("Succeeded", "Failed")):
        over = pod("old", limits={KEY: "4Gi"}, status={"phase": phase, "containerStatuses": []})
        assert FIT not in ids(told(capsys, tmp_path / str(number), orin(**{PODS: pods(over, made_of("3Gi"))})))


def test_one_that_ends_holds_it_still(tmp_path: Path, capsys: Capture) -> None:
    ends = pod("old", limits={KEY: "4Gi"}, spec=NVIDIA, deletionTimestamp="2026-01-31T11:59:30Z")
    assert FIT in ids(told(capsys, tmp_path, orin(**{PODS: pods(ends, made_of("3Gi"))})), ABOVE_NOTES)


@pytest.mark.parametrize(
    ("spec", "resources"),
    [
        ({"overhead": {"memory": "1Gi", "cpu": "100m"}}, {"memory": "7Gi"}),
        ({"resources": {"requests": {"memory": "8Gi"}, "limits": {"memory": "8Gi"}}}, {}),
        ({"resources": {"requests": {"memory": "8Gi"}}}, {"memory": "1Gi"}),
        ({"overhead": {"memory": "1Gi"}, "resources": {"requests": {"memory": "7Gi"}}}, {"memory": "9Gi"}),
    ],
    ids=["overhead", "pod-level", "pod-level-instead-of-the-sum", "both"],
)
def test_another_line_of_the_node_is_too_short(
    tmp_path: Path, capsys: Capture, spec: Files, resources: dict[str, str]
) -> None:
    """8 GiB of memory are asked for, and the node has 7802736 KiB = 7990001664 bytes: 599932928 are missing."""
    waits = made_of("1Gi", spec=spec)
    for part in waits["spec"]["containers"][0]["resources"].values():
        part.update(resources)
    one = the(told(capsys, tmp_path, orin(**{PODS: pods(waits)})), FIT)
    assert judged(one)[:2] == ("error", "certain")
    assert str(8 * GIB) in proof(one)
    assert "599932928" in proof(one)


@pytest.mark.parametrize(
    ("taint", "tolerations", "here"),
    [
        ({"key": "edge", "value": "true", "effect": "NoSchedule"}, [], False),
        ({"key": "edge", "value": "true", "effect": "NoExecute"}, [], False),
        ({"key": "edge", "value": "true", "effect": "PreferNoSchedule"}, [], True),
        ({"key": "edge", "value": "true", "effect": "NoSchedule"}, [{"key": "edge", "operator": "Exists"}], True),
        ({"key": "edge", "value": "true", "effect": "NoSchedule"}, [{"key": "edge", "value": "true"}], True),
        ({"key": "edge", "value": "true", "effect": "NoSchedule"}, [{"key": "edge", "value": "false"}], False),
        ({"key": "edge", "effect": "NoSchedule"}, [{"operator": "Exists"}], True),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, [], False),
    ],
)
def test_only_where_it_may_run(
    tmp_path: Path, capsys: Capture, taint: dict[str, str], tolerations: list[Any], *, here: bool
) -> None:
    files = orin(**{PODS: pods(made_of("7Gi", spec={"tolerations": tolerations}))})
    files[NODE_JSON]["spec"] = {"taints": [taint]}
    assert (FIT in ids(told(capsys, tmp_path, files), ABOVE_NOTES)) == here


@pytest.mark.parametrize(("name", "here"), [("edge-07", True), ("edge-08", False)])
def test_a_daemon_sets_pod_is_for_the_node_that_it_names(
    tmp_path: Path, capsys: Capture, name: str, *, here: bool
) -> None:
    """The DaemonSet controller writes the node's name into the affinity of each of its pods."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    files = orin(**{PODS: pods(made_of("7Gi", spec={"affinity": required}))})
    assert (FIT in ids(told(capsys, tmp_path / "1", files), ABOVE_NOTES)) == here
    by_number = orin(**{PODS: pods(waiting("new", {"nvidia.com/gpu": "1"}, spec={"affinity": required}))})
    assert ("device-plugin-missing" in ids(told(capsys, tmp_path / "2", by_number), ABOVE_NOTES)) == here


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_on_every_kind_of_node(tmp_path: Path, capsys: Capture, kind: Any) -> None:
    one = the(told(capsys, tmp_path, kind(**{PODS: pods(made_of("200Gi"))})), FIT)
    assert judged(one) == ("error", "certain", "pod default/new")


def test_without_a_list_of_pods_nobody_waits(tmp_path: Path, capsys: Capture) -> None:
    files = orin()
    del files[PODS]
    assert FIT not in ids(told(capsys, tmp_path, files))


def test_a_gpu_that_another_pod_holds(tmp_path: Path, capsys: Capture) -> None:
    """One GPU by number, held by a pod that uses little of it."""
    holder = pod("old", limits={"nvidia.com/gpu": "1"}, spec=NVIDIA)
    files = also(tower(**{PODS: pods(holder, waiting("new", {"nvidia.com/gpu": "1"}))}), gpu="1")
    one = the(told(capsys, tmp_path / "1", files), "gpu-held-by-other")
    assert judged(one)[0] == "error"
    assert judged(one)[2] == "pod default/new"
    assert "default/old" in whole(one)
    two = also(tower(**{PODS: pods(holder, waiting("new", {"nvidia.com/gpu": "1"}))}), gpu="2")
    assert "gpu-held-by-other" not in ids(told(capsys, tmp_path / "2", two))

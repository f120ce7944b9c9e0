"""What pods book of a pool: the scheduler's own sums, and the part of ``memory`` that is the host's.

Sums as in the Kubernetes documentation, "Init Containers" and "Sidecar Containers", and KEP-753, KEP-2837 (pod-level
resources) and KEP-1287 (resize in place).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.making import GIB, KEY, MIB, device, explain, frames, gpu, meminfo, nvml, pod, pods, stated

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]

TOTAL = 16777216
"""16 GiB in kB; less os 1024 and k3s 512 MiB: 14848 MiB."""
ROOM = 14848


def on_orin(*items: dict[str, Any], **files: Any) -> dict[str, Any]:
    return {
        "host/proc/device-tree/compatible": b"nvidia,p3767-0000\0nvidia,tegra234\0",
        "host/proc/meminfo": meminfo(TOTAL),
        "config.yaml": stated(),
        "cluster/pods.json": pods(*items),
        **files,
    }


def container(name: str, gpu_memory: Any = None, memory: Any = None, **fields: Any) -> dict[str, Any]:
    """Limits and requests are the same."""
    asked = {key: value for key, value in ((KEY, gpu_memory), ("memory", memory)) if value is not None}
    return {"name": name, "resources": {"limits": dict(asked), "requests": dict(asked)}, **fields}


def sidecar(name: str, gpu_memory: Any = None, memory: Any = None) -> dict[str, Any]:
    return container(name, gpu_memory, memory, restartPolicy="Always")


def committed(capsys: Capture, folder: Path, files: dict[str, Any]) -> tuple[int, int]:
    """GPU and host bytes that the pods have booked; and the offer agrees with it."""
    (document,) = explain(capsys, folder, files)
    (pool,) = document["pools"]
    assert gpu(document) == f"{ROOM - -(-pool['host_committed_bytes'] // MIB)}Mi"
    return pool["gpu_committed_bytes"], pool["host_committed_bytes"]


# Sums of one pod


@pytest.mark.parametrize(
    ("spec", "gpu_bytes", "host_bytes"),
    [
        ({"containers": [container("a", "2Gi", "3Gi")]}, 2 * GIB, GIB),
        ({"containers": [container("a", "2Gi", "3Gi"), container("b", "1Gi", "2Gi")]}, 3 * GIB, 2 * GIB),
        ({"containers": [container("web", None, "1Gi"), container("infer", "2Gi", "3Gi")]}, 2 * GIB, 2 * GIB),
        # a large init container that is gone before the others start
        ({"initContainers": [container("fetch", "4Gi", "5Gi")], "containers": [container("a", "2Gi", "3Gi")]},
         4 * GIB, GIB),
        ({"initContainers": [container("fetch", None, "6Gi")], "containers": [container("a", "2Gi", "3Gi")]},
         2 * GIB, 6 * GIB),
        # the largest of several, not their sum
        ({"initContainers": [container("one", "3Gi"), container("two", "4Gi"), container("three", "1Gi")],
          "containers": [container("a", "2Gi")]}, 4 * GIB, 0),
        # a sidecar runs beside the containers
        ({"initContainers": [sidecar("proxy", "1Gi", "2Gi")], "containers": [container("a", "2Gi", "3Gi")]},
         3 * GIB, 2 * GIB),
        # and beside the init containers after it, not before it
        ({"initContainers": [sidecar("proxy", "1Gi"), container("fetch", "4Gi")],
          "containers": [container("a", "2Gi")]}, 5 * GIB, 0),
        ({"initContainers": [container("fetch", "4Gi"), sidecar("proxy", "1Gi")],
          "containers": [container("a", "2Gi")]}, 4 * GIB, 0),
        ({"initContainers": [sidecar("x", "1Gi"), container("fetch", "4Gi"), sidecar("y", "1Gi")],
          "containers": [container("a", "4Gi")]}, 6 * GIB, 0),
        # the sandbox's own memory comes on top, also of an init container
        ({"containers": [container("a", "2Gi", "3Gi")], "overhead": {"memory": "128Mi", "cpu": "250m"}},
         2 * GIB, GIB + 128 * MIB),
        ({"initContainers": [container("fetch", None, "6Gi")], "containers": [container("a", "2Gi", "3Gi")],
          "overhead": {"memory": "128Mi"}}, 2 * GIB, 6 * GIB + 128 * MIB),
        # resources of the pod replace the sum
        ({"containers": [container("a", "2Gi")], "resources": {"requests": {"memory": "4Gi"}}}, 2 * GIB, 2 * GIB),
        ({"containers": [container("a", "2Gi", "3Gi"), container("b", None, "1Gi")],
          "resources": {"requests": {"memory": "8Gi"}, "limits": {"memory": "8Gi"}}}, 2 * GIB, 6 * GIB),
        ({"containers": [container("a", "2Gi", "3Gi")], "resources": {"requests": {"cpu": "1"}}}, 2 * GIB, GIB),
        # no resources at all, in each spelling
        ({"containers": [{"name": "a"}]}, 0, 0),
        ({"containers": [{"name": "a", "resources": {}}]}, 0, 0),
        ({"containers": [{"name": "a", "resources": {"limits": None, "requests": None}}], "initContainers": None},
         0, 0),
        # a container for debugging books nothing
        ({"containers": [container("a", "2Gi")], "ephemeralContainers": [{"name": "debug"}]}, 2 * GIB, 0),
        # a job that ran to its end does not free its share while the pod lives
        ({"containers": [container("a", "2Gi"), container("done", "1Gi")]}, 3 * GIB, 0),
    ],
)  # fmt: skip
def test_a_pod_books_what_the_scheduler_counts(
    tmp_path: Path, capsys: Capture, spec: dict[str, Any], gpu_bytes: int, host_bytes: int
) -> None:
    assert committed(capsys, tmp_path, on_orin(pod(spec=spec))) == (gpu_bytes, host_bytes)


@pytest.mark.parametrize(
    ("gpu_memory", "memory", "host_bytes", "event"),
    [
        ("2Gi", "3Gi", GIB, False),
        ("2Gi", "2304Mi", 256 * MIB, False),
        ("2Gi", "2303Mi", 2303 * MIB, True),  # 255 MiB for the host cannot have been meant
        ("2Gi", "2Gi", 2 * GIB, True),
        ("2Gi", "512Mi", 512 * MIB, True),
        ("2Gi", None, 0, False),
        (None, "1Gi", GIB, False),
        (None, "1Mi", MIB, False),
        ("0", "1Gi", GIB, False),
    ],
)
def test_memory_is_the_whole_board_figure_where_it_can_be(
    tmp_path: Path, capsys: Capture, gpu_memory: str | None, memory: str | None, host_bytes: int, *, event: bool
) -> None:
    (document,) = explain(capsys, tmp_path, on_orin(pod(spec={"containers": [container("a", gpu_memory, memory)]})))
    assert document["pools"][0]["host_committed_bytes"] == host_bytes
    told = [one["regarding"] for one in document["plan"]["events"] if one["reason"] == "UnderRequested"]
    assert told == (["pod default/llm"] if event else [])


def test_the_reading_is_made_container_by_container(tmp_path: Path, capsys: Capture) -> None:
    # Over the pod's sums, memory 4 GiB - gpu 3 GiB would be 1 GiB. By container: 3 - 1, and 1 beside a gpu of 2.
    spec = {"containers": [container("a", "1Gi", "3Gi"), container("b", "2Gi", "1Gi")]}
    assert committed(capsys, tmp_path, on_orin(pod(spec=spec))) == (3 * GIB, 3 * GIB)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2Gi", 2 * GIB),
        ("2048Mi", 2 * GIB),
        ("2097152Ki", 2 * GIB),
        ("2147483648", 2 * GIB),
        pytest.param(2147483648, 2 * GIB, id="a number"),
        ("2G", 2 * 10**9),
        ("2000M", 2 * 10**9),
        ("2000000k", 2 * 10**9),
        ("2e9", 2 * 10**9),
        ("2E9", 2 * 10**9),
        ("2.0e9", 2 * 10**9),
        ("1.5Gi", 1536 * MIB),
        ("0.5Gi", 512 * MIB),
        ("2147483648000m", 2 * GIB),
        ("0", 0),
    ],
)
def test_quantities_of_all_forms_are_bytes(tmp_path: Path, capsys: Capture, text: Any, amount: int) -> None:
    (document,) = explain(capsys, tmp_path / "gpu", on_orin(pod(spec={"containers": [container("a", text)]})))
    assert document["pools"][0]["gpu_committed_bytes"] == amount
    assert document["pods"][0]["gpu_budget_bytes"] == amount
    (document,) = explain(capsys, tmp_path / "host", on_orin(pod(spec={"containers": [container("a", None, text)]})))
    assert document["pools"][0]["host_committed_bytes"] == amount


@pytest.mark.parametrize(
    ("spec_memory", "status", "host_bytes"),
    [
        ("1Gi", {"requests": {"memory": "3Gi"}}, 3 * GIB),  # shrinking: still held
        ("3Gi", {"requests": {"memory": "1Gi"}}, 3 * GIB),  # growing: already asked for
        ("1Gi", {"requests": {"memory": "1Gi"}}, GIB),
        ("1Gi", {}, GIB),
        ("1Gi", None, GIB),
    ],
)
def test_during_a_resize_the_larger_of_both_counts(
    tmp_path: Path, capsys: Capture, spec_memory: str, status: dict[str, Any] | None, host_bytes: int
) -> None:
    resized = pod(spec={"containers": [container("main", None, spec_memory)]})
    resized["status"]["containerStatuses"][0]["resources"] = status
    assert committed(capsys, tmp_path, on_orin(resized)) == (0, host_bytes)


def test_a_resize_is_matched_by_name_and_not_by_position(tmp_path: Path, capsys: Capture) -> None:
    resized = pod(spec={"containers": [container("a", None, "1Gi"), container("b", None, "2Gi")]})
    resized["status"]["containerStatuses"] = [
        {"name": "b", "resources": {"requests": {"memory": "2Gi"}}},
        {"name": "a", "resources": {"requests": {"memory": "1536Mi"}}},
    ]
    assert committed(capsys, tmp_path, on_orin(resized)) == (0, 3584 * MIB)


def test_a_resized_sidecar_counts_too(tmp_path: Path, capsys: Capture) -> None:
    resized = pod(spec={"initContainers": [sidecar("proxy", None, "1Gi")], "containers": [container("main", "2Gi")]})
    resized["status"]["initContainerStatuses"] = [{"name": "proxy", "resources": {"requests": {"memory": "2Gi"}}}]
    assert committed(capsys, tmp_path, on_orin(resized)) == (2 * GIB, 2 * GIB)


@pytest.mark.parametrize("resources", [{"limits": {KEY: "2Gi", "memory": "3Gi"}}])
def test_limits_alone_are_requests_too(tmp_path: Path, capsys: Capture, resources: dict[str, Any]) -> None:
    # the API server fills the requests in; what it filled in and what it did not must be the same
    filled = {**resources, "requests": resources["limits"]}
    for name, found in (("alone", resources), ("filled", filled)):
        spec = {"containers": [{"name": "a", "resources": found}]}
        assert committed(capsys, tmp_path / name, on_orin(pod(spec=spec))) == (2 * GIB, GIB)


def test_memory_requests_and_limits_are_read_each_for_its_own_purpose(tmp_path: Path, capsys: Capture) -> None:
    resources = {"limits": {KEY: "2Gi", "memory": "5Gi"}, "requests": {KEY: "2Gi", "memory": "3Gi"}}
    (document,) = explain(capsys, tmp_path, on_orin(pod(spec={"containers": [{"name": "a", "resources": resources}]})))
    assert document["pools"][0]["host_committed_bytes"] == GIB  # 3 - 2, by the request
    assert document["pods"][0]["total_budget_bytes"] == 5 * GIB  # 2 + (5 - 2), by the limit


# Which pods count

BOOKED = {KEY: "2Gi", "memory": "3Gi"}


def changed(**status: Any) -> dict[str, Any]:
    return pod(limits=BOOKED, status=status)


@pytest.mark.parametrize(
    ("item", "counts"),
    [
        (pod(limits=BOOKED), True),
        (changed(phase="Pending"), True),  # bound, and its images are pulled
        (changed(phase="Pending", startTime=None, containerStatuses=None), True),
        (changed(phase="Unknown"), True),
        (changed(phase="Succeeded"), False),
        (changed(phase="Failed"), False),
        (changed(phase="Failed", reason="UnexpectedAdmissionError"), False),
        # terminating counts until the object is gone
        (pod(limits=BOOKED, deletionTimestamp="2026-01-31T11:59:00Z", deletionGracePeriodSeconds=600), True),
        (pod(limits=BOOKED, spec={"nodeName": "edge-08"}), False),
        (pod(limits=BOOKED, spec={"nodeName": None}), False),
        (pod(limits=BOOKED, spec={"nodeName": ""}), False),
    ],
)
def test_a_pod_counts_from_its_binding_to_its_end(
    tmp_path: Path, capsys: Capture, item: dict[str, Any], *, counts: bool
) -> None:
    expected = (2 * GIB, GIB) if counts else (0, 0)
    assert committed(capsys, tmp_path, on_orin(item)) == expected


@pytest.mark.parametrize(
    ("status", "offer"),
    [
        ({}, "15360Mi"),  # running: what it was given
        ({"phase": "Pending"}, "15360Mi"),  # has a start time: the kubelet took it
        ({"phase": "Pending", "startTime": None, "containerStatuses": None}, "14848Mi"),  # bound only: lifts nothing
    ],
)
def test_only_an_admitted_pod_lifts_the_offer_above_the_sum(
    tmp_path: Path, capsys: Capture, status: dict[str, Any], offer: str
) -> None:
    (document,) = explain(capsys, tmp_path, on_orin(pod(limits={KEY: "15Gi"}, status=status)))
    assert gpu(document) == offer
    assert document["pools"][0]["gpu_committed_bytes"] == 15 * GIB
    assert document["pools"][0]["overcommitted"] is True


def test_never_below_committed_is_rounded_up(tmp_path: Path, capsys: Capture) -> None:
    # two pods of 7681.x MiB hold 15362.0... MiB: 2 x 8054113281 = 16108226562 = 15362.001 MiB
    running = [pod(name, limits={KEY: "8054113281"}) for name in ("a", "b")]
    (document,) = explain(capsys, tmp_path, on_orin(*running))
    assert gpu(document) == f"{-(-16108226562 // MIB)}Mi"


def test_a_fall_goes_out_at_once_and_a_rise_after_five_seconds(tmp_path: Path, capsys: Capture) -> None:
    # 1 GiB for the host leaves the offer while the pod lives; its replacement must find its place before others do.
    busy = {"cluster/pods.json": pods(pod(limits={KEY: "2Gi", "memory": "3Gi"}))}
    empty = {"cluster/pods.json": pods()}
    files = on_orin(**frames(busy, empty, empty, empty, empty, busy, step=2))
    offers = [gpu(document) for document in explain(capsys, tmp_path, files)]
    # empty since second 2, so from second 7 on
    assert offers == ["13824Mi", "13824Mi", "13824Mi", "13824Mi", "14848Mi", "13824Mi"]


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"metadata": None, "spec": None, "status": None},
        {"metadata": {"name": "odd", "namespace": "x"}, "spec": {"nodeName": "edge-07", "containers": None}},
        {"metadata": {"name": "odd", "namespace": "x", "uid": "u-1"}, "spec": {"nodeName": "edge-07"}},
        {
            "metadata": {"name": "odd", "namespace": "x", "uid": "u-1", "annotations": None, "labels": None},
            "spec": {"nodeName": "edge-07", "containers": [{"name": "a", "resources": None}]},
            "status": {"phase": "Running", "containerStatuses": None},
        },
        {
            "metadata": {"name": "odd", "namespace": "x", "uid": "u-1"},
            "spec": {"nodeName": "edge-07", "containers": [None, "text", {"name": None}]},
            "status": {"phase": None},
        },
        "text",
        None,
    ],
)
def test_one_odd_object_does_not_hide_the_others(tmp_path: Path, capsys: Capture, odd: Any) -> None:
    # kubernetes-client/python#895 and #1735
    listed = pods(pod("before", limits={KEY: "2Gi"}), pod("after", limits={KEY: "1Gi"}))
    listed["items"].insert(1, odd)
    (document,) = explain(capsys, tmp_path, on_orin(**{"cluster/pods.json": listed}))
    assert document["pools"][0]["gpu_committed_bytes"] == 3 * GIB
    assert {"before", "after"} <= {one["name"] for one in document["pods"]}


def test_static_coupling_leaves_host_parts_out(tmp_path: Path, capsys: Capture) -> None:
    config = {**stated(), "unified": {"coupling": "static"}}
    (document,) = explain(capsys, tmp_path, on_orin(pod(limits=BOOKED), **{"config.yaml": config}))
    assert gpu(document) == f"{ROOM}Mi"
    assert document["pools"][0]["gpu_committed_bytes"] == 2 * GIB


@pytest.mark.parametrize(
    ("limits", "over"),
    [
        ({KEY: "14848Mi"}, False),
        ({KEY: "8Gi", "memory": "14848Mi"}, False),  # 8192 + 6656 = 14848
        ({KEY: "8Gi", "memory": "14849Mi"}, True),
        ({"memory": "14848Mi"}, False),
        ({"memory": "15Gi"}, True),
    ],
)
def test_more_booked_than_there_is_is_a_state_of_its_own(
    tmp_path: Path, capsys: Capture, limits: dict[str, str], *, over: bool
) -> None:
    (document,) = explain(capsys, tmp_path, on_orin(pod(limits=limits)))
    assert document["pools"][0]["overcommitted"] is over
    found = [one for one in document["findings"] if one["id"] == "overcommitted"]
    assert [one["severity"] for one in found] == (["error"] if over else [])
    if over:
        # the lines of K3s that would have prevented it carry the reserves of this board
        text = " ".join([*found[0]["evidence"], found[0]["remedy"]])
        assert "system-reserved=memory=" in text
        assert "kube-reserved=memory=" in text


def test_the_event_of_overcommitment_goes_to_the_youngest(tmp_path: Path, capsys: Capture) -> None:
    old = pod("old", limits={"memory": "8Gi"}, creationTimestamp="2026-01-31T10:00:00Z")
    young = pod("young", limits={"memory": "8Gi"}, creationTimestamp="2026-01-31T11:30:00Z")
    young["status"]["startTime"] = "2026-01-31T11:30:01Z"
    (document,) = explain(capsys, tmp_path, on_orin(young, old))
    told = [one["regarding"] for one in document["plan"]["events"] if one["reason"] == "Overcommitted"]
    assert told == ["pod default/young"]


def test_memory_of_pods_means_nothing_to_a_card(tmp_path: Path, capsys: Capture) -> None:
    card = nvml(device("NVIDIA L4", "GPU-bbbbbbbb-0000-4000-8000-000000000001", 23034 * MIB, 434 * MIB))
    files = {
        "host/proc/meminfo": meminfo(TOTAL),
        "nvml.json": card,
        "cluster/pods.json": pods(pod(limits={KEY: "2Gi", "memory": "12Gi"})),
    }
    (document,) = explain(capsys, tmp_path, files)
    assert gpu(document) == "22600Mi"
    assert document["pools"][0]["gpu_committed_bytes"] == 2 * GIB
    assert document["pods"][0]["total_budget_bytes"] is None


# Budgets


@pytest.mark.parametrize(
    ("spec", "budget", "total"),
    [
        ({"containers": [container("a", "2Gi", "3Gi")]}, 2 * GIB, 3 * GIB),
        ({"containers": [container("a", "2Gi", "2Gi")]}, 2 * GIB, 4 * GIB),  # the host's part alone was meant
        ({"containers": [container("a", "2Gi")]}, 2 * GIB, None),
        ({"containers": [container("a", "2Gi", "3Gi"), container("b")]}, 2 * GIB, None),  # b may use anything
        ({"containers": [container("a", "2Gi", "3Gi"), container("b", None, "1Gi")]}, 2 * GIB, 4 * GIB),
        ({"initContainers": [sidecar("proxy")], "containers": [container("a", "2Gi", "3Gi")]}, 2 * GIB, None),
        ({"initContainers": [sidecar("proxy", None, "1Gi")], "containers": [container("a", "2Gi", "3Gi")]},
         2 * GIB, 4 * GIB),
        ({"initContainers": [container("fetch")], "containers": [container("a", "2Gi", "3Gi")]}, 2 * GIB, 3 * GIB),
        ({"containers": [container("a", None, "3Gi")]}, None, None),
        ({"containers": [container("a", "0")]}, 0, None),
        ({"containers": [container("a", "1Mi")]}, MIB, None),
    ],
)  # fmt: skip
def test_budgets_come_from_limits(
    tmp_path: Path, capsys: Capture, spec: dict[str, Any], budget: int | None, total: int | None
) -> None:
    (document,) = explain(capsys, tmp_path, on_orin(pod(spec=spec)))
    (found,) = document["pods"]
    assert (found["gpu_budget_bytes"], found["total_budget_bytes"]) == (budget, total)
    assert found["pools"] == [{"resource": KEY, "gpu_bytes": found["gpu_bytes"], "gpu_budget_bytes": budget}]


@pytest.mark.parametrize(("text", "likely"), [("2", "2Gi"), ("8", "8Gi"), ("2048", "2048Mi"), ("4000", "4000Mi")])
def test_a_limit_below_one_mib_lacks_its_suffix_and_is_no_budget(
    tmp_path: Path, capsys: Capture, text: str, likely: str
) -> None:
    # a bare 2 is two bytes (AliyunContainerService/gpushare-scheduler-extender#16, kai-scheduler/KAI-Scheduler#257)
    (document,) = explain(capsys, tmp_path, on_orin(pod(limits={KEY: text})))
    assert document["pods"][0]["gpu_budget_bytes"] is None
    (event,) = [one for one in document["plan"]["events"] if one["reason"] == "UnderRequested"]
    assert event["regarding"] == "pod default/llm"
    assert likely in event["note"]
    assert document["plan"]["evictions"] == []


# Our annotation (kubernetes/website#26037, Project-HAMi/HAMi#2187, kubernetes/kubernetes#110536)

LIMIT = "edgeagent.dev/gpu-memory-limit"


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("2Gi", 2 * GIB),
        ("8000Mi", 8000 * MIB),
        ("2G", 2 * 10**9),
        ("2147483648", 2 * GIB),
        ("1.5Gi", 1536 * MIB),
        ("0", 0),
        ("1048576", MIB),
    ],
)
def test_the_annotation_is_a_quantity_and_leaves_the_offer(
    tmp_path: Path, capsys: Capture, text: str, budget: int
) -> None:
    (document,) = explain(capsys, tmp_path, on_orin(pod(annotations={LIMIT: text})))
    assert document["pods"][0]["gpu_budget_bytes"] == budget
    assert document["pools"][0]["gpu_committed_bytes"] == 0  # the scheduler knows nothing of it
    assert gpu(document) == f"{ROOM - -(-budget // MIB)}Mi"


@pytest.mark.parametrize(
    "text", ["", " ", "0.5", "1500m", "-1", "-2Gi", "1e4", "2", "2GB", "2 Gi", "two", "NaN", "2gi"]
)
def test_an_annotation_that_is_no_budget_is_said_and_not_guessed(tmp_path: Path, capsys: Capture, text: str) -> None:
    (document,) = explain(capsys, tmp_path, on_orin(pod(annotations={LIMIT: text})))
    assert document["pods"][0]["gpu_budget_bytes"] is None
    assert gpu(document) == f"{ROOM}Mi"
    told = [one["reason"] for one in document["plan"]["events"] if one["regarding"] == "pod default/llm"]
    assert told in (["BudgetInvalid"], ["UnderRequested"])


def test_the_resource_beats_the_annotation(tmp_path: Path, capsys: Capture) -> None:
    (document,) = explain(capsys, tmp_path, on_orin(pod(limits={KEY: "2Gi"}, annotations={LIMIT: "4Gi"})))
    assert document["pods"][0]["gpu_budget_bytes"] == 2 * GIB
    assert gpu(document) == f"{ROOM}Mi"


def test_with_an_annotation_the_memory_of_the_pod_is_read_once(tmp_path: Path, capsys: Capture) -> None:
    # requests 3 + 1 = 4 GiB and a budget of 2: host part 2 GiB; so 2 + 2 leave the offer
    spec = {"containers": [container("a", None, "3Gi"), container("b", None, "1Gi")]}
    (document,) = explain(capsys, tmp_path, on_orin(pod(spec=spec, annotations={LIMIT: "2Gi"})))
    assert document["pools"][0]["host_committed_bytes"] == 2 * GIB
    assert gpu(document) == f"{ROOM - 4096}Mi"
    assert document["pods"][0]["total_budget_bytes"] == 4 * GIB


def test_the_default_budget_is_for_pods_that_name_none(tmp_path: Path, capsys: Capture) -> None:
    config = {**stated(), "policy": {"default_budget": "1Gi"}}
    items = [pod("asks", limits={KEY: "2Gi"}), pod("marked", annotations={LIMIT: "3Gi"}), pod("silent")]
    (document,) = explain(capsys, tmp_path, on_orin(*items, **{"config.yaml": config}))
    assert {one["name"]: one["gpu_budget_bytes"] for one in document["pods"]} == {
        "asks": 2 * GIB,
        "marked": 3 * GIB,
        "silent": GIB,
    }

"""A node's row says what its object and its pods say, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from edgeagent.cluster import client
from edgeagent.facts import GPU_MEMORY, IGPU_MEMORY
from edgeagent.fleet import signs
from edgeagent.fleet.order import ordered
from edgeagent.fleet.pods import tag
from edgeagent.fleet.rows import fleet
from edgeagent.fleet.types import NodeRow, PoolRow
from edgeagent.quantity import GIB, MIB
from tests.unit.fleet.objects import LABELS, NOW, agent, bare, node, owned, pod, refused

MIXED = {GPU_MEMORY: "45618Mi", IGPU_MEMORY: "4Gi"}


def row(obj: dict[str, Any], *pods: dict[str, Any]) -> NodeRow:
    (found,) = fleet([obj], pods, everything=True).nodes
    return found


def pool(obj: dict[str, Any], *pods: dict[str, Any]) -> PoolRow:
    (found,) = row(obj, *pods).pools
    return found


# --- amounts -------------------------------------------------------------------------


def test_the_columns_of_a_pool_add_up() -> None:
    found = pool(node(), pod("a", "orin-1", "2Gi"), pod("b", "orin-1", "512Mi", phase="Running"))

    assert (found.total, found.advertised) == (7619 * MIB, 5827 * MIB)
    assert found.reserved == 1792 * MIB  # 7619 - 5827
    assert found.committed == 2560 * MIB  # 2048 + 512
    assert found.free == 3267 * MIB  # 5827 - 2560


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_holds_nothing(phase: str) -> None:
    assert pool(node(), pod("a", "orin-1", phase=phase)).committed == 0


def test_a_terminating_pod_holds_what_it_asked_for() -> None:
    leaving = pod("a", "orin-1", phase="Running", deletionTimestamp="2026-11-30T17:59:00Z")

    assert pool(node(), leaving).committed == GIB


def test_pods_of_another_node_and_of_none_do_not_count() -> None:
    assert pool(node(), pod("a", "orin-2"), pod("b")).committed == 0


def test_more_bound_than_offered_is_below_zero() -> None:
    # 1024 - 2048
    assert pool(node(capacity={GPU_MEMORY: "1Gi"}), pod("a", "orin-1", "2Gi")).free == -GIB


def test_free_is_what_the_scheduler_counts_with() -> None:
    assert pool(node(allocatable={GPU_MEMORY: "3Gi"}), pod("a", "orin-1")).free == 2 * GIB


def test_a_key_that_is_not_there_is_unknown_and_zero_is_zero() -> None:
    gone = pool(node(capacity={}), pod("a", "orin-1"))
    empty = pool(node(capacity={GPU_MEMORY: "0"}))

    assert (gone.advertised, gone.reserved, gone.committed, gone.free) == (None, None, GIB, None)
    assert (empty.advertised, empty.reserved, empty.committed, empty.free) == (0, 7619 * MIB, 0, 0)
    assert row(node(capacity={})).pools == ()


def test_the_total_of_the_label_is_that_of_gpu_memory_alone() -> None:
    labels = {**LABELS, "edgeagent.dev/gpu.kind": "mixed", "edgeagent.dev/gpu.memory-mib": "46068"}
    card, integrated = row(node(capacity=MIXED, labels=labels), pod("a", "orin-1", key=IGPU_MEMORY)).pools

    assert (card.resource, card.reserved, card.committed) == (GPU_MEMORY, 450 * MIB, 0)  # 46068 - 45618
    assert (integrated.resource, integrated.total, integrated.reserved) == (IGPU_MEMORY, None, None)
    assert (integrated.committed, integrated.free) == (GIB, 3 * GIB)


def test_a_pool_for_each_card_has_no_total_of_its_own() -> None:
    capacity = {f"{GPU_MEMORY}-0": "10Gi", f"{GPU_MEMORY}-1": "20Gi", "edgeagent.dev/gpu-milli": "2k"}

    assert [(one.resource, one.total, one.advertised) for one in row(node(capacity=capacity)).pools] == [
        (f"{GPU_MEMORY}-0", None, 10 * GIB),
        (f"{GPU_MEMORY}-1", None, 20 * GIB),
    ]


def test_requests_are_the_schedulers() -> None:
    # The init container needs 3 Gi before the other's 1 Gi: the larger counts, not the sum.
    both = pod("a", "orin-1", "1Gi")
    both["spec"]["initContainers"] = [{"name": "i", "resources": {"limits": {GPU_MEMORY: "3Gi"}}}]

    assert pool(node(), both).committed == 3 * GIB


def test_beside_a_pod_that_is_not_understood_the_sum_is_unknown() -> None:
    odd = pod("a", "orin-1")
    odd["spec"]["containers"] = "none"
    found = fleet([node(), node("orin-2")], [odd, pod("b", "orin-2")], everything=False)

    assert [one.pools[0].committed for one in found.nodes] == [None, GIB]
    assert found.nodes[0].pools[0].free is None
    assert found.unread == 1


def test_one_odd_object_costs_no_other() -> None:
    found = fleet([{"metadata": {}}, node()], [{"spec": 7}, pod("b", "orin-1")], everything=False)

    assert [(one.name, one.pools[0].committed) for one in found.nodes] == [("orin-1", GIB)]
    assert found.unread == 2


# --- whose node it is ----------------------------------------------------------------


@pytest.mark.parametrize(
    "obj",
    [
        bare(capacity={GPU_MEMORY: "1Gi"}),
        bare(labels={"edgeagent.dev/gpu.kind": "none"}),
        bare(conditions={"GPUUnavailable": ("Unknown", "DriverNotAnswering")}),
        bare(annotations=owned()),
    ],
    ids=["capacity", "label", "condition", "annotation"],
)
def test_a_node_with_a_key_of_ours_is_shown(obj: dict[str, Any]) -> None:
    assert len(fleet([obj], [], everything=False).nodes) == 1


def test_a_node_without_one_is_counted_and_shown_on_request() -> None:
    switched = bare(annotations={"edgeagent.dev/mode": "observe"})

    assert fleet([bare(), switched], [], everything=False).nodes == ()
    assert fleet([bare(), switched], [], everything=False).others == 2
    assert [one.ours for one in fleet([bare(), node()], [], everything=True).nodes] == [True, False]


# --- mode, conditions ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotations", "labels", "mode"),
    [
        ({"edgeagent.dev/mode": "observe"}, {}, "observe"),
        ({"edgeagent.dev/mode": "enforce"}, {}, None),
        ({}, {}, None),
        ({}, {"gpu": "on"}, "observe"),
    ],
)
def test_the_mode_is_known_only_where_the_node_calms(
    annotations: dict[str, str], labels: dict[str, str], mode: str | None
) -> None:
    assert row(node(annotations=annotations, labels={**LABELS, **labels})).mode == mode


def test_another_owner_is_named() -> None:
    assert row(node(labels={**LABELS, "gpu": "on"})).mode_why == "HAMi (label gpu=on)"


def test_healthy_conditions_are_no_problems() -> None:
    assert row(node()).problems == ()


def test_problems_are_true_unknown_and_not_ready() -> None:
    stated = {"Ready": ("False", "KubeletNotReady"), "GPUUnavailable": ("Unknown", "DriverNotAnswering")}
    pressed = {**stated, "GPUMemoryPressure": ("True", "HostMemory"), "DiskPressure": ("True", "x")}

    assert [(one.type, one.status, one.reason) for one in row(node(conditions=pressed)).problems] == [
        ("Ready", "False", "KubeletNotReady"),
        ("GPUMemoryPressure", "True", "HostMemory"),
        ("GPUUnavailable", "Unknown", "DriverNotAnswering"),
    ]


def test_a_node_that_never_was_ready_is_not_known_to_be() -> None:
    (problem,) = row(node(conditions={"Ready": ("", "")})).problems

    assert (problem.type, problem.status) == ("Ready", "Unknown")


def test_missing_gpu_conditions_are_not_healthy_ones() -> None:
    missing = {"GPUUnavailable": ("", "")}

    assert not row(node(conditions=missing)).judged
    assert row(node(conditions=missing, labels={"edgeagent.dev/gpu.kind": "none"})).judged
    assert row(node()).judged


def test_a_cordoned_node_is_not_schedulable() -> None:
    assert [row(node(unschedulable=True)).schedulable, row(node()).schedulable] == [False, True]


# --- signs of life -------------------------------------------------------------------


def test_the_agents_last_write_is_the_latest_of_its_own() -> None:
    managed = [
        {"manager": "edgeagent", "time": "2026-11-30T16:00:00Z"},
        {"manager": "edgeagent", "time": "2026-11-30T17:00:00Z"},
        {"manager": "k3s", "time": "2026-11-30T17:59:00Z"},
        {"manager": "edgeagent-fleet", "time": "2026-11-30T17:58:00Z"},
    ]

    assert row(node(managed=managed)).wrote == NOW - 3600
    assert row(node()).wrote is None


def test_the_name_that_it_goes_by_is_the_agents() -> None:
    assert signs.MANAGER == client.FIELD_MANAGER


def test_a_daemonset_pod_tells_version_start_and_readiness() -> None:
    found = row(node(), agent("orin-1")).agent

    assert found is not None
    assert (found.pod, found.image, found.version) == ("shop/edgeagent-x", "edgeagent:0.1.0", "0.1.0")
    assert (found.ready, found.started) == (True, NOW - 2 * 3600)


def test_without_such_a_pod_nothing_tells_the_version() -> None:
    by_hand, deployed = agent("orin-1", name="a"), agent("orin-1", name="b")
    del by_hand["metadata"]["ownerReferences"]
    deployed["metadata"]["ownerReferences"][0]["kind"] = "ReplicaSet"

    assert row(node(), by_hand, deployed, pod("c", "orin-1")).agent is None


def test_while_an_agent_is_replaced_the_new_one_counts() -> None:
    old = agent("orin-1", name="edgeagent-a", deletionTimestamp="2026-11-30T17:59:00Z")
    found = row(node(), old, agent("orin-1", "edgeagent:0.2.0", name="edgeagent-b", ready="False")).agent

    assert found is not None
    assert (found.version, found.ready) == ("0.2.0", False)


def test_of_two_agents_the_one_that_started_last_counts() -> None:
    old = agent("orin-1", "edgeagent:0.1.0", name="a")
    new = agent("orin-1", "edgeagent:0.2.0", name="b", started="2026-11-30T17:00:00Z")
    found = row(node(), old, new).agent

    assert found is not None
    assert (found.version, found.started) == ("0.2.0", NOW - 3600)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("edgeagent:0.1.0", "0.1.0"),
        ("registry.example.com:5000/site/edgeagent:0.1.0@sha256:ab", "0.1.0"),
        ("registry.example.com:5000/edgeagent", None),
        ("edgeagent@sha256:ab", None),
    ],
)
def test_a_version_is_a_tag(image: str, expected: str | None) -> None:
    assert tag(image) == expected


# --- pods that wait ------------------------------------------------------------------


def test_a_pod_that_waits_says_what_it_asks_for_and_what_the_scheduler_said() -> None:
    (one,) = fleet([], [refused("big", "0/1 nodes", gpu="6Gi")], everything=False).waiting

    assert (one.namespace, one.name, one.asks) == ("shop", "big", {GPU_MEMORY: 6 * GIB})
    assert (one.created, one.since) == (NOW - 3600, NOW - 600)
    assert (one.reason, one.message) == ("Unschedulable", "0/1 nodes")


def test_a_pod_that_the_scheduler_has_not_looked_at_has_no_words() -> None:
    (one,) = fleet([], [pod("new")], everything=False).waiting

    assert (one.created, one.since, one.reason, one.message) == (NOW - 3600, None, None, None)


@pytest.mark.parametrize(
    "obj",
    [
        pod("bound", "orin-1"),
        pod("none", gpu=None),
        pod("zero", gpu="0"),
        pod("other", gpu="1", key="nvidia.com/gpu"),
        pod("milli", gpu="250", key="edgeagent.dev/gpu-milli"),
        pod("leaving", deletionTimestamp="2026-11-30T17:59:00Z"),
        pod("done", phase="Failed"),
    ],
    ids=lambda obj: obj["metadata"]["name"],
)
def test_other_pods_do_not_wait_for_gpu_memory(obj: dict[str, Any]) -> None:
    assert fleet([], [obj], everything=False).waiting == ()


def test_the_oldest_waits_first() -> None:
    young = pod("a", creationTimestamp="2026-11-30T17:30:00Z")

    assert [one.name for one in fleet([], [young, pod("b")], everything=False).waiting] == ["b", "a"]


# --- order ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "names"),
    [
        ("name", ["a", "b", "c"]),
        ("free", ["b", "a", "c"]),
        ("committed", ["a", "b", "c"]),
        ("mode", ["c", "a", "b"]),
        ("conditions", ["b", "a", "c"]),
        ("wrote", ["b", "a", "c"]),
    ],
)
def test_rows_are_sorted_by_a_column_with_the_unknown_last(column: str, names: list[str]) -> None:
    nodes = [
        node("c", capacity={}, annotations={"edgeagent.dev/mode": "observe"}),
        node(
            "b",
            conditions={"Ready": ("False", "x")},
            managed=[{"manager": "edgeagent", "time": "2026-01-01T00:00:00Z"}],
        ),
        node("a", managed=[{"manager": "edgeagent", "time": "2026-02-01T00:00:00Z"}]),
    ]
    rows = fleet(nodes, [pod("p", "a")], everything=False).nodes

    assert [one.name for one in ordered(rows, column)] == names

"""From a v1 Pod to facts, by the API's own semantics."""

from __future__ import annotations

from typing import Any

import pytest

from edgeagent.cluster import pods
from edgeagent.cluster.objects import ObjectError
from edgeagent.facts import GPU_MEMORY, PodFacts
from edgeagent.quantity import GIB, MIB


def manifest(*, metadata: Any = None, status: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "shop", "name": "infer-0", "uid": "0000-1", **(metadata or {})},
        "spec": {"containers": [{"name": "main"}], **spec},
        "status": status,
    }


def container(name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


def resources(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None) -> dict[str, Any]:
    return {"requests": requests, "limits": limits}


def only(facts: PodFacts) -> Any:
    assert len(facts.containers) == 1
    return facts.containers[0]


def test_the_least_that_a_pod_can_say() -> None:
    facts = pods.parse(manifest())
    assert facts.key == "shop/infer-0"
    assert (facts.uid, facts.cgroup_uid) == ("0000-1", "0000-1")
    assert facts.phase == "Pending"
    assert (facts.start_time, facts.created_at, facts.owner) == (None, None, None)
    assert (facts.terminating, facts.mirror, facts.priority) == (False, False, 0)
    assert facts.grace_seconds == 30
    assert only(facts).container_id is None


def test_times_are_unix_seconds() -> None:
    facts = pods.parse(
        manifest(
            metadata={"creationTimestamp": "1970-01-02T00:00:00Z"},
            status={
                "phase": "Running",
                "startTime": "1970-01-01T00:01:00.500000Z",
                "containerStatuses": [
                    {"name": "main", "state": {"running": {"startedAt": "1970-01-01T01:00:00+01:00"}}}
                ],
            },
        )
    )
    assert (facts.created_at, facts.start_time, only(facts).started_at) == (86400.0, 60.5, 0.0)
    assert facts.admitted


@pytest.mark.parametrize("text", [None, "", "yesterday", "2026-11-30T11:00:00", 12])
def test_time_that_cannot_be_read_is_unknown(text: Any) -> None:
    assert pods.parse(manifest(status={"startTime": text})).start_time is None


def test_terminating_grace_priority_and_owner() -> None:
    facts = pods.parse(
        manifest(
            metadata={
                "deletionTimestamp": "2026-11-30T11:00:00Z",
                "ownerReferences": [
                    {"kind": "Thing", "name": "watcher"},
                    {"kind": "ReplicaSet", "name": "infer-6d5f", "controller": True},
                ],
            },
            terminationGracePeriodSeconds=0,
            priority=2000001000,
        )
    )
    assert facts.terminating
    assert facts.grace_seconds == 0
    assert facts.priority == 2000001000
    assert facts.owner == ("ReplicaSet", "infer-6d5f")


def test_static_pod_has_its_cgroup_under_the_hash_of_its_manifest() -> None:
    digest = "0123456789abcdef0123456789abcdef"
    facts = pods.parse(
        manifest(
            metadata={
                "uid": "2222",
                "annotations": {"kubernetes.io/config.hash": digest, "kubernetes.io/config.mirror": digest},
                "ownerReferences": [{"kind": "Node", "name": "edge-07", "controller": True}],
            }
        )
    )
    assert facts.mirror
    assert (facts.uid, facts.cgroup_uid) == ("2222", digest)
    assert facts.owner == ("Node", "edge-07")


def test_a_hash_without_the_mirror_mark_is_anybodys_annotation() -> None:
    facts = pods.parse(manifest(metadata={"annotations": {"kubernetes.io/config.hash": "ff"}}))
    assert not facts.mirror
    assert facts.cgroup_uid == "0000-1"


def test_when_the_run_before_a_restart_began() -> None:
    """2026-01-31T11:00:05Z is 1769857205. What containerd lost at a power cut it says began in the year 1."""
    states = {
        name: {"name": name, "lastState": {"terminated": {"startedAt": text}}}
        for name, text in {"known": "2026-01-31T11:00:05Z", "lost": "0001-01-01T00:00:00Z", "odd": 7}.items()
    }
    facts = pods.parse(
        manifest(
            containers=[container(name) for name in (*states, "first")],
            status={"containerStatuses": list(states.values())},
        )
    )
    began = {one.name: one.former_started_at for one in facts.containers}
    assert began["known"] == 1769857205
    assert (began["odd"], began["first"]) == (None, None)
    assert began["lost"] == -62135596800


def test_kinds_of_containers_and_their_ids_by_name() -> None:
    """Statuses stand in another order than the spec; after a restart the old id is in lastState only."""
    facts = pods.parse(
        manifest(
            initContainers=[container("fetch"), container("proxy", restartPolicy="Always")],
            containers=[container("web"), container("infer")],
            ephemeralContainers=[container("debug")],
            status={
                "containerStatuses": [
                    {
                        "name": "infer",
                        "containerID": "containerd://new",
                        "lastState": {"terminated": {"containerID": "containerd://old"}},
                    },
                    {"name": "web", "containerID": "cri-o://w"},
                ],
                "initContainerStatuses": [{"name": "proxy", "containerID": "containerd://p"}, {"name": "fetch"}],
                "ephemeralContainerStatuses": [{"name": "debug", "containerID": ""}],
            },
        )
    )
    assert [(each.name, each.kind, each.container_id) for each in facts.containers] == [
        ("fetch", "init", None),
        ("proxy", "sidecar", "p"),
        ("web", "regular", "w"),
        ("infer", "regular", "new"),
        ("debug", "ephemeral", None),
    ]


def test_amounts_are_whole_bytes_of_memory_and_of_keys_with_a_domain() -> None:
    main = container(
        resources=resources(
            limits={
                "cpu": "500m",
                "memory": "1.5Gi",
                GPU_MEMORY: "2Gi",
                "nvidia.com/gpumem": "3000",
                "hugepages-2Mi": "1",
            }
        )
    )
    limits = only(pods.parse(manifest(containers=[main]))).limits
    assert limits == {"memory": 1536 * MIB, GPU_MEMORY: 2 * GIB, "nvidia.com/gpumem": 3000}


def test_missing_request_is_the_limit() -> None:
    main = container(resources=resources({"memory": "1Gi"}, {"memory": "2Gi", GPU_MEMORY: "1Gi"}))
    found = only(pods.parse(manifest(containers=[main])))
    assert found.requests == {"memory": GIB, GPU_MEMORY: GIB}
    assert found.limits == {"memory": 2 * GIB, GPU_MEMORY: GIB}


@pytest.mark.parametrize(
    ("spec", "status", "allocated", "expected"),
    [
        ("1Gi", "2Gi", "2Gi", 2 * GIB),  # shrinking: still has what it had
        ("3Gi", "2Gi", "2Gi", 3 * GIB),  # growing, not allocated yet: already booked
        ("3Gi", "2Gi", "4Gi", 4 * GIB),  # wished for less again after it was allocated
        ("2Gi", "2Gi", None, 2 * GIB),
    ],
)
def test_during_a_resize_the_larger_request_counts(
    spec: str, status: str, allocated: str | None, expected: int
) -> None:
    facts = pods.parse(
        manifest(
            containers=[container(resources=resources({"memory": spec}))],
            status={
                "containerStatuses": [
                    {
                        "name": "main",
                        "resources": resources({"memory": status}),
                        "allocatedResources": {"memory": allocated} if allocated else None,
                    }
                ]
            },
        )
    )
    assert only(facts).requests == {"memory": expected}


def test_during_a_resize_the_larger_limit_counts_key_by_key() -> None:
    facts = pods.parse(
        manifest(
            containers=[container(resources=resources(limits={"memory": "1Gi", GPU_MEMORY: "1Gi"}))],
            status={"containerStatuses": [{"name": "main", "resources": resources(limits={"memory": "2Gi"})}]},
        )
    )
    assert only(facts).limits == {"memory": 2 * GIB, GPU_MEMORY: GIB}


def test_pod_level_resources_and_overhead() -> None:
    facts = pods.parse(
        manifest(
            resources=resources({"cpu": "1"}, {"memory": "4Gi"}),
            overhead={"memory": "120Mi", "cpu": "250m"},
        )
    )
    # No container asks for memory, so the API server takes the pod's limit for its request.
    assert facts.pod_requests == {"memory": 4 * GIB}
    assert facts.pod_limits == {"memory": 4 * GIB}
    assert facts.overhead == {"memory": 120 * MIB}


def test_pod_level_request_that_is_missing_beside_container_requests_is_their_sum() -> None:
    main = container(resources=resources({"memory": "1Gi"}))
    facts = pods.parse(manifest(containers=[main], resources=resources(limits={"memory": "4Gi"})))
    assert facts.pod_requests == {}  # the sum is what counts without one
    assert facts.pod_limits == {"memory": 4 * GIB}


def test_pod_level_resize_counts_and_sums_in_the_status_do_not() -> None:
    status = {
        "resources": resources({"memory": "3Gi"}, {"memory": "5Gi"}),
        "allocatedResources": {"memory": "2Gi", GPU_MEMORY: "1Gi"},
    }
    level = pods.parse(manifest(resources=resources({"memory": "1Gi"}, {"memory": "4Gi"}), status=status))
    assert level.pod_requests == {"memory": 3 * GIB}
    assert level.pod_limits == {"memory": 5 * GIB}
    plain = pods.parse(manifest(status=status))
    assert (plain.pod_requests, plain.pod_limits) == ({}, {})


def test_required_labels_come_from_selector_and_required_affinity() -> None:
    term = {"matchExpressions": [{"key": "edgeagent.dev/gpu.kind", "operator": "In", "values": ["jetson"]}]}
    other = {"matchExpressions": [{"key": "zone", "operator": "Exists"}], "matchFields": [{"key": "metadata.name"}]}
    facts = pods.parse(
        manifest(
            nodeSelector={"ai-capable": "true"},
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term, other, {}]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"preference": {"matchExpressions": [{"key": "nice-to-have", "operator": "Exists"}]}}
                    ],
                }
            },
        )
    )
    assert facts.required_labels == {"ai-capable", "edgeagent.dev/gpu.kind", "zone"}


def test_annotations_that_say_something_about_the_gpu_are_kept() -> None:
    kept = {
        "edgeagent.dev/gpu-memory-limit": "2Gi",
        "nvidia.com/container.main.gpu-memory.limit": "2Gi",
        "gpu-memory": "2000",
        "gpu-fraction": "0.5",
        "tensor-fusion.ai/vram-limit": "2Gi",
        "hami.io/vgpu-devices-allocated": "GPU-1",
    }
    dropped = {"kubectl.kubernetes.io/last-applied-configuration": "{}" * 1000, "example.com/team": "vision"}
    assert pods.parse(manifest(metadata={"annotations": {**kept, **dropped}})).annotations == kept


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"metadata": None, "spec": {}},
        {"metadata": {"namespace": "a", "name": "b"}, "spec": {}},
        manifest(metadata={"uid": ""}),
        manifest(metadata={"annotations": {"edgeagent.dev/gpu-memory-limit": 5}}),
        manifest(containers=["text"]),
        manifest(containers={"main": {}}),
        manifest(status="Running"),
        manifest(priority="high"),
        manifest(priority=float("inf")),
        manifest(status={"containerStatuses": [{}]}),
    ],
)
def test_odd_pod_is_one_documented_error(obj: Any) -> None:
    with pytest.raises(ObjectError, match=r"pod .* is not understood"):
        pods.parse(obj)


@pytest.mark.parametrize("amount", ["a lot", "-5", "", None])
def test_an_amount_that_says_nothing_is_left_out_and_told(amount: Any) -> None:
    given = {"memory": amount, "nvidia.com/gpumem": "3000"}
    facts = pods.parse(manifest(containers=[container(resources=resources(limits=given))]))
    assert facts.containers[0].limits == {"nvidia.com/gpumem": 3000}
    assert set(facts.unparsable) == {f"memory: {amount}"}


def test_what_a_label_can_fail_by_being_there() -> None:
    terms = [{"matchExpressions": [
        {"key": "ai-capable", "operator": "DoesNotExist"},
        {"key": "edgeagent.dev/gpu.kind", "operator": "NotIn", "values": ["jetson"]},
        {"key": "edgeagent.dev/jetson.soc", "operator": "In", "values": ["tegra234"]},
    ]}]  # fmt: skip
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    facts = pods.parse(manifest(affinity=affinity))
    assert facts.excluded_labels == {"ai-capable", "edgeagent.dev/gpu.kind"}
    assert facts.required_labels == {"ai-capable", "edgeagent.dev/gpu.kind", "edgeagent.dev/jetson.soc"}


def test_null_lists_are_empty() -> None:
    facts = pods.parse(manifest(containers=None, initContainers=None, nodeSelector=None, affinity=None))
    assert facts.containers == ()
    assert facts.required_labels == frozenset()


def test_the_address_of_a_pod() -> None:
    assert pods.parse(manifest(status={"podIP": "10.42.0.9"})).ip == "10.42.0.9"
    # Before it has one the field is missing, or empty.
    assert (pods.parse(manifest()).ip, pods.parse(manifest(status={"podIP": ""})).ip) == (None, None)

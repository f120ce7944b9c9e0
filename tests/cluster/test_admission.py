"""The mutating policies on the real API server: each rule, and a pod that ends running on a real kubelet."""

from __future__ import annotations

import copy
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from kubernetes import client

from edgeagent.quantity import parse
from tests.cluster import loadimage
from tests.cluster.objects import (
    GPU_MEMORY,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    create_node,
    create_pod,
    patch_node_status,
    pod,
    wait_gone,
    wait_pod,
)
from tests.controlplane.waiting import wait_for
from tests.deploy.applying import applied, call, create, documents, path_of
from tests.unit.test_docs import blocks, page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.cluster.livenode import LiveNode
    from tests.controlplane.plane import ControlPlane

GPU_MILLI = "edgeagent.dev/gpu-milli"
MARK = {"edgeagent-test": "admission"}
"""Label of the namespaces that the policies are bound to here: other tests of the run are none of their business."""
NVIDIA = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "runc",
    "overhead": {"podFixed": {"cpu": "1m"}},
}
"""K3s makes this class with the handler ``nvidia`` and without overhead. The test's containerd has no such runtime."""


@pytest.fixture(scope="module")
def policies(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane with the policies in force."""
    files = documents("components/gpu-pods/foreign-keys.yaml", "components/gpu-pods/gpu-pods.yaml")
    for one in files:
        if one["kind"] == "MutatingAdmissionPolicyBinding":
            one["spec"]["matchResources"] = {"namespaceSelector": {"matchLabels": MARK}}
    api = control_plane.api
    with applied(control_plane, [NVIDIA, *files]):
        name = _namespace(api)
        probe = pod("probe", namespace=name, limits={"kube-share/gpu-mem": "1Gi"})

        def in_force() -> bool:
            seen = _made_or_none(control_plane, probe)
            return (
                seen is not None
                and seen["spec"].get("runtimeClassName") == "nvidia"
                and GPU_MEMORY in resources(seen)[1]
            )

        wait_for("the policies in force", in_force, seconds=110)
        api.delete_namespace(name)
        yield control_plane


def _namespace(api: Any, **labels: str) -> str:
    name = f"test-{uuid.uuid4().hex[:8]}"
    api.create_namespace({"metadata": {"name": name, "labels": MARK | labels}})
    return name


@pytest.fixture
def here(policies: ControlPlane) -> Iterator[str]:
    """A namespace where the policies apply."""
    name = _namespace(policies.api)
    yield name
    policies.api.delete_collection_namespaced_pod(name, body={"gracePeriodSeconds": 0})
    policies.api.delete_namespace(name)


@pytest.fixture
def translating(policies: ControlPlane) -> Iterator[str]:
    """One where the keys of all projects are read."""
    name = _namespace(policies.api, **{"edgeagent.dev/translate": "true"})
    yield name
    policies.api.delete_namespace(name)


def made(plane: ControlPlane, manifest: dict[str, Any]) -> dict[str, Any]:
    """The pod that would be created."""
    return create(plane.api, manifest, dry_run=True)


def resources(pod: Mapping[str, Any], container: int = 0) -> tuple[dict[str, str], dict[str, str]]:
    """Requests and limits."""
    found = pod["spec"]["containers"][container]["resources"]
    return found.get("requests", {}), found.get("limits", {})


def _bytes(limits: Mapping[str, str]) -> dict[str, int]:
    return {key: parse(text) for key, text in limits.items()}


def env(pod: Mapping[str, Any], container: int = 0) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][container].get("env", [])}


# --- what a GPU pod needs ------------------------------------------------------------


def test_a_pod_with_gpu_memory_gets_the_runtime_and_what_it_reads(policies: ControlPlane, here: str) -> None:
    seen = made(policies, pod("it", namespace=here, limits={GPU_MEMORY: "2Gi"}))

    assert seen["spec"]["runtimeClassName"] == "nvidia"
    assert env(seen) == {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility,video"}
    assert resources(seen) == ({GPU_MEMORY: "2Gi"}, {GPU_MEMORY: "2Gi"})


def test_what_the_pod_says_itself_stays(policies: ControlPlane, here: str) -> None:
    manifest = pod("it", namespace=here, limits={GPU_MEMORY: "2Gi"})
    create_class = {**NVIDIA, "metadata": {"name": f"mine-{here}"}}
    manifest["spec"]["runtimeClassName"] = f"mine-{here}"
    manifest["spec"]["containers"][0]["env"] = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"},
        {"name": "MODEL", "value": "m"},
    ]

    with applied(policies, [create_class]):
        seen = wait_for("the class", lambda: _made_or_none(policies, manifest))

    assert seen["spec"]["runtimeClassName"] == f"mine-{here}"
    assert env(seen) == {
        "NVIDIA_VISIBLE_DEVICES": "0",
        "MODEL": "m",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility,video",
    }


def _made_or_none(plane: ControlPlane, manifest: dict[str, Any]) -> dict[str, Any] | None:
    """The pod; None while the API server does not know its runtime class yet."""
    try:
        return made(plane, manifest)
    except client.ApiException as refusal:
        if refusal.status == 403:
            return None
        raise


def test_containers_without_gpu_memory_and_other_pods_are_left_alone(policies: ControlPlane, here: str) -> None:
    plain = made(policies, pod("it", namespace=here, limits={"memory": "1Gi"}))
    manifest = pod("it", namespace=here, limits={GPU_MEMORY: "2Gi"})
    manifest["spec"]["containers"].append({"name": "proxy", "image": loadimage.NAME})
    manifest["spec"]["initContainers"] = [
        {"name": "fetch", "image": loadimage.NAME},
        {"name": "warm", "image": loadimage.NAME, "resources": {"limits": {GPU_MEMORY: "1Gi"}}},
    ]
    seen = made(policies, manifest)

    assert "runtimeClassName" not in plain["spec"]
    assert (env(plain), env(seen, 1)) == ({}, {})
    fetch, warm = seen["spec"]["initContainers"]
    assert "env" not in fetch
    assert [one["name"] for one in warm["env"]] == ["NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"]


def test_a_share_of_compute_alone_is_a_gpu_pod_too(policies: ControlPlane, here: str) -> None:
    assert made(policies, pod("it", namespace=here, limits={GPU_MILLI: "250"}))["spec"]["runtimeClassName"] == "nvidia"


WHOLE = {"edgeagent.dev/whole-board-memory": "true"}


@pytest.mark.parametrize(
    ("requests", "limits", "wanted"),
    [
        # 1 GiB for the host and 2 GiB for the GPU are 3 GiB of the board.
        ("1Gi", "1Gi", ("3Gi", "3Gi")),
        ("1Gi", "2Gi", ("3Gi", "4Gi")),
        # At least 256 MiB above the GPU's share it has that share in it already.
        ("2304Mi", "3Gi", ("2304Mi", "3Gi")),
        # Less than 256 MiB for the host is raised to that, or the figure could be read either way.
        ("64Mi", "64Mi", ("2304Mi", "2304Mi")),
        # A request stays within a limit that is the whole board's already.
        ("2Gi", "3Gi", ("3Gi", "3Gi")),
        ("1Gi", None, ("3Gi", None)),
        # 2500M are 2384.2 MiB, the whole board's already. The request becomes equal to it, and not 2385Mi.
        ("2Gi", "2500M", ("2500M", "2500M")),
        # 338 MiB and 2 GiB are 2386 MiB; 2502000001 bytes are 2386.09 MiB and hold them.
        ("338Mi", "2502000001", ("2386Mi", "2502000001")),
    ],
)
def test_memory_becomes_the_whole_boards_on_request(
    policies: ControlPlane, here: str, requests: str, limits: str | None, wanted: tuple[str, str | None]
) -> None:
    manifest = pod("it", namespace=here, limits={GPU_MEMORY: "2Gi"}, annotations=WHOLE)
    box = manifest["spec"]["containers"][0]["resources"]
    box["requests"] = {GPU_MEMORY: "2Gi", "memory": requests}
    if limits:
        box["limits"]["memory"] = limits

    asked, bound = resources(made(policies, manifest))

    wanted_request, wanted_limit = wanted
    assert _bytes({"memory": asked["memory"]}) == _bytes({"memory": wanted_request})
    assert ("memory" in bound) == (wanted_limit is not None)
    if wanted_limit is not None:
        assert _bytes({"memory": bound["memory"]}) == _bytes({"memory": wanted_limit})


def test_memory_stays_as_it_is_without_that_request(policies: ControlPlane, here: str) -> None:
    seen = made(policies, pod("it", namespace=here, limits={GPU_MEMORY: "2Gi", "memory": "1Gi"}))

    assert resources(seen)[0]["memory"] == "1Gi"


def test_mps_limits_are_set_on_request(policies: ControlPlane, here: str) -> None:
    limits = {GPU_MEMORY: "1536Mi", GPU_MILLI: "250"}
    asked = made(policies, pod("it", namespace=here, limits=limits, annotations={"edgeagent.dev/mps-limits": "true"}))
    plain = made(policies, pod("it", namespace=here, limits=limits))

    added = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1536M", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25"}
    assert env(asked) == env(plain) | added
    assert not added.keys() & env(plain).keys()


@pytest.mark.parametrize(
    ("memory", "milli", "wanted"),
    [
        # Two GPUs are two times 1000, and MPS knows no more than 100 per cent of each.
        ("4Gi", "1500", ("0=4096M", "100")),
        # Less than MPS can count is not nothing: a limit of 0M would be none.
        ("512Ki", "5", ("0=1M", "1")),
    ],
)
def test_mps_limits_are_such_as_mps_takes(
    policies: ControlPlane, here: str, memory: str, milli: str, wanted: tuple[str, str]
) -> None:
    limits = {GPU_MEMORY: memory, GPU_MILLI: milli}
    seen = env(
        made(policies, pod("it", namespace=here, limits=limits, annotations={"edgeagent.dev/mps-limits": "true"}))
    )

    assert (seen["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"], seen["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]) == wanted


# --- keys of other projects ----------------------------------------------------------


def template(limits: Mapping[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "it"}},
        "spec": {"containers": [{"name": "main", "image": loadimage.NAME, "resources": {"limits": dict(limits)}}]},
    }


def workload(kind: str, namespace: str, limits: Mapping[str, str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A workload and where its pod template is."""
    body = template(limits)
    where: tuple[str, ...] = ("spec", "template")
    spec: dict[str, Any] = {"template": body}
    group = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    if group == "apps/v1":
        spec["selector"] = {"matchLabels": {"app": "it"}}
    else:
        body["spec"]["restartPolicy"] = "Never"
    if kind == "StatefulSet":
        spec["serviceName"] = "it"
    if kind == "CronJob":
        spec, where = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": spec}}, ("spec", "jobTemplate", *where)
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "it", "namespace": namespace}, "spec": spec}, where


KINDS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob")


@pytest.mark.parametrize("kind", KINDS)
def test_a_fraction_in_a_workload_is_refused_without_the_policy_and_becomes_ours_with_it(
    policies: ControlPlane, here: str, namespace: str, kind: str
) -> None:
    limits = {"kube-share/gpu": "0.25", "kube-share/gpu-mem": "2048Mi", "memory": "3Gi"}
    with pytest.raises(client.ApiException) as refused:
        create(policies.api, workload(kind, namespace, limits)[0], dry_run=True)
    assert refused.value.status == 422
    assert "must be an integer" in str(refused.value.body)

    manifest, where = workload(kind, here, limits)
    seen: Any = create(policies.api, manifest, dry_run=True)
    for part in where:
        seen = seen[part]

    asked, bound = resources(seen)
    assert bound == {GPU_MILLI: "250", GPU_MEMORY: "2Gi", "memory": "3Gi"}
    assert asked == {}, "requests become equal to limits when a pod is made"


def test_a_request_in_a_template_goes_with_its_limit(policies: ControlPlane, here: str) -> None:
    manifest, _ = workload("Deployment", here, {"kube-share/gpu-mem": "2Gi"})
    box = manifest["spec"]["template"]["spec"]["containers"][0]["resources"]
    box["requests"] = {"kube-share/gpu-mem": "2Gi", "cpu": "1"}

    seen = create(policies.api, manifest, dry_run=True)

    assert resources(seen["spec"]["template"]) == ({"cpu": "1"}, {GPU_MEMORY: "2Gi"})


def test_a_workload_that_is_sent_again_is_translated_again(policies: ControlPlane, here: str) -> None:
    manifest, _ = workload("Deployment", here, {"kube-share/gpu": "0.25"})
    manifest["spec"]["replicas"] = 0
    first = create(policies.api, manifest)

    manifest["metadata"]["labels"] = {"release": "2"}
    second = call(policies.api, "PUT", f"/apis/apps/v1/namespaces/{here}/deployments/it", manifest)

    assert second["metadata"]["labels"] == {"release": "2"}
    assert resources(second["spec"]["template"])[1] == {GPU_MILLI: "250"}
    assert second["spec"] == first["spec"], "nothing to roll out"


def test_a_pod_is_translated_before_it_is_furnished(policies: ControlPlane, here: str) -> None:
    seen = made(policies, pod("it", namespace=here, limits={"kube-share/gpu": "0.5", "kube-share/gpu-mem": "1Gi"}))

    ours = {GPU_MILLI: "500", GPU_MEMORY: "1Gi"}
    assert resources(seen) == (ours, ours), "the scheduler counts requests"
    assert seen["spec"]["runtimeClassName"] == "nvidia"
    assert "NVIDIA_VISIBLE_DEVICES" in env(seen)


@pytest.mark.parametrize(
    ("text", "milli"), [("0.25", "250"), ("0.333", "333"), ("1", "1k"), ("1.5", "1500"), ("0.29", "290")]
)
def test_a_fraction_is_thousandths(policies: ControlPlane, here: str, text: str, milli: str) -> None:
    seen = made(policies, pod("it", namespace=here, limits={"kube-share/gpu": text}))

    assert resources(seen)[1][GPU_MILLI] in (milli, milli.replace("1k", "1000"))


def test_every_container_is_translated_by_itself(policies: ControlPlane, here: str) -> None:
    manifest = pod("it", namespace=here, limits={"memory": "1Gi"})
    manifest["spec"]["containers"].append(
        {"name": "second", "image": loadimage.NAME, "resources": {"limits": {"kube-share/gpu-mem": "2Gi"}}}
    )
    manifest["spec"]["initContainers"] = [
        {"name": "plain", "image": loadimage.NAME},
        {"name": "warm", "image": loadimage.NAME, "resources": {"limits": {"kube-share/gpu": "0.1"}}},
    ]

    spec = made(policies, manifest)["spec"]

    found = {
        one["name"]: one["resources"].get("limits", {})
        for kind in ("containers", "initContainers")
        for one in spec[kind]
    }
    assert found == {
        "main": {"memory": "1Gi"},
        "second": {GPU_MEMORY: "2Gi"},
        "plain": {},
        "warm": {GPU_MILLI: "100"},
    }


def test_a_figure_of_ours_counts_before_a_foreign_one(policies: ControlPlane, here: str) -> None:
    seen = made(policies, pod("it", namespace=here, limits={"kube-share/gpu-mem": "4Gi", GPU_MEMORY: "1Gi"}))

    assert resources(seen) == ({GPU_MEMORY: "1Gi"}, {GPU_MEMORY: "1Gi"})


def test_a_foreign_zero_is_a_budget_of_zero(policies: ControlPlane, here: str) -> None:
    seen = made(policies, pod("it", namespace=here, limits={"kube-share/gpu-mem": "0", "kube-share/gpu": "0"}))

    assert resources(seen)[1] == {GPU_MEMORY: "0", GPU_MILLI: "0"}
    assert "runtimeClassName" not in seen["spec"]


def test_a_foreign_figure_below_zero_is_refused_by_its_own_name(policies: ControlPlane, here: str) -> None:
    with pytest.raises(client.ApiException) as refused:
        made(policies, pod("it", namespace=here, limits={"kube-share/gpu-mem": "-1Gi"}))

    assert refused.value.status == 422
    assert "limits[kube-share/gpu-mem]" in str(refused.value.body)
    assert "must be greater than or equal to 0" in str(refused.value.body)


# --- updates, and workloads from before the policies -----------------------------------


@pytest.fixture
def older(policies: ControlPlane) -> Iterator[str]:
    """A namespace where the policies do not apply until ``begin`` says so."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    policies.api.create_namespace({"metadata": {"name": name}})
    yield name
    policies.api.delete_collection_namespaced_pod(name, body={"gracePeriodSeconds": 0})
    policies.api.delete_namespace(name)


def begin(plane: ControlPlane, namespace: str) -> None:
    """From here on the policies apply in a namespace."""
    plane.api.patch_namespace(namespace, {"metadata": {"labels": MARK}})
    probe = pod("probe", namespace=namespace, limits={"kube-share/gpu-mem": "1Gi"})
    wait_for("the policies in force", lambda: GPU_MEMORY in resources(made(plane, probe))[1])


def patch(plane: ControlPlane, manifest: dict[str, Any], body: dict[str, Any], kind: str = MERGE_PATCH) -> Any:
    return call(plane.api, "PATCH", path_of(manifest), body, content_type=kind)


def get(plane: ControlPlane, manifest: dict[str, Any]) -> Any:
    return call(plane.api, "GET", path_of(manifest))


def at(found: Any, where: tuple[str, ...]) -> Any:
    for part in where:
        found = found[part]
    return found


def idle(kind: str, namespace: str, limits: Mapping[str, str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A workload whose pods go to no node."""
    manifest, where = workload(kind, namespace, limits)
    at(manifest, where)["spec"]["nodeSelector"] = {"edgeagent-test": "none"}
    return manifest, where


def sets(plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = call(plane.api, "GET", f"/apis/apps/v1/namespaces/{namespace}/replicasets")["items"]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_of_something_else_leaves_a_template_from_before_as_it_is(
    policies: ControlPlane, older: str, kind: str
) -> None:
    manifest, where = idle(kind, older, {"kube-share/gpu-mem": "1Gi"})
    create(policies.api, manifest)
    begin(policies, older)

    seen = patch(policies, manifest, {"metadata": {"annotations": {"note": "new"}}})

    assert seen["metadata"]["annotations"]["note"] == "new"
    assert resources(at(seen, where))[1] == {"kube-share/gpu-mem": "1Gi"}


def test_a_deployment_from_before_scales_and_rolls_out_with_one_replica_set_each(
    policies: ControlPlane, older: str
) -> None:
    manifest, _ = idle("Deployment", older, {"kube-share/gpu-mem": "1Gi"})
    create(policies.api, manifest)
    wait_for("a pod", lambda: len(policies.api.list_namespaced_pod(older).items) == 1)
    begin(policies, older)

    def settled() -> bool:
        seen = get(policies, manifest)
        status, spec = seen["status"], seen["spec"]
        new = status.get("updatedReplicas") == spec["replicas"]
        return new and bool(status["observedGeneration"] == seen["metadata"]["generation"])

    # As kubectl scale and autoscalers do it: the Deployment itself is not in the request.
    scale = {"spec": {"replicas": 2}}
    call(policies.api, "PATCH", f"{path_of(manifest)}/scale", scale, content_type=MERGE_PATCH)
    wait_for("two pods", settled)
    assert len(sets(policies, older)) == 1

    note = {"metadata": {"annotations": {"note": "new"}}}
    patch(policies, manifest, {"spec": {"template": note, "strategy": {"type": "Recreate", "rollingUpdate": None}}})
    wait_for("two new pods", settled)

    assert len(sets(policies, older)) == 2
    assert "collisionCount" not in get(policies, manifest)["status"]
    pods = policies.api.list_namespaced_pod(older).items
    new = [one for one in pods if (one.metadata.annotations or {}).get("note")]
    assert [one.spec.containers[0].resources.limits for one in new] == [{GPU_MEMORY: "1Gi"}] * 2


def test_a_job_from_before_can_be_changed_and_deleted(policies: ControlPlane, older: str) -> None:
    manifest, _ = idle("Job", older, {"kube-share/gpu-mem": "1Gi"})
    create(policies.api, manifest)
    wait_for("its pod", lambda: policies.api.list_namespaced_pod(older).items)
    begin(policies, older)

    patch(policies, manifest, {"spec": {"suspend": True}})
    call(policies.api, "DELETE", path_of(manifest), {"propagationPolicy": "Foreground"})

    def gone() -> bool:
        try:
            get(policies, manifest)
        except client.ApiException as refusal:
            return bool(refusal.status == 404)
        return False

    wait_for("the job gone", gone)


def test_a_translated_job_may_be_applied_again(policies: ControlPlane, here: str) -> None:
    """What ``kubectl apply`` sends: the foreign figure once more, because it is not on the object."""
    manifest, _ = idle("Job", here, {"kube-share/gpu-mem": "1Gi"})
    create(policies.api, manifest)

    again = patch(policies, manifest, {"spec": {"template": template_of("1Gi")}}, STRATEGIC_MERGE_PATCH)

    assert resources(again["spec"]["template"])[1] == {GPU_MEMORY: "1Gi"}


def template_of(figure: str, **more: str) -> dict[str, Any]:
    limits = {"kube-share/gpu-mem": figure, **more}
    return {"spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "CronJob"])
def test_a_changed_foreign_figure_is_translated_again(policies: ControlPlane, here: str, kind: str) -> None:
    """What ``kubectl apply`` sends of a manifest that says 2Gi now: theirs, beside ours of the first time."""
    manifest, where = idle(kind, here, {"kube-share/gpu-mem": "1Gi"})
    create(policies.api, manifest)
    body: dict[str, Any] = template_of("2Gi")
    for part in reversed(where):
        body = {part: body}

    seen = patch(policies, manifest, body, STRATEGIC_MERGE_PATCH)

    assert resources(at(seen, where))[1] == {GPU_MEMORY: "2Gi"}


def test_a_figure_of_ours_that_is_changed_with_the_foreign_one_counts(policies: ControlPlane, here: str) -> None:
    manifest, _ = idle("Deployment", here, {"kube-share/gpu-mem": "1Gi"})
    create(policies.api, manifest)

    both = {"spec": {"template": template_of("2Gi", **{GPU_MEMORY: "3Gi"})}}
    seen = patch(policies, manifest, both, STRATEGIC_MERGE_PATCH)

    assert resources(seen["spec"]["template"])[1] == {GPU_MEMORY: "3Gi"}


def test_a_changed_annotation_of_kai_is_translated_again(policies: ControlPlane, translating: str) -> None:
    manifest, _ = idle("Deployment", translating, {"memory": "3Gi"})
    manifest["spec"]["template"]["metadata"]["annotations"] = {"gpu-memory": "1024"}
    create(policies.api, manifest)

    def after(template: dict[str, Any]) -> dict[str, str]:
        seen = patch(policies, manifest, {"spec": {"template": template}}, STRATEGIC_MERGE_PATCH)
        return resources(seen["spec"]["template"])[1]

    assert after({"metadata": {"annotations": {"gpu-memory": "2048"}}}) == {GPU_MEMORY: "2Gi", "memory": "3Gi"}
    ours = {"spec": {"containers": [{"name": "main", "resources": {"limits": {GPU_MEMORY: "3Gi"}}}]}}
    assert after(ours)[GPU_MEMORY] == "3Gi"
    assert after({"metadata": {"annotations": {"note": "new"}}})[GPU_MEMORY] == "3Gi"


FOREIGN = [
    # HAMi: MiB and percent, for each of the virtual GPUs
    (
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"},
        {GPU_MEMORY: "3000Mi", GPU_MILLI: "300"},
    ),
    ({"nvidia.com/gpu": "2", "nvidia.com/gpumem": "1000"}, {GPU_MEMORY: "2000Mi"}),
    # volcano's vGPU, and its older sharing
    (
        {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "2048", "volcano.sh/vgpu-cores": "50"},
        {GPU_MEMORY: "2Gi", GPU_MILLI: "500"},
    ),
    ({"volcano.sh/gpu-memory": "1024"}, {GPU_MEMORY: "1Gi"}),
    # gpu-manager: 256 MiB and hundredths
    ({"tencent.com/vcuda-core": "20", "tencent.com/vcuda-memory": "8"}, {GPU_MEMORY: "2Gi", GPU_MILLI: "200"}),
    # gpushare: GiB
    ({"aliyun.com/gpu-mem": "3"}, {GPU_MEMORY: "3Gi"}),
    # metagpu: hundredths
    ({"cnvrg.io/metagpu": "30"}, {GPU_MILLI: "300"}),
]


@pytest.mark.parametrize(("theirs", "ours"), FOREIGN, ids=["+".join(theirs.values()) for theirs, _ in FOREIGN])
def test_keys_of_other_projects_are_translated_where_the_namespace_says_so(
    policies: ControlPlane, translating: str, here: str, theirs: dict[str, str], ours: dict[str, str]
) -> None:
    manifest = pod("it", namespace=translating, limits=theirs)
    elsewhere = copy.deepcopy(manifest)
    elsewhere["metadata"]["namespace"] = here

    assert resources(made(policies, elsewhere))[1].keys() == theirs.keys()
    assert _bytes(resources(made(policies, manifest))[1]) == _bytes(ours)


def test_figures_of_kai_in_annotations_become_resources_of_one_container(
    policies: ControlPlane, translating: str
) -> None:
    def of(annotations: dict[str, str]) -> list[dict[str, int]]:
        manifest = pod("it", namespace=translating, annotations=annotations)
        manifest["spec"]["containers"].append({"name": "second", "image": loadimage.NAME})
        seen = made(policies, manifest)
        return [_bytes(resources(seen, index)[1]) for index in (0, 1)]

    assert of({"gpu-fraction": "0.5"}) == [{GPU_MILLI: 500}, {}]
    assert of({"gpu-memory": "2000", "gpu-fraction-container-name": "second"}) == [{}, {GPU_MEMORY: 2000 * 2**20}]
    assert of({"gpu-fraction": "half"}) == [{}, {}], "what is no figure is left alone"


# --- what the documentation says -----------------------------------------------------


def documented() -> list[dict[str, Any]]:
    """The pods of the page, in their order."""
    found = [yaml.safe_load(block) for block in blocks(page("how-to/fill-in-gpu-pods.md"), "yaml")]
    return [one for one in found if one.get("kind") == "Pod"]


def test_the_pod_of_the_page_becomes_the_one_that_is_written_by_hand(policies: ControlPlane, here: str) -> None:
    by_hand, bare, _ = documented()
    for one in (by_hand, bare):
        one["metadata"]["namespace"] = here
    assert bare != by_hand

    filled, full = made(policies, bare)["spec"], made(policies, by_hand)["spec"]

    assert filled == full
    assert full["containers"][0]["env"] == by_hand["spec"]["containers"][0]["env"], "and that one stays as it is"


def test_the_pod_with_the_other_class_books_what_the_page_says(policies: ControlPlane, here: str) -> None:
    *_, with_context = documented()
    with_context["metadata"]["namespace"] = here

    with applied(policies, documents("components/cuda-context/runtimeclass.yaml")):
        seen = wait_for("the class", lambda: _made_or_none(policies, with_context))

    together = _bytes(seen["spec"]["overhead"])[GPU_MEMORY] + _bytes(resources(seen)[0])[GPU_MEMORY]
    assert together == 2560 * 2**20
    assert "2560 MiB" in page("how-to/fill-in-gpu-pods.md")


# --- the context of each pod ---------------------------------------------------------


def test_a_runtime_class_books_gpu_memory_for_each_pod_and_the_scheduler_counts_it(
    policies: ControlPlane, here: str
) -> None:
    """Three pods of 2 GiB fit on 6 GiB, but not with 512 MiB for the context of each: that takes 7680 MiB."""
    api, name = policies.api, f"hand-{here}"
    create_node(api, name, labels={"edgeagent-test": name})
    _make_room(api, name, "6Gi")
    manifest = pod("it", namespace=here, limits={GPU_MEMORY: "2Gi"}, selector={"edgeagent-test": name})
    manifest["spec"]["runtimeClassName"] = "nvidia-cuda"

    with applied(policies, documents("components/cuda-context/runtimeclass.yaml")):
        wait_for("the class", lambda: _made_or_none(policies, manifest))
        for index in range(3):
            manifest["metadata"]["name"] = f"p{index}"
            assert create_pod(api, manifest).spec.overhead == {GPU_MEMORY: "512Mi"}
        wait_for("one told why", lambda: _waits(api, here))
        wait_for("two placed", lambda: len(_placed(api, here)) == 2)
        _make_room(api, name, "7680Mi")
        wait_for("the third", lambda: len(_placed(api, here)) == 3)
    api.delete_node(name)


def test_a_class_that_the_policy_sets_brings_its_overhead(policies: ControlPlane, here: str) -> None:
    """Admission sets it before the policy has spoken, so it has to be asked once more."""
    assert made(policies, pod("it", namespace=here, limits={GPU_MEMORY: "2Gi"}))["spec"]["overhead"] == {"cpu": "1m"}


def _make_room(api: Any, node: str, amount: str) -> None:
    patch_node_status(api, node, {"status": {"capacity": {GPU_MEMORY: amount}, "allocatable": {GPU_MEMORY: amount}}})


def _placed(api: Any, namespace: str) -> set[str]:
    return {one.metadata.name for one in api.list_namespaced_pod(namespace).items if one.spec.node_name}


def _waits(api: Any, namespace: str) -> bool:
    messages = [
        condition.message or ""
        for one in api.list_namespaced_pod(namespace).items
        for condition in one.status.conditions or []
        if condition.type == "PodScheduled" and condition.status == "False"
    ]
    return any(f"Insufficient {GPU_MEMORY}" in message for message in messages)


# --- a live pod ----------------------------------------------------------------------


def test_a_pod_with_foreign_keys_ends_running_on_a_real_kubelet(
    policies: ControlPlane, here: str, live_node: LiveNode
) -> None:
    room = {GPU_MEMORY: "4Gi", GPU_MILLI: "1000"}
    patch_node_status(policies.api, live_node.name, {"status": {"capacity": room, "allocatable": room}})
    limits = {"kube-share/gpu": "0.25", "kube-share/gpu-mem": "2048Mi"}
    manifest = pod(
        "it",
        namespace=here,
        limits=limits,
        args=["--hold", "20"],
        grace=1,
        selector={"kubernetes.io/hostname": live_node.name},
    )

    running = wait_pod(policies.api, create_pod(policies.api, manifest), "Running")

    assert running.spec.node_name == live_node.name
    assert running.spec.runtime_class_name == "nvidia"
    environ = _environ(live_node.pid_of(running))
    assert (environ["NVIDIA_VISIBLE_DEVICES"], environ["NVIDIA_DRIVER_CAPABILITIES"]) == (
        "all",
        "compute,utility,video",
    )
    policies.api.delete_namespaced_pod("it", here)
    wait_gone(policies.api, running)
    gone = dict.fromkeys(room)
    patch_node_status(policies.api, live_node.name, {"status": {"capacity": gone, "allocatable": gone}})


def _environ(pid: int) -> dict[str, str]:
    entries = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return {name: value for name, _, value in (entry.partition("=") for entry in entries if entry)}

"""The manifests of ``deploy/examples`` on the real API server, and what the pages say comes of them."""

from __future__ import annotations

import re
import shlex
import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from kubernetes import client

from tests.cluster.objects import create_node, patch_node_status, play_end
from tests.controlplane.waiting import wait_for
from tests.deploy import build
from tests.deploy.applying import applied, call, documents
from tests.deploy.conftest import tools
from tests.deploy.rendering import DEPLOY
from tests.unit.test_docs import PAGES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.controlplane.plane import ControlPlane

__all__ = ["tools"]  # a fixture

EXAMPLES = DEPLOY / "examples"
FILES = sorted(path for path in EXAMPLES.rglob("*.yaml") if path.name != "kustomization.yaml")
GPU_MEMORY = "edgeagent.dev/gpu-memory"
MIB = 2**20
MARK = {"edgeagent-test": "examples"}
"""Label of the namespaces that the policies are bound to here."""
NVIDIA = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"}
"""As K3s makes it."""


def example(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))
    return found


def where(plane: ControlPlane, manifest: Mapping[str, Any], namespace: str) -> str:
    """The path of an object, as the API server itself lists its kind."""
    version, kind = manifest["apiVersion"], manifest["kind"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    (found,) = [
        one for one in call(plane.api, "GET", base)["resources"] if one["kind"] == kind and "/" not in one["name"]
    ]
    middle = f"/namespaces/{namespace}" if found["namespaced"] else ""
    return f"{base}{middle}/{found['name']}/{manifest['metadata']['name']}"


def apply(plane: ControlPlane, manifest: Mapping[str, Any], namespace: str, *, dry_run: bool = False) -> dict[str, Any]:
    """Server-side apply, every unknown field an error.

    Raises:
        client.ApiException: refused.
    """
    query = {"fieldManager": "test", "fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
    path = where(plane, manifest, namespace)
    return call(plane.api, "PATCH", path, dict(manifest), query=query, content_type="application/apply-patch+yaml")


def scale(plane: ControlPlane, manifest: Mapping[str, Any], namespace: str, replicas: int) -> None:
    body = {"spec": {"replicas": replicas}}
    call(
        plane.api,
        "PATCH",
        where(plane, manifest, namespace),
        body,
        content_type="application/strategic-merge-patch+json",
    )


def on(manifest: dict[str, Any], label: str) -> dict[str, Any]:
    """The workload on nodes of this test alone."""
    manifest["spec"]["template"]["spec"]["nodeSelector"]["edgeagent-test"] = label
    return manifest


def pods(plane: ControlPlane, namespace: str) -> list[Any]:
    return list(plane.api.list_namespaced_pod(namespace).items)


def bound(plane: ControlPlane, namespace: str, app: str, count: int) -> list[Any]:
    """Wait until so many pods of a workload have a node."""

    def look() -> list[Any] | None:
        found = [
            one for one in pods(plane, namespace) if one.metadata.name.startswith(f"{app}-") and one.spec.node_name
        ]
        return found if len(found) == count else None

    seen: list[Any] = wait_for(f"{count} pods of {app} on nodes", look)
    return seen


def waiting(plane: ControlPlane, namespace: str, app: str) -> str:
    """Wait until the scheduler has left a pod of a workload pending; returns what it says."""

    def look() -> str | None:
        for one in pods(plane, namespace):
            if one.metadata.name.startswith(f"{app}-") and not one.spec.node_name:
                for condition in one.status.conditions or ():
                    if condition.type == "PodScheduled" and condition.status == "False":
                        return str(condition.message)
        return None

    said: str = wait_for(f"a pod of {app} left pending", look)
    return said


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane with K3s' RuntimeClass."""
    with applied(control_plane, [NVIDIA]):
        yield control_plane


@pytest.fixture
def nodes(cluster: ControlPlane) -> Iterator[Any]:
    """Makes Ready nodes with a mark, labels and GPU memory; they go after the test."""
    made: list[str] = []
    mark = uuid.uuid4().hex[:8]

    def make(capacity: Mapping[str, str], labels: Mapping[str, str] | None = None, *, memory: str = "8Gi") -> str:
        name = f"board-{len(made)}-{mark}"
        wanted = {"ai-capable": "true", "kubernetes.io/hostname": name} if labels is None else dict(labels)
        create_node(cluster.api, name, memory=memory, labels={"edgeagent-test": mark, **wanted})
        made.append(name)
        offer(cluster, name, capacity)
        return name

    make.mark = mark  # type: ignore[attr-defined]
    yield make
    for name in made:
        cluster.api.delete_node(name)


def offer(plane: ControlPlane, node: str, capacity: Mapping[str, str]) -> None:
    """What the agent does: capacity and allocatable at once."""
    patch_node_status(plane.api, node, {"status": {"capacity": dict(capacity), "allocatable": dict(capacity)}})


# --- every file ------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_the_api_server_takes_each_file(cluster: ControlPlane, namespace: str, path: Path) -> None:
    manifest = yaml.safe_load(path.read_text(encoding="utf-8"))

    seen = apply(cluster, manifest, namespace, dry_run=True)

    assert seen["metadata"]["name"] == manifest["metadata"]["name"]


@pytest.mark.usefixtures("tools")
def test_the_api_server_takes_what_the_kustomization_builds(cluster: ControlPlane, namespace: str) -> None:
    command = [str(build.folder() / "kustomize"), "build", str(EXAMPLES / "prometheus")]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    manifests = list(yaml.safe_load_all(text))

    for manifest in manifests:
        manifest["metadata"].pop("namespace", None)
        apply(cluster, manifest, namespace, dry_run=True)

    assert sorted(one["kind"] for one in manifests) == ["ConfigMap", "ConfigMap", "DaemonSet", "Namespace"]
    (daemonset,) = [one for one in manifests if one["kind"] == "DaemonSet"]
    (sources,) = [
        one["projected"]["sources"] for one in daemonset["spec"]["template"]["spec"]["volumes"] if "projected" in one
    ]
    assert [one["secret"]["name"] for one in sources if "secret" in one] == ["edgeagent-metrics"]


def test_kinds_in_the_commands_of_the_pages_are_known(cluster: ControlPlane) -> None:
    known = {"all", "crd"}
    for base in ("/api/v1", "/apis/apps/v1", "/apis/batch/v1", "/apis/node.k8s.io/v1", "/apis/policy/v1"):
        for one in call(cluster.api, "GET", base)["resources"]:
            known |= {one["name"], one["singularName"], one["kind"].lower(), *one.get("shortNames", ())}
    known |= {"mutatingadmissionpolicies", "validatingadmissionpolicies", "priorityclass", "priorityclasses"}
    asked = {
        kind
        for path in PAGES
        for line in re.findall(r"^ {4}(?:sudo )?(?:k3s )?(kubectl .*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        for kind in kinds(line)
    }

    assert {"nodes", "pods"} & asked
    assert asked - known == set()


TAKES_KIND = ("get", "describe", "delete", "annotate", "label", "patch", "scale", "drain", "cordon", "uncordon")
FLAGS_WITH_VALUES = ("-n", "--namespace", "-l", "-L", "-o", "-f", "-k", "-p", "--type", "--field-selector", "-c")


def kinds(line: str) -> set[str]:
    """The resource that a kubectl command names."""
    words = iter(shlex.split(line, comments=True)[1:])
    plain = []
    for word in words:
        if word in FLAGS_WITH_VALUES:
            next(words, None)
        elif not word.startswith("-"):
            plain.append(word)
    if not plain or plain[0] not in TAKES_KIND or plain[0] in ("drain", "cordon", "uncordon") or len(plain) == 1:
        return set()
    return {kind.partition("/")[0].partition(".")[0].lower() for kind in plain[1].split(",")}


def test_the_resource_of_a_command_is_found() -> None:
    assert kinds("kubectl -n a get pods,svc -o wide") == {"pods", "svc"}
    assert kinds("kubectl scale deployment/llm --replicas=2") == {"deployment"}
    assert kinds("kubectl delete -f x.yaml") == set()


# --- Orin Nano: two models, and no third ---------------------------------------------------


def test_two_models_run_on_an_orin_nano_and_a_third_waits(cluster: ControlPlane, nodes: Any, namespace: str) -> None:
    # A K3s server: 7619.86 - 768 - 2048 - 256 - 256 = 4291.86.
    node = nodes({GPU_MEMORY: "4291Mi"})
    llm, detector = (on(example(f"orin-nano/{name}.yaml"), nodes.mark) for name in ("llm", "detector"))

    apply(cluster, llm, namespace)
    bound(cluster, namespace, "llm", 1)
    # Its host part, 2560 - 1536 = 1024, leaves the offer.
    offer(cluster, node, {GPU_MEMORY: "3267Mi"})
    apply(cluster, detector, namespace)
    bound(cluster, namespace, "detector", 1)
    # 1280 - 768 = 512 more. 2755 - 1536 - 768 = 451 are left for a third.
    offer(cluster, node, {GPU_MEMORY: "2755Mi"})
    scale(cluster, detector, namespace, 2)

    assert f"Insufficient {GPU_MEMORY}" in waiting(cluster, namespace, "detector")


# --- tenants ---------------------------------------------------------------------------------


@pytest.fixture
def tenant(cluster: ControlPlane, namespace: str) -> str:
    """A namespace with quota and limit range in force."""
    for name in ("quota", "limit-range"):
        apply(cluster, example(f"tenants/{name}.yaml"), namespace)
    # Until the controller has counted for the first time, the API server refuses every pod.
    wait_for("the quota counted", lambda: cluster.api.read_namespaced_resource_quota("tenant", namespace).status.used)
    wait_for("the limit range in force", lambda: zero(cluster, namespace))
    return namespace


def small(limits: Mapping[str, str], **metadata: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/web:1", "resources": {"limits": dict(limits)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", **metadata},
        "spec": {"containers": [container]},
    }


def made(plane: ControlPlane, namespace: str, limits: Mapping[str, str], **metadata: Any) -> dict[str, Any]:
    """The pod that would be made of such limits."""
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    return call(plane.api, "POST", f"/api/v1/namespaces/{namespace}/pods", small(limits, **metadata), query=query)


def resources(pod: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = pod["spec"]["containers"][0]["resources"]
    return found


def zero(plane: ControlPlane, namespace: str) -> bool:
    return bool(resources(made(plane, namespace, {})).get("limits", {}).get(GPU_MEMORY) == "0")


def test_the_quota_lets_two_pods_in_and_refuses_the_third(cluster: ControlPlane, tenant: str) -> None:
    apply(cluster, example("tenants/llm.yaml"), tenant)

    # The replica set gives the API server's answer as its condition.
    def refused() -> str | None:
        sets = call(cluster.api, "GET", f"/apis/apps/v1/namespaces/{tenant}/replicasets")["items"]
        found = [one["message"] for item in sets for one in item["status"].get("conditions", ())]
        return found[0] if found else None

    message: str = wait_for("the third refused", refused)

    assert "exceeded quota: tenant" in message
    assert f"requested: requests.{GPU_MEMORY}=2Gi,requests.memory=3Gi" in message
    assert f"used: requests.{GPU_MEMORY}=4Gi,requests.memory=6Gi" in message
    assert len(pods(cluster, tenant)) == 2


def test_a_container_that_says_nothing_may_use_no_gpu_memory(cluster: ControlPlane, tenant: str) -> None:
    seen = resources(made(cluster, tenant, {}))
    annotated = resources(made(cluster, tenant, {}, annotations={"edgeagent.dev/gpu-memory-limit": "2Gi"}))

    assert seen == {"limits": {GPU_MEMORY: "0"}, "requests": {GPU_MEMORY: "0", "memory": "256Mi"}}
    assert annotated == seen, "the limit goes before the annotation, so the annotation gives nothing"


def test_a_container_that_asks_for_more_than_the_most_is_refused(cluster: ControlPlane, tenant: str) -> None:
    with pytest.raises(client.ApiException) as refusal:
        made(cluster, tenant, {GPU_MEMORY: "3Gi", "memory": "4Gi"})

    assert refusal.value.status == 403
    assert f"maximum {GPU_MEMORY} usage per Container is 2Gi, but limit is 3Gi" in str(refusal.value.body)


def test_what_a_container_asks_for_itself_stays(cluster: ControlPlane, tenant: str) -> None:
    limits = {GPU_MEMORY: "1Gi", "memory": "1536Mi"}

    assert resources(made(cluster, tenant, limits)) == {"limits": limits, "requests": limits}


def test_a_limit_range_with_a_most_alone_gives_that_most_to_everybody(cluster: ControlPlane, namespace: str) -> None:
    limits = {"type": "Container", "max": {GPU_MEMORY: "2Gi"}}
    spec = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "most"}, "spec": {"limits": [limits]}}
    apply(cluster, spec, namespace)

    wait_for("its default", lambda: resources(made(cluster, namespace, {})).get("limits") == {GPU_MEMORY: "2Gi"})


def test_a_quota_on_limits_is_taken_and_never_counted(cluster: ControlPlane, namespace: str) -> None:
    key = f"limits.{GPU_MEMORY}"
    spec = {"hard": {key: "1Gi"}}
    apply(cluster, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "odd"}, "spec": spec}, namespace)
    wait_for("the quota seen", lambda: cluster.api.read_namespaced_resource_quota("odd", namespace).status.hard)

    made(cluster, namespace, {GPU_MEMORY: "2Gi"})

    assert key not in (cluster.api.read_namespaced_resource_quota("odd", namespace).status.used or {})


def test_pod_security_takes_the_tenants_models_and_refuses_the_hosts_files(cluster: ControlPlane, tenant: str) -> None:
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    cluster.api.patch_namespace(tenant, label)
    host = {"name": "host", "hostPath": {"path": "/"}}
    refused = small({"memory": "256Mi"})
    refused["spec"]["volumes"] = [host]
    model = example("tenants/llm.yaml")["spec"]["template"]
    allowed = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "llm"}, "spec": model["spec"]}

    def answer() -> str | None:
        try:
            apply(cluster, refused, tenant, dry_run=True)
        except client.ApiException as refusal:
            return str(refusal.body)
        return None

    said: str = wait_for("the label in force", answer)
    assert "hostPath" in said
    apply(cluster, allowed, tenant, dry_run=True)


# --- one manifest ----------------------------------------------------------------------------


def test_one_manifest_lands_on_a_jetson_and_beside_a_card_and_nowhere_else(
    cluster: ControlPlane, nodes: Any, namespace: str
) -> None:
    jetson, card = nodes({GPU_MEMORY: "5827Mi"}), nodes({GPU_MEMORY: "11920Mi"}, memory="32Gi")
    nodes({}, {"edgeagent.dev/gpu.kind": "none"}, memory="64Gi")
    detector = on(example("one-manifest/detector.yaml"), nodes.mark)

    apply(cluster, detector, namespace)

    assert {one.spec.node_name for one in bound(cluster, namespace, "detector", 2)} == {jetson, card}


# --- SLA and batch -----------------------------------------------------------------------------


def test_the_service_takes_back_the_rest_of_its_card_and_the_other_card_works_on(
    cluster: ControlPlane, nodes: Any, namespace: str
) -> None:
    card = f"{GPU_MEMORY}-0", f"{GPU_MEMORY}-1"
    nodes(dict.fromkeys(card, "40377Mi"), memory="128Gi")
    classes = [example(f"sla-and-batch/{name}-class.yaml") for name in ("sla", "batch")]
    sla, batch, beside = (
        on(example(f"sla-and-batch/{name}.yaml"), nodes.mark) for name in ("sla", "batch", "batch-beside")
    )
    for manifest in classes:
        apply(cluster, manifest, namespace)
    try:
        for manifest in (sla, batch, beside):
            apply(cluster, manifest, namespace)
        bound(cluster, namespace, "sla", 1)
        # 16 + 20 = 36 GiB of 39.4 on the first card, 32 on the second.
        everything = bound(cluster, namespace, "batch", 2)
        (victim,) = [one for one in everything if one.metadata.name.startswith("batch-beside")]
        (other,) = [one for one in everything if one is not victim]

        scale(cluster, sla, namespace, 2)
        wait_for("an end to the work beside", lambda: now(cluster, victim).metadata.deletion_timestamp)
        play_end(cluster.api, victim)

        bound(cluster, namespace, "sla", 2)
        assert now(cluster, other).metadata.deletion_timestamp is None
        assert f"Insufficient {card[0]}" in waiting(cluster, namespace, "batch-beside")
    finally:
        for manifest in (beside, batch):
            call(cluster.api, "DELETE", where(cluster, manifest, namespace), {"propagationPolicy": "Background"})
        for manifest in classes:
            call(cluster.api, "DELETE", where(cluster, manifest, namespace))


def now(plane: ControlPlane, pod: Any) -> Any:
    return plane.api.read_namespaced_pod(pod.metadata.name, pod.metadata.namespace)


# --- with the policies ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def translating(cluster: ControlPlane) -> Iterator[str]:
    """A namespace in which the policies read the keys of all projects."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    files = documents("components/gpu-pods/foreign-keys.yaml", "components/gpu-pods/gpu-pods.yaml")
    for one in files:
        if one["kind"] == "MutatingAdmissionPolicyBinding":
            one["spec"]["matchResources"] = {"namespaceSelector": {"matchLabels": MARK}}
    cluster.api.create_namespace({"metadata": {"name": name, "labels": MARK | {"edgeagent.dev/translate": "true"}}})
    with applied(cluster, files):
        probe = {"aliyun.com/gpu-mem": "1"}
        wait_for("the policies in force", lambda: ready(made(cluster, name, probe)))
        yield name
    cluster.api.delete_namespace(name)


def ready(pod: Mapping[str, Any]) -> bool:
    return GPU_MEMORY in resources(pod)["limits"] and pod["spec"].get("runtimeClassName") == "nvidia"


@pytest.mark.parametrize("name", ["hami", "kai", "gpushare", "kube-share"])
def test_the_policy_makes_the_new_figure_of_the_old_one(cluster: ControlPlane, translating: str, name: str) -> None:
    old, new = example(f"migrate/before-{name}.yaml"), example("migrate/after.yaml")

    seen = apply(cluster, old, translating, dry_run=True)

    assert resources(seen)["limits"][GPU_MEMORY] == resources(new)["limits"][GPU_MEMORY] == "2Gi"
    assert seen["spec"]["runtimeClassName"] == "nvidia"
    left = {key for key in resources(seen)["limits"] if key not in (GPU_MEMORY, "memory")}
    assert left == set()


def test_a_time_sliced_share_becomes_nothing(cluster: ControlPlane, translating: str) -> None:
    old = example("migrate/before-time-slicing.yaml")

    seen = apply(cluster, old, translating, dry_run=True)

    assert resources(seen)["limits"] == resources(old)["limits"]


def test_a_quota_counts_what_the_policy_has_written(cluster: ControlPlane, translating: str) -> None:
    name = f"{translating}-quota"
    cluster.api.create_namespace({"metadata": {"name": name, "labels": MARK | {"edgeagent.dev/translate": "true"}}})
    apply(cluster, example("tenants/quota.yaml"), name)
    wait_for("the quota counted", lambda: cluster.api.read_namespaced_resource_quota("tenant", name).status.used)

    with pytest.raises(client.ApiException) as refusal:
        made(cluster, name, {"aliyun.com/gpu-mem": "5", "memory": "6Gi"})
    cluster.api.delete_namespace(name)

    assert refusal.value.status == 403
    assert f"requested: requests.{GPU_MEMORY}=5Gi" in str(refusal.value.body)


def test_mps_limits_by_policy_are_those_by_hand(cluster: ControlPlane, translating: str) -> None:
    hand, policy = (example(f"mps/{name}.yaml")["spec"]["template"] for name in ("speech", "speech-by-policy"))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "speech", **policy["metadata"]},
        "spec": policy["spec"],
    }

    seen = apply(cluster, pod, translating, dry_run=True)

    def variables(spec: Mapping[str, Any]) -> dict[str, str]:
        return {one["name"]: one["value"] for one in spec["containers"][0]["env"]}

    added = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility,video"}
    assert variables(seen["spec"]) == variables(hand["spec"]) | added
    assert seen["spec"]["runtimeClassName"] == hand["spec"]["runtimeClassName"]


def test_a_container_that_may_use_no_gpu_memory_gets_no_gpu(cluster: ControlPlane, translating: str) -> None:
    seen = made(cluster, translating, {GPU_MEMORY: "0", "memory": "1Gi"})

    assert "runtimeClassName" not in seen["spec"]
    assert "env" not in seen["spec"]["containers"][0]

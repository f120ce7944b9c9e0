"""What keeps pods from the GPU on a real kubelet with containerd: found, told, mended by the printed remedy, and gone.

Who holds GPU memory is told by the test. Refusals of the API server, of the kubelet and of containerd are their own.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from edgeagent.quantity import GIB, MIB, parse
from tests.cluster.clinic import Clinic, account
from tests.cluster.objects import GPU_MEMORY, create_pod, wait_pod
from tests.controlplane.waiting import wait_for
from tests.deploy.applying import applied
from tests.deploy.conftest import tools

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.livenode import LiveNode
    from tests.controlplane.plane import ControlPlane

__all__ = ["tools"]  # a fixture

CLASS_MISSING, HANDLER_UNKNOWN = "runtime-class-missing", "runtime-handler-unknown"
IDLE, PENDING = "requested-but-idle", "pending-does-not-fit"
NVIDIA = "nvidia"
HELD = {"schedulingGates": [{"name": "edgeagent.dev/test"}]}
LARGE = 9 * GIB


@pytest.fixture(scope="module")
def clinic(
    control_plane: ControlPlane,
    live_node: LiveNode,
    tmp_path_factory: pytest.TempPathFactory,
    tools: None,  # noqa: ARG001
) -> Iterator[Clinic]:
    """A board with one pod of each kind that something is wrong with, and an agent that watches it."""
    name = f"doctor-{uuid.uuid4().hex[:8]}"
    control_plane.api.create_namespace({"metadata": {"name": name}})
    with (
        applied(control_plane, account(name)),
        Clinic(control_plane, live_node, name, tmp_path_factory.mktemp("clinic")) as scene,
    ):
        try:
            fall_ill(scene)
            yield scene
        finally:
            scene.apps.delete_collection_namespaced_deployment(name)
            scene.apps.delete_collection_namespaced_daemon_set(name)
            for one in scene.classes.list_runtime_class().items:
                scene.classes.delete_runtime_class(one.metadata.name)
            control_plane.api.delete_collection_namespaced_pod(name, body={"gracePeriodSeconds": 0})
            control_plane.api.delete_namespace(name)


def fall_ill(scene: Clinic) -> None:
    """Everything at once: what takes time for one passes for all."""
    scene.start(scene.model("idle", limits={GPU_MEMORY: "1Gi"}))
    scene.deploy("large", limits={GPU_MEMORY: str(LARGE)})
    make_class(scene, gone(scene), "runc")
    make_class(scene, other(scene), "spin")
    for name, runtime_class in (("stuck", gone(scene)), ("odd", other(scene))):
        manifest = scene.model(name, limits={})
        # By this it is known to want the GPU: nobody else's class is ever made NVIDIA's.
        manifest["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
        manifest["spec"] |= {"runtimeClassName": runtime_class, **(HELD if name == "stuck" else {})}
        create_pod(scene.plane.api, manifest)
    scene.classes.delete_runtime_class(gone(scene))
    scene.plane.api.patch_namespaced_pod("stuck", scene.namespace, {"spec": {"schedulingGates": None}})
    scene.deploy("refused", limits={}, runtime_class=NVIDIA)


def gone(scene: Clinic) -> str:
    return f"gpu-{scene.namespace}"


def other(scene: Clinic) -> str:
    return f"wasm-{scene.namespace}"


def make_class(scene: Clinic, name: str, handler: str) -> None:
    scene.classes.create_runtime_class({"metadata": {"name": name}, "handler": handler})


def pod_named(scene: Clinic, name: str) -> str:
    return f"pod {scene.namespace}/{name}"


def replica_set(scene: Clinic, app: str) -> str:
    (found,) = scene.apps.list_namespaced_replica_set(scene.namespace, label_selector=f"app={app}").items
    return f"replicaset {scene.namespace}/{found.metadata.name}"


def among(findings: list[dict[str, Any]], name: str, subject: str) -> dict[str, Any] | None:
    """The one finding of a rule about something."""
    found = [one for one in findings if (one["id"], one["subject"]) == (name, subject)]
    assert len(found) <= 1
    return found[0] if found else None


def told(scene: Clinic, reason: str, name: str) -> list[str]:
    """What the agent's events with this reason say about a pod or the node."""
    listed = scene.plane.api.list_event_for_all_namespaces(field_selector=f"reason={reason}").items
    mine = [one for one in listed if one.involved_object.namespace in (None, scene.namespace)]
    return [one.message for one in mine if one.involved_object.name == name]


def test_each_is_told_by_an_event(clinic: Clinic) -> None:
    (large,) = clinic.pods("large")
    wait_for("stuck", lambda: told(clinic, "RuntimeClassMissing", "stuck"))
    wait_for("odd", lambda: told(clinic, "RuntimeHandlerUnknown", "odd"))
    wait_for("large", lambda: told(clinic, "PendingDoesNotFit", large.metadata.name))
    # No pod comes or goes with it: where the round above was made too early, the next one comes after a minute.
    notes = wait_for("refused", lambda: told(clinic, "RuntimeClassMissing", clinic.node.name), seconds=90)
    assert any(f"refused because the RuntimeClass {NVIDIA} does not exist" in note for note in notes)


def test_a_deployment_whose_pods_are_refused_for_want_of_their_class(clinic: Clinic) -> None:
    assert clinic.pods("refused") == []
    subject = replica_set(clinic, "refused")
    for words, by in ((["--cluster"], clinic.operator), ([], clinic.service_account)):
        one = among(clinic.doctor(*words, by=by), CLASS_MISSING, subject)
        assert one, words
        # Two minutes after the controller's last attempt it may have been repaired, so then it is suspected.
        assert (one["severity"], one["certainty"]) in {("error", "certain"), ("error", "suspected")}

    clinic.paste(clinic.page("--cluster", by=clinic.operator).remedy(CLASS_MISSING, subject))

    assert not among(clinic.doctor("--cluster", by=clinic.operator), CLASS_MISSING, subject)
    clinic.wait_only("refused", "Running")
    wait_for("the agent to see it", lambda: (CLASS_MISSING, subject) not in clinic.seen())


def test_pods_that_are_bound_and_cannot_start(clinic: Clinic) -> None:
    """One whose class went between its creation and its start, one whose class leads to no handler of containerd's."""
    ill = [(CLASS_MISSING, pod_named(clinic, "stuck")), (HANDLER_UNKNOWN, pod_named(clinic, "odd"))]
    pages = []
    for name, subject in ill:
        words = ["pod", subject.removeprefix("pod ")]
        one = among(clinic.doctor(*words, by=clinic.node_credential), name, subject)
        assert one, subject
        assert (one["severity"], one["certainty"]) == ("error", "certain")
        pages.append(clinic.page(*words, by=clinic.node_credential))
        assert "no Does container main run? It waits: ContainerCreating." in " ".join(pages[-1].text.split())
    assert "The RuntimeClass gpu-" in pages[0].text
    assert "handler spin" in " ".join(pages[1].text.split())
    said = clinic.plane.api.list_namespaced_event(clinic.namespace, field_selector="reason=FailedCreatePodSandBox")
    assert {one.involved_object.name for one in said.items} >= {"odd"}

    for page, (name, subject) in zip(pages, ill, strict=True):
        clinic.paste(page.remedy(name, subject))

    for name in ("stuck", "odd"):
        wait_pod(clinic.plane.api, clinic.plane.api.read_namespaced_pod(name, clinic.namespace), "Running", seconds=120)
    findings = clinic.doctor(by=clinic.node_credential)
    assert not any(among(findings, name, subject) for name, subject in ill)
    wait_for("the agent to see it", lambda: not clinic.seen().intersection(ill))


def test_a_pod_that_cannot_fit(clinic: Clinic) -> None:
    (waits,) = clinic.pods("large")
    subject = pod_named(clinic, waits.metadata.name)
    offered = parse(clinic.plane.api.read_node(clinic.node.name).status.allocatable[GPU_MEMORY])
    booked = GIB  # by the pod that is idle
    for words, by in (
        (["--cluster"], clinic.operator),
        (["pod", subject.removeprefix("pod ")], clinic.service_account),
    ):
        one = among(clinic.doctor(*words, by=by), PENDING, subject)
        assert one, words
        assert (one["severity"], one["certainty"]) == ("error", "certain")
        assert f"asks for 9.00 GiB of {GPU_MEMORY}, node {clinic.node.name} has" in one["summary"]
        short = LARGE - (offered - booked)
        assert f"{subject} requests {GPU_MEMORY}: {LARGE}, {short} more than is left" in one["evidence"]
        assert f"node {clinic.node.name} status.allocatable.{GPU_MEMORY}: {offered}" in one["evidence"]
        assert f"{(offered - booked) // MIB}Mi at most" in one["remedy"]

    clinic.paste(clinic.page("--cluster", by=clinic.operator).remedy(PENDING, subject))

    clinic.wait_only("large", "Running")
    assert not [one for one in clinic.doctor("--cluster", by=clinic.operator) if one["id"] == PENDING]
    wait_for("the agent to see it", lambda: PENDING not in {name for name, _ in clinic.seen()})


def test_gpu_memory_that_is_asked_for_and_never_touched(clinic: Clinic) -> None:
    subject = pod_named(clinic, "idle")
    wait_for("the agent to tell it", lambda: (IDLE, subject) in clinic.seen())
    one = among(clinic.doctor(by=clinic.node_credential), IDLE, subject)
    assert one
    assert one["severity"] == "info"
    assert f"1.00 GiB of {GPU_MEMORY}" in one["summary"]

    page = clinic.page("pod", subject.removeprefix("pod "), by=clinic.node_credential)
    clinic.paste(page.remedy(IDLE, subject))

    made = clinic.plane.api.read_namespaced_pod("idle", clinic.namespace)
    assert not made.spec.containers[0].resources.limits
    wait_pod(clinic.plane.api, made, "Running")
    wait_for("the agent to see it", lambda: (IDLE, subject) not in clinic.seen())
    assert not among(clinic.doctor(by=clinic.node_credential), IDLE, subject)


def test_a_right_that_is_missing_is_named_and_with_it_there_is_an_answer(clinic: Clinic) -> None:
    node = f"node {clinic.node.name}"
    waits = create_pod(clinic.plane.api, clinic.model("waits", limits={GPU_MEMORY: "9Gi", "nvidia.com/gpu": "1"}))
    wait_for("the scheduler's answer", lambda: wait_pod(clinic.plane.api, waits, "Pending").status.conditions)
    found = clinic.doctor(by=clinic.node_credential)
    for name, right in (
        (PENDING, "list pods in all namespaces"),
        ("device-plugin-missing", "list daemonsets.apps in all namespaces"),
    ):
        one = among(found, name, node)
        assert one, name
        assert (one["severity"], one["certainty"]) == ("info", "cannot-tell")
        assert right in one["summary"]

    for by in (clinic.service_account, clinic.operator):
        found = clinic.doctor(by=by)
        assert [one for one in found if one["certainty"] == "cannot-tell"] == []
        assert among(found, PENDING, pod_named(clinic, "waits"))
        assert among(found, "device-plugin-missing", node)
    daemon_set = clinic.model("nvidia-device-plugin-daemonset", limits={})
    daemon_set["spec"]["nodeSelector"] = {"no": "node"}
    labels = {"app": "plugin"}
    template = {"metadata": {"labels": labels}, "spec": daemon_set["spec"]}
    clinic.apps.create_namespaced_daemon_set(
        clinic.namespace,
        {"metadata": daemon_set["metadata"], "spec": {"selector": {"matchLabels": labels}, "template": template}},
    )
    for by in (clinic.service_account, clinic.operator):
        found = clinic.doctor(by=by)
        assert not among(found, "device-plugin-missing", node)
        assert among(found, "device-plugin-not-scheduled", node)

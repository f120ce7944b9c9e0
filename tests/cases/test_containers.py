"""Whose container it is: static pods, containers that restart, pods that go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.holders import (
    HASH,
    MIRROR,
    SYSTEM,
    big,
    by_container,
    cache,
    cid,
    cluster,
    evicted,
    held_codes,
    held_gpu,
    in_pod,
    memory_v2,
    pod_task,
    running,
    series,
    show,
    shown,
    simple,
    states,
    task,
    tenant,
    uid,
    unified,
)
from tests.cases.making import GIB, KEY, MIB, about, node

# Static pods (vectordotdev/vector#6001, DataDog/datadog-agent#45408)


@pytest.mark.parametrize(
    "line",
    [
        f"0::/kubepods/burstable/pod{HASH}/{cid(1)}",
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{HASH}.slice/cri-containerd-{cid(1)}.scope",
        f"0::/system.slice/k3s.service/kubepods-pod{HASH}.slice:cri-containerd:{cid(1)}",
    ],
)
def test_a_static_pod_is_found_by_its_hash_and_never_evicted(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owner = [{"kind": "Node", "name": "edge-07", "apiVersion": "v1", "uid": "n", "controller": True}]
    pod = simple(1, "static-edge-07", "1Gi", annotations=MIRROR, ownerReferences=owner)
    documents = shown(capsys, tmp_path, big(), task(4242, line), cluster(pod), series([0, 8, 16, 24]))
    assert held_gpu(documents[0]) == {"static-edge-07": 5 * GIB}
    assert by_container(documents[0], "static-edge-07") == {"main": 5 * GIB}
    assert states(documents[0]) == {"static-edge-07": "protected"}
    assert evicted(documents) == [[]] * 4
    assert documents[-1]["host"]["leaving_bytes"] == 0


def test_a_hash_that_no_pod_has_is_no_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"0::/kubepods/burstable/pod{'f' * 32}/{cid(1)}"
    document = show(capsys, tmp_path, big(), task(4242, line), cluster(simple(1, "static", annotations=MIRROR)))
    assert held_gpu(document) == {"static": 0}
    assert document["host"]["system_gpu_bytes"] == 0


# Containers (Project-HAMi/HAMi#863, #3079)

FETCH, PROXY, WEB, INFER, OLD, DEBUG = (cid(number) for number in (21, 22, 23, 24, 25, 26))


def service(**changes: Any) -> dict[str, Any]:
    """A pod of an init container, a sidecar, web and infer, whose statuses are in another order than its spec."""
    status: dict[str, Any] = {
        "containerStatuses": [running("infer", INFER), running("web", WEB)],
        "initContainerStatuses": [
            running("proxy", PROXY),
            {"name": "fetch", "containerID": f"containerd://{FETCH}", "state": {"terminated": {"exitCode": 0}}},
        ],
        **changes,
    }
    spec = {"initContainers": [{"name": "fetch"}, {"name": "proxy", "restartPolicy": "Always"}]}
    limits = {"infer": {KEY: "4Gi"}}
    return tenant("svc", uid(1), {"web": WEB, "infer": INFER}, limits=limits, spec=spec, status=status)


def test_the_figure_is_its_containers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = show(capsys, tmp_path, unified((4242, 3000)), task(4242, in_pod(uid(1), INFER)), cluster(service()))
    assert held_gpu(document) == {"svc": 3000 * MIB}
    found = by_container(document, "svc")
    assert (found["infer"], found["web"]) == (3000 * MIB, 0)


def test_many_processes_of_one_pod_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Two containers, three processes: 100 + 200 in infer, 400 in web
    files = {
        **unified((4242, 100), (4243, 200), (4244, 400)),
        **task(4242, in_pod(uid(1), INFER)), **task(4243, in_pod(uid(1), INFER)), **task(4244, in_pod(uid(1), WEB)),
    }  # fmt: skip
    document = show(capsys, tmp_path, files, cluster(service()))
    assert held_gpu(document) == {"svc": 700 * MIB}
    assert {key: value for key, value in by_container(document, "svc").items() if value} == {
        "infer": 300 * MIB, "web": 400 * MIB,
    }  # fmt: skip


def test_a_sidecars_memory_is_the_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {**unified((4242, 3000), (77, 500)), **task(4242, in_pod(uid(1), INFER)), **task(77, in_pod(uid(1), PROXY))}
    document = show(capsys, tmp_path, files, cluster(service()))
    assert held_gpu(document) == {"svc": 3500 * MIB}
    assert by_container(document, "svc")["proxy"] == 500 * MIB
    assert document["host"]["leaving_bytes"] == 0


def test_an_init_container_at_work_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The pod is still in its init phase: fetch runs and warms up an engine, the others wait.
    pod = service(
        initContainerStatuses=[running("fetch", FETCH), running("proxy", None)],
        containerStatuses=[running("web", None), running("infer", None)],
        phase="Pending",
    )
    document = show(capsys, tmp_path, unified((4242, 700)), task(4242, in_pod(uid(1), FETCH)), cluster(pod))
    assert held_gpu(document) == {"svc": 700 * MIB}
    assert document["host"]["leaving_bytes"] == 0


def test_an_ephemeral_container_counts_to_the_pod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pod = service(ephemeralContainerStatuses=[running("debugger", DEBUG)])
    pod["spec"]["ephemeralContainers"] = [{"name": "debugger", "targetContainerName": "infer"}]
    files = {**unified((4242, 3000), (77, 500)), **task(4242, in_pod(uid(1), INFER)), **task(77, in_pod(uid(1), DEBUG))}
    document = show(capsys, tmp_path, files, cluster(pod))
    assert held_gpu(document) == {"svc": 3500 * MIB}
    assert document["host"]["leaving_bytes"] == 0


def restarted() -> dict[str, Any]:
    """The pod after infer was restarted: its former id is in lastState."""
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "containerID": f"containerd://{OLD}"}}
    return service(containerStatuses=[running("infer", INFER, restartCount=1, lastState=ended), running("web", WEB)])


def test_a_former_containers_memory_is_leaving(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 3000 + 3000 MiB would be over 4Gi; the old 3000 are on their way out.
    files = {
        **unified((4242, 3000), (4000, 3000)),
        **task(4242, in_pod(uid(1), INFER)),
        **task(4000, in_pod(uid(1), OLD)),
    }
    documents = shown(capsys, tmp_path, files, cluster(restarted()), series([0, 8, 16, 24]))
    for document in documents:
        assert held_gpu(document) == {"svc": 3000 * MIB}
        assert by_container(document, "svc")["infer"] == 3000 * MIB
        assert document["host"]["leaving_bytes"] == 3000 * MIB
        assert document["host"]["system_gpu_bytes"] == 0
    assert evicted(documents) == [[]] * 4


def test_a_former_containers_memory_is_leaving_while_another_container_never_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # web cannot be pulled for hours, so that one id of the pod is not known. OLD is known, as infer's former one.
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "containerID": f"containerd://{OLD}"}}
    waiting = {"name": "web", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    pod = service(containerStatuses=[running("infer", INFER, restartCount=1, lastState=ended), waiting])
    files = {
        **unified((4242, 3000), (4000, 3000)),
        **task(4242, in_pod(uid(1), INFER)), **task(4000, in_pod(uid(1), OLD)),
    }  # fmt: skip
    documents = shown(capsys, tmp_path, files, cluster(pod), series([0, 8, 16]))
    assert evicted(documents) == [[]] * 3
    assert held_gpu(documents[0]) == {"svc": 3000 * MIB}
    assert documents[0]["host"]["leaving_bytes"] == 3000 * MIB


def test_a_container_that_is_down_leaves_its_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # CrashLoopBackOff: no current process of infer, and its last id is still in use by one that hangs.
    ended = {"terminated": {"exitCode": 1, "containerID": f"containerd://{OLD}"}}
    waiting = {"name": "infer", "containerID": f"containerd://{OLD}", "lastState": ended,
               "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 3}  # fmt: skip
    pod = service(containerStatuses=[waiting, running("web", WEB)])
    document = show(capsys, tmp_path, unified((4000, 3000)), task(4000, in_pod(uid(1), OLD), state="D"), cluster(pod))
    # Ended and still holding: leaving, or the pod's, but counted once and nobody else's.
    held = held_gpu(document)["svc"]
    assert held is not None
    assert held + document["host"]["leaving_bytes"] == 3000 * MIB
    assert document["host"]["system_gpu_bytes"] == 0


@pytest.mark.parametrize(
    "statuses",
    [
        [],
        [running("web", None), running("infer", None)],
        [running("web", WEB), running("infer", None)],
    ],
    ids=["none yet", "both to come", "one to come"],
)
def test_a_container_that_the_status_does_not_have_yet_is_the_pods(
    statuses: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The kubelet tells of a container after it has started it. Until then its id is new, not former.
    pod = service(containerStatuses=statuses, phase="Pending" if len(statuses) == 0 else "Running")
    document = show(capsys, tmp_path, unified((4242, 5000)), task(4242, in_pod(uid(1), INFER)), cluster(pod))
    assert held_gpu(document) == {"svc": 5000 * MIB}
    assert states(document) == {"svc": "breach"}
    assert document["host"]["leaving_bytes"] == 0


# Pods that go


def terminating(number: int, name: str, **keys: Any) -> dict[str, Any]:
    """A pod that was deleted 40 s ago with a grace of 600 s."""
    # Deletion timestamps are the end of the grace: 12:00:00 − 40 s + 600 s.
    return simple(number, name, "4Gi", deletionTimestamp="2026-01-31T12:09:20Z", deletionGracePeriodSeconds=600, **keys)


def test_a_terminating_pods_memory_is_leaving(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # NVIDIA/k8s-device-plugin#335: teardown takes minutes. 20 GiB + 1 GiB of host memory go with it.
    files = {
        **unified((4242, 20 * 1024), (5151, 4500)),
        **pod_task(1, 4242), **pod_task(2, 5151),
        **memory_v2(f"/kubepods/burstable/pod{uid(1)}", GIB, cache(0, 0)),
        **cluster(terminating(1, "pod-a"), simple(2, "pod-b", "4500Mi")),
    }  # fmt: skip
    documents = shown(capsys, tmp_path, files, series([0, 8, 16, 24, 32, 40]))
    for document in documents:
        assert held_gpu(document) == {"pod-a": 20 * GIB, "pod-b": 4500 * MIB}
        assert states(document) == {"pod-a": "terminating", "pod-b": "ok"}
        assert document["host"]["leaving_bytes"] == 21 * GIB
    assert evicted(documents) == [[]] * 6


def test_no_second_victim_while_the_first_one_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # pod-a is far over and goes at 16. pod-b is over as well, and waits for pod-a's processes.
    files = {
        **unified((4242, 20 * 1024), (5151, 5000)), **pod_task(1, 4242), **pod_task(2, 5151),
        **cluster(simple(1, "pod-a", "4Gi"), simple(2, "pod-b", "4Gi")),
    }  # fmt: skip
    documents = shown(capsys, tmp_path, files, series([0, 8, 16, 24, 32, 40]))
    assert evicted(documents) == [[], [], ["pod-a"], [], [], []]
    assert states(documents[3]) == {"pod-a": "terminating", "pod-b": "breach"}
    assert documents[3]["host"]["leaving_bytes"] == 20 * GIB
    assert held_codes(documents[5])[uid(2)] in ("one-at-a-time", "releasing")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pods_leftover_is_leaving(phase: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = simple(1, "job", "1Gi", status={"phase": phase, "reason": "UnexpectedAdmissionError"})
    files = {**unified((4242, 3000), (5151, 100)), **pod_task(1, 4242), **pod_task(2, 5151)}
    documents = shown(capsys, tmp_path, files, cluster(done, simple(2, "pod-b", "1Gi")), series([0, 8, 16]))
    for document in documents:
        assert held_gpu(document) == {"pod-b": 100 * MIB}
        assert document["host"]["leaving_bytes"] == 3000 * MIB
        assert document["host"]["system_gpu_bytes"] == 0
    assert evicted(documents) == [[]] * 3


def test_a_pod_that_the_api_no_longer_has_is_leaving(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {**unified((4242, 3000)), **pod_task(77, 4242)}
    document = show(capsys, tmp_path, files, cluster(simple(1, "pod-a")))
    assert held_gpu(document) == {"pod-a": 0}
    assert document["host"]["leaving_bytes"] == 3000 * MIB
    assert document["host"]["system_gpu_bytes"] == 0
    assert document["host"]["unattributed_gpu_bytes"] == 0


def test_a_pod_of_the_same_name_starts_with_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # kubernetes/kubernetes#64923: db-0 came back with another uid, and its predecessor's process still hangs.
    before = {"cluster/pods.json": cluster(simple(1, "db-0", "1Gi"))["cluster/pods.json"]}
    files = {**unified((4242, 3000)), **pod_task(1, 4242), **cluster(simple(2, "db-0", "1Gi"))}
    documents = shown(capsys, tmp_path, files, series([0, 8, 16, 24], before, before))
    assert [held_gpu(document) for document in documents] == [{"db-0": 3000 * MIB}] * 2 + [{"db-0": 0}] * 2
    assert [document["host"]["leaving_bytes"] for document in documents] == [0, 0, 3000 * MIB, 3000 * MIB]
    assert evicted(documents) == [[]] * 4


def test_without_a_cluster_there_are_no_pods_and_no_victims(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = show(capsys, tmp_path, unified((4242, 3000), (900, 100)), pod_task(1, 4242), task(900, SYSTEM))
    assert document["pods"] == []
    assert document["host"]["system_gpu_bytes"] == 100 * MIB
    assert document["plan"]["evictions"] == []


# A node as full as it gets (kubernetes-client/python#545: an object with 100 images, 110 pods with managedFields)


def test_a_full_node_adds_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    managed = [{"manager": "kubelet", "operation": "Update", "fieldsV1": {f"f:field-{n}": {} for n in range(200)}}]
    pods = [simple(number, f"pod-{number:03}", managedFields=managed) for number in range(1, 111)]
    images = [{"names": [f"registry.example/image-{n}@sha256:{n:064x}"], "sizeBytes": n} for n in range(100)]
    full = node()
    full["status"]["images"] = [*images, {"names": None, "sizeBytes": 1}]
    # Process 4000 + n of pod n holds n MiB: 1 + … + 30 = 465
    holders = range(1, 31)
    files = {
        **unified(*((4000 + number, number) for number in holders)),
        **{name: content for number in holders for name, content in pod_task(number, 4000 + number).items()},
        **{name: content for pid in range(10000, 10200) for name, content in task(pid, SYSTEM).items()},
        **cluster(*pods), "cluster/node.json": full, "snapshot.yaml": about(),
    }  # fmt: skip
    document = show(capsys, tmp_path, files)
    held = held_gpu(document)
    assert held == {f"pod-{number:03}": number * MIB if number <= 30 else 0 for number in range(1, 111)}
    assert sum(one or 0 for one in held.values()) == 465 * MIB
    assert document["host"]["unattributed_gpu_bytes"] == 0

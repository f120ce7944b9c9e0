"""The RuntimeClass of a pod, the handler that it leads to, and pods that get no GPU without anybody saying so.

k3s-io/k3s#10034, ollama/ollama#3211, NVIDIA/gpu-operator#575, NVIDIA/k8s-device-plugin#332, #1304.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases.holders import cid, entry, listed, pod_task, running, simple, tenant, uid
from tests.cases.machines import card
from tests.cases.making import KEY, conditions, nvml, pod, pods
from tests.cases.nodes import (
    ABOVE_NOTES,
    GPU,
    KINDS,
    Capture,
    Files,
    also,
    ids,
    judged,
    orin,
    pi,
    shown,
    spark,
    the,
    told,
    tower,
    whole,
)
from tests.diagnose.making import (
    BINARY,
    CLASSES,
    CONTAINERD,
    EVENTS,
    PODS,
    classes,
    containerd,
    creating,
    event,
    waiting,
    without,
)
from tests.diagnose.plugin import DAEMON_SETS, daemon_set, daemon_sets, plugin

NVIDIA = {"runtimeClassName": "nvidia"}
FALLBACK = "silent-cpu-fallback"


def with_plugin(files: Files, *items: dict[str, Any]) -> Files:
    """A node whose device plugin works, with these pods."""
    has = {PODS: pods(plugin(spec=NVIDIA), *items), DAEMON_SETS: daemon_sets(daemon_set(wanted=1))}
    return {**also(files, gpu="1"), **has}


def asking(key: str = GPU, size: str = "1", *, at: str = "11:50:00", **spec: Any) -> dict[str, Any]:
    """A pod whose only container runs for ten minutes unless told otherwise."""
    made = pod("llm", limits={key: size}, spec=spec, namespace="ns-a")
    made["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = f"2026-01-31T{at}Z"
    return made


# --- under runc -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_without_a_class_it_runs_on_the_cpu(tmp_path: Path, capsys: Capture, kind: Any) -> None:
    files = with_plugin(kind(), asking())
    document = shown(capsys, tmp_path, files)
    one = the(document["findings"], FALLBACK)
    assert judged(one) == ("error", "certain", "pod ns-a/llm")
    assert "runc" in one["summary"]
    assert "RuntimeClass" in one["summary"]
    assert "nvidia" in one["remedy"]
    assert "runtimeClassName" in one["remedy"]
    assert ids(document["findings"], ABOVE_NOTES) == [FALLBACK]
    assert {status for name, status in conditions(document).items() if name != "GPUMemoryPressure"} == {"False"}
    told_of = [one["regarding"] for one in document["plan"]["events"] if one["reason"] == "SilentCPUFallback"]
    assert told_of == ["pod ns-a/llm"]


@pytest.mark.parametrize("key", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "nvidia.com/gpu"])
@pytest.mark.parametrize("name", ["runc", "crun"])
def test_a_class_of_another_runtime_is_none(tmp_path: Path, capsys: Capture, key: str, name: str) -> None:
    files = with_plugin(tower(), asking(key, runtimeClassName="plain"))
    files |= {
        CONTAINERD: containerd(nvidia=BINARY, crun="/usr/bin/crun"),
        CLASSES: classes(nvidia="nvidia", plain=name),
    }
    one = the(told(capsys, tmp_path, {**files, "host/usr/bin/crun": ""}), FALLBACK)
    assert judged(one) == ("error", "certain", "pod ns-a/llm")
    assert "plain" in whole(one)


@pytest.mark.parametrize(
    "changes",
    [
        {PODS: pods(asking(**NVIDIA))},
        {CONTAINERD: containerd("nvidia", nvidia=BINARY)},
        {
            CONTAINERD: containerd("nvidia-cdi", **{"nvidia-cdi": f"{BINARY}.cdi", "nvidia": BINARY}),
            f"host{BINARY}.cdi": "",
        },
        {PODS: pods(asking(runtimeClassName="gpu")), CLASSES: classes(nvidia="nvidia", gpu="nvidia")},
        {PODS: pods(asking(at="11:59:30"))},
    ],
    ids=["idle-model", "default", "default-cdi", "class-of-another-name", "just-started"],
)
@pytest.mark.parametrize("kind", [orin, tower])
def test_what_is_no_fault_of_the_configuration(tmp_path: Path, capsys: Capture, kind: Any, changes: Files) -> None:
    files = {**with_plugin(kind(), asking()), **changes}
    assert [
        one for one in told(capsys, tmp_path, files) if one["certainty"] == "certain" and one["id"] == FALLBACK
    ] == []
    assert ids(told(capsys, tmp_path / "2", files), ["error"]) == []


def test_one_that_computes_is_well(tmp_path: Path, capsys: Capture) -> None:
    chip = card(0, compute=listed(entry(4242, 1 << 30)))
    for number, spec in enumerate((NVIDIA, {})):  # without the class too: it got it some other way
        asks = simple(1, "llm", status={}, spec=spec)
        asks["spec"]["containers"][0]["resources"] = {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
        files = {**with_plugin(tower(), asks), "nvml.json": nvml(chip), **pod_task(1, 4242)}
        assert ids(told(capsys, tmp_path / str(number), files), ABOVE_NOTES) == []


def test_the_container_that_asks_is_the_one_that_is_judged(tmp_path: Path, capsys: Capture) -> None:
    """Statuses in another order, an init container that is over, a sidecar, and one that never asked."""
    asks = {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
    made = tenant("llm", uid(1), {"web": cid(1), "infer": cid(2)}, limits={"infer": {GPU: "1"}})
    made["spec"]["initContainers"] = [
        {"name": "fetch", "resources": asks},
        {"name": "proxy", "restartPolicy": "Always", "resources": {}},
    ]
    made["status"] |= {
        "containerStatuses": [running("infer", cid(2)), running("web", cid(1))],
        "initContainerStatuses": [
            running("proxy", cid(3)),
            {"name": "fetch", "containerID": f"containerd://{cid(4)}", "state": {"terminated": {"exitCode": 0}}},
        ],
    }
    one = the(told(capsys, tmp_path / "1", with_plugin(tower(), made)), FALLBACK)
    assert "infer" in one["summary"]
    assert all(name not in one["summary"] for name in ("web", "fetch", "proxy"))
    made["spec"]["containers"][1]["resources"] = {}
    assert ids(told(capsys, tmp_path / "2", with_plugin(tower(), made)), ABOVE_NOTES) == []
    made["spec"]["initContainers"][1]["resources"] = asks
    assert "proxy" in the(told(capsys, tmp_path / "3", with_plugin(tower(), made)), FALLBACK)["summary"]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_our_own_resource_gives_no_device_either(tmp_path: Path, capsys: Capture, kind: Any) -> None:
    found = told(capsys, tmp_path, kind(**{PODS: pods(asking(KEY, "2Gi"))}))
    errors = [one for one in found if one["severity"] == "error"]
    assert "device-not-injected" in ids(errors)
    for one in errors:
        assert one["id"] in ("device-not-injected", FALLBACK)
        assert judged(one) == ("error", "certain", "pod ns-a/llm")
        assert "runtimeClassName" in one["remedy"]
    well = kind(**{PODS: pods(asking(KEY, "2Gi", **NVIDIA))})
    assert ids(told(capsys, tmp_path / "2", well), ABOVE_NOTES) == []


def test_on_a_node_without_a_gpu_nobody_falls_back(tmp_path: Path, capsys: Capture) -> None:
    assert ids(told(capsys, tmp_path, pi(**{PODS: pods(pod("web", limits={"memory": "1Gi"}))}))) == []


# --- the class ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nvidia", "nvidia-cdi", "gpu"])
def test_the_class_does_not_exist(tmp_path: Path, capsys: Capture, name: str) -> None:
    asks = creating(spec={"runtimeClassName": name}, limits={KEY: "1Gi"})
    files = tower(**{CLASSES: classes(), PODS: pods(asks)})
    one = next(one for one in told(capsys, tmp_path, files) if one["id"] == "runtime-class-missing")
    assert judged(one) == ("error", "certain", "pod default/llm")
    assert name in one["summary"]
    assert "kind: RuntimeClass" in one["remedy"]
    assert f"name: {name}" in one["remedy"]


def test_a_deployments_pods_are_refused_for_it(tmp_path: Path, capsys: Capture) -> None:
    says = 'Error creating: pods "llm-7d9f-" is forbidden: pod rejected: RuntimeClass "nvidia" not found'
    files = orin(**{CLASSES: classes(), EVENTS: {"items": [event("FailedCreate", says, "ReplicaSet", "llm-7d9f")]}})
    found = [one for one in told(capsys, tmp_path, files) if one["id"] == "runtime-class-missing"]
    assert any(one["severity"] == "error" and "llm-7d9f" in whole(one) for one in found)


@pytest.mark.parametrize("handler", ["docker", "nvidia-container-runtime", "Nvidia"])
def test_a_handler_that_is_none(tmp_path: Path, capsys: Capture, handler: str) -> None:
    files = orin(**{CLASSES: classes(nvidia=handler), PODS: pods(creating(spec=NVIDIA))})
    found = told(capsys, tmp_path, files)
    one = next(one for one in found if one["id"] == "runtime-handler-unknown" and one["subject"] == "pod default/llm")
    assert judged(one)[:2] == ("error", "certain")
    assert handler in one["summary"]
    assert "handler: nvidia" in one["remedy"]
    assert "runtime-class-missing" not in ids(found, ABOVE_NOTES)


def test_a_class_of_that_name_that_leads_to_runc(tmp_path: Path, capsys: Capture) -> None:
    """A handler cannot be changed (validation of RuntimeClass), so the new class has another name."""
    one = the(told(capsys, tmp_path, orin(**{CLASSES: classes(nvidia="runc")})), "runtime-class-missing")
    assert judged(one)[:2] == ("warning", "certain")
    assert "metadata: {name: nvidia-gpu}\nhandler: nvidia\n" in one["remedy"]


@pytest.mark.parametrize("kind", [tower, orin, spark])
def test_the_class_is_for_nodes_that_have_the_handler(tmp_path: Path, capsys: Capture, kind: Any) -> None:
    waits = creating(spec=NVIDIA)
    says = 'Failed to create pod sandbox: rpc error: code = Unknown desc = no runtime for "nvidia" is configured'
    failed = event("FailedCreatePodSandBox", says, "Pod", "llm", uid=waits["metadata"]["uid"])
    files = kind(**{CONTAINERD: containerd(), PODS: pods(waits), EVENTS: {"items": [failed]}})
    found = told(capsys, tmp_path, files)
    unknown = [one for one in found if one["id"] == "runtime-handler-unknown"]
    assert {one["subject"] for one in unknown} == {"pod default/llm", "runtimeclass nvidia"}
    assert {judged(one)[:2] for one in unknown} == {("error", "certain")}
    assert any("exists in the cluster" in one["summary"] for one in unknown)
    assert "runtime-class-missing" not in ids(found)


def only_for(selector: dict[str, str]) -> dict[str, Any]:
    listed_ones = classes(nvidia="nvidia")
    listed_ones["items"][0]["scheduling"] = {"nodeSelector": selector}
    return listed_ones


@pytest.mark.parametrize("selector", [{"gpu": "yes"}, {"kubernetes.io/arch": "amd64"}, {"a": "1", "b": "2"}])
def test_a_class_that_excludes_this_node_is_none_of_its_business(
    tmp_path: Path, capsys: Capture, selector: dict[str, str]
) -> None:
    found = told(capsys, tmp_path, orin(**{CONTAINERD: containerd(), CLASSES: only_for(selector)}))
    assert "runtime-handler-unknown" not in ids(found)


def test_a_board_without_a_gpu_need_not_have_the_handler(tmp_path: Path, capsys: Capture) -> None:
    assert ids(told(capsys, tmp_path, pi(**{CONTAINERD: containerd(), CLASSES: classes(nvidia="nvidia")}))) == []


@pytest.mark.parametrize("spec", [NVIDIA, {"runtimeClassName": "gpu"}])
def test_without_the_list_nothing_is_missing(tmp_path: Path, capsys: Capture, spec: Files) -> None:
    files = without(tower(**{PODS: pods(creating(spec=spec))}), CLASSES)
    found = told(capsys, tmp_path, files)
    assert ids(found, ABOVE_NOTES) == []
    assert [one["certainty"] for one in found if one["id"] == "runtime-class-missing"] in ([], ["cannot-tell"])


def test_one_whose_class_cannot_be_looked_up_is_told_as_such(tmp_path: Path, capsys: Capture) -> None:
    files = without(tower(**{PODS: pods(creating(spec={"runtimeClassName": "gpu"}))}), CLASSES)
    one = the(told(capsys, tmp_path, files), "runtime-class-missing")
    assert judged(one)[:2] == ("info", "cannot-tell")


def test_a_list_that_is_empty_is_another_thing(tmp_path: Path, capsys: Capture) -> None:
    files = tower(**{CLASSES: {"items": []}, PODS: pods(creating(spec=NVIDIA))})
    assert "runtime-class-missing" in ids(told(capsys, tmp_path, files), ["error"])


def test_why_k3s_own_class_may_be_missing_is_said(tmp_path: Path, capsys: Capture) -> None:
    """K3s makes it since 1.25.16, unless its packaged manifest ``runtimes`` is disabled (k3s-io/k3s#8936)."""
    files = orin(**{CLASSES: classes(), PODS: pods(creating(spec=NVIDIA))})
    one = next(one for one in told(capsys, tmp_path, files) if one["id"] == "runtime-class-missing")
    assert "K3s" in whole(one)


def test_all_right(tmp_path: Path, capsys: Capture) -> None:
    for number, kind in enumerate(KINDS.values()):
        files = with_plugin(kind(), asking(at="11:59:00", **NVIDIA))
        assert ids(told(capsys, tmp_path / str(number), files), ABOVE_NOTES) == []


def test_a_pod_that_waits_for_a_node_is_not_blamed_for_the_runtime(tmp_path: Path, capsys: Capture) -> None:
    files = with_plugin(tower(), waiting("new", {GPU: "1"}))
    assert ids(told(capsys, tmp_path, files), ABOVE_NOTES) == []


# --- devices that come some other way ---------------------------------------------------------------------------------


def other_way(**container: Any) -> dict[str, Any]:
    made = asking()
    made["spec"]["containers"][0].update(container)
    return made


@pytest.mark.parametrize(
    ("made", "more"),
    [
        (other_way(securityContext={"privileged": True}), {}),
        (
            {**asking(), "metadata": {**asking()["metadata"], "annotations": {"cdi.k8s.io/x": "nvidia.com/gpu=0"}}},
            {
                "host/etc/cdi/nvidia.yaml": json.dumps(
                    {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "0"}]}
                )
            },
        ),
        (
            asking(),
            {
                "host/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json": json.dumps(
                    {"cdiVersion": "0.5.0", "kind": "k8s.device-plugin.nvidia.com/gpu", "devices": [{"name": "GPU-1"}]}
                )
            },
        ),
    ],
    ids=["privileged", "cdi-annotation", "the-plugin-by-cdi"],
)
def test_nothing_is_certain_of_one_that_may_have_it(
    tmp_path: Path, capsys: Capture, made: dict[str, Any], more: Files
) -> None:
    assert ids(told(capsys, tmp_path, with_plugin(tower(**more), made)), ["error"]) == []
